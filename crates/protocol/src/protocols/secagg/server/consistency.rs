//! Stage 3, active only: collects signatures over the survivor set and passes those of the witnesses on to all.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::Common;
use super::masked_sum::MaskedSum;
use super::unmask::CollectRevealed;
use crate::core::round::{ServerStage, ServerStep};
use crate::kit::confirmations::Confirmations;
use crate::kit::consistency::signed_survivors;
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectSignatures {
    common: Common,
    masked: MaskedSum,
    confirmations: Confirmations,
}

impl CollectSignatures {
    pub fn new(common: Common, masked: MaskedSum) -> Self {
        Self {
            confirmations: Confirmations::of(masked.survivors.iter().collect()),
            common,
            masked,
        }
    }
}

impl ServerStage for CollectSignatures {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.confirmations.expected
    }

    fn required(&self) -> usize {
        self.common.required_shares()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let (round, survivors) = (&self.common.round, &self.masked.survivors);
        let is_right = |signature: &[u8]| signed_survivors(round, from, survivors, signature);
        self.confirmations
            .receive(self.common.holders(), from, body, is_right)
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self {
            common,
            masked,
            confirmations,
        } = *self;
        let witnesses = common.graph.witnesses();
        let is_witness = |signer: PartyId| witnesses.binary_search(&signer).is_ok();
        let (have, need) = (confirmations.count(is_witness), common.required_shares());
        if have < need {
            return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
        }
        let (signers, bodies) = confirmations.close(is_witness, usize::MAX)?;
        Ok(ServerStep::Next {
            next: Box::new(CollectRevealed::new(common, masked, signers)),
            bodies,
            faults: Vec::new(),
        })
    }
}
