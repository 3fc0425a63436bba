//! What protocols with sealed messages between parties share: fresh public keys, checked, and what is
//! sealed under them.

use std::collections::BTreeMap;

use blindsum_crypto::kdf::Context;
use blindsum_crypto::kex::{KeyPair, PublicKey, Suite};
use blindsum_crypto::seal::{SealKey, seal_key};

use crate::core::round::ClientSetup;
use crate::kit::snapshot::Reader;
use crate::kit::wire::{VERSION, check_ascending};
use crate::{Adversary, FaultKind, PartyId, Round, SuiteName};

pub(crate) fn suite_of(round: &Round) -> Suite {
    match round.job().spec().suite {
        SuiteName::X25519 => Suite::X25519,
        SuiteName::P256 => Suite::P256,
    }
}

pub(crate) fn is_active(round: &Round) -> bool {
    round.job().spec().adversary == Adversary::Active
}

/// Whether a party signed a message for a purpose.
pub(crate) fn is_signed(
    round: &Round,
    signer: PartyId,
    label: &str,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let key = round.roster().verifying_key(signer.0);
    key.is_some_and(|key| key.verify(label, message, signature).is_ok())
}

/// Checks that a party signed a message for a purpose.
///
/// # Errors
/// [`FaultKind::BadSignature`]: it did not.
pub(crate) fn check_signed(
    round: &Round,
    signer: PartyId,
    label: &str,
    message: &[u8],
    signature: &[u8],
) -> Result<(), FaultKind> {
    match is_signed(round, signer, label, message, signature) {
        true => Ok(()),
        false => Err(FaultKind::BadSignature { signer }),
    }
}

/// What a party signs over its fresh keys: round, rank, the keys, and what a protocol adds behind them. Key lengths are
/// fixed by the suite, their number by the protocol, which is part of the round's context.
fn advertised_bytes(round: &Round, party: PartyId, parts: &[&[u8]]) -> Vec<u8> {
    // guard: signed-keys-are-of-this-round
    let head: [&[u8]; 2] = [&round.context().0, &party.0.to_be_bytes()];
    [&head, parts].concat().concat()
}

/// How parties sign their fresh keys.
#[derive(Clone, Copy)]
pub(crate) struct KeySignatures {
    label: &'static str,
    /// Whether they do so if all are semi-honest.
    always: bool,
}

impl KeySignatures {
    /// Only if the adversary is active.
    pub const IF_ACTIVE: Self = Self {
        label: "blindsum advertise keys",
        always: false,
    };

    /// In every round, under this label.
    pub const fn always(label: &'static str) -> Self {
        let always = true;
        Self { label, always }
    }

    fn are_due(self, round: &Round) -> bool {
        // guard: keys-are-signed-in-every-round
        self.always || is_active(round)
    }

    /// A party's signature over its fresh keys and what a protocol adds behind them; empty if none is due.
    pub fn sign(self, setup: &ClientSetup, parts: &[&[u8]]) -> Vec<u8> {
        match self.are_due(&setup.round) {
            true => setup
                .identity
                .sign(self.label, &advertised_bytes(&setup.round, setup.me, parts)),
            false => Vec::new(),
        }
    }

    /// Checks advertised keys: usable, different, and signed if that is due.
    pub fn check_keys<const N: usize>(
        self,
        round: &Round,
        owner: PartyId,
        keys: [&[u8]; N],
        signature: &[u8],
    ) -> Result<[PublicKey; N], FaultKind> {
        let parsed = parse_keys(round, owner, keys)?;
        self.check(round, owner, &keys, signature)?;
        Ok(parsed)
    }

    /// Checks the signature over advertised keys, and over what a protocol adds behind them.
    pub fn check(
        self,
        round: &Round,
        owner: PartyId,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), FaultKind> {
        if self.are_due(round) {
            let bytes = advertised_bytes(round, owner, parts);
            // guard: keys-are-signed
            return check_signed(round, owner, self.label, &bytes, signature);
        }
        match signature.is_empty() {
            true => Ok(()),
            false => Err(FaultKind::malformed(
                "signature",
                "must be empty if semi-honest",
            )),
        }
    }
}

