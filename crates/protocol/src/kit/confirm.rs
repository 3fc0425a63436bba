//! At the coordinator: parties sign what all were told, and everybody hears enough of the signatures (Bonawitz17 Fig. 4,
//! ConsistencyCheck).

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use crate::core::round::{Bodies, Excuse, ServerStage, ServerStep};
use crate::kit::consistency::{SignatureEntry, Signatures, Signed};
use crate::kit::wire::{Bounded, Opaque, encode};
use crate::{Fault, FaultKind, PartyId, Round};

/// What parties confirm.
pub(crate) trait Confirmed: Send + Sized + 'static {
    fn round(&self) -> &Round;

    /// How many parties must sign.
    fn required(&self) -> usize;

    /// Whether it is this party's signature.
    fn is_signed(&self, signer: PartyId, signature: &[u8]) -> bool;

    /// Whether parties want the signature of this one.
    fn counts(&self, _signer: PartyId) -> bool {
        true
    }

    /// How many signatures that count there must be.
    fn need(&self) -> usize {
        0
    }

    /// How many signatures parties are told, for each costs every party a verification.
    fn most(&self) -> usize;

    /// As [`ServerStage::skipped`].
    fn skipped(&self) -> u8 {
        0
    }

    /// As [`ServerStage::excuses`].
    fn excuses(&self) -> Vec<Excuse> {
        Vec::new()
    }

    /// What follows, with those who signed.
    fn confirmed(self, signers: BTreeSet<PartyId>) -> Box<dyn ServerStage>;
}

/// Collects signatures.
pub(crate) struct CollectSignatures<C> {
    over: C,
    expected: BTreeSet<PartyId>,
    signatures: BTreeMap<PartyId, Opaque>,
}

impl<C: Confirmed> CollectSignatures<C> {
    /// Of these parties.
    pub fn of(over: C, expected: BTreeSet<PartyId>) -> Box<dyn ServerStage> {
        Box::new(Self {
            over,
            expected,
            signatures: BTreeMap::new(),
        })
    }
}

impl<C: Confirmed> ServerStage for CollectSignatures<C> {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.over.required()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let Signed { signature } = Signed::read(self.over.round().parties(), body)?;
        if !self.over.is_signed(from, signature.as_slice()) {
            return Err(FaultKind::BadSignature { signer: from });
        }
        self.signatures.insert(from, signature);
        Ok(())
    }

    fn skipped(&self) -> u8 {
        self.over.skipped()
    }

    fn excuses(&self) -> Vec<Excuse> {
        self.over.excuses()
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self {
            over, signatures, ..
        } = *self;
        let signers: BTreeSet<PartyId> = signatures.keys().copied().collect();
        let counted = signatures
            .into_iter()
            .filter(|(signer, _)| over.counts(*signer));
        let entry = |(signer, signature): (PartyId, _)| SignatureEntry {
            party: signer.0,
            signature,
        };
        let entries: Vec<SignatureEntry> = counted.take(over.most()).map(entry).collect();
        let (have, need) = (entries.len(), over.need());
        if have < need {
            return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
        }
        let body = encode(Signatures::NAME, &Signatures { entries }).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            bodies: Bodies::Same(signers.iter().copied().collect(), body),
            next: over.confirmed(signers),
            faults: Vec::new(),
        })
    }
}
