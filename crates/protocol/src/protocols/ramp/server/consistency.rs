//! Stage 2, active only: collects signatures over the set of those who shared and passes them on to all.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::Common;
use super::aggregate::CollectSums;
use crate::core::round::{ServerStage, ServerStep};
use crate::kit::confirmations::Confirmations;
use crate::kit::consistency::signed_survivors;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectSignatures {
    common: Common,
    survivors: PartySet,
    confirmations: Confirmations,
}

impl CollectSignatures {
    pub fn new(common: Common, expected: BTreeSet<PartyId>, survivors: PartySet) -> Self {
        Self {
            common,
            survivors,
            confirmations: Confirmations::of(expected),
        }
    }
}

impl ServerStage for CollectSignatures {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.confirmations.expected
    }

    fn required(&self) -> usize {
        self.common.sharing.parameters().threshold()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let (round, survivors) = (&self.common.round, &self.survivors);
        let is_right = |signature: &[u8]| signed_survivors(round, from, survivors, signature);
        self.confirmations
            .receive(round.parties(), from, body, is_right)
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let quorum = self.common.sharing.parameters().quorum();
        let (signers, bodies) = self.confirmations.close(|_| true, quorum)?;
        Ok(ServerStep::Next {
            bodies,
            next: Box::new(CollectSums::new(self.common, signers, self.survivors)),
            faults: Vec::new(),
        })
    }
}
