//! The sum of vectors that are shortened to a given norm where they are longer.

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
