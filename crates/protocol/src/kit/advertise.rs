//! The stage in which everybody advertises fresh keys, and hears those of others (Bonawitz17 Fig. 4, AdvertiseKeys).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::sign::SIGNATURE_LEN;
use rand_core::CryptoRng;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, ServerStage, ServerStep};
use crate::kit::keys::{KeySignatures, SeenKeys, keys_of_others, suite_of};
use crate::kit::wire::{Bounded, KEY, Opaque, PARTY, PREFIX, encode};
use crate::{Fault, FaultKind, Input, PartyId, Round};

/// A party's fresh public key, under which others seal what they send it.
#[derive(Clone, PartialEq, Eq, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Advert {
    pub key: Opaque,
    /// Over the key and the round; empty if none is due.
    pub signature: Opaque,
}

impl Bounded for Advert {
    const NAME: &'static str = "keys";

    fn most_bytes(_parties: usize) -> usize {
        PREFIX + KEY + PREFIX + SIGNATURE_LEN
    }
}

impl Advert {
    /// The key of this party.
    pub fn of(setup: &ClientSetup, key: &PublicKey, signatures: KeySignatures) -> Self {
        let key = key.as_bytes();
        Self {
            key: key.to_vec().into(),
            signature: signatures.sign(setup, &[key]).into(),
        }
    }

    /// The key, if it is usable and signed by its owner.
    pub fn check(
        &self,
        round: &Round,
        owner: PartyId,
        signatures: KeySignatures,
    ) -> Result<PublicKey, FaultKind> {
        let (keys, signature) = ([self.key.as_slice()], self.signature.as_slice());
        let [key] = signatures.check_keys(round, owner, keys, signature)?;
        Ok(key)
    }
}

/// A party's key in a list of all.
#[derive(Clone, PartialEq, Eq, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct KeyEntry {
    pub party: u32,
    pub keys: Advert,
}

impl KeyEntry {
    /// Bytes of so many in a list, with those of its length.
    pub fn most_bytes(parties: usize) -> usize {
        PREFIX + parties * (PARTY + Advert::most_bytes(parties))
    }
}

/// A fresh key pair of the round.
pub(crate) fn fresh_pair(setup: &ClientSetup, rng: &mut dyn CryptoRng) -> Result<KeyPair, Fault> {
    KeyPair::generate(suite_of(&setup.round), rng)
        .map_err(|error| Fault::caller(FaultKind::Input(error.to_string())))
}

/// How a party shares its vector once it has the others' keys.
pub(crate) trait SharesVector: Send + Sync + Sized + 'static {
    /// How parties sign their keys.
    const SIGNATURES: KeySignatures;
    /// What the coordinator says when it has the keys.
    type Keys: Bounded;

    /// Everybody's keys.
    fn entries(keys: &Self::Keys) -> &[KeyEntry];

    /// How many parties must have advertised.
    fn required(&self, round: &Round) -> usize;

    /// Shares the vector among these parties and itself.
    fn share(
        self: Arc<Self>,
        setup: Arc<ClientSetup>,
        own_and_peers: (KeyPair, BTreeMap<PartyId, PublicKey>),
        keys: Self::Keys,
        input: &dyn Input,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault>;
}

/// A party whose key is out; everybody's come next.
pub(crate) struct AwaitKeys<S> {
    setup: Arc<ClientSetup>,
    sharing: Arc<S>,
    pair: KeyPair,
}

impl<S: SharesVector> AwaitKeys<S> {
    /// Makes the round's key pair and advertises it.
    pub fn start(
        setup: &Arc<ClientSetup>,
        sharing: Arc<S>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let pair = fresh_pair(setup, rng)?;
        let advert = Advert::of(setup, pair.public(), S::SIGNATURES);
        let next = Self {
            setup: setup.clone(),
            sharing,
            pair,
        };
        Ok(ClientStep::Send {
            body: encode(Advert::NAME, &advert).map_err(Fault::caller)?,
            next: Box::new(next),
        })
    }

    /// The others' keys, every one checked, and the own one as it was sent.
    fn check(&self, keys: &S::Keys) -> Result<BTreeMap<PartyId, PublicKey>, FaultKind> {
        let round = &self.setup.round;
        let others = keys_of_others(
            &self.setup,
            self.pair.public(),
            S::entries(keys),
            |entry| entry.party,
            |party, entry| entry.keys.check(round, party, S::SIGNATURES),
        )?;
        let (have, need) = (others.len() + 1, self.sharing.required(round));
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        Ok(others)
    }
}

impl<S: SharesVector> ClientStage for AwaitKeys<S> {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let keys = S::Keys::read(self.setup.round.parties(), body).map_err(Fault::server)?;
        let peers = self.check(&keys).map_err(Fault::server)?;
        let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
        let of = (self.pair, peers);
        self.sharing.share(self.setup, of, keys, input, rng)
    }
}

/// What the coordinator does with `N` fresh keys of each party.
pub(crate) trait TakesKeys<const N: usize>: Send + Sized + 'static {
    /// What a party sends.
    type Advert: Bounded + Send;

    fn round(&self) -> &Round;

    /// How many parties must advertise.
    fn required(&self) -> usize;

    /// The keys in it, checked.
    fn check(&self, from: PartyId, sent: &Self::Advert) -> Result<[PublicKey; N], FaultKind>;

    /// Ends the stage with what came.
    fn close(
        self,
        adverts: Adverts<Self::Advert, N>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ServerStep, Fault>;
}

/// What parties sent, to be passed on, and the keys in it.
pub(crate) type Adverts<A, const N: usize> = BTreeMap<PartyId, (A, [PublicKey; N])>;

/// The list of all keys.
pub(crate) fn listed(adverts: Adverts<Advert, 1>) -> Vec<KeyEntry> {
    let entry = |(party, (keys, _)): (PartyId, _)| KeyEntry {
        party: party.0,
        keys,
    };
    adverts.into_iter().map(entry).collect()
}

/// A coordinator that collects fresh keys.
pub(crate) struct CollectKeys<T: TakesKeys<N>, const N: usize> {
    by: T,
    expected: BTreeSet<PartyId>,
    seen: SeenKeys,
    adverts: Adverts<T::Advert, N>,
}

impl<T: TakesKeys<N>, const N: usize> CollectKeys<T, N> {
    /// From everybody.
    pub fn of(by: T) -> Box<dyn ServerStage> {
        Box::new(Self {
            expected: by.round().everyone().collect(),
            by,
            seen: SeenKeys::default(),
            adverts: BTreeMap::new(),
        })
    }
}

impl<T: TakesKeys<N>, const N: usize> ServerStage for CollectKeys<T, N> {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.by.required()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let sent = T::Advert::read(self.by.round().parties(), body)?;
        let keys = self.by.check(from, &sent)?;
        self.seen.add(from, &keys)?;
        self.adverts.insert(from, (sent, keys));
        Ok(())
    }

    fn close(self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        self.by.close(self.adverts, rng)
    }
}
