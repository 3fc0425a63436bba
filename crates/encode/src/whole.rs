//! The loops of vectors with noise: coordinates to whole numbers and words, and sums of words back.
//!
//! Arithmetic in `f64` is as in `quantise.rs`: nothing is fused, and integers come from an addition.

use blindsum_math::simd::Kernel;

use crate::lanes::Lane;
use crate::levels::Rounding;
use crate::values::Real;

/// 1.5 · 2^52: the sum with a number of either sign below 2^51 has the number plus 2^51 in its low 52 bits.
const SIGNED_ROUND: f64 = 1.5 * (1_u64 << 52) as f64;
/// 2^51.
const HALF: u64 = 1 << 51;
const LOW_52: u64 = (1 << 52) - 1;

/// Random bits of a coordinate.
const RANDOM_BITS: u32 = u32::BITS;

/// The map from coordinates to whole numbers, with f bits of fraction for the rounding.
#[derive(Clone, Copy)]
pub(crate) struct WholeScale {
    slope: f64,
    largest: i64,
    fraction_bits: u32,
}

impl WholeScale {
    /// `scale` times a coordinate is a number from −`largest` to `largest`, which is below 2^(bits − 1). Rounding to nearest
    /// has no fraction, stochastic rounding as many bits as there are random ones, or as fit into 51 bits behind the number.
    pub(crate) fn new(scale: f64, largest: u64, rounding: Rounding) -> Self {
        let fraction_bits = match rounding {
            Rounding::Nearest => 0,
            Rounding::Stochastic => RANDOM_BITS.min(largest.leading_zeros() - 13),
        };
        Self {
            slope: scale * (1_u64 << fraction_bits) as f64,
            largest: largest as i64,
            fraction_bits,
        }
    }
}

/// Rounds coordinates to whole numbers by random bits, the upper ones of 32, and gives the sum of their squares.
pub(crate) struct Rounded<'a, R> {
    pub(crate) values: &'a [R],
    pub(crate) random: &'a [u32],
    pub(crate) scale: WholeScale,
    pub(crate) numbers: &'a mut [i64],
}

impl<R: Real> Kernel for Rounded<'_, R> {
    type Output = u128;

    #[inline(always)]
    fn run(self) -> u128 {
        let WholeScale {
            slope,
            largest,
            fraction_bits,
        } = self.scale;
        let end = (largest << fraction_bits) as f64;
        // A shift by all 32 bits leaves 0.
        let unused_bits = RANDOM_BITS - fraction_bits;
        let offset = (HALF >> fraction_bits) as i64;
        // Halves of squares below 2^62, so that no sum of a piece wraps.
        let (mut low, mut high) = (0_u64, 0_u64);
        let inputs = self.values.iter().zip(self.random);
        for (number, (value, random)) in self.numbers.iter_mut().zip(inputs) {
            let scaled = value.to_f64() * slope;
            let scaled = if scaled > -end { scaled } else { -end };
            let scaled = if scaled < end { scaled } else { end };
            let fixed = (scaled + SIGNED_ROUND).to_bits() & LOW_52;
            let below_point = u64::from(*random) >> unused_bits;
            let whole = ((fixed + below_point) >> fraction_bits) as i64 - offset;
            let whole = whole.clamp(-largest, largest);
            let square = whole.wrapping_mul(whole) as u64;
            low += square & u64::from(u32::MAX);
            high += square >> 32;
            *number = whole;
        }
        u128::from(low) + (u128::from(high) << 32)
    }
}

/// Writes numbers with noise as words of b bits: 2^(b−1) stands for 0. No word is reduced modulo 2^b, since how many of the
/// words in a sum were would tell the signs of their parties. So a sum of words tells nothing but the sum of the numbers. A
/// number that b bits do not hold becomes the nearest that they do: with two parties or more that has a chance below 2^-40 in
/// all rounds that there can be.
pub(crate) struct WithNoise<'a, L> {
    pub(crate) numbers: &'a [i64],
    pub(crate) noise: &'a [i32],
    /// 2^(b−1).
    pub(crate) middle: i64,
    pub(crate) lanes: &'a mut [L],
}

impl<L: Lane> Kernel for WithNoise<'_, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let inputs = self.numbers.iter().zip(self.noise);
        for (lane, (number, noise)) in self.lanes.iter_mut().zip(inputs) {
            let noised = number.wrapping_add(i64::from(*noise));
            // guard: words-with-noise-do-not-wrap
            let word = noised.clamp(-self.middle, self.middle - 1) + self.middle;
            *lane = L::truncate(word.cast_unsigned());
        }
    }
}

/// The map from sums of words back to means.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) bits: u32,
    /// survivors · 2^(b−1), which stands for 0.
    pub(crate) zero: u64,
    pub(crate) limit: u64,
    /// γ / survivors.
    pub(crate) step: f64,
}

impl Sums {
    /// A word as a number from −2^(b−1) to 2^(b−1) − 1.
    #[inline(always)]
    fn lifted(self, word: u64) -> i64 {
        let unused = u64::BITS - self.bits;
        (word.wrapping_sub(self.zero) << unused).cast_signed() >> unused
    }

    /// Decodes sums; gives the index of one beyond the limit, if there is one.
    #[inline(always)]
    pub(crate) fn decode<R: Real, L: Copy + Into<u64>>(
        self,
        lanes: &[L],
        mean: &mut [R],
    ) -> Option<usize> {
        // guard: sums-with-noise-stay-within-the-limit
        let is_too_large = |sum: i64| sum.unsigned_abs() > self.limit;
        let mut too_large = 0_u64;
        for (mean, &lane) in mean.iter_mut().zip(lanes) {
            let sum = self.lifted(lane.into());
            too_large |= u64::from(is_too_large(sum));
            *mean = R::from_f64(sum as f64 * self.step);
        }
        if too_large == 0 {
            return None;
        }
        lanes
            .iter()
            .position(|&lane| is_too_large(self.lifted(lane.into())))
    }
}
