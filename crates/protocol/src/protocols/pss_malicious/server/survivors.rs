//! Stage `confirm-survivors`, if the coordinator may lie: parties sign the set of those whose vectors are summed.

use std::collections::BTreeSet;

use super::Common;
use super::aggregate::CollectSums;
use crate::core::round::{Excuse, ServerStage};
use crate::kit::confirm::Confirmed;
use crate::kit::consistency::signed_survivors;
use crate::{PartyId, PartySet, Round};

/// U2, whom parties confirm.
pub(super) struct Survivors {
    pub common: Common,
    pub survivors: PartySet,
    /// How many stages were skipped, and whom the round goes on without.
    pub how: (u8, Vec<Excuse>),
}

impl Confirmed for Survivors {
    fn round(&self) -> &Round {
        &self.common.round
    }

    fn required(&self) -> usize {
        CollectSums::required_of(&self.common).max(self.most())
    }

    fn is_signed(&self, signer: PartyId, signature: &[u8]) -> bool {
        signed_survivors(self.round(), signer, &self.survivors, signature)
    }

    fn most(&self) -> usize {
        self.common.sharing.parameters().quorum()
    }

    fn skipped(&self) -> u8 {
        self.how.0
    }

    fn excuses(&self) -> Vec<Excuse> {
        self.how.1.clone()
    }

    fn confirmed(self, signers: BTreeSet<PartyId>) -> Box<dyn ServerStage> {
        let how = (0, Vec::new());
        Box::new(CollectSums::new(self.common, self.survivors, signers, how))
    }
}
