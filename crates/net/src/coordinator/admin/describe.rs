//! What operators see of a job.

use serde::Serialize;

use super::super::Control;
use super::super::hosting::ServedJob;
use crate::JobError;
use crate::orders::OrderRecord;
use crate::report::{JobStatus, MetricReport, RoundReport, RoundState};
use crate::totals::LossCause;

/// Earlier rounds, and earlier orders, that a description has.
const LATEST: u32 = 5;

/// A job, as operators see it. In JSON the fields of the status stand beside the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The live status.
    #[serde(flatten)]
    pub status: JobStatus,
    /// The hash of the job's specification, in hexadecimal digits.
    pub hash: String,
    /// The specification.
    pub specification: blindsum_protocol::JobSpec,
    /// Whether a host begins its rounds.
    pub hosted: bool,
    /// What the job does now: `offered` while parties join a round, the name of a stage, `waiting` between rounds, or the
    /// state of a job that is over.
    pub stage: String,
    /// Since when, in milliseconds since 1970-01-01 UTC; `None` between rounds.
    pub stage_since_ms: Option<u64>,
    /// The latest rounds that are over, newest first.
    pub ended: Vec<Ended>,
    /// The latest orders, newest first.
    pub orders: Vec<OrderRecord>,
}

/// A round that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// Its number.
    pub number: u64,
    /// `done` or `aborted`.
    pub state: RoundState,
    /// Whether it only gave parties the key of the job.
    pub key_setup: bool,
    /// Why it has no result; empty if it has one.
    pub reason: String,
    /// How many parties it had.
    pub parties: usize,
    /// How many of them are in the sum.
    pub survivors: usize,
    /// Parties that were lost in it, with the reasons.
    pub lost: std::collections::BTreeMap<String, String>,
    /// The kind of each of these reasons.
    pub causes: std::collections::BTreeMap<String, LossCause>,
    /// When it was offered, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// Seconds from its offer to its end.
    pub seconds: f64,
    /// The metrics of training by their names.
    pub metrics: std::collections::BTreeMap<String, MetricReport>,
}

impl From<RoundReport> for Ended {
    fn from(report: RoundReport) -> Self {
        let causes = report.causes();
        let stages = report.stages.into_iter();
        Self {
            number: report.number,
            state: report.state,
            key_setup: report.key_setup,
            reason: report.reason,
            parties: report.parties.len(),
            survivors: report.survivors.len(),
            lost: stages.flat_map(|stage| stage.dropped).collect(),
            causes,
            started_ms: report.started_ms,
            seconds: report.seconds,
            metrics: report.metrics,
        }
    }
}

impl Control {
    /// Every job, or one, as operators see it; nothing where there is no such job.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn describe(&self, name: &str) -> Result<Vec<Description>, JobError> {
        let Some(host) = self.host() else {
            return Ok(Vec::new());
        };
        let jobs = match name {
            "" => host.jobs.all(),
            name => host.jobs.get(name).into_iter().collect(),
        };
        let store = host.shared.store.clone();
        // The store waits for a disk.
        let described = tokio::task::spawn_blocking(move || {
            let describe = |job: ServedJob| {
                let name = &job.job.spec().job;
                let rounds = store.rounds(name, LATEST + 1)?;
                let orders = store.orders(name, LATEST)?;
                let status = job.status.borrow().clone();
                Ok(Description::of(status, &job, rounds, orders))
            };
            jobs.into_iter().map(describe).collect()
        });
        let broken = |error: tokio::task::JoinError| JobError::System(error.to_string());
        described.await.map_err(broken)?
    }
}

impl Description {
    fn of(
        status: JobStatus,
        job: &ServedJob,
        rounds: Vec<RoundReport>,
        orders: Vec<OrderRecord>,
    ) -> Self {
        let (stage, stage_since_ms) = now(&status);
        let is_over =
            |report: &RoundReport| matches!(report.state, RoundState::Done | RoundState::Aborted);
        let ended = rounds.into_iter().filter(is_over).take(LATEST as usize);
        Self {
            hash: crate::hex(job.job.hash()),
            specification: job.job.spec().clone(),
            hosted: job.hosted,
            stage,
            stage_since_ms,
            ended: ended.map(Ended::from).collect(),
            orders,
            status,
        }
    }
}

/// What a job does now, and since when.
fn now(status: &JobStatus) -> (String, Option<u64>) {
    if status.state != crate::report::JobState::Running {
        return (status.state.as_str().into(), None);
    }
    match &status.round {
        Some(round) if round.state == RoundState::Joining => {
            ("offered".into(), Some(round.started_ms))
        }
        Some(round) if round.state == RoundState::Running => match round.stages.last() {
            Some(stage) => (stage.name.clone(), Some(stage.began_ms)),
            None => ("begins".into(), Some(round.started_ms)),
        },
        _ => ("waiting".into(), None),
    }
}
