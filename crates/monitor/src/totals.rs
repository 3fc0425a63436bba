//! What was counted of jobs and connections since the server was started.

use std::fmt;

use blindsum_net::totals::Totals;
use blindsum_net::watched::Watched;

use crate::numbers::{Labels, Page, labels, of_job};

/// The word of a fault that one party says of another.
const ACCUSATION: &str = "accused_by_a_party";

/// A job and what was counted of it.
type Counted = (String, Totals);

/// Writes them.
pub(crate) fn write(watched: &Watched, page: &mut Page<'_>) -> fmt::Result {
    let jobs = watched.jobs().into_iter();
    let jobs = jobs.map(|job| (job.status.borrow().job.clone(), job.totals()));
    let jobs: Vec<Counted> = jobs.collect();
    if !jobs.is_empty() {
        rounds(&jobs, page)?;
        parties(&jobs, page)?;
    }
    let refused = watched.refused();
    page.counters(
        "blindsum_parties_refused",
        "Connections and parties that were refused.",
        refused
            .into_iter()
            .map(|(reason, count)| (labels([("reason", reason.as_str())]), count as f64)),
    )?;
    bytes(watched, &jobs, page)?;
    match watched.store() {
        None => Ok(()),
        Some((_, seconds)) => page.histograms(
            "blindsum_store_transaction_seconds",
            "Seconds that transactions of the store took, with the wait for those before.",
            [(Labels::new(), seconds)],
        ),
    }
}

fn rounds(jobs: &[Counted], page: &mut Page<'_>) -> fmt::Result {
    page.counters(
        "blindsum_rounds",
        "Rounds that ended.",
        each(jobs, |job, totals| {
            let rounds = totals.rounds.iter();
            let rows = rounds.map(|((outcome, cause), count)| {
                let reason = cause.map_or("none", |cause| cause.as_str());
                let of = [("outcome", outcome.as_str()), ("reason", reason)];
                (of_job(job, of), *count as f64)
            });
            rows.collect()
        }),
    )?;
    page.histograms(
        "blindsum_round_seconds",
        "Seconds from the offer of a round to its result.",
        each(jobs, |job, totals| {
            vec![(of_job(job, []), totals.round_seconds.clone())]
        }),
    )?;
    page.histograms(
        "blindsum_stage_seconds",
        "Seconds of a stage of a round.",
        each(jobs, |job, totals| {
            let stages = totals.stage_seconds.iter();
            let rows =
                stages.map(|(stage, seconds)| (of_job(job, [("stage", stage)]), seconds.clone()));
            rows.collect()
        }),
    )
}

fn parties(jobs: &[Counted], page: &mut Page<'_>) -> fmt::Result {
    page.counters(
        "blindsum_parties_lost",
        "Parties that lost their place in a round.",
        each(jobs, |job, totals| {
            let lost = totals.lost.iter();
            let rows = lost.map(|((stage, cause), count)| {
                let of = [("stage", *stage), ("reason", cause.as_str())];
                (of_job(job, of), *count as f64)
            });
            rows.collect()
        }),
    )?;
    page.counters(
        "blindsum_lease_expired",
        "Leases of parties that ran out.",
        each(jobs, |job, totals| {
            vec![(of_job(job, []), totals.leases_expired as f64)]
        }),
    )?;
    page.counters(
        "blindsum_faults",
        "Protocol violations of parties and other servers in rounds.",
        each(jobs, |job, totals| {
            let faults = totals.faults.iter();
            let faults = faults.map(|(class, count)| (class.as_str(), *count));
            let all = faults.chain([(ACCUSATION, totals.accusations)]);
            let rows = all.map(|(kind, count)| (of_job(job, [("kind", kind)]), count as f64));
            rows.collect()
        }),
    )
}

fn bytes(watched: &Watched, jobs: &[Counted], page: &mut Page<'_>) -> fmt::Result {
    let messages = jobs.iter().map(|(_, totals)| totals.message_bytes);
    let messages = messages.fold((0, 0), |(received, sent), (r, s)| (received + r, sent + s));
    let connections = watched.connection_bytes();
    let rows = [("messages", messages), ("connections", connections)];
    let rows = rows.into_iter().flat_map(|(kind, (received, sent))| {
        let of = |direction| labels([("direction", direction), ("kind", kind)]);
        [(of("received"), received as f64), (of("sent"), sent as f64)]
    });
    page.counters(
        "blindsum_bytes",
        "Bytes of protocol messages, and of connections with all that is in them.",
        rows,
    )
}

/// The rows of all jobs.
fn each<V>(
    jobs: &[Counted],
    rows: impl Fn(&str, &Totals) -> Vec<(Labels, V)>,
) -> impl Iterator<Item = (Labels, V)> {
    let jobs = jobs.iter();
    jobs.flat_map(move |(job, totals)| rows(job, totals))
}
