//! Where a party keeps what it must not forget, and what it has there.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::state::{JobFolder, JobState};
use crate::pb;
use crate::records::Records;

/// The records of a party. Without any it forgets everything when the process ends.
pub(super) struct Store {
    pub records: Option<Arc<dyn Records>>,
    pub folder: Option<Arc<JobFolder>>,
    /// The records of this job, once it is known.
    pub state: Option<Arc<JobState>>,
    /// The snapshot that the records had when the process began.
    pub snapshot: Vec<u8>,
    /// The model that the records have.
    pub kept: Option<pb::ModelName>,
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
    pub fn new(records: Option<Arc<dyn Records>>, marks: Option<Marks>) -> Self {
        Self {
            records,
            folder: None,
            state: None,
            snapshot: Vec::new(),
            kept: None,
            marks,
        }
    }
}
