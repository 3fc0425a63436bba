//! The model that a job starts from, for people: where it comes from decides whether a network learns.

use blindsum_job::Model;
use blindsum_job::report::JobStatus;
use blindsum_protocol::{Job, ModelUpdate};

use crate::hex;

/// The source of the model from which a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody gave one, or the job says so: it is all zeros.
    Zeros,
    /// A party gives it, and has not given it yet.
    Awaited,
    /// A party gave it.
    Party,
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
    /// Its source.
    pub origin: Origin,
    /// Its version: the number of sums that are in it.
    pub version: u64,
    /// Its hash in hexadecimal digits; empty if there is none that the coordinator knows.
    pub hash: String,
    /// The party that gave it; empty if none did.
    pub party: String,
}

impl Origin {
    /// A name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Awaited => "awaited",
            Self::Party => "party",
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
        let party = status.model_from.clone();
        let origin = if job.spec().model_update == ModelUpdate::Nothing {
            Origin::None
        } else if job.hides_sum() && version > 0 {
            Origin::Parties
        } else if is(*Model::awaited(job).hash()) {
            Origin::Awaited
        } else if version == 0 && !party.is_empty() {
            Origin::Party
        } else if is(*Model::initial(job).hash()) {
            Origin::Zeros
        } else if given.is_some_and(is) {
            Origin::Given
        } else {
            Origin::Store
        };
        let hash = match origin {
            Origin::None | Origin::Parties | Origin::Awaited => String::new(),
            Origin::Zeros | Origin::Given | Origin::Store | Origin::Party => hash,
        };
        Self {
            origin,
            version,
            hash,
            party,
        }
    }
}
