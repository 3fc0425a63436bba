//! Stage `confirm-challenge`, if the coordinator may lie: parties sign the challenge.

use std::collections::BTreeSet;

use super::Shared;
use super::respond::CollectResponses;
use crate::core::round::ServerStage;
use crate::kit::confirm::Confirmed;
use crate::kit::keys::is_signed;
use crate::protocols::pss_malicious::messages::{SIGN_CHALLENGE, challenge_bytes};
use crate::{PartyId, Round};

impl Confirmed for Shared {
    fn round(&self) -> &Round {
        &self.common.round
    }

    fn required(&self) -> usize {
        self.common.required().max(self.most())
    }

    fn is_signed(&self, signer: PartyId, signature: &[u8]) -> bool {
        let said = challenge_bytes(self.round(), &self.challenge);
        is_signed(self.round(), signer, SIGN_CHALLENGE, &said, signature)
    }

    fn most(&self) -> usize {
        self.common.sharing.parameters().quorum()
    }

    fn confirmed(self, signers: BTreeSet<PartyId>) -> Box<dyn ServerStage> {
        Box::new(CollectResponses::new(self, signers))
    }
}
