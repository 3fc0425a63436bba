//! The loops that turn numbers into words.
//!
//! All arithmetic is in `f64`, and a multiplication is never fused with the addition after it. Integers come
//! from adding 2^52: the sum of 2^52 and a number below it has no bits left for a fraction, so the addition
//! rounds to nearest (ties to even), and the integer stands in the low bits of the sum. Unlike a conversion,
//! that needs no check of the range, and every instruction set can do it.

use crate::lanes::Lane;
use crate::values::Real;
use blindsum_math::simd::Kernel;

/// 2^52.
const TWO_52: f64 = (1_u64 << 52) as f64;
/// 1.5 * 2^52: adding it to a number of either sign below 2^51 leaves the integer in the low bits, as an
/// offset to the bits of this number.
const SIGNED_ROUND: f64 = 1.5 * TWO_52;

/// The map from coordinates to levels: -c to 0, c to `top` = weight * last level of a coordinate.
///
/// A level is a fixed-point number here: 2^f times its value, rounded to nearest (ties to even), so that f bits
/// of its fraction are left for the rounding that makes a word of it.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    slope: f64,
    half: f64,
    top: f64,
    fraction_bits: u32,
}

impl Scale {
    /// For rounding to nearest: the map of `[-clip, clip]` to `[0, top]`, after a multiplication by `factor`.
    pub(crate) fn nearest(clip: f64, top: u64, factor: f64) -> Self {
        Self::new(clip, top, factor, 0)
    }

    /// The same for stochastic rounding, with as many bits of fraction as there are random bits or, for large
    /// `top`, as fit behind the integer in the 52 bits of an `f64`.
    pub(crate) fn stochastic(clip: f64, top: u64, factor: f64) -> Self {
        let fraction_bits = RANDOM_BITS.min(top.leading_zeros() - 12);
        Self::new(clip, top, factor, fraction_bits)
    }

    /// `top` is below 2^(52 - fraction_bits).
    fn new(clip: f64, top: u64, factor: f64, fraction_bits: u32) -> Self {
        let top = (top << fraction_bits) as f64;
        let half = top / 2.0;
        let nearest = half / clip;
        // Rounded up where it must be for c to reach the top. What lies above is clamped.
        let slope = if nearest * clip < half {
            nearest.next_up()
        } else {
            nearest
        };
        Self {
            slope: slope * factor,
            half,
            top,
            fraction_bits,
        }
    }

    /// The level of a finite coordinate; what lies outside is clamped.
    #[inline(always)]
    fn level(self, value: f64) -> u64 {
        let level = value * self.slope + self.half;
        let level = if level > 0.0 { level } else { 0.0 };
        let level = if level < self.top { level } else { self.top };
        (level + TWO_52).to_bits() ^ TWO_52.to_bits()
    }
}

/// A finite value, or the end of `[-clip, clip]` that is next to it; in a form that vectorises.
#[inline(always)]
pub(crate) fn clamp(value: f64, clip: f64) -> f64 {
    let value = if value > -clip { value } else { -clip };
    if value < clip { value } else { clip }
}

/// Random bits of a coordinate.
const RANDOM_BITS: u32 = u32::BITS;

/// Rounds to the nearest level, ties to even.
pub(crate) struct Nearest<'a, R, L> {
    pub(crate) values: &'a [R],
    pub(crate) scale: Scale,
    pub(crate) lanes: &'a mut [L],
}

impl<R: Real, L: Lane> Kernel for Nearest<'_, R, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (lane, value) in self.lanes.iter_mut().zip(self.values) {
            *lane = L::truncate(self.scale.level(value.to_f64()));
        }
    }
}

/// Adds f random bits, the upper ones of 32, below the point and drops the fraction: so a level is rounded up
/// with exactly the probability of its fraction.
pub(crate) struct Stochastic<'a, R, L> {
    pub(crate) values: &'a [R],
    pub(crate) random: &'a [u32],
    pub(crate) scale: Scale,
    pub(crate) lanes: &'a mut [L],
}

