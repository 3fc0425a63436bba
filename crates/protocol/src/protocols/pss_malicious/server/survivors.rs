//! Stage `confirm-survivors`, if the coordinator may lie: parties sign the set of those whose vectors are summed.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::Common;
use super::aggregate::CollectSums;
use crate::core::round::{Excuse, ServerStage, ServerStep};
use crate::kit::confirmations::Confirmations;
use crate::kit::consistency::signed_survivors;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct ConfirmSurvivors {
    common: Common,
    survivors: PartySet,
    confirmations: Confirmations,
    skipped: u8,
    excuses: Vec<Excuse>,
}

impl ConfirmSurvivors {
    /// Of U2, after so many stages that were skipped, without these.
    pub fn new(
        common: Common,
        survivors: PartySet,
        expected: BTreeSet<PartyId>,
        (skipped, excuses): (u8, Vec<Excuse>),
    ) -> Self {
        Self {
            common,
            survivors,
            confirmations: Confirmations::of(expected),
            skipped,
            excuses,
        }
    }

    fn quorum(&self) -> usize {
        self.common.sharing.parameters().quorum()
    }
}

impl ServerStage for ConfirmSurvivors {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.confirmations.expected
    }

    fn required(&self) -> usize {
        CollectSums::required_of(&self.common).max(self.quorum())
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let (round, survivors) = (&self.common.round, &self.survivors);
        let is_right = |signature: &[u8]| signed_survivors(round, from, survivors, signature);
        self.confirmations
            .receive(round.parties(), from, body, is_right)
    }

    fn skipped(&self) -> u8 {
        self.skipped
    }

    fn excuses(&self) -> Vec<Excuse> {
        self.excuses.clone()
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let quorum = self.quorum();
        let (signers, bodies) = self.confirmations.close(|_| true, quorum)?;
        let how = (0, Vec::new());
        Ok(ServerStep::Next {
            next: Box::new(CollectSums::new(self.common, self.survivors, signers, how)),
            bodies,
            faults: Vec::new(),
        })
    }
}
