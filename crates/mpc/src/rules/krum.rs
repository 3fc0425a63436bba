//! Krum and Multi-Krum (Blanchard et al. 2017): the vectors that are nearest to their nearest others.

use std::sync::Arc;

use super::{Bounds, Weighed, room, within};
use crate::arithmetic::triangle;
use crate::{Mpc, MpcError, Ring, Shares, Vectors, join};

impl<R: Ring> Mpc<R> {
    /// The mean of the `keep` vectors with the lowest scores. The score of a vector is the sum of its squared distances
    /// to its n − f − 2 nearest others, where f = `bad` is the number of vectors that may be bad.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless n is at least f + 3 and at most 128, or 48 where servers verify, keep from 1 to n, and there is room for the scores.
    pub async fn krum(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        bad: usize,
        keep: usize,
    ) -> Result<Weighed<R>, MpcError> {
        let weights = self.nearest(vectors, bounds, bad, keep);
        let (mut weights, passed) = join(weights, self.passed(vectors, bounds)).await?;
        let kept = Arc::new(vectors.only(&passed));
        // Who is near to whom must not depend on who is left out.
        if kept.count() < vectors.count() {
            weights = self.nearest(&kept, bounds, bad, keep).await?;
        }
        Ok(Weighed {
            sum: self.weighted(&weights, &kept).await?,
            total: None,
            divisor: keep as f64,
            passed,
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
        let (most, rule) = match self.ledger.is_kept() {
            true => (48, "n <= 48 where servers verify"),
            false => (128, "n <= 128"),
        };
        within("n", n, n <= most, rule)?;
        within("f", bad, bad.saturating_add(3) <= n, "n >= f + 3")?;
        within("keep", keep, (1..=n).contains(&keep), "1 <= keep <= n")?;
        room(2 * bounds.exponent + 2, n)?;
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
