//! The server's side of a sparse round: it counts masks, and adds what it cannot read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_he::flashe::sparse::{EncryptedSparseSum, SparseMask};
use rand_core::CryptoRng;

use super::messages::{Masks, read_places};
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::{Fault, FaultKind, PartyId, PartySet, Round};

pub(crate) fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    Ok(Box::new(CollectMasks {
        expected: round.everyone().collect(),
        masks: BTreeMap::new(),
        round: round.clone(),
    }))
}

/// Keeps everybody's places.
struct CollectMasks {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    masks: BTreeMap<PartyId, SparseMask>,
}

impl ServerStage for CollectMasks {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let mask = read_places(self.round.job(), body)?;
        self.masks.insert(from, mask);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self { round, masks, .. } = *self;
        let expected: BTreeSet<PartyId> = masks.keys().copied().collect();
        let set = PartySet::of(round.parties(), expected.iter().copied());
        let listed = Masks::new(&round, set, masks.into_values().collect())
            .map_err(|e| Fault::caller(e.into()))?;
        let body = listed.to_bytes();
        let sum = EncryptedSparseSum::new(round.job().width(), round.job().lanes())
            .map_err(|e| Fault::caller(e.into()))?;
        let next = CollectCiphertexts {
            survivors: PartySet::empty(round.parties()),
            masks: expected.iter().copied().zip(listed.masks).collect(),
            round,
            sum,
            expected: expected.clone(),
        };
        Ok(ServerStep::Next {
            next: Box::new(next),
            bodies: Bodies::Same(expected.into_iter().collect(), body),
            faults: Vec::new(),
        })
    }
}

/// Adds ciphertexts at their places as they come.
struct CollectCiphertexts {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    masks: BTreeMap<PartyId, SparseMask>,
    survivors: PartySet,
    sum: EncryptedSparseSum,
}

impl ServerStage for CollectCiphertexts {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let mask = self.masks.get(&from).ok_or(FaultKind::NotAMember)?;
        self.sum
            .add(mask, body)
            .map_err(|e| FaultKind::malformed("ciphertext", e.to_string()))?;
        self.survivors.insert(from);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let mut body = self.survivors.as_bitmap().to_vec();
        body.extend(self.sum.to_bytes());
        Ok(ServerStep::Done {
            bodies: Bodies::Same(self.survivors.iter().collect(), body),
            survivors: self.survivors,
            sum: None,
            faults: Vec::new(),
        })
    }
}
