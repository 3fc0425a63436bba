//! What an event says: how all jobs stand, what their last rounds were, and what an operator should look after.

use std::collections::BTreeMap;

use blindsum_net::report::{JobState, JobStatus, MetricReport, RoundReport, RoundState};
use blindsum_net::totals::{LossCause, Totals};
use blindsum_net::watched::{Watched, WatchedJob};
use serde::Serialize;

/// The last rounds that are shown.
const ROUNDS: u32 = 40;
/// Seconds before the end of a certificate, and of a revocation list, from which on the page warns.
const CERTIFICATE_AHEAD: i64 = 14 * 86_400;
const LIST_AHEAD: i64 = 2 * 86_400;

#[derive(Serialize)]
struct State<'a> {
    version: &'static str,
    now_ms: u64,
    alerts: Vec<Alert>,
    certificates: Vec<Ends>,
    bytes: Bytes,
    jobs: Vec<Job<'a>>,
}

/// Something to look after.
#[derive(Debug, PartialEq, Serialize)]
struct Alert {
    severity: &'static str,
    /// The job that it is about; empty if it is about the server.
    job: String,
    text: String,
}

/// When something ends that the server cannot do without.
#[derive(Serialize)]
struct Ends {
    whose: &'static str,
    /// Seconds until then; negative afterwards.
    seconds: i64,
}

#[derive(Serialize)]
struct Bytes {
    received: u64,
    sent: u64,
}

#[derive(Serialize)]
struct Job<'a> {
    status: JobStatus,
    ready: usize,
    failed_in_row: u64,
    /// The stages of a round, in order.
    stages: &'a [&'static str],
    rounds: &'a [Round],
}

/// A round that has ended, for the charts.
#[derive(Clone, Serialize)]
struct Round {
    number: u64,
    state: RoundState,
    reason: String,
    seconds: f64,
    parties: usize,
    survivors: usize,
    up: u64,
    down: u64,
    metrics: BTreeMap<String, MetricReport>,
    lost: Vec<Loss>,
}

#[derive(Clone, Serialize)]
struct Loss {
    name: String,
    stage: String,
    reason: String,
    /// Its kind; none in a report of an earlier version.
    cause: Option<LossCause>,
}

/// The last rounds of each job that have ended, read from the store when another one has.
#[derive(Default)]
pub(super) struct Rounds(BTreeMap<String, (Latest, Vec<Round>)>);

/// The round that was the latest one when the store was read, and where it stood.
type Latest = Option<(u64, RoundState)>;

impl Rounds {
    /// Reads those of jobs of which another round has begun or ended.
    pub async fn renew(&mut self, watched: &Watched) {
        for job in watched.jobs() {
            let (name, latest) = latest(&job);
            if self.0.get(&name).is_some_and(|(known, _)| *known == latest) {
                continue;
            }
            let (of, wanted) = (watched.clone(), name.clone());
            let read = move || of.rounds(&wanted, ROUNDS);
            // Reading waits for a disk. Where it fails the charts stay as they are: the log has what is wrong with the store.
            let Ok(Ok(reports)) = tokio::task::spawn_blocking(read).await else {
                continue;
            };
            let ended = |report: &&RoundReport| {
                matches!(report.state, RoundState::Done | RoundState::Aborted)
            };
            let rounds = reports.iter().filter(ended).map(Round::of).collect();
            self.0.insert(name, (latest, rounds));
        }
    }

    fn of(&self, job: &str) -> &[Round] {
        self.0.get(job).map_or(&[], |(_, rounds)| rounds)
    }
}

fn latest(job: &WatchedJob) -> (String, Latest) {
    let status = job.status.borrow();
    let round = status.round.as_ref();
    (
        status.job.clone(),
        round.map(|round| (round.number, round.state)),
    )
}

impl Round {
    fn of(report: &RoundReport) -> Self {
        let stages = report.stages.iter();
        let lost = stages.flat_map(|stage| {
            let dropped = stage.dropped.iter();
            dropped.map(|(name, reason)| Loss {
                name: name.clone(),
                stage: stage.name.clone(),
                reason: reason.clone(),
                cause: stage.causes.get(name).copied(),
            })
        });
        Self {
            number: report.number,
            state: report.state,
            reason: report.reason.clone(),
            seconds: report.seconds,
            parties: report.parties.len(),
            survivors: report.survivors.len(),
            up: report.wire.values().map(|bytes| bytes.up).sum(),
            down: report.wire.values().map(|bytes| bytes.down).sum(),
            metrics: report.metrics.clone(),
            lost: lost.collect(),
        }
    }
}

