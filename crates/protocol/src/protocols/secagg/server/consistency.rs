//! Stage 3, active only: collects signatures over the survivor set and passes those of the witnesses on to all.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::Common;
use super::masked_sum::MaskedSum;
use super::unmask::CollectRevealed;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::consistency::{SignatureEntry, Signatures, Signed, signed_survivors};
use crate::kit::wire::{Bounded, Opaque, encode};
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectSignatures {
    common: Common,
    masked: MaskedSum,
    expected: BTreeSet<PartyId>,
    signatures: BTreeMap<PartyId, Opaque>,
}

impl CollectSignatures {
    pub fn new(common: Common, masked: MaskedSum) -> Self {
        let expected = masked.survivors.iter().collect();
        Self {
            common,
            masked,
            expected,
            signatures: BTreeMap::new(),
        }
    }
}

impl ServerStage for CollectSignatures {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.common.required_shares()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let Signed { signature } = Signed::read(self.common.holders(), body)?;
        let round = &self.common.round;
        if !signed_survivors(round, from, &self.masked.survivors, signature.as_slice()) {
            return Err(FaultKind::BadSignature { signer: from });
        }
        self.signatures.insert(from, signature);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self {
            common,
            masked,
            signatures,
            ..
        } = *self;
        let signers: BTreeSet<PartyId> = signatures.keys().copied().collect();
        let witnesses = common.graph.witnesses();
        let entries: Vec<SignatureEntry> = signatures
            .into_iter()
            .filter(|(signer, _)| witnesses.binary_search(signer).is_ok())
            .map(|(signer, signature)| SignatureEntry {
                party: signer.0,
                signature,
            })
            .collect();
        let (have, need) = (entries.len(), common.required_shares());
        if have < need {
            return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
        }
        let body = encode("signatures", &Signatures { entries }).map_err(Fault::caller)?;
        let bodies = Bodies::Same(signers.iter().copied().collect(), body);
        Ok(ServerStep::Next {
            next: Box::new(CollectRevealed::new(common, masked, signers)),
            bodies,
            faults: Vec::new(),
        })
    }
}
