//! How things stand at this moment.

use std::fmt;

use blindsum_net::report::{Best, JobState, JobStatus, MetricReport, PrivacyStatus};
use blindsum_net::totals::Totals;
use blindsum_net::watched::Watched;

use crate::numbers::{Labels, Page, labels, of_job};

/// The states of a job.
const STATES: [JobState; 4] = [
    JobState::Running,
    JobState::Done,
    JobState::Failed,
    JobState::Stopped,
];

/// Writes it.
pub(crate) fn write(watched: &Watched, page: &mut Page<'_>) -> fmt::Result {
    page.gauges(
        "blindsum_build_info",
        "1, with the version of the program.",
        [(labels([("version", env!("CARGO_PKG_VERSION"))]), 1.0)],
    )?;
    let jobs = watched.jobs().into_iter();
    let jobs: Vec<_> = jobs
        .map(|job| (job.status.borrow().clone(), job.totals()))
        .collect();
    if !jobs.is_empty() {
        states(&jobs, page)?;
        write_jobs(&jobs, page)?;
    }
    certificates(watched, page)?;
    if let Some((memory, spilled)) = watched.relayed() {
        one(
            page,
            "blindsum_relay_memory_bytes",
            "Bytes in memory of messages relayed between parties.",
            memory as f64,
        )?;
        one(
            page,
            "blindsum_spilled_bytes",
            "Bytes in temporary files of messages relayed between parties.",
            spilled as f64,
        )?;
    }
    match watched.store() {
        None => Ok(()),
        Some((bytes, _)) => one(
            page,
            "blindsum_store_bytes",
            "Bytes of the store and its log on the disk.",
            bytes as f64,
        ),
    }
}

fn states(jobs: &[(JobStatus, Totals)], page: &mut Page<'_>) -> fmt::Result {
    page.gauges(
        "blindsum_job_info",
        "1, with the protocol of the job.",
        jobs.iter().map(|(status, _)| {
            let of = [("protocol", &*status.protocol)];
            (of_job(&status.job, of), 1.0)
        }),
    )?;
    page.gauges(
        "blindsum_job_state",
        "1 for the state in which the job is, 0 for the others.",
        jobs.iter().flat_map(|(status, _)| {
            let of = |state: JobState| of_job(&status.job, [("state", state.as_str())]);
            STATES.map(|state| (of(state), f64::from(u8::from(state == status.state))))
        }),
    )
}

/// One gauge of jobs: its name, what it is, and its value.
type OfJob = (&'static str, &'static str, fn(&JobStatus, &Totals) -> f64);

const OF_JOBS: [OfJob; 7] = [
    (
        "blindsum_parties_connected",
        "Parties that are connected.",
        |status, _| status.connected.len() as f64,
    ),
    (
        "blindsum_parties_ready",
        "Parties that are ready for the round that is offered, or still in the one under way.",
        |_, totals| totals.ready as f64,
    ),
    (
        "blindsum_parties_needed",
        "Parties that a round needs at least.",
        |status, _| status.min_parties as f64,
    ),
    (
        "blindsum_stage_waiting_parties",
        "Parties and servers whose answer is missing in the stage under way, or that are not ready yet.",
        |status, _| status.waiting_for.len() as f64,
    ),
    (
        "blindsum_failed_rounds_in_row",
        "Rounds in a row that count as failed, up to now.",
        |_, totals| totals.failed_in_row as f64,
    ),
    (
        "blindsum_job_blocked",
        "1 while the job waits for a party, a server or a disk after a round without a result.",
        |status, _| f64::from(u8::from(!status.blocked.is_empty())),
    ),
    (
        "blindsum_job_held",
        "1 while operators let no round begin.",
        |status, _| f64::from(u8::from(!status.held.is_empty())),
    ),
];

fn write_jobs(jobs: &[(JobStatus, Totals)], page: &mut Page<'_>) -> fmt::Result {
    for (name, help, value) in OF_JOBS {
        let rows = jobs.iter();
        let rows = rows.map(|(status, totals)| (of_job(&status.job, []), value(status, totals)));
        page.gauges(name, help, rows)?;
    }
    privacy(jobs, page)?;
    training(jobs, page)
}

