//! Metrics of training: numbers with a known range that parties report beside an update.
//!
//! A metric takes words of its own behind the coordinates, so it is summed with them and shows as little of one party. Its
//! value becomes a level of 24 bits, whatever the bits of a coordinate are. A word of the job may be too narrow for such a
//! level with its weight, so the level is cut into digits of d bits. For a party of weight w the words of a metric are
//!
//! ```text
//! w * p,  w * p * digit 0,  w * p * digit 1, ...     p = 1 where the party reports the metric, else 0
//! level  =  round((clip(x) - low) / (high - low) * (2^24 - 1))          in doubles, ties to even
//! d      =  min(24, ⌊log2(t + 1)⌋)                                      so that no sum wraps
//! mean   =  low + (sum of w * level) / (sum of w * p * (2^24 - 1)) * (high - low)
//! ```
//!
//! t is the last level of a coordinate, or the largest integer (of 32 bits where integers are split), so that digits are words as
//! coordinates are; in fixed point d is min(24, 63 - ⌈log2(parties * max_weight)⌉). The lowest digit comes first. The sums are exact: the error of a mean is that of one rounding to levels.

use blindsum_crypto::Zeroizing;
use blindsum_math::words::Words;

use crate::metric_range::TOP;
use crate::{EncodeError, Encoding, MetricRange};

/// How one metric of a party was encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricNote {
    /// It is reported as it is.
    Reported,
    /// It is reported as the end of its range that it was beyond.
    Clipped,
    /// It was not given, and counts as missing.
    Missing,
    /// It was NaN or infinite, and counts as missing.
    NotFinite,
}

/// The metrics that a party reports in a round, as levels. They are as private as its update.
#[derive(Default)]
pub struct MetricLevels {
    levels: Zeroizing<Vec<Option<u32>>>,
    notes: Vec<MetricNote>,
}

impl MetricLevels {
    /// The levels, one for each metric of the job; none of a metric that is missing.
    pub fn levels(&self) -> &[Option<u32>] {
        &self.levels
    }

    /// How each metric was encoded.
    pub fn notes(&self) -> &[MetricNote] {
        &self.notes
    }
}

/// The sum of one metric over the survivors of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSum {
    /// The sum of level times weight.
    pub levels: u128,
    /// The weight of the parties that reported it.
    pub weight: u64,
    /// The weight of all survivors.
    pub total_weight: u64,
    /// Its range.
    pub range: MetricRange,
}

/// The words of a metric that no levels of the survivors add up to. The metric has no value, and the invalid words
/// cannot be attributed to a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoidMetric {
    /// The rule, with the numbers that break it.
    pub rule: String,
}

impl MetricSum {
    /// The weighted mean over the parties that reported the metric; none if no party did. Within 2^-24 of the range of the
    /// mean of the clipped values.
    pub fn mean(&self) -> Option<f64> {
        if self.weight == 0 {
            return None;
        }
        let MetricRange { low, high } = self.range;
        let top = u128::from(self.weight) * u128::from(TOP);
        let part = self.levels as f64 / top as f64;
        Some((low + part * (high - low)).clamp(low, high))
    }

    /// The part of the survivors' weight whose parties reported the metric.
    pub fn share(&self) -> f64 {
        self.weight as f64 / self.total_weight as f64
    }
}

impl Encoding {
    /// The ranges of the metrics that parties report.
    pub fn metrics(&self) -> &[MetricRange] {
        self.metrics.ranges()
    }

    /// The levels of a party's metrics, of which there is a value or none for each metric of the job.
    ///
    /// # Errors
    /// [`EncodeError::Metrics`] for more or fewer than the job has.
    pub fn metric_levels(&self, values: &[Option<f64>]) -> Result<MetricLevels, EncodeError> {
        let (got, metrics) = (values.len(), self.metrics().len());
        if got != metrics {
            return Err(EncodeError::Metrics { got, metrics });
        }
        let of = |(range, value): (&MetricRange, &Option<f64>)| match value {
            None => (None, MetricNote::Missing),
            Some(value) if !value.is_finite() => (None, MetricNote::NotFinite),
            Some(value) => match range.level(*value) {
                (level, true) => (Some(level), MetricNote::Clipped),
                (level, false) => (Some(level), MetricNote::Reported),
            },
        };
        let mut levels = Zeroizing::new(Vec::with_capacity(got));
        let mut notes = Vec::with_capacity(got);
        for (level, note) in self.metrics().iter().zip(values).map(of) {
            levels.push(level);
            notes.push(note);
        }
        Ok(MetricLevels { levels, notes })
    }

