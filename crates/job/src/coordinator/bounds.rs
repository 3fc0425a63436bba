//! Clipping bounds of rounds, where they follow from earlier ones, and the warning when they fall.

use blindsum_protocol::Round;
use tracing::warn;

use crate::falling::Falling;

/// The clipping bounds of a job's rounds.
#[derive(Default)]
pub(super) struct Bounds {
    falling: Falling,
    /// What the operator must know of them; empty where that is nothing.
    pub warning: String,
}

impl Bounds {
    /// Warns of clipping bounds that fall.
    pub fn observe(&mut self, job: &str, round: &Round) {
        let warnings = self.falling.observe(round);
        for warning in &warnings {
            warn!(%job, round = round.number(), "{warning}");
        }
        if !warnings.is_empty() {
            self.warning = warnings.join("; ");
        } else if self.falling.is_steady() {
            self.warning.clear();
        }
    }
}