/// What the noise of jobs guarantees by now.
fn privacy(jobs: &[(JobStatus, Totals)], page: &mut Page<'_>) -> fmt::Result {
    let of = |value: fn(&PrivacyStatus) -> Option<f64>| {
        let jobs = jobs.iter();
        jobs.filter_map(move |(status, _)| {
            let privacy = status.privacy.as_ref()?;
            let delta = format!("{:e}", privacy.delta);
            Some((of_job(&status.job, [("delta", &*delta)]), value(privacy)?))
        })
    };
    page.gauges(
        "blindsum_privacy_epsilon",
        "Epsilon of all releases of a job with noise so far.",
        of(|privacy| Some(privacy.epsilon)),
    )?;
    page.gauges(
        "blindsum_privacy_target",
        "The largest epsilon that the job may come to; absent without one.",
        of(|privacy| privacy.target),
    )?;
    page.gauges(
        "blindsum_privacy_releases",
        "Rounds of a job with noise whose updates may have been sent.",
        of(|privacy| Some(privacy.releases as f64)),
    )?;
    page.gauges(
        "blindsum_privacy_lacking_rounds",
        "Rounds of which parties speak and that the store lacks: epsilon does not count them.",
        of(|privacy| Some(privacy.lacking as f64)),
    )
}

/// The metrics of training in the latest round with a sum; those that nobody reported have no value.
fn training(jobs: &[(JobStatus, Totals)], page: &mut Page<'_>) -> fmt::Result {
    let of = |value: fn(&MetricReport) -> Option<f64>| {
        let jobs = jobs.iter();
        jobs.flat_map(move |(status, totals)| {
            let metrics = totals.metrics.iter();
            metrics.filter_map(move |(name, metric)| {
                Some((of_job(&status.job, [("metric", name)]), value(metric)?))
            })
        })
    };
    page.gauges(
        "blindsum_training_metric",
        "Weighted mean of a metric of training in the latest round with a sum.",
        of(|metric| metric.value),
    )?;
    let best = |value: fn(&Best) -> f64| {
        let jobs = jobs.iter();
        jobs.filter_map(move |(status, _)| {
            let best = status.best.as_ref()?;
            Some((of_job(&status.job, [("metric", &best.metric)]), value(best)))
        })
    };
    page.gauges(
        "blindsum_training_best",
        "Best value so far of the metric that may end the job.",
        best(|best| best.value),
    )?;
    page.gauges(
        "blindsum_training_best_model_version",
        "Version of the model that the best value is of.",
        best(|best| best.version as f64),
    )?;
    page.gauges(
        "blindsum_training_best_rounds_since",
        "Rounds with a value of that metric since the best one.",
        best(|best| f64::from(best.without_gain)),
    )?;
    page.gauges(
        "blindsum_training_metric_share",
        "Share of the survivors' weight whose parties reported the metric.",
        of(|metric| Some(metric.share)),
    )
}

fn certificates(watched: &Watched, page: &mut Page<'_>) -> fmt::Result {
    let now = watched.unix_seconds() as f64;
    let (own, ca) = watched.certificates_end();
    page.gauges(
        "blindsum_certificate_expiry_seconds",
        "Seconds until a certificate expires; negative afterwards.",
        [("own", own), ("ca", ca)]
            .map(|(whose, until)| (labels([("whose", whose)]), until as f64 - now)),
    )?;
    page.gauges(
        "blindsum_crl_expiry_seconds",
        "Seconds until the revocation list is out of date; absent without a list.",
        watched
            .list_ends()
            .map(|until| (Labels::new(), until as f64 - now)),
    )?;
    one(
        page,
        "blindsum_clock_skew_seconds",
        "Seconds by which the clock of the machine was set since the start.",
        watched.clock_skew(),
    )
}

fn one(page: &mut Page<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    page.gauges(name, help, [(Labels::new(), value)])
}
