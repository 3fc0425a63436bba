//! The metrics that a party reports beside its update.

use std::collections::BTreeMap;

use blindsum_encode::{Judged, MetricLevels, MetricNote};
use blindsum_protocol::{Job, Metric};

use super::result::RoundResult;
use crate::JobError;

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
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reported {
    pub names: Vec<String>,
    pub weight: u32,
}

impl Reported {
    /// Those of this update.
    pub fn of(job: &Job, judged: &Judged) -> Self {
        let metrics = job.spec().metrics.iter().zip(judged.metrics().levels());
        let given = metrics.filter(|(_, level)| level.is_some());
        Self {
            names: given.map(|(metric, _)| metric.name.clone()).collect(),
            // guard: own-weight-is-no-company
            weight: judged.weight(),
        }
    }

    /// Warns of metrics of which the sum is the value of the party of this name, since no other survivor reported them, or
    /// nobody but parties that may be corrupt. A round of this party alone has nobody to hide from.
    ///
    /// Of weights the sum is known only. So few parties reported as the weights allow: each has at most `max_weight`, and each
    /// that did not report has at least 1. A corrupt party that does not follow the protocol can add any weight.
    pub fn exposed(&self, job: &Job, party: &str, result: &RoundResult) -> Vec<String> {
        let survivors = result.survivors.len();
        if survivors < 2 || !result.survivors.iter().any(|name| name == party) {
            return Vec::new();
        }
        let most = u64::from(job.spec().encoding.max_weight().max(1));
        let corrupt = job.spec().corrupt_parties() as u64;
        let warning = |name: &String| {
            let report = result.metrics.get(name)?;
            // Void metrics have a warning of their own; of words that stayed closed nobody learns anything.
            // guard: closed-words-raise-no-alarm
            if report.void || report.share == 0.0 {
                return None;
            }
            let weight = (report.share * result.total_weight as f64).round() as u64;
            let others = weight.saturating_sub(self.weight.into());
            if others == 0 {
                return Some(format!(
                    "metric {name} was reported by this party alone, so whoever learns the sum learns its value: let all \
                     parties report it, or none"
                ));
            }
            let silent = result.total_weight.saturating_sub(weight);
            let least = (survivors as u64 - 1).saturating_sub(silent);
            let least = least.max(others.div_ceil(most));
            // guard: corrupt-parties-are-no-company
            (silent > 0 && least <= corrupt).then(|| {
                format!(
                    "metric {name} may have been reported by this party and no more than {least} others, and the job counts on \
                     {corrupt} corrupt parties: if these are the others, whoever they work with learns this party's value; let \
                     all parties report it, or none"
                )
            })
        };
        self.names.iter().filter_map(warning).collect()
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
