//! Vectors that point in the direction of another one count less. This is FoolsGold (Fung et al. 2020), against one
//! attacker with many parties, without its history of updates, its pardoning and its logit curve.

use std::sync::Arc;

use super::{Bounds, Weighed, room};
use crate::arithmetic::triangle;
use crate::scalar::bits_of_inverse_root;
use crate::{FRACTION, Mpc, MpcError, Ring, Shares, Vectors, join};

/// 2^-24, with [`FRACTION`] bits behind the point.
const MARGIN: u64 = 1 << (FRACTION - 24);

/// Refuses what [`Mpc::unlike`] cannot work with.
pub(super) fn check(bounds: Bounds, count: usize) -> Result<(), MpcError> {
    room(FRACTION + bounds.exponent, count)
}

impl<R: Ring> Mpc<R> {
    /// Σ w_c x_c over Σ w_c, with w_c = 1 − max(0, the largest cosine of x_c and another vector).
    ///
    /// # Errors
    /// [`MpcError::Range`] if there is no room for the sum.
    pub async fn unlike(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
    ) -> Result<Weighed<R>, MpcError> {
        check(bounds, vectors.count())?;
        let weights = self.unlikeness(vectors, bounds);
        let (mut weights, passed) = join(weights, self.passed(vectors, None, bounds)).await?;
        let kept = Arc::new(vectors.only(&passed));
        // What the others are worth must not depend on who is left out.
        if kept.count() < vectors.count() {
            weights = self.unlikeness(&kept, bounds).await?;
        }
        Ok(Weighed {
            sum: self.weighted(&weights, &kept).await?,
            total: Some(weights.sums(kept.count())),
            divisor: f64::from(1 << FRACTION),
            // guard: last-bits-of-cosine
            even: FRACTION,
            passed,
            no_direction: None,
        })
    }

    /// 1 − max(0, the largest cosine), with [`FRACTION`] bits behind the point.
    pub(crate) async fn unlikeness(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
    ) -> Result<Shares<R>, MpcError> {
        let (n, exponent) = (vectors.count(), bounds.exponent);
        let mut bits = bits_of_inverse_root(n, exponent);
        bits.extend([(n * n.saturating_sub(1) / 2, 64); 3]);
        // Candidates for the largest cosine are halved until one is left.
        let mut candidates = n;
        while candidates > 1 {
            bits.push((n * (candidates / 2), 1));
            candidates = candidates.div_ceil(2);
        }
        let (gram, ()) = join(self.gram(vectors), self.make_ahead(bits)).await?;
        let norms = gram.at((0..n).map(|row| triangle(n, row, row)));
        let inverse = self.inverse_root(&norms, exponent).await?;
        // Each pair once; the cosine is the same both ways.
        let pairs = || (0..n).flat_map(move |row| (row + 1..n).map(move |other| (row, other)));
        let of = |pick: fn((usize, usize)) -> usize| pairs().map(pick).collect::<Vec<usize>>();
        let (first, second) = (of(|pair| pair.0), of(|pair| pair.1));
        let products: Vec<usize> = pairs()
            .map(|(row, other)| triangle(n, row, other))
            .collect();
        let scale = &inverse.scale;
        let scaled = self
            .multiply(&gram.at(products), &scale.at(first.clone()))
            .await?;
        let shift = 2 * exponent - FRACTION;
        let scaled = self
            .multiply_truncate(&scaled, &scale.at(second.clone()), shift)
            .await?;
        let root = &inverse.root;
        let scaled = self
            .multiply_truncate(&scaled, &root.at(first), FRACTION)
            .await?;
        let cosines = self
            .multiply_truncate(&scaled, &root.at(second), FRACTION)
            .await?;
        let largest = self.largest(&cosines, n).await?;
        // A little more than 1: the cosine of equal vectors may come out above 1, and no weight may be below 0.
        let one = R::of((1 << FRACTION) + MARGIN);
        Ok(largest.times(R::of_signed(-1)).plus_public(self.me, one))
    }

    /// For each vector the largest of its cosines with the others and 0.
    async fn largest(&self, cosines: &Shares<R>, n: usize) -> Result<Shares<R>, MpcError> {
        let place = |row: usize, other: usize| {
            let (row, other) = (row.min(other), row.max(other));
            triangle(n, row, other) - row - 1
        };
        // The i-th row of candidates has one for each vector: first 0, then the cosine with the i-th other.
        let mut rows = vec![Shares::zeros(n)];
        for step in 1..n {
            rows.push(cosines.at((0..n).map(|row| place(row, (row + step) % n))));
        }
        while rows.len() > 1 {
            let odd = if rows.len() % 2 == 1 {
                rows.pop()
            } else {
                None
            };
            let upper = rows.split_off(rows.len() / 2);
            let (a, b) = (concat(&rows), concat(&upper));
            let difference = a.minus(&b)?;
            let is_more = self.sign(&difference, 64).await?.not(self.me);
            let more = self
                .multiply(&self.to_numbers(&is_more).await?, &difference)
                .await?;
            let mut rest = b.plus(&more)?;
            rows = Vec::new();
            while rest.len() > n {
                let (row, behind) = rest.split_at(n);
                rows.push(row);
                rest = behind;
            }
            rows.push(rest);
            rows.extend(odd);
        }
        Ok(rows.pop().unwrap_or_else(|| Shares::zeros(n)))
    }
}

fn concat<R: Ring>(rows: &[Shares<R>]) -> Shares<R> {
    Shares::concat(&rows.iter().collect::<Vec<_>>())
}
