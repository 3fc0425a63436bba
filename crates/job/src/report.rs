//! What a coordinator tells about its jobs and rounds: stored, logged, and shown by `Status` and
//! `Watch`. No value of an update is in it, only names, sizes and times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a round stands, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoundState {
    /// Offered; parties join.
    Joining,
    /// Under way.
    Running,
    /// Finished, with a result.
    Done,
    /// Ended without a result.
    Aborted,
}

impl RoundState {
    /// The name it is stored by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Running => "running",
            Self::Done => "done",
            Self::Aborted => "aborted",
        }
    }
}

/// Where a job stands, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// More rounds will come.
    Running,
    /// All rounds are done.
    Done,
    /// Too many rounds failed in a row.
    Failed,
}

impl JobState {
    /// The name it is stored by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// Its number.
    pub number: u64,
    /// Where it stands.
    pub state: RoundState,
    /// Why it was aborted; empty where it was not.
    pub reason: String,
    /// Whether it only gave parties the key of the job; who holds it then are its survivors.
    #[serde(default)]
    pub key_setup: bool,
    /// The version of the model it started from.
    pub model_version: u64,
    /// When it was offered, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// Seconds from the offer to the end.
    pub seconds: f64,
    /// The parties in order of rank.
    pub parties: Vec<String>,
    /// Whose updates are in the sum.
    pub survivors: Vec<String>,
    /// Sum of the survivors' weights, once there is one and unless only the parties learn it.
    #[serde(default)]
    pub total_weight: Option<u64>,
    /// The name of the result, in hexadecimal digits: parties that were told the same one have the same. Empty
    /// before there is a result, and in a key set-up.
    #[serde(default)]
    pub result: String,
    /// The stages so far.
    pub stages: Vec<StageReport>,
    /// Bytes of the parties' connections from the start of the round to its result, TLS and HTTP/2
    /// included; the result itself is sent afterwards and counts in the last stage only.
    pub wire: BTreeMap<String, Bytes>,
    /// What parties did wrong.
    pub faults: Vec<String>,
}

/// One stage of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// How many answers are enough.
    pub required: usize,
    /// Bytes of protocol messages: answers up, and down what ended the stage.
    pub bytes: BTreeMap<String, Bytes>,
    /// Who dropped out in this stage, and why.
    pub dropped: BTreeMap<String, String>,
}

/// Bytes of one party in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// From the party.
    pub up: u64,
    /// To the party.
    pub down: u64,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// Where it stands.
    pub state: JobState,
    /// Why it failed; empty where it did not.
    pub reason: String,
    /// The protocol.
    pub protocol: String,
    /// Rounds finished, and rounds to finish; 0 goes on until it is stopped.
    pub rounds_done: u64,
    /// Rounds to finish; 0 goes on until the coordinator stops.
    pub rounds: u64,
    /// The current model.
    pub model_version: u64,
    /// Its hash, in hexadecimal digits.
    pub model_hash: String,
    /// Who is connected.
    pub connected: Vec<String>,
    /// Who is waited for in the stage under way.
    pub waiting_for: Vec<String>,
    /// How many parties a round needs.
    #[serde(default)]
    pub min_parties: usize,
    /// What the operator must do soon, as about a revocation list that ends; empty where that is nothing.
    #[serde(default)]
    pub warning: String,
    /// Survivors of the latest round that counts who have not confirmed its result yet.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
    /// Parties whose connection was lost since the latest round was offered, and that have not come back.
    #[serde(default)]
    pub lost: Vec<String>,
    /// The round under way, or else the latest one.
    pub round: Option<RoundReport>,
}

impl RoundReport {
    /// A round that was just offered.
    pub fn offered(number: u64, model_version: u64, started_ms: u64) -> Self {
        Self {
            number,
            state: RoundState::Joining,
            reason: String::new(),
            key_setup: false,
            model_version,
            started_ms,
            seconds: 0.0,
            parties: Vec::new(),
            survivors: Vec::new(),
            total_weight: None,
            result: String::new(),
            stages: Vec::new(),
            wire: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// Seconds since it was offered, `now_ms` after 1970-01-01 UTC.
    pub fn elapsed(&self, now_ms: u64) -> f64 {
        now_ms.saturating_sub(self.started_ms) as f64 / 1000.0
    }
}
