//! How a round begins, whichever way its sums take: every party makes a fresh key, the key service says which key all
//! encrypt for, and each learns the keys of all.
//!
//! What one party sends another is sealed under the keys of both and bound to everything that all were told here. Whoever
//! was told something else cannot open it; and the key service, which could decrypt it, never sees it.

use std::sync::Arc;

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::kex::{KeyPair, PublicKey as SealPublicKey};
use blindsum_crypto::seal::{SEAL_OVERHEAD, SealKey, seal_key};
use blindsum_he::paillier::PublicKey;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::cipher::{Cipher, public_key};
use super::messages::{Opened, Opening};
use super::options::Options;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::advertise::{Advert, fresh_pair};
use crate::kit::keys::{KeySignatures, SeenKeys, suite_of};
use crate::kit::proof::Proof;
use crate::kit::wire::{Bounded, encode};
use crate::{Fault, FaultKind, PartyId, Round, Seat, ServerIdentity, ServerRole};

/// How parties sign their fresh keys.
pub(super) const KEY_SIGNATURES: KeySignatures = KeySignatures::always("blindsum paillier keys");
/// Label of what a key service of its own signs: its keys, and those of all as it was told them.
const PROVE_OPENING: &str = "blindsum paillier opening";
/// Bytes that a seal adds.
pub(super) const SEALED: usize = SEAL_OVERHEAD;

/// What a party does once the circle is open.
pub(super) type Begin =
    fn(Arc<Circle>, InputRef<'_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;

/// A party makes its key.
pub(super) fn start(
    setup: &Arc<ClientSetup>,
    begin: Begin,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let own = fresh_pair(setup, rng)?;
    let advert = Advert::of(setup, own.public(), KEY_SIGNATURES);
    let body = encode(Advert::NAME, &advert).map_err(Fault::caller)?;
    Ok(ClientStep::Send {
        body,
        next: Box::new(AwaitKeys {
            setup: setup.clone(),
            own,
            begin,
        }),
    })
}

/// Checks the keys of all: as many as there are parties, each its owner's, none twice.
pub(super) fn check_adverts(
    round: &Round,
    adverts: &[Advert],
) -> Result<Vec<SealPublicKey>, FaultKind> {
    if adverts.len() != round.parties() {
        let (have, need) = (adverts.len(), round.parties());
        return Err(FaultKind::TooFewSurvivors { have, need });
    }
    let (mut seen, mut keys) = (SeenKeys::default(), Vec::new());
    for (owner, advert) in round.everyone().zip(adverts) {
        let key = advert.check(round, owner, KEY_SIGNATURES)?;
        seen.add(owner, [&key])?;
        keys.push(key);
    }
    Ok(keys)
}

/// What a key service of its own signs of what all are told: all but the proof.
fn proved_bytes(round: &Round, opened: &Opened) -> Result<Vec<u8>, FaultKind> {
    let mut told = opened.clone();
    told.opening.proof = Proof::default();
    Ok([&round.context().0, &*encode(Opened::NAME, &told)?].concat())
}

/// Proves what all are told. The coordinator's process has no proof: its word is all that there is.
pub(super) fn prove(
    round: &Round,
    identity: Option<&ServerIdentity>,
    opened: &mut Opened,
) -> Result<(), FaultKind> {
    opened.opening.proof = match (round.job().spec().decryptor(), identity) {
        (None, _) => Proof::default(),
        (Some(_), Some(identity)) => {
            Proof::by(identity, PROVE_OPENING, &proved_bytes(round, opened)?)?
        }
        (Some(host), None) => {
            let rule = format!("decryptor = {host:?}: this key service has no certificate");
            return Err(FaultKind::Parameters(rule));
        }
    };
    Ok(())
}

/// Checks that the key service that the job names has said what all are told: otherwise the coordinator could choose
/// the key, and read with it what one party hands over.
fn check_proof(setup: &ClientSetup, opened: &Opened) -> Result<(), Fault> {
    let (round, proof) = (&setup.round, &opened.opening.proof);
    let checked = match round.job().spec().decryptor() {
        None if proof.is_empty() => Ok(()),
        None => {
            let rule = "a proof, but the key service is in the coordinator's process";
            Err(FaultKind::malformed("opening", rule))
        }
        Some(host) => {
            let said = proved_bytes(round, opened).map_err(Fault::server)?;
            let of = (ServerRole::Decryptor, &*host);
            // guard: the-key-service-proves-its-keys
            proof.check(&setup.servers, of, PROVE_OPENING, &said)
        }
    };
    checked.map_err(Fault::server)
}

struct AwaitKeys {
    setup: Arc<ClientSetup>,
    own: KeyPair,
    begin: Begin,
}

impl ClientStage for AwaitKeys {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let Self { setup, own, begin } = *self;
        let round = &setup.round;
        let opened = Opened::read(round.parties(), body).map_err(Fault::server)?;
        let keys = check_adverts(round, &opened.adverts).map_err(Fault::server)?;
        if keys.get(setup.me.rank()) != Some(own.public()) {
            let reason = "it is not the one that this party made".into();
            let owner = setup.me;
            return Err(Fault::server(FaultKind::BadKey { owner, reason }));
        }
        let (line, cipher) = (
            Line::new(round, setup.me.into(), own, keys, &opened).map_err(Fault::server)?,
            opened.opening.cipher(round).map_err(Fault::server)?,
        );
        check_proof(&setup, &opened)?;
        let circle = Arc::new(Circle {
            setup,
            line,
            cipher,
        });
        begin(circle, input, rng)
    }
}

