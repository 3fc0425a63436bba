//! What a coordinator must not forget: jobs, rounds, models. The number of a round is stored before the round is
//! offered. Its result is stored, together with the model after it, before anybody is told.

mod memory;
mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_protocol::{Evidence, Job};
use bytes::Bytes;

use crate::orders::OrderRecord;
use crate::released::Release;
use crate::report::{JobState, RoundReport};
use crate::{Model, StoreError, difference, hex, pb};
pub use memory::{Happened, MemoryStore};

/// Where jobs, rounds and models are kept. Every call is one transaction.
pub trait Store: Send + Sync {
    /// Goes on with a job, or begins it with `initial`. Rounds that were under way are recorded as aborted: the
    /// coordinator was restarted.
    ///
    /// # Errors
    /// The store holds the job with another specification; reading or writing failed.
    fn open_job(&self, job: &Job, initial: &Model) -> Result<StoredJob, StoreError>;

    /// Records the first model, in the place of the one that stood for it, and the party that gave it.
    ///
    /// # Errors
    /// Reading or writing failed; nothing is recorded then.
    fn first_model(&self, job: &str, model: &Model, party: &str) -> Result<(), StoreError>;

    /// Reserves the number of the next round, which was never used before.
    ///
    /// # Errors
    /// Reading or writing failed.
    fn begin_round(&self, job: &str, report: &RoundReport) -> Result<(), StoreError>;

    /// Records how a round stands that goes on: that it has its parties.
    ///
    /// # Errors
    /// Writing failed.
    fn round_began(&self, job: &str, report: &RoundReport) -> Result<(), StoreError>;

    /// Records the end of a round. With it are recorded the model after the round and, if the round has a result, what
    /// its parties are told (`ending`), which replaces that of the round before. Beside the latest versions of the model, the
    /// one that the report calls the best is kept.
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

    /// Replaces what is recorded of results that servers of a job have begun to open.
    ///
    /// # Errors
    /// Writing failed.
    fn released(&self, job: &str, releases: &[Release]) -> Result<(), StoreError>;

    /// Records who has confirmed the result of a round, if it is still the latest round with a result.
    ///
    /// # Errors
    /// Writing failed.
    fn confirm(&self, job: &str, round: u64, names: &[Arc<str>]) -> Result<(), StoreError>;

    /// Records that a job has ended, or that it goes on.
    ///
    /// # Errors
    /// Reading or writing failed.
    fn set_job_state(&self, job: &str, state: JobState, reason: &str) -> Result<(), StoreError>;

    /// The latest `most` rounds of a job, newest first.
    ///
    /// # Errors
    /// Reading failed.
    fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError>;

    /// One round of a job.
    ///
    /// # Errors
    /// Reading failed.
    fn round(&self, job: &str, number: u64) -> Result<Option<RoundReport>, StoreError>;

    /// A version of the model, if it is still kept.
    ///
    /// # Errors
    /// Reading failed, or the stored values do not have the stored hash.
    fn model(&self, job: &str, version: u64) -> Result<Option<Model>, StoreError>;

    /// Records an event.
    ///
    /// # Errors
    /// Writing failed.
    fn event(&self, job: &str, round: u64, kind: &str, detail: &str) -> Result<(), StoreError>;

    /// Records what somebody did wrong, with the bytes that show it. Of what the coordinator saw itself, [`FAULTS_KEPT`] are
    /// kept of a job; apart from these, as many claims of parties, one for each accuser and accused. Where there are more, the
    /// oldest of that culprit or accuser goes of which the most are kept: nobody pushes out what others did.
    ///
    /// # Errors
    /// Writing failed.
    fn fault(&self, job: &str, fault: &ShownFault) -> Result<(), StoreError>;

    /// Records which parties sit out rounds and why, in the coordinator's own form.
    ///
    /// # Errors
    /// Writing failed.
    fn set_conduct(&self, job: &str, conduct: &[u8]) -> Result<(), StoreError>;

