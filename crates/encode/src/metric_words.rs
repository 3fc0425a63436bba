//! The words of metrics behind those of the coordinates: a level is cut into digits.

use crate::metric_range::LEVEL_BITS;
use crate::{EncodeError, MetricRange};

/// Largest number of metrics of a job.
pub const MAX_METRICS: usize = 64;

/// The metrics of a job, and how many bits a digit of their levels has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricWords {
    ranges: Vec<MetricRange>,
    digit_bits: u32,
}

impl MetricWords {
    /// Checks how many metrics there are, and their ranges. A word has `free` bits for a level.
    pub(crate) fn new(ranges: &[MetricRange], free: u32) -> Result<Self, EncodeError> {
        let metrics = ranges.len();
        if metrics > MAX_METRICS {
            let rule = format!("{metrics} metrics, but there may be at most {MAX_METRICS}");
            return Err(EncodeError::spec("metrics", rule));
        }
        ranges.iter().try_for_each(MetricRange::check)?;
        Ok(Self {
            ranges: ranges.to_vec(),
            digit_bits: LEVEL_BITS.min(free),
        })
    }

    /// Refuses weights that leave no bit of a word for a level.
    pub(crate) fn check_digits(&self, parties: usize, weight: u32) -> Result<(), EncodeError> {
        if self.ranges.is_empty() || self.digit_bits > 0 {
            return Ok(());
        }
        let rule = format!("parties * max_weight = {parties} * {weight} < 2^62 with metrics");
        Err(EncodeError::spec("parties", rule))
    }

    pub(crate) fn ranges(&self) -> &[MetricRange] {
        &self.ranges
    }

    /// Bits of a digit of a level, but for the last one, which may have fewer.
    pub(crate) fn digit_bits(&self) -> u32 {
        self.digit_bits
    }

    /// The bits of every digit of a level.
    pub(crate) fn digits(&self) -> impl Iterator<Item = u32> + use<> {
        let bits = self.digit_bits;
        let digits = LEVEL_BITS.div_ceil(bits);
        (0..digits).map(move |digit| bits.min(LEVEL_BITS - digit * bits))
    }

    /// Words that one metric takes.
    pub(crate) fn words_of_one(&self) -> usize {
        1 + LEVEL_BITS.div_ceil(self.digit_bits) as usize
    }

    /// Words that all of them take together.
    pub(crate) fn words(&self) -> usize {
        match self.ranges.len() {
            0 => 0,
            metrics => metrics * self.words_of_one(),
        }
    }
}
