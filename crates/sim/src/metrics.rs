//! Metrics in the clear: what parties report, and what must come of it, by nothing but arithmetic.

use std::collections::BTreeMap;

use blindsum_job::report::MetricReport;
use blindsum_protocol::{Job, Metric};
use rand_core::Rng;

use crate::seeds::below;

/// The last level of a metric.
const TOP: u32 = (1 << 24) - 1;

/// Random metrics for a job: most within their range, some beyond it, not finite, or missing.
pub(crate) fn drawn(job: &Job, rng: &mut impl Rng) -> Vec<Option<f64>> {
    let metrics = job.spec().metrics.iter();
    metrics
        .map(|Metric { low, high, .. }| {
            let part = below(rng, 1 << 30) as f64 / f64::from(1 << 30);
            let value = low + part * (high - low);
            match below(rng, 12) {
                0 => None,
                1 => Some(f64::NAN),
                2 => Some(f64::INFINITY),
                3 => Some(high + part * (high - low)),
                4 => Some(low - part * (high - low)),
                _ => Some(value),
            }
        })
        .collect()
}

/// The level that a value counts as; none where it counts as missing.
fn level(metric: &Metric, value: Option<f64>) -> Option<u32> {
    let value = value.filter(|value| value.is_finite())?;
    let part = (value.clamp(metric.low, metric.high) - metric.low) / (metric.high - metric.low);
    Some((part * f64::from(TOP)).round_ties_even() as u32)
}

/// The sum of each metric: of levels times weights, and of the weights of those that reported it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricTotals(Vec<(u128, u64)>);

impl MetricTotals {
    /// What one party adds.
    pub fn of(job: &Job, values: &[Option<f64>], weight: u64) -> Self {
        let metrics = job.spec().metrics.iter().zip(values);
        let levels = metrics.map(|(metric, value)| match level(metric, *value) {
            Some(level) => (u128::from(level) * u128::from(weight), weight),
            None => (0, 0),
        });
        Self(levels.collect())
    }

    /// Adds what another party reports.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(other.0.len(), (0, 0));
        for ((levels, weight), (more, of)) in self.0.iter_mut().zip(&other.0) {
            *levels += more;
            *weight += of;
        }
    }

    /// What is told of them, where this is the weight of all survivors.
    pub fn told(&self, job: &Job, total_weight: u64) -> BTreeMap<String, MetricReport> {
        let of = |(metric, (levels, weight)): (&Metric, &(u128, u64))| {
            let Metric { name, low, high } = metric;
            let top = u128::from(*weight) * u128::from(TOP);
            let mean = low + *levels as f64 / top as f64 * (high - low);
            let report = MetricReport {
                value: (*weight > 0).then(|| mean.clamp(*low, *high)),
                share: *weight as f64 / total_weight as f64,
                void: false,
            };
            (name.clone(), report)
        };
        job.spec().metrics.iter().zip(&self.0).map(of).collect()
    }

    /// The same where no word of a metric is opened.
    pub fn closed(&self) -> Self {
        Self(vec![(0, 0); self.0.len()])
    }
}