    /// The metrics of a party out of [`MetricLevels::levels`], which were saved.
    ///
    /// # Errors
    /// [`EncodeError::State`] for levels that no metrics of the job have.
    pub fn metrics_of_levels(&self, levels: Vec<Option<u32>>) -> Result<MetricLevels, EncodeError> {
        let levels = Zeroizing::new(levels);
        let (got, metrics) = (levels.len(), self.metrics().len());
        if got != metrics || levels.iter().flatten().any(|level| *level > TOP) {
            let rule = format!("{got} levels must be {metrics}, none above {TOP}");
            return Err(EncodeError::State {
                of: "metrics",
                rule,
            });
        }
        let note = |level: &Option<u32>| match level {
            None => MetricNote::Missing,
            Some(_) => MetricNote::Reported,
        };
        let notes = levels.iter().map(note).collect();
        Ok(MetricLevels { levels, notes })
    }

    /// The sums of the metrics out of the sum of the words of `survivors` parties, in the order of the job. A metric is void
    /// if no levels of such parties add up to its words: at least one party did not follow the protocol.
    ///
    /// # Errors
    /// Those of [`Encoding::decode_mean`] about the shape of the sum and its total weight.
    pub fn metric_sums(
        &self,
        sum: &Words,
        survivors: usize,
    ) -> Result<Vec<Result<MetricSum, VoidMetric>>, EncodeError> {
        let total_weight = self.total_weight(sum, survivors)?;
        let words = self.lanes() - self.metric_words()..self.lanes();
        let words: Vec<u64> = words.map(|lane| sum.get(lane)).collect();
        self.metric_sums_of(&words, total_weight)
    }

    /// The same out of the words of the metrics alone, `[metric_words]`.
    ///
    /// # Errors
    /// [`EncodeError::Metrics`] for more or fewer words.
    pub fn metric_sums_of(
        &self,
        words: &[u64],
        total_weight: u64,
    ) -> Result<Vec<Result<MetricSum, VoidMetric>>, EncodeError> {
        let (got, metrics) = (words.len(), self.metrics().len());
        if got != self.metric_words() {
            return Err(EncodeError::Metrics { got, metrics });
        }
        let of_metric = |(words, range): (&[u64], &MetricRange)| {
            let (&weight, digits) = words.split_first().unwrap_or((&0, &[]));
            // guard: metric-weight-within-the-total
            if weight > total_weight {
                let rule = format!(
                    "weight that reported = {weight} <= total weight = {total_weight} must hold"
                );
                return Err(VoidMetric { rule });
            }
            let mut levels = 0;
            for (digit, (&word, bits)) in digits.iter().zip(self.metrics.digits()).enumerate() {
                let most = u128::from(weight) * ((1 << bits) - 1);
                // guard: metric-digits-within-the-weight
                if u128::from(word) > most {
                    let rule = format!("digit {digit} = {word} <= {most} must hold");
                    return Err(VoidMetric { rule });
                }
                levels += u128::from(word) << (digit as u32 * self.metrics.digit_bits());
            }
            Ok(MetricSum {
                levels,
                weight,
                total_weight,
                range: *range,
            })
        };
        let words = words.chunks(self.metrics.words_of_one());
        Ok(words.zip(self.metrics()).map(of_metric).collect())
    }

    /// Words that all metrics take together.
    pub fn metric_words(&self) -> usize {
        self.metrics.words()
    }

    /// Adds the words of a party's metrics to those behind the coordinates. All are missing where there are no levels.
    pub(crate) fn push_metrics(&self, weight: u32, metrics: &MetricLevels, tail: &mut Vec<u64>) {
        let weight = u64::from(weight);
        for metric in 0..self.metrics().len() {
            let level = metrics.levels().get(metric).copied().flatten();
            let weight = weight * u64::from(level.is_some());
            let mut rest = u64::from(level.unwrap_or_default());
            tail.push(weight);
            for bits in self.metrics.digits() {
                tail.push(weight * (rest & ((1 << bits) - 1)));
                rest >>= bits;
            }
        }
    }
}
