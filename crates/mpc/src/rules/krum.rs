//! Krum and Multi-Krum (Blanchard et al. 2017): the vectors that are nearest to their nearest others.

use std::sync::Arc;

use super::{Bounds, Weighed, room, within};
use crate::arithmetic::triangle;
use crate::select::bits_of_smallest;
use crate::{Mpc, MpcError, Ring, Vectors, join};

impl<R: Ring> Mpc<R> {
    /// The mean of the `keep` vectors with the lowest scores. The score of a vector is the sum of its squared distances
    /// to its n − f − 2 nearest others, where f = `bad` is the number of vectors that may be bad.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless n is at least f + 3, keep from 1 to n, and there is room for the scores.
    pub async fn krum(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        bad: usize,
        keep: usize,
    ) -> Result<Weighed<R>, MpcError> {
        let n = vectors.count();
        within("f", bad, bad.saturating_add(3) <= n, "n >= f + 3")?;
        within("keep", keep, (1..=n).contains(&keep), "1 <= keep <= n")?;
        room(2 * bounds.exponent + 2, n)?;
        let bits = [bits_of_smallest(n, n - 1), bits_of_smallest(1, n)];
        let ahead = self.make_ahead(bits.into_iter().flatten());
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
        let kept = self.smallest(&scores, n, keep).await?;
        let sum = self.weighted(&kept, vectors).await?;
        Ok(Weighed::over(sum, keep as f64))
    }
}
