//! What a coordinator reports about its jobs and rounds: it is stored, logged, and shown by `Status` and `Watch`. It
//! contains names, sizes and times, and no value of an update.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use blindsum_encode::{EncodeError, MetricSum, VoidMetric};
use blindsum_math::words::Words;
pub use blindsum_protocol::Best;
use blindsum_protocol::{Job, Round};
use serde::{Deserialize, Serialize};

use crate::loss::LossCause;

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
    /// This coordinator cannot go on, as with a full store. The job has not failed: it goes on once a coordinator is started
    /// again on its store. No store has this state.
    Stopped,
}

impl JobState {
    /// The name it is stored by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether there are no more rounds here, though the job is not done.
    pub fn has_broken_off(self) -> bool {
        matches!(self, Self::Failed | Self::Stopped)
    }
}

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// Its number.
    pub number: u64,
    /// Where it stands.
    pub state: RoundState,
    /// Why the round was aborted; empty if it was not.
    pub reason: String,
    /// Whether this is a copy of a store that was made while the round was under way: how the round ended it does not know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Whether the round only gave parties the key of the job. Its survivors are then the holders of the key.
    #[serde(default)]
    pub key_setup: bool,
    /// The version of the model from which the round started.
    pub model_version: u64,
    /// When it was offered, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// Seconds from the offer to the end.
    pub seconds: f64,
    /// The parties in order of rank.
    pub parties: Vec<String>,
    /// The parties whose updates are in the sum.
    pub survivors: Vec<String>,
    /// Sum of the survivors' weights, once it is known. `None` also if only the parties learn the sum.
    #[serde(default)]
    pub total_weight: Option<u64>,
    /// The metrics of training by their names, once the sum is known. Empty in a job without metrics, and where only the
    /// parties learn the sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricReport>,
    /// The best value so far of the metric that the job's `stop` names, with the model that it is of: before this round, and
    /// once there is a sum, after it. None in a job without `stop`, and before the first value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// In a job with noise, the rounds so far whose updates may have been sent, this one included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releases: Option<Releases>,
    /// The name of the result, in hexadecimal digits. Parties that were told the same result have the same name. Empty
    /// before there is a result, and in a key set-up.
    #[serde(default)]
    pub result: String,
    /// The stages so far.
    pub stages: Vec<StageReport>,
    /// Bytes on each party's connection from the start of the round to its result, TLS and HTTP/2 included. The result
    /// itself is sent after that and counts only in the last stage.
    pub wire: BTreeMap<String, Bytes>,
    /// What parties did wrong, for people.
    pub faults: Vec<String>,
}

/// Rounds of a job with noise whose updates may have been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Releases {
    /// Those that the store has.
    pub counted: u64,
    /// Those of which parties speak and that the store lacks: it may be an older copy, or the parties were in another job of
    /// the same name. No guarantee counts them.
    #[serde(default)]
    pub lacking: u64,
}

/// What the noise of a job guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrivacyStatus {
    /// Rounds whose updates may have been sent, with or without a result.
    pub releases: u64,
    /// Rounds of which parties speak and that the store lacks; ε does not count them.
    #[serde(default)]
    pub lacking: u64,
    /// ε after these, not below; the largest number where no finite one is true.
    pub epsilon: f64,
    /// ε against who sees the vector of a single party. None where the noise of one party hides nobody, and where the servers
    /// add the noise.
    pub epsilon_alone: Option<f64>,
    /// ε against who works with none of the servers that add the noise. None where the parties add it.
    #[serde(default)]
    pub epsilon_outside: Option<f64>,
    /// δ.
    pub delta: f64,
    /// The largest ε that the job may come to, where it says one.
    pub target: Option<f64>,
}

impl PrivacyStatus {
    /// After so many releases; `None` in a job without noise.
    pub fn of(job: &Job, releases: Releases) -> Option<Self> {
        let privacy = job.privacy()?;
        let (releases, lacking) = (releases.counted, releases.lacking);
        Some(Self {
            releases,
            lacking,
            epsilon: privacy.epsilon(releases).unwrap_or(f64::MAX),
            epsilon_alone: privacy.epsilon_alone(releases).unwrap_or_default(),
            epsilon_outside: privacy.epsilon_outside(releases).unwrap_or_default(),
            delta: privacy.delta(),
            target: privacy.target(),
        })
    }
}

impl Display for PrivacyStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let of = self
            .target
            .map_or(String::new(), |target| format!(" of {target}"));
        let Self {
            releases,
            lacking,
            epsilon,
            delta,
            ..
        } = self;
        let many = |number: u64| if number == 1 { "" } else { "s" };
        let s = many(*releases);
        write!(
            f,
            "epsilon {epsilon:.2}{of} at delta {delta:e} after {releases} release{s}"
        )?;
        match lacking {
            0 => Ok(()),
            _ => {
                let s = many(*lacking);
                write!(
                    f,
                    "; {lacking} round{s} that the store lacks are not counted"
                )
            }
        }
    }
}

/// One metric of a round, over all survivors together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricReport {
    /// The weighted mean over the survivors that reported it; none if nobody did.
    pub value: Option<f64>,
    /// The part of the survivors' weight that it is the mean of, from 0 to 1.
    pub share: f64,
    /// Whether it has no value because no parties that follow the protocol add up to its words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
}

impl From<Result<MetricSum, VoidMetric>> for MetricReport {
    fn from(sum: Result<MetricSum, VoidMetric>) -> Self {
        match sum {
            Ok(sum) => Self {
                value: sum.mean(),
                share: sum.share(),
                void: false,
            },
            Err(VoidMetric { .. }) => Self {
                value: None,
                share: 0.0,
                void: true,
            },
        }
    }
}