/// Reads advertised keys: usable and different.
pub(crate) fn parse_keys<const N: usize>(
    round: &Round,
    owner: PartyId,
    keys: [&[u8]; N],
) -> Result<[PublicKey; N], FaultKind> {
    let mut parsed = Vec::with_capacity(N);
    for (i, key) in keys.iter().enumerate() {
        // guard: two-keys-of-one-party-differ
        if keys.iter().take(i).any(|other| other == key) {
            let reason = "its two keys are the same".into();
            return Err(FaultKind::BadKey { owner, reason });
        }
        let key = PublicKey::parse(suite_of(round), key).map_err(|error| FaultKind::BadKey {
            owner,
            reason: error.to_string(),
        })?;
        parsed.push(key);
    }
    parsed
        .try_into()
        .map_err(|_| FaultKind::malformed("keys", "their number is fixed"))
}

/// Notices a key that two parties advertise.
#[derive(Default)]
pub(crate) struct SeenKeys(BTreeMap<Vec<u8>, PartyId>);

impl SeenKeys {
    /// Takes the keys of one more party; refuses those that another one has.
    pub fn add<'a>(
        &mut self,
        owner: PartyId,
        keys: impl IntoIterator<Item = &'a PublicKey> + Clone,
    ) -> Result<(), FaultKind> {
        let mut bytes = keys.clone().into_iter().map(PublicKey::as_bytes);
        // guard: no-key-of-two-parties
        if let Some(other) = bytes.find_map(|key| self.0.get(key)) {
            let reason = format!("it is also a key of {other}");
            return Err(FaultKind::BadKey { owner, reason });
        }
        let bytes = keys.into_iter().map(PublicKey::as_bytes);
        self.0.extend(bytes.map(|key| (key.to_vec(), owner)));
        Ok(())
    }
}

/// The others' keys of a list, one of each party, every one checked by `check`; the own one must be there as it was sent.
pub(crate) fn keys_of_others<T>(
    setup: &ClientSetup,
    own: &PublicKey,
    entries: &[T],
    party_of: impl Fn(&T) -> u32,
    check: impl Fn(PartyId, &T) -> Result<PublicKey, FaultKind>,
) -> Result<BTreeMap<PartyId, PublicKey>, FaultKind> {
    let malformed = |rule: String| FaultKind::malformed("keys", rule);
    check_ascending("keys", entries.iter().map(&party_of))?;
    let mut seen = SeenKeys::default();
    let mut all = BTreeMap::new();
    for entry in entries {
        let party = PartyId(party_of(entry));
        // guard: ramp-keys-of-the-roster
        if party.rank() >= setup.round.parties() {
            return Err(malformed(format!("{party} is not in the roster")));
        }
        let key = check(party, entry)?;
        seen.add(party, [&key])?;
        all.insert(party, key);
    }
    let found = all.remove(&setup.me);
    // guard: ramp-keys-as-they-were-sent
    if found.as_ref() == Some(own) {
        return Ok(all);
    }
    let reason = match found {
        None => "the server does not list this party's key",
        Some(_) => "the server lists another key than this party sent",
    };
    Err(FaultKind::BadKey {
        owner: setup.me,
        reason: reason.into(),
    })
}

/// The keys of the one message of a purpose to another party, and of the one from it.
pub(crate) fn seal_keys(
    setup: &ClientSetup,
    own: &KeyPair,
    other: PartyId,
    other_key: &PublicKey,
    purpose: &str,
) -> Result<(SealKey, SealKey), FaultKind> {
    let shared = own.agree(other_key).map_err(|e| FaultKind::BadKey {
        owner: other,
        reason: e.to_string(),
    })?;
    let context = setup.round.context();
    let key = |from: PartyId, to: PartyId| seal_key(&shared, context, from.0, to.0, purpose);
    Ok((key(setup.me, other), key(other, setup.me)))
}

/// Authenticated with what is sealed by `from` for `to`.
pub(crate) fn seal_header(context: &Context, from: PartyId, to: PartyId) -> Vec<u8> {
    [
        &[VERSION] as &[u8],
        &context.0,
        &from.0.to_be_bytes(),
        &to.0.to_be_bytes(),
    ]
    .concat()
}

/// A key pair from its secret.
pub(crate) fn load_pair(
    setup: &ClientSetup,
    reader: &mut Reader<'_>,
) -> Result<KeyPair, FaultKind> {
    KeyPair::from_secret(suite_of(&setup.round), reader.secret()?)
        .map_err(|e| FaultKind::Snapshot(e.to_string()))
}

/// A public key that was written down.
pub(crate) fn load_key(
    setup: &ClientSetup,
    reader: &mut Reader<'_>,
) -> Result<PublicKey, FaultKind> {
    let suite = suite_of(&setup.round);
    PublicKey::parse(suite, reader.bytes(suite.public_key_len())?)
        .map_err(|e| FaultKind::Snapshot(e.to_string()))
}
