//! How far a decoded mean may be off.

use crate::norm_rule::NormRule;
use crate::spec::{FIXED64_UNIT, Kind};
use crate::{Encoding, Precision, Rounding};

impl Encoding {
    /// Bound on `|decoded mean - weighted mean of the clipped inputs|` in every coordinate, in the unit of the input, for
    /// a mean decoded to [`Encoding::precision`] or to `f64`. An input is clipped where its norm is scaled down to the job's
    /// bound, and then its coordinates are clamped.
    ///
    /// It is [`Encoding::rounding_error`] and, with [`ClipSpec::Sent`](crate::ClipSpec::Sent), what norms are scaled down below
    /// `max_norm` for the rounding: no coordinate loses more than the norm does.
    pub fn max_error(&self) -> f64 {
        let room = match (self.kind().norm(), self.norm_bound()) {
            (NormRule::Sent(max_norm), Some(bound)) => max_norm - bound,
            _ => 0.0,
        };
        self.rounding_error() + room
    }

    /// The same bound for inputs of which norms are scaled down to [`Encoding::norm_bound`].
    ///
    /// It is the sum of these bounds, where c is the widest clipping bound:
    /// * rounding to a level: one level for stochastic rounding, half of one for nearest rounding. A mean over weights is
    ///   no further off than the word of one party, because every party with weight w adds at most one level (half of
    ///   one) of the w levels that its weight makes of each.
    /// * arithmetic in `f64`: c * 2^-49, and c * dim * 2^-56 for a norm.
    /// * the mean itself in single precision, where that is the precision of the job: c * 2^-24. A mean is never larger
    ///   than c, and c * 2^-24 is above the smallest step of a single.
    pub fn rounding_error(&self) -> f64 {
        let clip = self.widest_clip();
        // Scaling, scaling back and the division round four times, each by at most c * 2^-51.
        let own_error = match self.precision() {
            Precision::Single => clip * f64::powi(2.0, -24),
            Precision::Double => 0.0,
        };
        let float_error = clip * f64::powi(2.0, -49) + own_error;
        match self.kind() {
            // Neither the sum nor the total weight need be a double, and their ratio is rounded.
            Kind::Integers { bits, .. } => f64::powi(2.0, bits as i32 - 51),
            Kind::Fixed64 => 0.5 / FIXED64_UNIT + float_error,
            Kind::Quantised {
                bits,
                rounding,
                norm,
            } => {
                let step = rounding.step(bits, clip);
                let levels = match rounding {
                    Rounding::Stochastic => 1.0,
                    Rounding::Nearest => 0.5,
                };
                // 16 partial sums of dim / 16 squares each.
                let norm_error = match norm {
                    NormRule::Free => 0.0,
                    NormRule::Clip | NormRule::Sent(_) => {
                        clip * (self.dim() as f64) * f64::powi(2.0, -56)
                    }
                };
                levels * step + float_error + norm_error
            }
        }
    }
}