/// Names the metrics of a round that are void, for people. The update counts all the same: everybody who learns the sum
/// decides the same from it.
pub(crate) fn void_metrics(metrics: &BTreeMap<String, MetricReport>) -> Vec<String> {
    let void = metrics.iter().filter(|(_, metric)| metric.void);
    let warning = |(name, _): (&String, _)| {
        format!(
            "metric {name} has no value in this round: no values of the surviving parties add up to its sum, so at least one of \
             them did not follow the protocol; the sum does not show which one. The mean of the updates counts: if this goes on, \
             leave the metric out of the job or find that party by running rounds with other parties"
        )
    };
    void.map(warning).collect()
}

/// The metrics in the result of a round, of `survivors` parties. A sparse round opens the words with `is_open`.
///
/// # Errors
/// A sum whose shape or total weight no honest parties have.
pub fn metric_reports(
    round: &Round,
    sum: &Words,
    survivors: usize,
    is_open: impl Fn(usize) -> bool,
) -> Result<BTreeMap<String, MetricReport>, EncodeError> {
    let sums = round.metric_sums(sum, survivors, is_open)?;
    let names = round.job().spec().metrics.iter();
    let named = names.map(|metric| metric.name.clone());
    Ok(named.zip(sums.into_iter().map(Into::into)).collect())
}

/// One stage of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// The name of the stage.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// How many answers are enough.
    pub required: usize,
    /// Bytes of protocol messages of each party: up its answer, down the message that ended the stage.
    pub bytes: BTreeMap<String, Bytes>,
    /// The parties that dropped out in this stage, and why.
    pub dropped: BTreeMap<String, String>,
    /// The kind of each of these reasons; empty in a report of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<String, LossCause>,
    /// When it began, in milliseconds since 1970-01-01 UTC; 0 in a report of an earlier version.
    #[serde(default)]
    pub began_ms: u64,
}

/// Bytes of one party, in each direction.
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
    /// Why the job failed, why its coordinator cannot go on, or why the job was done before its rounds were, because a metric
    /// became no better; empty if none of these is so.
    pub reason: String,
    /// The protocol.
    pub protocol: String,
    /// Number of rounds finished.
    pub rounds_done: u64,
    /// Number of rounds of the job; 0 means until the coordinator stops.
    pub rounds: u64,
    /// The version of the current model.
    pub model_version: u64,
    /// Its hash, in hexadecimal digits.
    pub model_hash: String,
    /// The party that gave the first model; empty where none did.
    #[serde(default)]
    pub model_from: String,
    /// The best value so far of the metric that the job's `stop` names, with the model that it is of. None in a job without
    /// `stop`, and before the first value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// What the noise of the job guarantees after the rounds so far. None in a job without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyStatus>,
    /// The names of connected parties.
    pub connected: Vec<String>,
    /// The key exchange of TLS on the connection of each party and each other server, as in `X25519MLKEM768`; empty for a
    /// connection without TLS.
    #[serde(default)]
    pub key_exchange: BTreeMap<String, String>,
    /// The parties whose answer is missing in the stage under way.
    pub waiting_for: Vec<String>,
    /// How many parties a round needs.
    #[serde(default)]
    pub min_parties: usize,
    /// What the operator should do soon, such as to renew a revocation list; empty if nothing.
    #[serde(default)]
    pub warning: String,
    /// The parts of the warning, one for each matter, without `blocked`.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// For whom or what the job waits after a round without a result, or before one can end, and until when; empty if for
    /// nobody. The warning has it, too.
    #[serde(default)]
    pub blocked: String,
    /// Survivors of the latest finished round that have not confirmed its result yet.
    #[serde(default)]
    pub unconfirmed: Vec<String>,
    /// Parties whose connection was lost since the latest round was offered, and that have not come back.
    #[serde(default)]
    pub lost: Vec<String>,
    /// Parties that have left the job by themselves and have not come back, and why; for people.
    #[serde(default)]
    pub left: BTreeMap<String, String>,
    /// The round under way, or else the latest one.
    pub round: Option<RoundReport>,
    /// Why operators let no round begin, for people; empty if they do.
    #[serde(default)]
    pub held: String,
    /// The parties that are ready for the round that is offered.
    #[serde(default)]
    pub ready: Vec<String>,
    /// The parties that operators have banned, and until when in milliseconds since 1970-01-01 UTC; `None` until that is
    /// taken back.
    #[serde(default)]
    pub banned: BTreeMap<String, Option<u64>>,
}

impl RoundReport {
    /// The kind of each party's loss, by name.
    pub fn causes(&self) -> BTreeMap<String, LossCause> {
        let causes = self.stages.iter().flat_map(|stage| &stage.causes);
        causes.map(|(name, cause)| (name.clone(), *cause)).collect()
    }

    /// The report of a round that was just offered.
    pub fn offered(number: u64, model_version: u64, started_ms: u64) -> Self {
        Self {
            number,
            state: RoundState::Joining,
            reason: String::new(),
            unknown: false,
            key_setup: false,
            model_version,
            started_ms,
            seconds: 0.0,
            parties: Vec::new(),
            survivors: Vec::new(),
            total_weight: None,
            metrics: BTreeMap::new(),
            best: None,
            releases: None,
            result: String::new(),
            stages: Vec::new(),
            wire: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// Seconds since the round was offered. `now_ms` is milliseconds since 1970-01-01 UTC.
    pub fn elapsed(&self, now_ms: u64) -> f64 {
        now_ms.saturating_sub(self.started_ms) as f64 / 1000.0
    }
}