/// The state as JSON, in one line.
pub(super) fn state(watched: &Watched, rounds: &Rounds) -> String {
    let jobs = watched.jobs().into_iter();
    let jobs: Vec<(JobStatus, Totals)> = jobs
        .map(|job| (job.status.borrow().clone(), job.totals()))
        .collect();
    let certificates = ends(watched);
    let (received, sent) = watched.connection_bytes();
    let mut alerts = of_server(watched.is_stopping(), &certificates);
    for (status, totals) in &jobs {
        of_job(status, totals, &mut alerts);
    }
    let jobs = jobs.iter().map(|(status, totals)| Job {
        status: status.clone(),
        ready: totals.ready,
        failed_in_row: totals.failed_in_row,
        stages: &totals.stages,
        rounds: rounds.of(&status.job),
    });
    let state = State {
        version: env!("CARGO_PKG_VERSION"),
        now_ms: watched.unix_millis(),
        alerts,
        certificates,
        bytes: Bytes { received, sent },
        jobs: jobs.collect(),
    };
    // Nothing of this can fail to be JSON.
    serde_json::to_string(&state).unwrap_or_default()
}

fn ends(watched: &Watched) -> Vec<Ends> {
    let now = watched.unix_seconds() as i64;
    let (own, ca) = watched.certificates_end();
    let list = watched.list_ends();
    let all = [(OWN, Some(own)), (CA, Some(ca)), (LIST, list)];
    let all = all.into_iter();
    all.filter_map(|(whose, until)| {
        let seconds = until? as i64 - now;
        Some(Ends { whose, seconds })
    })
    .collect()
}

const OWN: &str = "certificate";
const CA: &str = "CA";
const LIST: &str = "revocation list";

fn of_server(is_stopping: bool, ends: &[Ends]) -> Vec<Alert> {
    let mut alerts = Vec::new();
    let mut add = |severity, text: String| {
        alerts.push(Alert {
            severity,
            job: String::new(),
            text,
        });
    };
    if is_stopping {
        add("warning", "the server is stopping".into());
    }
    for Ends { whose, seconds } in ends {
        let ahead = if *whose == LIST {
            LIST_AHEAD
        } else {
            CERTIFICATE_AHEAD
        };
        let days = seconds / 86_400;
        match *seconds {
            ..=0 => add(
                "critical",
                format!("the {whose} has ended: no round begins until there is a new one"),
            ),
            left if left < ahead => add(
                "warning",
                format!(
                    "the {whose} ends in {days} days and some hours: let the CA make a new one"
                ),
            ),
            _ => {}
        }
    }
    alerts
}

fn of_job(status: &JobStatus, totals: &Totals, alerts: &mut Vec<Alert>) {
    let mut add = |severity, text: String| {
        let job = status.job.clone();
        alerts.push(Alert {
            severity,
            job,
            text,
        });
    };
    if status.state.has_broken_off() {
        let state = status.state.as_str();
        add("critical", format!("has {state}: {}", status.reason));
    }
    if totals.failed_in_row > 0 {
        let rounds = totals.failed_in_row;
        add("warning", format!("{rounds} failed rounds in a row"));
    }
    if !status.warning.is_empty() {
        add("warning", status.warning.clone());
    }
    let (here, least) = (status.connected.len(), status.min_parties);
    // Where operators let no round begin, as in a job that drains, parties are not missed.
    if status.state == JobState::Running && status.held.is_empty() && here < least {
        add(
            "warning",
            format!("{here} parties are connected, a round needs {least}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(whose: &'static str, days: i64) -> [Ends; 1] {
        let seconds = days * 86_400;
        [Ends { whose, seconds }]
    }

    #[test]
    fn an_end_is_warned_of_in_time() {
        let severity = |whose, days| {
            let alerts = of_server(false, &ends(whose, days));
            alerts.first().map(|alert| alert.severity)
        };
        assert_eq!(severity(OWN, 15), None);
        assert_eq!(severity(OWN, 13), Some("warning"));
        assert_eq!(severity(OWN, 0), Some("critical"));
        assert_eq!(severity(LIST, 13), None);
        assert_eq!(severity(LIST, 1), Some("warning"));
        assert_eq!(of_server(true, &[]).len(), 1);
    }
}
