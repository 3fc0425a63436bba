//! The model that a job starts from, for people: where it comes from decides whether a network learns.

use blindsum_job::Model;
use blindsum_job::report::JobStatus;
use blindsum_protocol::{Job, ModelUpdate};

use crate::hex;

/// Where the model comes from that a job starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody gave one: it is all zeros.
    Zeros,
    /// It was given to this coordinator.
    Given,
    /// It is in the store: the job goes on.
    Store,
    /// The job goes on from a model that only its parties have.
    Parties,
    /// The job keeps no model.
    None,
}

/// The model that a job starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOrigin {
    /// Where it comes from.
    pub origin: Origin,
    /// Its version: the number of sums that are in it.
    pub version: u64,
    /// Its hash in hexadecimal digits; empty if there is none that the coordinator knows.
    pub hash: String,
}

impl Origin {
    /// A name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Given => "given",
            Self::Store => "store",
            Self::Parties => "parties",
            Self::None => "none",
        }
    }
}

impl ModelOrigin {
    /// The origin of the model in the first status of a job. `given` is the hash of the model that this coordinator was
    /// given, if it was.
    pub(super) fn of(job: &Job, given: Option<[u8; 32]>, status: &JobStatus) -> Self {
        let (version, hash) = (status.model_version, status.model_hash.clone());
        let is = |model: [u8; 32]| version == 0 && hash == hex(&model);
        let origin = if job.spec().model_update == ModelUpdate::Nothing {
            Origin::None
        } else if job.hides_sum() && version > 0 {
            Origin::Parties
        } else if is(*Model::initial(job).hash()) {
            Origin::Zeros
        } else if given.is_some_and(is) {
            Origin::Given
        } else {
            Origin::Store
        };
        let hash = match origin {
            Origin::None | Origin::Parties => String::new(),
            Origin::Zeros | Origin::Given | Origin::Store => hash,
        };
        Self {
            origin,
            version,
            hash,
        }
    }
}
