//! Stage 2: adds up masked vectors as they come, then tells everybody whose are in.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::Common;
use super::consistency::collect_signatures;
use super::masked_sum::{Commitments, MaskedSum};
use super::unmask::CollectRevealed;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::keys::is_active;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectInputs {
    common: Common,
    masked: MaskedSum,
}

impl CollectInputs {
    pub fn new(common: Common, shared: BTreeSet<PartyId>, commitments: Commitments) -> Self {
        let sum = common.round.job().zeros();
        let survivors = PartySet::empty(common.round.parties());
        Self {
            common,
            masked: MaskedSum {
                sum,
                shared,
                survivors,
                commitments,
            },
        }
    }
}

impl ServerStage for CollectInputs {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.masked.shared
    }

    fn required(&self) -> usize {
        self.common.required_inputs()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        self.masked
            .sum
            .add_packed(body)
            .map_err(|e| FaultKind::malformed("masked vector", e.to_string()))?;
        self.masked.survivors.insert(from);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self { common, masked } = *self;
        let parties = masked.survivors.iter().collect();
        let bodies = Bodies::Same(parties, masked.survivors.as_bitmap().to_vec());
        let next: Box<dyn ServerStage> = if is_active(&common.round) {
            collect_signatures(common, masked)
        } else {
            let expected = masked.survivors.iter().collect();
            Box::new(CollectRevealed::new(common, masked, expected))
        };
        Ok(ServerStep::Next {
            next,
            bodies,
            faults: Vec::new(),
        })
    }
}
