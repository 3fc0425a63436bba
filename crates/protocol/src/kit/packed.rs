//! What the coordinator chooses for a round of packed secret sharing.

use crate::core::round_parameters::{broken, round_parameters};
use crate::kit::wire::framed;
use crate::{FaultKind, Job, RoundParameters};

round_parameters! {
    /// What the coordinator chooses for a round.
    Chosen {
        /// Shares k that rebuild a sum.
        threshold,
        /// Words l in a polynomial.
        packing,
    }
}

impl Chosen {
    /// As the coordinator sends them.
    pub fn of(threshold: usize, packing: usize) -> RoundParameters {
        let chosen = Self {
            threshold: threshold as u32,
            packing: packing as u32,
        };
        chosen.into()
    }

    /// Checks that no party has to send more than the plan of the job allows: its share vectors have so many bytes.
    pub fn check_share_vectors(self, job: &Job, bytes: usize) -> Result<(), FaultKind> {
        let most = job.plan().answer(1).map_or(0, |step| step.largest);
        match framed(bytes) <= most {
            true => Ok(()),
            false => broken(
                "packing",
                format!(
                    "packing l = {}: the share vectors have {bytes} bytes, no round of this job needs more than {most}",
                    self.packing
                ),
            ),
        }
    }
}
