//! What a caller gives to a round, and gets from it.

use std::collections::BTreeMap;
use std::fmt;

use blindsum_encode::{EncodeReport, LeftoverSize, Reals};

use crate::Model;
use crate::report::MetricReport;

/// The result of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundResult {
    /// The weighted mean of the survivors' updates in the precision of the job, `[dim]`; empty where the servers alone
    /// learn results.
    pub mean: Reals,
    /// The exact weighted sums of the survivors' integers, `[dim]`, if the job's encoding is of integers.
    pub sums: Option<Vec<u128>>,
    /// The sum of the survivors' weights; 0 where the servers alone learn it.
    pub total_weight: u64,
    /// The metrics of the job by their names, over the survivors; empty where the servers alone learn results.
    pub metrics: BTreeMap<String, MetricReport>,
    /// The names of the parties whose updates are in the mean.
    pub survivors: Vec<String>,
    /// In a sparse round, how many survivors sent each coordinate, `[dim]`. Coordinates that too few sent have a mean
    /// of 0.
    pub contributors: Option<Vec<u32>>,
    /// The job's model after the round.
    pub model: Model,
    /// What clipping did to this party's own update, which nobody else learns. `None` if the update was sent before a
    /// crash.
    pub clipped: Option<Clipped>,
    /// In a sparse round, the size of what this party has not sent yet of its updates, and adds to its next one.
    pub leftover: Option<LeftoverSize>,
    /// What this party's data has cost in all jobs of its ledger, where the job's sums have noise.
    pub privacy: Option<PrivacySpent>,
    /// What the caller should know: of clipping bounds that fall round by round, and of metrics that are not reported as they
    /// are.
    pub warnings: Vec<String>,
    /// The name of the result. Parties with the same name, and a coordinator that reports it, were told the same
    /// result.
    pub result: [u8; 32],
    /// The time that this party spent on the round.
    pub timings: Timings,
}

/// Seconds that a party worked in a round, without training, network and disk.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Timings {
    /// While it waited: masks computed ahead of time, see [`Settings::mask_memory`](super::Settings::mask_memory).
    #[prost(double, tag = "1")]
    pub ahead: f64,
    /// From the update to the answer that carries it: encoding and protection.
    #[prost(double, tag = "2")]
    pub protect: f64,
    /// From the message that tells the result to the sum.
    #[prost(double, tag = "3")]
    pub open: f64,
}

/// What clipping did to a party's own update.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Clipped {
    /// Coordinates outside their bound, which were moved to it.
    #[prost(uint64, tag = "1")]
    pub coordinates: u64,
    /// The factor below 1 by which the update was multiplied, if its L2 norm was above the bound.
    #[prost(double, optional, tag = "2")]
    pub scaled_by: Option<f64>,
}

impl From<EncodeReport> for Clipped {
    fn from(report: EncodeReport) -> Self {
        Self {
            coordinates: report.clipped,
            scaled_by: report.scaled_by,
        }
    }
}

impl Clipped {
    /// Whether clipping left the update as it was.
    pub fn is_nothing(&self) -> bool {
        self.coordinates == 0 && self.scaled_by.is_none()
    }
}

/// What a party's data has cost in all jobs of its ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivacySpent {
    /// The name of the data: the policy's `privacy_unit`.
    pub unit: String,
    /// Releases: rounds for which an update was about to leave.
    pub releases: u64,
    /// ε of all of them together, not below.
    pub epsilon: f64,
    /// The δ that it is for: the policy's `max_delta`, or that of the job.
    pub delta: f64,
    /// The most that ε may be, by the policy.
    pub max_epsilon: Option<f64>,
    /// How many parties' noise a round of this job counts on; 0 where the servers add the noise.
    pub honest: usize,
}

impl fmt::Display for PrivacySpent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {:.4}", self.epsilon)?;
        if let Some(allowed) = self.max_epsilon {
            write!(f, " of {allowed}")?;
        }
        let Self {
            unit,
            releases,
            delta,
            honest,
            ..
        } = self;
        let whose = match honest {
            0 => "noise of the servers".into(),
            honest => format!("honest {honest}"),
        };
        write!(
            f,
            " at delta {delta:e} after {releases} releases of {unit} ({whose})"
        )
    }
}
