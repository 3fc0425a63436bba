//! What clipping did to this party's update. It is for the party only: numbers that depend on one update never go to
//! the coordinator.

use blindsum_protocol::{Clipping, EncodingChoice};
use tracing::{info, warn};

use super::member::Member;
use super::result::Clipped;

impl Member {
    /// Tells the log what clipping did to an update that is sent: a warning with advice at first, then a line a
    /// round.
    pub(super) fn tell_clipping(&mut self, round: u64, clipped: Option<Clipped>) {
        let (Some(clipped), Some(job)) = (clipped, &self.job) else {
            return;
        };
        if clipped.is_nothing() {
            return;
        }
        let (party, spec) = (&self.identity.name, job.spec());
        let (coordinates, of) = (clipped.coordinates, spec.dim);
        let scaled_by = clipped.scaled_by.unwrap_or(1.0);
        if std::mem::replace(&mut self.clipping_told, true) {
            return info!(%party, round, coordinates, of, scaled_by, "this update was clipped");
        }
        let clipping = match &spec.encoding {
            EncodingChoice::Quantised(options) => Some(options.clipping),
            _ => None,
        };
        let advice = match clipping {
            Some(Clipping::Tensor) => {
                "raise clip in the job, or take clipping = \"aciq\" or \"l2\""
            }
            Some(Clipping::L2) | None => "raise clip in the job",
            Some(Clipping::Aciq) => {
                "a few are meant to be; where it is many, raise clip in the job"
            }
        };
        warn!(%party, round, coordinates, of, scaled_by, clip = spec.encoding.clip(), advice,
            "this update was clipped: the mean lacks what was cut off");
    }
}
