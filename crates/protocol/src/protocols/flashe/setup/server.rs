//! The server's side of a key set-up: it passes on what it cannot open, and compares tags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_crypto::kex::PublicKey;
use rand_core::CryptoRng;

use super::client::check_key_id;
use super::messages::{Advert, Delivery, Entry, KeyFor, Keys};
use super::{key_ids, leader, most_common};
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::advertise::{Adverts, CollectKeys, TakesKeys};
use crate::kit::keys::parse_keys;
use crate::kit::wire::{Bounded, check_ascending, encode};
use crate::{Fault, FaultKind, PartyId, PartySet, Round};

pub(crate) fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    Ok(CollectKeys::of(KeySetup(round.clone())))
}

/// Stage 0: collects fresh keys, gives everybody all of them.
struct KeySetup(Arc<Round>);

impl TakesKeys<1> for KeySetup {
    type Advert = Advert;

    fn round(&self) -> &Round {
        &self.0
    }

    fn required(&self) -> usize {
        self.0.job().min_parties()
    }

    fn check(&self, from: PartyId, sent: &Advert) -> Result<[PublicKey; 1], FaultKind> {
        check_key_id(sent)?;
        let key = parse_keys(&self.0, from, [sent.key.as_slice()])?;
        sent.check_signature(&self.0, from)?;
        Ok(key)
    }

    fn close(
        self,
        adverts: Adverts<Advert, 1>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ServerStep, Fault> {
        let advertised: BTreeSet<PartyId> = adverts.keys().copied().collect();
        let entry = |(party, (advert, _)): (PartyId, _)| Entry {
            party: party.0,
            advert,
        };
        let keys = Keys {
            entries: adverts.into_iter().map(entry).collect(),
        };
        let body = encode(Keys::NAME, &keys).map_err(Fault::caller)?;
        let leader = leader(&key_ids(&keys)).map(|(leader, _)| leader);
        Ok(ServerStep::Next {
            bodies: Bodies::Same(advertised.iter().copied().collect(), body),
            next: Box::new(AwaitDelivery {
                round: self.0,
                advertised,
                leader: leader.into_iter().collect(),
                sealed: BTreeMap::new(),
            }),
            faults: Vec::new(),
        })
    }
}

/// Stage 1: the leader's sealed keys, each for one party.
struct AwaitDelivery {
    round: Arc<Round>,
    advertised: BTreeSet<PartyId>,
    leader: BTreeSet<PartyId>,
    sealed: BTreeMap<PartyId, Vec<u8>>,
}

impl ServerStage for AwaitDelivery {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.leader
    }

    fn required(&self) -> usize {
        1
    }

    fn receive(&mut self, _from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let delivery = Delivery::read(self.round.parties(), body)?;
        check_ascending("delivery", delivery.sealed.iter().map(|key| key.party))?;
        // guard: flashe-delivery-to-the-listed
        let stranger = |party: &PartyId| !self.advertised.contains(party);
        if let Some(party) = delivery
            .sealed
            .iter()
            .map(|k| PartyId(k.party))
            .find(stranger)
        {
            let rule = format!("{party} has not advertised a key");
            return Err(FaultKind::malformed("delivery", rule));
        }
        let keys = delivery.sealed.into_iter();
        self.sealed = keys
            .map(|key| (PartyId(key.party), key.sealed.into_vec()))
            .collect();
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self {
            round,
            advertised,
            mut sealed,
            ..
        } = *self;
        let mut bodies = Vec::with_capacity(advertised.len());
        for party in &advertised {
            let sealed = sealed.remove(party).unwrap_or_default().into();
            let body = encode(KeyFor::NAME, &KeyFor { sealed }).map_err(Fault::caller)?;
            bodies.push((*party, body));
        }
        Ok(ServerStep::Next {
            bodies: Bodies::Each(bodies),
            next: Box::new(CollectTags {
                round,
                expected: advertised,
                tags: BTreeMap::new(),
            }),
            faults: Vec::new(),
        })
    }
}

/// Stage 2: everybody's tag; those of holders of one key are the same.
struct CollectTags {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    tags: BTreeMap<PartyId, [u8; 32]>,
}

impl ServerStage for CollectTags {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let tag = body
            .try_into()
            .map_err(|_| FaultKind::malformed("tag", format!("32 bytes, not {}", body.len())))?;
        self.tags.insert(from, tag);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let said = self.tags.iter().map(|(party, tag)| (*party, *tag));
        let common = most_common(said).map_or([0; 32], |(tag, _)| tag);
        let (same, others): (Vec<_>, Vec<_>) =
            self.tags.iter().partition(|(_, tag)| **tag == common);
        let holders = PartySet::of(
            self.round.parties(),
            same.into_iter().map(|(party, _)| *party),
        );
        let (have, need) = (holders.len(), self.round.job().min_parties());
        if have < need {
            return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
        }
        let body = [holders.as_bitmap(), &common].concat();
        let other_key = |(party, _): (&PartyId, _)| Fault::party(*party, FaultKind::OtherKey);
        Ok(ServerStep::Done {
            bodies: Bodies::Same(self.tags.keys().copied().collect(), body),
            survivors: holders,
            sum: None,
            faults: others.into_iter().map(other_key).collect(),
        })
    }
}
