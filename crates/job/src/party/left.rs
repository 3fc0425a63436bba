//! How a party comes to leave a round, or a connection, or the job, and what its caller is told.

use blindsum_protocol::{Culprit, Fault, PartyId};

use super::context::Context;
use super::exchange::Over;
use crate::JobError;
use crate::certified::refusal_code;
use crate::pb::RoundRefusalCode;

/// What a party leaves, and why.
pub(super) enum Left {
    /// A round. The coordinator is told this code, and the caller this error.
    Round(RoundRefusalCode, JobError),
    /// A round, and then the job: what is kept between rounds cannot be used, for this reason.
    Unusable(String),
    /// The job.
    Job(JobError),
}

impl From<JobError> for Left {
    fn from(error: JobError) -> Self {
        Self::Job(error)
    }
}

impl Left {
    /// The party cannot take part in a round, for this reason.
    pub fn unable(round: u64, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::failed(JobError::Dropped { round, reason })
    }

    /// The party cannot take part in a round, because of this error.
    pub fn failed(error: JobError) -> Self {
        Self::Round(RoundRefusalCode::RoundRefusalUnable, error)
    }

    /// Somebody has done wrong in a round.
    pub fn fault(error: JobError) -> Self {
        Self::Round(RoundRefusalCode::RoundRefusalFault, error)
    }

    /// What begins a round is refused, with the code that fits the error.
    pub fn refused(error: JobError) -> Self {
        Self::Round(refusal_code(&error), error)
    }

    /// Why, as one error.
    pub fn error(self, ctx: &Context) -> JobError {
        match self {
            Self::Round(_, error) | Self::Job(error) => error,
            Self::Unusable(reason) => ctx.store.unusable(reason),
        }
    }
}

/// Why a connection, or everything, ends.
pub(super) enum Ended {
    /// The connection. It may be made again.
    Lost(String),
    Over(Over),
    Failed(JobError),
}

impl From<JobError> for Ended {
    fn from(error: JobError) -> Self {
        Ended::Failed(error)
    }
}

/// A round from before the process was started, whose result does not come.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Untold {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    #[prost(string, tag = "2")]
    pub reason: String,
    #[prost(enumeration = "Verdict", tag = "3")]
    verdict: i32,
}

/// What the coordinator says of an update whose result does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Verdict {
    /// The coordinator does not know.
    Unknown = 0,
    /// The round counts it.
    Counts = 1,
    /// The round has no sum.
    Aborted = 2,
    /// The round went on without it.
    Dropped = 3,
}

impl Untold {
    pub fn new(round: u64, reason: impl Into<String>, verdict: Verdict) -> Self {
        Self {
            round,
            reason: reason.into(),
            verdict: verdict.into(),
        }
    }

    /// The error for the caller.
    pub fn error(self) -> JobError {
        let verdict = self.verdict();
        let Self { round, reason, .. } = self;
        match verdict {
            Verdict::Counts => JobError::Missed { round, reason },
            Verdict::Unknown => JobError::unknown(round, reason),
            Verdict::Aborted => JobError::RoundAborted { round, reason },
            Verdict::Dropped => JobError::Dropped { round, reason },
        }
    }
}

/// What the caller is told of a round that its party leaves because of this error after its update is out: that nobody here
/// knows whether it counts. That somebody has done wrong is told as it is. That the round goes on without the update only
/// the coordinator can say.
pub(super) fn may_count_still(round: u64, error: JobError) -> JobError {
    match error {
        JobError::Policy(rule) => {
            let (reason, policy) = (rule.to_string(), Some(Box::new(rule)));
            JobError::Unknown {
                round,
                reason,
                policy,
            }
        }
        // guard: only-the-coordinator-says-that-an-update-does-not-count
        JobError::OutOfTime { reason, .. } | JobError::Dropped { reason, .. } => {
            JobError::unknown(round, reason)
        }
        // guard: a-failed-task-says-nothing-of-the-round
        // guard: a-state-folder-that-fails-says-nothing-of-the-round
        error @ (JobError::State { .. } | JobError::System(_)) => {
            JobError::unknown(round, error.to_string())
        }
        error => error,
    }
}

/// The reason alone, where the error is one of the round.
pub(super) fn reason_of(error: &JobError) -> String {
    match error {
        JobError::Dropped { reason, .. } | JobError::Unknown { reason, .. } => reason.clone(),
        error => error.for_others(),
    }
}

/// What shows the fault of a member.
pub(super) fn shown(error: &JobError) -> Vec<u8> {
    match error {
        JobError::Fault { fault, .. } if accuses(fault).is_some() => {
            let evidence = fault.evidence.as_ref();
            evidence.map_or(Vec::new(), |evidence| evidence.bytes().to_vec())
        }
        _ => Vec::new(),
    }
}

/// The member whose fault it may be.
pub(super) fn accuses(fault: &Fault) -> Option<PartyId> {
    match fault.culprit {
        Culprit::Party(party) | Culprit::ServerOr(party) => Some(party),
        _ => None,
    }
}
