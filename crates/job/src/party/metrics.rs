//! The metrics that a party reports beside its update.

use std::collections::BTreeMap;

use blindsum_encode::{Judged, MetricLevels, MetricNote};
use blindsum_protocol::{Job, Metric};

use super::result::RoundResult;
use crate::JobError;
use crate::report::MetricReport;

/// Values of metrics by their names. A metric that is not in it is missing, as is one that is not finite.
pub type Metrics = BTreeMap<String, f64>;

/// The levels of these metrics.
///
/// # Errors
/// [`JobError::Input`]: a name that no metric of the job has.
pub(super) fn levels_of(job: &Job, metrics: &Metrics) -> Result<MetricLevels, JobError> {
    let names = job.spec().metrics.iter().map(|metric| &*metric.name);
    let unknown = metrics
        .keys()
        .find(|given| !names.clone().any(|name| name == *given));
    if let Some(name) = unknown {
        let names: Vec<&str> = names.collect();
        let has = match names[..] {
            [] => "it has none".into(),
            _ => format!("its metrics are {}", names.join(", ")),
        };
        let rule = format!("metrics: {name:?} is no metric of the job: {has}");
        return Err(JobError::Input(rule));
    }
    let values: Vec<Option<f64>> = names.map(|name| metrics.get(name).copied()).collect();
    let levels = job.encoding().metric_levels(&values);
    levels.map_err(|e| JobError::Input(e.to_string()))
}

/// The metrics that a party reports in a round, without their values.
#[derive(Debug, Default)]
pub(super) struct Reported {
    names: Vec<String>,
    weight: u32,
}

impl Reported {
    /// Those of this update.
    pub fn of(job: &Job, judged: &Judged) -> Self {
        let metrics = job.spec().metrics.iter().zip(judged.metrics().levels());
        let given = metrics.filter(|(_, level)| level.is_some());
        Self {
            names: given.map(|(metric, _)| metric.name.clone()).collect(),
            weight: judged.weight(),
        }
    }

    /// Warns of metrics of which the sum is this party's value, since no other survivor reported them. A round of this party
    /// alone has nobody to hide from.
    pub fn alone(&self, result: &RoundResult) -> Vec<String> {
        if result.survivors.len() < 2 {
            return Vec::new();
        }
        let others = |report: &MetricReport| {
            let weight = report.share * result.total_weight as f64;
            weight - f64::from(self.weight) > 0.5
        };
        let named = self
            .names
            .iter()
            .map(|name| (name, result.metrics.get(name)));
        let alone = named.filter(|(_, report)| report.is_some_and(|report| !others(report)));
        let warning = |(name, _): (&String, _)| {
            format!(
                "metric {name} was reported by this party alone, so whoever learns the sum learns its value: let all parties \
                 report it, or none"
            )
        };
        alone.map(warning).collect()
    }
}

/// What the caller should know of its metrics, without their values.
pub(super) fn warnings(job: &Job, judged: &Judged) -> Vec<String> {
    let metrics = job.spec().metrics.iter().zip(judged.metrics().notes());
    let warning = |(metric, note): (&Metric, &MetricNote)| match note {
        MetricNote::Reported | MetricNote::Missing => None,
        MetricNote::Clipped => Some(format!(
            "metric {} was outside of its range and counts as the end of it: choose another low or high in the job",
            metric.name
        )),
        MetricNote::NotFinite => Some(format!(
            "metric {} was not a finite number and counts as missing",
            metric.name
        )),
    };
    metrics.filter_map(warning).collect()
}
