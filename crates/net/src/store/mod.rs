//! What a coordinator must not forget: jobs, rounds, models. A round's number is stored before the
//! round is offered, its outcome together with the model it leads to, before anybody is told.

mod lock;
mod read;
mod reader;
mod sqlite;

pub use reader::{StoreReader, StoredStatus};
pub use sqlite::SqliteStore;

use blindsum_protocol::Job;

use crate::report::{JobState, RoundReport};
use crate::{Model, StoreError};

/// Where jobs, rounds and models are kept. Every call is one transaction.
pub trait Store: Send + Sync {
    /// Takes up a job, or begins it with `initial`. Rounds that were under way are recorded as aborted:
    /// the coordinator was restarted.
    ///
    /// # Errors
    /// The store holds the job with another specification; reading or writing failed.
    fn open_job(&self, job: &Job, initial: &Model) -> Result<StoredJob, StoreError>;

    /// Reserves the next round number, which was never used before.
    ///
    /// # Errors
    /// Reading or writing failed.
    fn begin_round(&self, job: &str, report: &RoundReport) -> Result<(), StoreError>;

    /// Records the end of a round, and with it the model that the round leads to.
    ///
    /// # Errors
    /// Reading or writing failed; nothing is recorded then.
    fn end_round(
        &self,
        job: &str,
        report: &RoundReport,
        model: Option<&Model>,
    ) -> Result<(), StoreError>;

    /// Records the end of a job, or that it goes on.
    ///
    /// # Errors
    /// Reading or writing failed.
    fn set_job_state(&self, job: &str, state: JobState, reason: &str) -> Result<(), StoreError>;

    /// The latest rounds of a job, newest first.
    ///
    /// # Errors
    /// Reading failed.
    fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError>;

    /// A version of the model, where it is still kept.
    ///
    /// # Errors
    /// Reading failed, or the stored values do not have the stored hash.
    fn model(&self, job: &str, version: u64) -> Result<Option<Model>, StoreError>;

    /// Writes down something that happened.
    ///
    /// # Errors
    /// Writing failed.
    fn event(&self, job: &str, round: u64, kind: &str, detail: &str) -> Result<(), StoreError>;
}

/// A job as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJob {
    /// The current model.
    pub model: Model,
    /// Where the job stands.
    pub state: JobState,
    /// Rounds that were finished.
    pub rounds_done: u64,
    /// The next round number.
    pub next_round: u64,
    /// Rounds that were found under way.
    pub interrupted: Vec<u64>,
}
