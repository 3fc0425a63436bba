//! The range of a metric, and the level that stands for a value in it.

use crate::EncodeError;

/// Bits of a level.
pub(crate) const LEVEL_BITS: u32 = 24;

/// The last level, which stands for the upper end of the range.
pub(crate) const TOP: u32 = (1 << LEVEL_BITS) - 1;

/// The values that a metric can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricRange {
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

impl MetricRange {
    /// Checks that both ends and their distance are finite, and that there is one.
    pub(crate) fn check(&self) -> Result<(), EncodeError> {
        let Self { low, high } = *self;
        if low < high && (high - low).is_finite() {
            return Ok(());
        }
        let rule = format!(
            "low = {low:?} < high = {high:?} must hold, and high - low must be a finite number"
        );
        Err(EncodeError::spec("metrics", rule))
    }

    /// The level nearest to a finite value, and whether it was outside of the range.
    pub(crate) fn level(&self, value: f64) -> (u32, bool) {
        // guard: a-level-is-within-its-range
        let clipped = value.clamp(self.low, self.high);
        let part = (clipped - self.low) / (self.high - self.low);
        let level = (part * f64::from(TOP)).round_ties_even();
        // A part is at most 1, so this cuts nothing off.
        (TOP.min(level as u32), clipped != value)
    }
}
