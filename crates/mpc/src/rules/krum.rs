//! Krum and Multi-Krum (Blanchard et al. 2017): the vectors that are nearest to their nearest others.

use std::sync::Arc;

use super::{Bounds, Weighed, room, within};
use crate::arithmetic::triangle;
use crate::{Mpc, MpcError, Ring, Shares, Vectors, join};

/// How many of n vectors are kept.
pub(super) fn kept_of(n: usize, bad: usize, keep: Option<usize>) -> usize {
    keep.unwrap_or(n.saturating_sub(bad))
}

/// Refuses what [`Mpc::krum`] cannot work with.
pub(super) fn check(
    (bad, keep): (usize, usize),
    bounds: Bounds,
    n: usize,
    verifies: bool,
) -> Result<(), MpcError> {
    let (most, rule) = match verifies {
        true => (48, "n <= 48 where servers verify"),
        false => (128, "n <= 128"),
    };
    within("n", n, n <= most, rule)?;
    within("f", bad, bad.saturating_add(3) <= n, "n >= f + 3")?;
    within("keep", keep, (1..=n).contains(&keep), "1 <= keep <= n")?;
    room(2 * bounds.exponent + 2, n)
}

impl<R: Ring> Mpc<R> {
    /// The mean of the `keep` vectors with the lowest scores, or of all but `bad` of those that pass the gate. The score of a vector is the sum of its squared distances
    /// to its n − f − 2 nearest others, where f = `bad` is the number of vectors that may be bad.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless n is at least f + 3 and at most 128, or 48 where servers verify, keep from 1 to n, and there is room for the scores.
    pub async fn krum(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        bad: usize,
        keep: Option<usize>,
    ) -> Result<Weighed<R>, MpcError> {
        let weights = self.nearest(vectors, bounds, bad, kept_of(vectors.count(), bad, keep));
        let (mut weights, passed) = join(weights, self.passed(vectors, None, bounds)).await?;
        let kept = Arc::new(vectors.only(&passed));
        let keep = kept_of(kept.count(), bad, keep);
        // There is no result of too few: whoever looks at `passed` knows.
        if kept.count() < bad.saturating_add(3) || kept.count() < keep {
            weights = Shares::zeros(kept.count());
            return self.kept_mean(&weights, &kept, keep, passed).await;
        }
        // Who is near to whom must not depend on who is left out.
        if kept.count() < vectors.count() {
            weights = self.nearest(&kept, bounds, bad, keep).await?;
        }
        self.kept_mean(&weights, &kept, keep, passed).await
    }

    /// The mean of those whose weight is 1.
    async fn kept_mean(
        &self,
        weights: &Shares<R>,
        kept: &Arc<Vectors>,
        keep: usize,
        passed: Vec<bool>,
    ) -> Result<Weighed<R>, MpcError> {
        Ok(Weighed {
            sum: self.weighted(weights, kept).await?,
            total: None,
            divisor: keep as f64,
            even: 0,
            passed,
            no_direction: None,
        })
    }

    /// 1 for the vectors that are kept, 0 for the others.
    pub(crate) async fn nearest(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        bad: usize,
        keep: usize,
    ) -> Result<Shares<R>, MpcError> {
        let n = vectors.count();
        check((bad, keep), bounds, n, self.ledger.is_kept())?;
        let mut bits = self.bits_of_smallest(n, n - 1);
        bits.extend(self.bits_of_smallest(1, n));
        let ahead = self.make_ahead(bits);
        let (gram, ()) = join(self.gram(vectors), ahead).await?;
        let place = |row: usize, other: usize| triangle(n, row.min(other), row.max(other));
        // The distances of each vector to all others, one vector after the other.
        let pairs = || {
            (0..n).flat_map(move |row| {
                (0..n)
                    .filter(move |other| *other != row)
                    .map(move |other| (row, other))
            })
        };
        let norms = |pick: fn((usize, usize)) -> usize| -> Vec<usize> {
            pairs().map(pick).map(|row| place(row, row)).collect()
        };
        let both = gram
            .at(norms(|pair| pair.0))
            .plus(&gram.at(norms(|pair| pair.1)))?;
        let products: Vec<usize> = pairs().map(|(row, other)| place(row, other)).collect();
        let distances = both.minus(&gram.at(products).times(R::of(2)))?;
        let nearest = self.smallest(&distances, n - 1, n - bad - 2).await?;
        let scores = self.dot(&nearest, &distances, n - 1).await?;
        self.smallest(&scores, n, keep).await
    }
}
