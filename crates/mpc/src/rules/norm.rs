//! The sum of vectors that are shortened to a given norm where they are longer.
//!
//! How far a vector can move the sum is known exactly, however truncations round, with u = 2^-28 ([`clipped_norm`]):
//!
//! * Let s = 1/√m be the inverse root that is asked for, m = N / 4^i, and g = m·y + d at each step of Goldschmidt's. A
//!   truncation is less than u off, so at first |d| < 2u, and each step adds less than (1 + m)u and 2 % of it.
//! * A step makes s·f(a) − y(d·y/2 + θu) + θ'u of y = s·a, with |θ|, |θ'| < 1 and f(a) = a(3 − a²)/2. As f(a) ≤ 1 for all a ≥ 0,
//!   the last y is at most s + y(|d|·y/2 + u) + u < s + 5u, wherever the straight line began.
//! * So the weight of a vector that is too long is below clip/‖x‖ + (5·clip/2^i + 1)u < clip/‖x‖ + 11u, because clip < ‖x‖ <
//!   2^(i+1). That of a vector that is short enough is 1.
//! * Which way a truncation rounds follows from its value and from the number that is opened, which is drawn evenly whatever
//!   the value is. With all opened numbers fixed each weight is a function of its own vector. So a vector that becomes 0 moves
//!   the sum by its own weighted norm, and nothing else.

use std::sync::Arc;

use super::{Bounds, Weighed, places, room, within};
use crate::scalar::bits_of_inverse_root;
use crate::{FRACTION, Mpc, MpcError, Ring, Shares, Vectors, join};

/// Refuses what [`Mpc::clipped_mean`] cannot work with.
pub(super) fn check(clip: u64, bounds: Bounds, count: usize) -> Result<(), MpcError> {
    let good = clip > 0 && clip < 1 << bounds.exponent;
    within("clip", clip as usize, good, "1 <= clip < 2^I")?;
    room(clip.ilog2() + 1 + FRACTION, count)
}

/// Units by which a weight is above clip / ‖x‖ at most.
const WEIGHT_ABOVE: u64 = 11;

/// No vector with a norm up to `longest` moves the sum of [`Mpc::clipped_mean`] by a larger norm, before its last bits are
/// hidden: in units of 2^-[`FRACTION`]. `clip` and `longest` are below 2^34.
pub fn clipped_norm(clip: u64, longest: u64) -> u64 {
    // guard: weights-are-rounded-up-at-most-so-far
    (clip << FRACTION) + WEIGHT_ABOVE * longest
}

impl<R: Ring> Mpc<R> {
    /// The mean of min(1, clip / ‖x‖) · x. Weights have [`FRACTION`] bits behind the point, so that numbers are right up to
    /// 2^(I − 26) and a millionth of the clip: a clip should not be much shorter than the bound.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless clip is from 1 to 2^I − 1 and there is room for the sum.
    pub async fn clipped_mean(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        clip: u64,
    ) -> Result<Weighed<R>, MpcError> {
        check(clip, bounds, vectors.count())?;
        let weights = self.clipping(vectors, bounds, clip);
        let (weights, passed) = join(weights, self.passed(vectors, None, bounds)).await?;
        let (weights, kept) = (weights.at(places(&passed)), vectors.only(&passed));
        let count = kept.count();
        Ok(Weighed {
            sum: self.weighted(&weights, &Arc::new(kept)).await?,
            total: None,
            divisor: count.max(1) as f64 * f64::from(1 << FRACTION),
            even: FRACTION,
            passed,
            no_direction: None,
        })
    }

    /// min(1, clip / ‖x‖), with [`FRACTION`] bits behind the point.
    async fn clipping(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        clip: u64,
    ) -> Result<Shares<R>, MpcError> {
        let count = vectors.count();
        let mut bits = bits_of_inverse_root(count, bounds.exponent);
        bits.extend([(count, 1), (count, 64)]);
        let (norms, ()) = join(self.norms(vectors), self.make_ahead(bits)).await?;
        // The clip's square less the norm's is negative where a vector is too long.
        let room = norms
            .times(R::of_signed(-1))
            .plus_public(self.me, R::of(clip * clip));
        let too_long = async { self.to_numbers(&self.sign(&room, 64).await?).await };
        let inverse = self.inverse_root(&norms, bounds.exponent);
        let (too_long, inverse) = join(too_long, inverse).await?;
        // clip / 2^i for the one i with 2^i ≤ ‖x‖ < 2^(i+1); nothing where even 2^(i+1) is not longer than the clip.
        let factor = |i: usize| match clip < 2 << i {
            true => R::of((clip << FRACTION) >> i),
            false => R::ZERO,
        };
        let scaled = inverse.exponents.linear(|exponents| {
            let mut sums = vec![R::ZERO; count];
            for (i, exponents) in exponents.chunks(count.max(1)).enumerate() {
                for (sum, is_i) in sums.iter_mut().zip(exponents) {
                    *sum = sum.plus(is_i.times(factor(i)));
                }
            }
            sums
        });
        let one = R::of(1 << FRACTION);
        let shorter = self
            .multiply_truncate(&scaled, &inverse.root, FRACTION)
            .await?;
        let change = shorter.minus(&Shares::public(self.me, &vec![one; count]))?;
        let less = self.multiply(&too_long, &change).await?;
        Ok(less.plus_public(self.me, one))
    }
}
