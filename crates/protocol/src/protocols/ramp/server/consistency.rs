//! Stage 2, active only: collects signatures over the set of those who shared and passes them on to all.

use std::collections::BTreeSet;

use super::Common;
use super::aggregate::CollectSums;
use crate::core::round::ServerStage;
use crate::kit::confirm::Confirmed;
use crate::kit::consistency::signed_survivors;
use crate::{PartyId, PartySet, Round};

/// Those who shared (U1), whom parties confirm.
pub(super) struct Survivors {
    pub common: Common,
    pub survivors: PartySet,
}

impl Confirmed for Survivors {
    fn round(&self) -> &Round {
        &self.common.round
    }

    fn required(&self) -> usize {
        self.common.sharing.parameters().threshold()
    }

    fn is_signed(&self, signer: PartyId, signature: &[u8]) -> bool {
        signed_survivors(self.round(), signer, &self.survivors, signature)
    }

    fn most(&self) -> usize {
        self.common.sharing.parameters().quorum()
    }

    fn confirmed(self, signers: BTreeSet<PartyId>) -> Box<dyn ServerStage> {
        Box::new(CollectSums::new(self.common, signers, self.survivors))
    }
}