    /// Records an order, and with it all that operators have ordered so far, in the coordinator's own form.
    /// [`ORDERS_KEPT`] orders are kept of a job.
    ///
    /// # Errors
    /// Writing failed.
    fn order(&self, job: &str, ordered: &[u8], record: &OrderRecord) -> Result<(), StoreError>;

    /// The latest `most` orders to a job, newest first.
    ///
    /// # Errors
    /// Reading failed.
    fn orders(&self, job: &str, most: u32) -> Result<Vec<OrderRecord>, StoreError>;
}

/// The number of orders of a job that a store keeps, the latest ones.
pub const ORDERS_KEPT: usize = 1000;

/// The error of a store that has the job with another specification, of this hash and, as JSON, of these fields.
pub fn other_spec(job: &Job, hash: &[u8], stored: &str) -> StoreError {
    // Where what is stored cannot be read nothing is known of it.
    let differences = serde_json::from_str(stored).map_or_else(
        |_| Vec::new(),
        |stored| difference::differences(&stored, job.spec()),
    );
    StoreError::OtherSpec {
        job: job.spec().job.clone(),
        stored: hex(hash),
        given: hex(job.hash()),
        differences,
    }
}

/// The number of faults of a job that a store keeps, and of claims as many.
pub const FAULTS_KEPT: usize = 100;

/// The most bytes that are kept of what is to show a claim: nobody can check them.
pub const MAX_CLAIM_BYTES: usize = 4096;

/// What somebody did wrong in a round, with the bytes that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFault {
    /// The round.
    pub round: u64,
    /// The name of the member that did it, or is said to have done it.
    pub culprit: String,
    /// The party that says so; `None` if the coordinator saw it itself.
    pub accuser: Option<String>,
    /// The fault, for people.
    pub what: String,
    /// What the culprit sent. Of a claim [`MAX_CLAIM_BYTES`] are kept at most.
    pub evidence: Evidence,
    /// How often it was recorded: more than once only for a claim that was repeated. The rest is of the latest time.
    pub times: u64,
}

impl ShownFault {
    /// What a store keeps of it, where it has had it so many times before.
    pub fn kept(&self, before: u64) -> Self {
        let evidence = match self.accuser {
            Some(_) => self.evidence.cut(MAX_CLAIM_BYTES),
            None => self.evidence.clone(),
        };
        Self {
            evidence,
            times: self.times.saturating_add(before),
            ..self.clone()
        }
    }
}

/// A job, as it is in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJob {
    /// The current model; [`Model::awaited`] where the first one is to come from a party and is not here.
    pub model: Model,
    /// The party that gave the first model; empty where none did.
    pub model_from: String,
    /// Where the job stands.
    pub state: JobState,
    /// Number of finished rounds.
    pub rounds_done: u64,
    /// The number of the next round.
    pub next_round: u64,
    /// The numbers of rounds that were under way.
    pub interrupted: Vec<u64>,
    /// What the parties of the latest round with a result are told.
    pub ending: Option<Ending>,
    /// Which parties sit out rounds and why, as [`Store::set_conduct`] was given it; empty if it was not.
    pub conduct: Vec<u8>,
    /// Results that servers have begun to open, oldest first.
    pub released: Vec<Release>,
    /// What operators have ordered, as [`Store::order`] was given it; empty if they have ordered nothing.
    pub operator: Vec<u8>,
}

/// What the parties of a round with a result are told. It is stored, so that every party whose update is in the sum
/// gets it even if the coordinator is restarted.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The beginning of the round, with the certificates of all members.
    pub start: pb::RoundStart,
    /// The last stage.
    pub stage: u8,
    /// The message that ended it, the same for all.
    pub message: Bytes,
    /// What is said after that message.
    pub done: pb::RoundDone,
    /// The parties whose updates are in the sum, and whether they have confirmed the result.
    pub survivors: BTreeMap<Arc<str>, bool>,
}
