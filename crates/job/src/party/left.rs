//! How a party comes to leave a round, or the job.

use super::context::Context;
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
            Self::Unusable(reason) => ctx.unusable(reason),
        }
    }
}