/// An open circle, as one party sees it.
pub(super) struct Circle {
    pub setup: Arc<ClientSetup>,
    pub line: Line,
    pub cipher: Cipher,
}

impl Circle {
    /// The party behind this one, and the one before it.
    pub fn neighbours(&self) -> (PartyId, PartyId) {
        let (me, parties) = (self.setup.me.0, self.setup.round.parties() as u32);
        let last = parties.saturating_sub(1);
        let next = if me == last { 0 } else { me + 1 };
        let before = me.checked_sub(1).unwrap_or(last);
        (PartyId(next), PartyId(before))
    }
}

/// What seals and opens what parties of a circle, and the key service, say to each other.
pub(super) struct Line {
    me: Seat,
    own: KeyPair,
    keys: Vec<SealPublicKey>,
    service: SealPublicKey,
    /// The hash of everything that all were told.
    bound: Context,
}

impl Line {
    pub fn new(
        round: &Round,
        me: Seat,
        own: KeyPair,
        keys: Vec<SealPublicKey>,
        opened: &Opened,
    ) -> Result<Self, FaultKind> {
        let told = encode(Opened::NAME, opened)?;
        let bound = kdf::hash("blindsum paillier circle", &[&round.context().0, &told]);
        Ok(Self {
            me,
            own,
            keys,
            service: opened.opening.seal_key(round)?,
            bound: Context(bound),
        })
    }

    /// Seals what goes to somebody, for one purpose, once.
    pub fn seal(
        &self,
        to: impl Into<Seat>,
        purpose: &str,
        plaintext: &[u8],
    ) -> Result<Vec<u8>, FaultKind> {
        let to = to.into();
        let key = self.key(self.me, to, to, purpose)?;
        Ok(key.seal(&self.bound.0, plaintext))
    }

    /// Opens what somebody has sealed.
    pub fn open(
        &self,
        from: impl Into<Seat>,
        purpose: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let from = from.into();
        let refused = |kind| match from {
            Seat::Party(party) => Fault::server_or(party, kind),
            Seat::Server(_) => Fault::server(kind),
        };
        let key = self.key(from, self.me, from, purpose).map_err(refused)?;
        let unsealed = key.open(&self.bound.0, sealed);
        unsealed.map_err(|_| {
            let rule = format!(
                "does not open as a message that {from} has sealed for {} as {purpose}",
                self.me
            );
            refused(FaultKind::malformed("seal", rule))
        })
    }

    fn key(&self, from: Seat, to: Seat, other: Seat, purpose: &str) -> Result<SealKey, FaultKind> {
        let public = match other {
            // guard: hops-are-for-the-next-party-alone
            Seat::Party(party) => self.keys.get(party.rank()).ok_or(FaultKind::NotAMember)?,
            Seat::Server(ServerRole::Decryptor) => &self.service,
            Seat::Server(_) => return Err(FaultKind::NotAMember),
        };
        let shared = self.own.agree(public);
        let shared = shared.map_err(|error| FaultKind::malformed("key", error.to_string()))?;
        Ok(seal_key(
            &shared,
            &self.bound,
            number(from),
            number(to),
            purpose,
        ))
    }
}

/// The number of somebody in keys: its rank; the key service has the largest.
fn number(seat: Seat) -> u32 {
    match seat {
        Seat::Party(party) => party.0,
        Seat::Server(_) => u32::MAX,
    }
}

impl Opening {
    /// The key that the key service seals and opens with.
    pub fn seal_key(&self, round: &Round) -> Result<SealPublicKey, FaultKind> {
        SealPublicKey::parse(suite_of(round), self.seal_key.as_slice())
            .map_err(|error| FaultKind::malformed("opening", error.to_string()))
    }

    /// What all encrypt with.
    pub fn cipher(&self, round: &Round) -> Result<Cipher, FaultKind> {
        let (options, key) = self.public_key(round)?;
        Cipher::new(round, &options, &key)
    }

    /// The key that all encrypt for, checked.
    pub fn public_key(&self, round: &Round) -> Result<(Options, PublicKey), FaultKind> {
        let wrong = |rule: String| FaultKind::malformed("opening", rule);
        let options = Options::of(round.job().spec());
        let options = options.ok_or_else(|| wrong("the job has no such key".into()))?;
        let key = public_key(self.key.as_slice()).map_err(|e| wrong(e.to_string()))?;
        // guard: keys-are-as-long-as-the-job-says
        if key.size() != options.size {
            let (got, expected) = (key.size().bits(), options.size.bits());
            return Err(wrong(format!(
                "a key of {got} bits, but the job has {expected}"
            )));
        }
        Ok((options, key))
    }
}
