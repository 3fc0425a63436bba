//! How values are clipped, and the range of clipping bounds of a job, and of a round.

use std::ops::RangeInclusive;

use crate::EncodeError;

/// How values are clipped. Every party does the same, so that the influence of one party on the sum is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClipSpec {
    /// Every coordinate is clamped to `[-c, c]`; `c` is this number, or that of the coordinate's tensor
    /// where tensors are listed.
    Tensor(f64),
    /// The whole vector is scaled down to an L2 norm of at most this number. Quantisation comes after
    /// scaling and may lift the norm again, by at most [`Encoding::max_error`](crate::Encoding::max_error) a coordinate.
    L2(f64),
    /// The vector is scaled down and then every coordinate clamped to `[-clip, clip]`, so that what is sent never has a
    /// norm above `max_norm`: [`Encoding::norm_bound`](crate::Encoding::norm_bound) leaves room for rounding.
    Sent {
        /// Bound on the absolute value of a coordinate.
        clip: f64,
        /// Bound on the L2 norm of the words, decoded.
        max_norm: f64,
    },
}

impl ClipSpec {
    /// The bound of a coordinate or, for [`ClipSpec::L2`], of the norm.
    pub fn clip(self) -> f64 {
        match self {
            Self::Tensor(clip) | Self::L2(clip) | Self::Sent { clip, .. } => clip,
        }
    }
}

/// Bounds of a job. Means and models of single precision stay in the normal range of a single, from 1.2e-38 to 3.4e38: the
/// sums of many rounds above, and bounds of single rounds ([`NARROWEST`]) below. No square leaves the exponents of `f64`.
pub(crate) const CLIP_RANGE: RangeInclusive<f64> = 1e-30..=1e30;

/// The largest bound on a norm: that of 10^10 coordinates of 1e30. It is a single, too.
pub(crate) const MAX_NORM: f64 = 1e35;

/// How often the bound of a job may be halved for a single round.
pub(crate) const NARROWEST_HALVINGS: u8 = 20;

/// How much narrower the bound of a single round may be than that of its job.
pub(crate) const NARROWEST: f64 = 1.0 / (1 << NARROWEST_HALVINGS) as f64;

/// Parts of a tensor's bound that a party compares its largest coordinate with. Powers of two, so that their products with a
/// bound are exact.
pub(crate) const MARKS: [f64; 4] = [1.0 / 32.0, 1.0 / 4.0, 1.0 / 2.0, 1.0];

/// Checks that a bound is in a range; the error quotes the inequality.
pub(crate) fn check_clip(
    field: &'static str,
    clip: f64,
    range: &RangeInclusive<f64>,
) -> Result<(), EncodeError> {
    if range.contains(&clip) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    let rule = format!("{least:e} <= {field} = {clip:e} <= {most:e}");
    Err(EncodeError::spec(field, rule))
}
