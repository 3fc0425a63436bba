//! Stage `confirm-challenge`, if the coordinator may lie: parties sign the challenge.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::Shared;
use super::respond::CollectResponses;
use crate::core::round::{ServerStage, ServerStep};
use crate::kit::confirmations::Confirmations;
use crate::protocols::pss_malicious::messages::{SIGN_CHALLENGE, challenge_bytes, is_signed};
use crate::{Fault, FaultKind, PartyId};

pub(super) struct ConfirmChallenge {
    told: Shared,
    confirmations: Confirmations,
}

impl ConfirmChallenge {
    pub fn new(told: Shared, expected: BTreeSet<PartyId>) -> Self {
        let confirmations = Confirmations::of(expected);
        Self {
            told,
            confirmations,
        }
    }

    fn quorum(&self) -> usize {
        self.told.common.sharing.parameters().quorum()
    }
}

impl ServerStage for ConfirmChallenge {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.confirmations.expected
    }

    fn required(&self) -> usize {
        self.told.common.required().max(self.quorum())
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let round = &self.told.common.round;
        let said = challenge_bytes(round, &self.told.challenge);
        let is_right = |signature: &[u8]| is_signed(round, from, SIGN_CHALLENGE, &said, signature);
        self.confirmations
            .receive(round.parties(), from, body, is_right)
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let quorum = self.quorum();
        let (signers, bodies) = self.confirmations.close(|_| true, quorum)?;
        Ok(ServerStep::Next {
            next: Box::new(CollectResponses::new(self.told, signers)),
            bodies,
            faults: Vec::new(),
        })
    }
}