impl<R: Real, L: Lane> Kernel for Stochastic<'_, R, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let fraction_bits = self.scale.fraction_bits;
        let unused_bits = RANDOM_BITS - fraction_bits;
        let inputs = self.values.iter().zip(self.random);
        for (lane, (value, random)) in self.lanes.iter_mut().zip(inputs) {
            let level = self.scale.level(value.to_f64());
            let below_point = u64::from(*random) >> unused_bits;
            *lane = L::truncate((level + below_point) >> fraction_bits);
        }
    }
}

/// Rounds value * unit to the nearest integer of 64 bits, ties to even.
pub(crate) struct Fixed<'a, R> {
    pub(crate) values: &'a [R],
    pub(crate) clip: f64,
    pub(crate) unit: f64,
    pub(crate) lanes: &'a mut [u64],
}

impl<R: Real> Kernel for Fixed<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        const TWO_32: f64 = (1_u64 << 32) as f64;
        for (lane, value) in self.lanes.iter_mut().zip(self.values) {
            let value = clamp(value.to_f64(), self.clip);
            let scaled = value * self.unit;
            // |scaled| < 2^63: the upper half first, rounded to nearest, then what remains of it, exactly.
            let high = scaled * (1.0 / TWO_32) + SIGNED_ROUND;
            let low = scaled - (high - SIGNED_ROUND) * TWO_32 + SIGNED_ROUND;
            let [high, low] =
                [high, low].map(|sum| sum.to_bits().wrapping_sub(SIGNED_ROUND.to_bits()));
            *lane = (high << 32).wrapping_add(low);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use blindsum_math::simd::run_on_all;

    /// The three loops on the same values, one output each.
    #[derive(Clone, Copy)]
    struct Loops<'a, R> {
        values: &'a [R],
        random: &'a [u32],
        clip: f64,
        top: u64,
    }

    #[derive(Debug, PartialEq)]
    struct Words {
        nearest: Vec<u32>,
        nearest_wide: Vec<u64>,
        stochastic: Vec<u32>,
        stochastic_wide: Vec<u64>,
        fixed: Vec<u64>,
    }

    impl<R: Real> Kernel for Loops<'_, R> {
        type Output = Words;

        #[inline(always)]
        fn run(self) -> Words {
            let Self {
                values,
                random,
                clip,
                top,
            } = self;
            let len = values.len();
            let mut words = Words {
                nearest: vec![0; len],
                nearest_wide: vec![0; len],
                stochastic: vec![0; len],
                stochastic_wide: vec![0; len],
                fixed: vec![0; len],
            };
            let scale = Scale::nearest(clip, top, 1.0);
            let lanes = &mut words.nearest[..];
            Nearest {
                values,
                scale,
                lanes,
            }
            .run();
            let lanes = &mut words.nearest_wide[..];
            Nearest {
                values,
                scale,
                lanes,
            }
            .run();
            let scale = Scale::stochastic(clip, top, 1.0);
            let lanes = &mut words.stochastic[..];
            Stochastic {
                values,
                random,
                scale,
                lanes,
            }
            .run();
            let lanes = &mut words.stochastic_wide[..];
            Stochastic {
                values,
                random,
                scale,
                lanes,
            }
            .run();
            let lanes = &mut words.fixed[..];
            Fixed {
                values,
                clip,
                unit: 3.0 * 65536.0,
                lanes,
            }
            .run();
            words
        }
    }

    /// The same from the definitions, with the rounding functions of the standard library.
    fn by_definition(value: f64, random: u32, clip: f64, top: u64) -> (u64, u64, u64) {
        let Scale { slope, half, .. } = Scale::nearest(clip, top, 1.0);
        let level = (value * slope + half).clamp(0.0, top as f64);
        let fits = |bits: &i32| u128::from(top) << bits < 1 << 52;
        let bits = (0..=32).rev().find(fits).unwrap();
        let fixed_level = (level * f64::powi(2.0, bits)).round_ties_even() as u128;
        let random = u128::from(random) * (1 << bits) / (1 << 32);
        let stochastic = (fixed_level + random) / (1 << bits);
        let fixed = (value.clamp(-clip, clip) * (3.0 * 65536.0)).round_ties_even() as i64;
        (
            level.round_ties_even() as u64,
            stochastic as u64,
            fixed as u64,
        )
    }

    fn check<R: Real>(values: &[R], random: &[u32], clip: f64, top: u64) {
        for words in run_on_all(|| Loops {
            values,
            random,
            clip,
            top,
        }) {
            for (i, value) in values.iter().enumerate() {
                let (nearest, stochastic, fixed) =
                    by_definition(value.to_f64(), random[i], clip, top);
                assert_eq!(words.nearest_wide[i], nearest, "nearest, lane {i}");
                assert_eq!(words.stochastic_wide[i], stochastic, "stochastic, lane {i}");
                assert_eq!(words.nearest[i], nearest as u32);
                assert_eq!(words.stochastic[i], stochastic as u32);
                assert_eq!(words.fixed[i], fixed, "fixed, lane {i}");
            }
        }
    }

    fn randoms(len: usize) -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)], len)
    }

    /// A last level, 2^q - 1 or 2^q - 2, times a weight, below 2^52.
    fn tops() -> impl Strategy<Value = u64> {
        (2..=32_u32, 0..=20_u32, any::<u32>(), 1..=2_u64).prop_map(
            |(bits, weight_bits, weight, less)| {
                let weight = 1 + (weight & ((1 << weight_bits) - 1));
                ((1 << bits) - less) * u64::from(weight)
            },
        )
    }

    proptest! {
        #[test]
        fn every_instruction_set_follows_the_definitions(
            values in prop::collection::vec(-1.5..1.5_f64, 70),
            random in randoms(70),
            clip in prop_oneof![Just(1.0), 1e-3..1e4_f64],
            top in tops(),
        ) {
            let values: Vec<f64> = values.iter().map(|x| x * clip).collect();
            check(&values, &random, clip, top);
            let single: Vec<f32> = values.iter().map(|&x| x as f32).collect();
            check(&single, &random, clip, top);
        }

        #[test]
        fn the_bounds_reach_the_first_and_the_last_level(
            clip in prop_oneof![1e-100..1e-99_f64, 1e-3..1e3_f64, 1e99..1e100_f64],
            top in tops(),
        ) {
            let scale = Scale::nearest(clip, top, 1.0);
            let finer = Scale::stochastic(clip, top, 1.0);
            for value in [clip, clip.next_up(), f64::MAX] {
                prop_assert_eq!(scale.level(value), top);
                prop_assert_eq!(finer.level(value), top << finer.fraction_bits);
                prop_assert_eq!(scale.level(-value), 0);
                prop_assert_eq!(finer.level(-value), 0);
            }
        }
    }

    #[test]
    fn fraction_bits_are_those_that_fit() {
        let bits = |top| Scale::stochastic(1.0, top, 1.0).fraction_bits;
        let largest = |bits: u32| (1_u64 << bits) - 1;
        let tops = [
            3,
            largest(16),
            largest(20),
            1 << 20,
            largest(32),
            largest(51),
            largest(52),
        ];
        assert_eq!(tops.map(bits), [32, 32, 32, 31, 20, 1, 0]);
    }

    #[test]
    fn fractions_at_their_limits() {
        // Levels just beside integers and halves, and what is too small to be one.
        let mut values = vec![
            0.0,
            -0.0,
            f64::from_bits(1),
            1e-310,
            f64::MIN_POSITIVE,
            f64::MAX,
            f64::MIN,
        ];
        for level in [1.0, 1.5, 2.0, 2.5, 7.0, 7.5, 15.0_f64] {
            let at = (level - 7.5) / 7.5;
            values.extend([at, at.next_up(), at.next_down(), -at]);
        }
        for random in [0, 1, 1 << 31, u32::MAX - 1, u32::MAX] {
            check(&values, &vec![random; values.len()], 1.0, 15);
        }
        // Words of fixed point around the border between the halves.
        let borders: Vec<f64> = [31, 32, 33, 40, 62]
            .iter()
            .flat_map(|&bit| [-1.0, -0.5, 0.0, 0.5, 1.0].map(|near| (bit, near)))
            .flat_map(|(bit, near)| [1.0, -1.0].map(|sign| sign * (f64::powi(2.0, bit) + near)))
            .map(|word| word / (3.0 * 65536.0))
            .collect();
        check(&borders, &vec![0; borders.len()], 3e13, 15);
    }
}
