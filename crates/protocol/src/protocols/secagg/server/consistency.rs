//! Stage 3, active only: collects signatures over the survivor set and passes those of the witnesses on to all.

use std::collections::BTreeSet;

use super::Common;
use super::masked_sum::MaskedSum;
use super::unmask::CollectRevealed;
use crate::core::round::ServerStage;
use crate::kit::confirm::{CollectSignatures, Confirmed};
use crate::kit::consistency::signed_survivors;
use crate::{PartyId, Round};

/// The masked sum, whose survivors parties confirm.
struct Survivors {
    common: Common,
    masked: MaskedSum,
    witnesses: Vec<PartyId>,
}

pub(super) fn collect_signatures(common: Common, masked: MaskedSum) -> Box<dyn ServerStage> {
    let expected = masked.survivors.iter().collect();
    let survivors = Survivors {
        witnesses: common.graph.witnesses(),
        common,
        masked,
    };
    CollectSignatures::of(survivors, expected)
}

impl Confirmed for Survivors {
    fn round(&self) -> &Round {
        &self.common.round
    }

    fn required(&self) -> usize {
        self.common.required_shares()
    }

    fn is_signed(&self, signer: PartyId, signature: &[u8]) -> bool {
        signed_survivors(self.round(), signer, &self.masked.survivors, signature)
    }

    fn counts(&self, signer: PartyId) -> bool {
        self.witnesses.binary_search(&signer).is_ok()
    }

    fn need(&self) -> usize {
        self.common.required_shares()
    }

    fn most(&self) -> usize {
        usize::MAX
    }

    fn confirmed(self, signers: BTreeSet<PartyId>) -> Box<dyn ServerStage> {
        Box::new(CollectRevealed::new(self.common, self.masked, signers))
    }
}
