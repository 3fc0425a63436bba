//! What a coordinator must not forget: jobs, rounds, models. A round's number is stored before the
//! round is offered, its outcome together with the model it leads to, before anybody is told.

mod memory;
mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_protocol::{Evidence, Job};
use bytes::Bytes;

use crate::report::{JobState, RoundReport};
use crate::{Model, StoreError, hex, pb};
pub use memory::{Happened, MemoryStore};

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

    /// Records the end of a round, and with it the model that the round leads to and, where it counts, what
    /// its parties are told; that takes the place of what was told of the round before.
    ///
    /// # Errors
    /// Reading or writing failed; nothing is recorded then.
    fn end_round(
        &self,
        job: &str,
        report: &RoundReport,
        model: Option<&Model>,
        ending: Option<&Ending>,
    ) -> Result<(), StoreError>;

    /// Writes down who has confirmed the result of a round, where it is still the latest one that counts.
    ///
    /// # Errors
    /// Writing failed.
    fn confirm(&self, job: &str, round: u64, names: &[Arc<str>]) -> Result<(), StoreError>;

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

    /// One round of a job.
    ///
    /// # Errors
    /// Reading failed.
    fn round(&self, job: &str, number: u64) -> Result<Option<RoundReport>, StoreError>;

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

    /// Writes down what somebody did wrong, with what shows it. The latest [`FAULTS_KEPT`] of a job stay.
    ///
    /// # Errors
    /// Writing failed.
    fn fault(&self, job: &str, fault: &ShownFault) -> Result<(), StoreError>;
}

/// Faults of a job that a store keeps.
pub const FAULTS_KEPT: usize = 100;

/// What somebody did wrong in a round, with what shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFault {
    /// The round.
    pub round: u64,
    /// Whose fault it is, or is said to be, by name.
    pub culprit: String,
    /// The party that says so; none where the coordinator saw it itself.
    pub accuser: Option<String>,
    /// What it is, for people.
    pub what: String,
    /// What came from the culprit.
    pub evidence: Evidence,
}

/// The error of a store that has another job of this name.
fn other_spec(job: &Job, stored: &[u8]) -> StoreError {
    StoreError::OtherSpec {
        job: job.spec().job.clone(),
        stored: hex(stored),
        given: hex(job.hash()),
    }
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
    /// The latest round that counts.
    pub ending: Option<Ending>,
}

/// What the parties of a round that counts are told of it. Nobody whose update is in the sum has to do without
/// it because the coordinator was restarted.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The beginning of the round, with the certificates of all members.
    pub start: pb::RoundStart,
    /// The last stage.
    pub stage: u8,
    /// The message that ended it, the same for all.
    pub message: Bytes,
    /// What is said after it.
    pub done: pb::RoundDone,
    /// Whose updates are in the sum, and whether they have confirmed that they know it.
    pub survivors: BTreeMap<Arc<str>, bool>,
}
