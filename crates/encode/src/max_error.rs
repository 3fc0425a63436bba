//! How far a decoded mean may be off: by rounding, and by noise.

use blindsum_privacy::Sizes;

use crate::kind::Kind;
use crate::norm_rule::NormRule;
use crate::spec::FIXED64_UNIT;
use crate::{Encoding, Precision, Rounding};

impl Encoding {
    /// The sizes of the noise that vectors have; none where they have none.
    pub fn noise(&self) -> Option<Sizes> {
        match self.kind() {
            Kind::Noised { sizes, .. } => Some(sizes),
            _ => None,
        }
    }

    /// The standard deviation that noise gives to each coordinate of a mean of so many vectors, at least 1, in the unit of
    /// the input: γ · √(v / survivors). 0 where vectors have no noise.
    pub fn noise_deviation(&self, survivors: usize) -> f64 {
        self.noise().map_or(0.0, |sizes| {
            let variance = sizes.variance();
            let variance = variance.numerator() as f64 / variance.denominator() as f64;
            self.step_with_noise(sizes) * (variance / survivors as f64).sqrt()
        })
    }

    /// γ = clip / M.
    pub(crate) fn step_with_noise(&self, sizes: Sizes) -> f64 {
        self.widest_clip() / sizes.largest() as f64
    }

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
    /// * with noise, c * 2^-40, by which vectors are shorter than their bound. Noise adds
    ///   [`Encoding::noise_deviation`];
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
        // 16 partial sums of dim / 16 squares each.
        let norm_error = match self.kind().norm() {
            NormRule::Free => 0.0,
            NormRule::Clip | NormRule::Sent(_) => clip * (self.dim() as f64) * f64::powi(2.0, -56),
        };
        let levels = |rounding| match rounding {
            Rounding::Stochastic => 1.0,
            Rounding::Nearest => 0.5,
        };
        match self.kind() {
            // Neither the sum nor the total weight need be a double, and their ratio is rounded.
            Kind::Integers { bits, .. } => f64::powi(2.0, bits as i32 - 51),
            Kind::Fixed64 => 0.5 / FIXED64_UNIT + float_error,
            Kind::Noised { rounding, sizes } => {
                levels(rounding) * self.step_with_noise(sizes)
                    + clip * f64::powi(2.0, -40)
                    + float_error
                    + norm_error
            }
            Kind::Quantised { bits, rounding, .. } => {
                let step = rounding.step(bits, clip);
                levels(rounding) * step + float_error + norm_error
            }
        }
    }
}
