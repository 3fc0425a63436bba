//! Where a party keeps what it must not forget.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::exchange::{Effect, Input};
use super::records::{JobFolder, JobRecords};
use super::spending::Spending;
use crate::machine::Hand;
use crate::records::Records;
use crate::{JobError, pb};

/// The records of a party. Without any it forgets everything when the process ends.
pub(super) struct Store {
    pub hand: Hand<Input, Effect>,
    pub records: Option<Arc<dyn Records>>,
    pub folder: Option<Arc<JobFolder>>,
    /// The records of this job, once it is known.
    pub state: Option<Arc<JobRecords>>,
    /// The snapshot that the records had when the process began.
    pub snapshot: Vec<u8>,
    /// The model that the records have.
    pub kept: Option<pb::ModelName>,
    /// What the party's data costs, once it is in a job whose sums have noise.
    pub spending: Option<Arc<Spending>>,
    /// Where the party may be suspended.
    pub marks: Option<Marks>,
}

/// The marks of suspended states (`resume.rs`), and which of them a party used last.
pub(super) struct Marks {
    /// The latest one that was used.
    pub latest: u64,
    /// Where whoever drives the party sees it, once its state is written.
    pub shown: Arc<AtomicU64>,
}

impl Store {
    pub fn new(
        records: Option<Arc<dyn Records>>,
        marks: Option<Marks>,
        hand: Hand<Input, Effect>,
    ) -> Self {
        Self {
            hand,
            records,
            folder: None,
            state: None,
            snapshot: Vec::new(),
            kept: None,
            spending: None,
            marks,
        }
    }

    /// Does something with the records of the job, in a task; nothing where there are none.
    pub async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&JobRecords) -> Result<T, JobError> + Send + 'static,
    ) -> Result<Option<T>, JobError> {
        let Some(state) = self.state.clone() else {
            return Ok(None);
        };
        self.hand.work(move || work(&state)).await?.map(Some)
    }

    /// What is kept between rounds cannot be used.
    pub fn unusable(&self, reason: String) -> JobError {
        let place = self.state.as_ref().map(|state| state.place());
        JobError::State {
            path: place.unwrap_or_default(),
            reason,
        }
    }
}
