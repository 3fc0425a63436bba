//! Tables of cumulative probabilities: the size of a number is the count of cuts that are not above a random number.
//!
//! A distribution that is symmetric about 0 needs half of its numbers: the size is drawn, P[0] as it is and all others
//! twice, and then a sign. Sign and size are independent, and −0 is 0, so nothing is drawn again.

use crypto_bigint::U512;

use super::Variance;
use super::fixed::{exp_neg, one, product, quotient};

/// Standard deviations that tables reach: less than 2^-139 lies beyond.
const TAIL: u64 = 14;

/// Where the weights of Skellam's distribution begin, far from 0, and where they are scaled down on their way to 0.
const SMALLEST_WEIGHT_BITS: u32 = 100;
const LARGEST_WEIGHT_BITS: u32 = 360;
const SCALED_DOWN_BITS: u32 = 128;

/// Keys that a word is compared with at a time: each word is loaded once for them.
pub(super) const KEYS: usize = 8;

/// The cuts of a distribution.
pub(super) struct Table {
    /// ⌊2^128 · P[|X| <= i]⌋ for i from 0, upper half and lower half, ascending, all below 2^128 − 1.
    pub(super) high: Vec<u64>,
    pub(super) low: Vec<u64>,
    /// The first pass: the upper 32 − `index_bits` bits of a cut, and the number of cuts up to this one that share them or
    /// are lower, in the last `index_bits` bits. One entry for cuts that share all of their upper bits, and the last one again up to a
    /// multiple of [`KEYS`].
    pub(super) first_pass: Vec<u32>,
    pub(super) index_bits: u32,
}

impl Table {
    /// The discrete Gaussian distribution of a variance v: weights e^(−k²/2v).
    pub(super) fn gaussian(variance: Variance) -> Self {
        let Variance {
            numerator: a,
            denominator: b,
        } = variance;
        let reach = TAIL * (variance.floor().isqrt() + 1);
        // w_{k+1} = w_k · e^(−(2k+1)/2v), and each of these ratios is the one before times e^(−1/v).
        let step = exp_neg(b, a);
        let mut ratio = exp_neg(b, 2 * a);
        let mut weights = vec![one()];
        let mut weight = one();
        for _ in 0..reach {
            weight = product(&weight, &ratio);
            ratio = product(&ratio, &step);
            weights.push(weight);
        }
        Self::of_weights(&weights)
    }

    /// The difference of two Poisson variables of mean v/2 each (Skellam): weights I_k(v), the modified Bessel functions, by
    /// I_{k−1} = I_{k+1} + 2k/v · I_k downwards, where all terms are above 0 and errors die out (Miller).
    pub(super) fn skellam(variance: Variance) -> Self {
        let Variance {
            numerator: a,
            denominator: b,
        } = variance;
        // Tails of Poisson variables are heavier: six more numbers.
        let reach = TAIL * (variance.floor().isqrt() + 6);
        let divisor = U512::from_u64(a);
        let (mut after, mut weight) = (U512::ZERO, U512::ONE.shl_vartime(SMALLEST_WEIGHT_BITS));
        let mut weights = vec![weight];
        for k in (1..=reach).rev() {
            let factor = U512::from_u64(2 * k * b);
            let before = after.wrapping_add(&quotient(&weight.wrapping_mul(&factor), &divisor));
            (after, weight) = (weight, before);
            weights.push(weight);
            if weight.bits_vartime() > LARGEST_WEIGHT_BITS {
                for weight in &mut weights {
                    *weight = weight.shr_vartime(SCALED_DOWN_BITS);
                }
                after = after.shr_vartime(SCALED_DOWN_BITS);
                weight = weight.shr_vartime(SCALED_DOWN_BITS);
            }
        }
        weights.reverse();
        Self::of_weights(&weights)
    }

    /// Of the weights of 0, 1, 2 and so on, which are those of −1, −2 and so on as well.
    fn of_weights(weights: &[U512]) -> Self {
        let double = |weight: &U512| weight.shl_vartime(1);
        let both_sides = weights[1..].iter().map(double);
        let total = both_sides
            .clone()
            .fold(weights[0], |a, b| a.wrapping_add(&b));
        let end = U512::from_u128(u128::MAX);
        let mut below = weights[0];
        let mut cuts = Vec::new();
        for weight in both_sides {
            let cut = quotient(&below.shl_vartime(128), &total);
            if cut >= end {
                break;
            }
            let [low, high, ..] = cut.to_words();
            cuts.push((high, low));
            below = below.wrapping_add(&weight);
        }
        let (index_bits, first_pass) = first_pass(&cuts);
        let (high, low) = cuts.into_iter().unzip();
        Self {
            high,
            low,
            first_pass,
            index_bits,
        }
    }

    /// Bytes of its numbers.
    pub(super) fn bytes(&self) -> usize {
        16 * self.high.len() + 4 * self.first_pass.len()
    }
}

/// The keys of the first pass, with as few bits for the index as will do.
fn first_pass(cuts: &[(u64, u64)]) -> (u32, Vec<u32>) {
    let mut index_bits = 1;
    loop {
        let upper = |high: u64| (high >> 32) as u32 >> index_bits;
        let mut keys: Vec<u32> = Vec::new();
        let mut largest_index = 0;
        for (place, &(high, _)) in cuts.iter().enumerate() {
            let (upper, index) = (upper(high), place as u32 + 1);
            if keys.last().is_some_and(|key| key >> index_bits == upper) {
                keys.pop();
            }
            // A number that shares all ones with the last cut is settled by the second pass: no index needs to be right.
            if upper < u32::MAX >> index_bits {
                largest_index = index;
            }
            keys.push(upper << index_bits | index & ((1 << index_bits) - 1));
        }
        if largest_index >> index_bits == 0 {
            let last = keys.last().copied().unwrap_or(0);
            keys.resize(keys.len().next_multiple_of(KEYS), last);
            return (index_bits, keys);
        }
        index_bits += 1;
    }
}
