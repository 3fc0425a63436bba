//! Products of shared values, and opening what is masked.

use std::sync::Arc;

use crate::gram::dots;
use crate::ledger::Relation;
use crate::ring::TILE;
use crate::shares::same;
use crate::vectors::lifted;
use crate::{Mpc, MpcError, Ring, Shares, Vectors};

/// This server's part of each product: the parts of all three add up to it.
pub(crate) fn products<R: Ring>(x: &Shares<R>, y: &Shares<R>) -> impl Iterator<Item = R> {
    x.pairs().zip(y.pairs()).map(|(x, y)| product(x, y))
}

pub(crate) fn product<R: Ring>((x_own, x_next): (R, R), (y_own, y_next): (R, R)) -> R {
    x_own.times(y_own.plus(y_next)).plus(x_next.times(y_own))
}

pub(crate) fn sum<R: Ring>(values: impl Iterator<Item = R>) -> R {
    values.fold(R::ZERO, R::plus)
}

impl<R: Ring> Mpc<R> {
    /// x · y for each pair of values. One round; an element for each pair.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if x and y are not of one length.
    pub async fn multiply(&self, x: &Shares<R>, y: &Shares<R>) -> Result<Shares<R>, MpcError> {
        self.dot(x, y, 1).await
    }

    /// Cuts x and y into runs of `length` values and gives the dot product of each run of x with the same run of y. One
    /// round; an element for each dot product, however long it is.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if x and y are not of one length, or this is no multiple of `length`.
    pub async fn dot(
        &self,
        x: &Shares<R>,
        y: &Shares<R>,
        length: usize,
    ) -> Result<Shares<R>, MpcError> {
        same(x.len(), y.len())?;
        if length == 0 || !x.len().is_multiple_of(length) {
            let rule = "a multiple of the length of a dot product, which is the second number,";
            let (left, right) = (x.len(), length);
            return Err(MpcError::Shape { left, right, rule });
        }
        let mut products = products(x, y);
        let dot = |_| sum(products.by_ref().take(length));
        let parts = (0..x.len() / length).map(dot).collect();
        let z = self.reshare(parts).await?;
        self.ledger.add(|| Relation::Dots {
            x: x.clone(),
            y: y.clone(),
            length,
            z: z.clone(),
        });
        Ok(z)
    }

    /// Σ weight_c · vector_c: a weighted sum of vectors, with one weight for each. One round; an element for each
    /// coordinate.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if there are not as many weights as vectors.
    pub async fn weighted(
        &self,
        weights: &Shares<R>,
        vectors: &Arc<Vectors>,
    ) -> Result<Shares<R>, MpcError> {
        same(weights.len(), vectors.count())?;
        let mut parts = vec![R::ZERO; vectors.length()];
        for (tile, parts) in parts.chunks_mut(TILE).enumerate() {
            for (row, (own, next)) in weights.pairs().enumerate() {
                let both = own.plus(next);
                for (part, (x_own, x_next)) in parts.iter_mut().zip(lifted::<R>(vectors, row, tile))
                {
                    let sum = part.plus(x_own.times(both));
                    *part = sum.plus(x_next.times(own));
                }
            }
        }
        let z = self.reshare(parts).await?;
        self.ledger.add(|| Relation::Weighted {
            weights: weights.clone(),
            vectors: vectors.clone(),
            z: z.clone(),
        });
        Ok(z)
    }

    /// The squared norm of each vector. One round; an element for each vector. Servers that verify compute all dot
    /// products of the vectors with each other: verifying these costs as much as verifying the norms alone.
    ///
    /// # Errors
    /// Only [`MpcError::Differs`].
    pub async fn norms(&self, vectors: &Arc<Vectors>) -> Result<Shares<R>, MpcError> {
        let pairs = (0..vectors.count()).map(|row| (row, row));
        self.gram_at(vectors, pairs.collect()).await
    }

    /// Some of the dot products of the vectors with each other. One round; an element for each, or for all dot products
    /// where servers verify.
    pub(crate) async fn gram_at(
        &self,
        vectors: &Arc<Vectors>,
        pairs: Vec<(usize, usize)>,
    ) -> Result<Shares<R>, MpcError> {
        if !self.ledger.is_kept() {
            return self.reshare(dots(vectors, &pairs)).await;
        }
        let count = vectors.count();
        let gram = self.gram(vectors).await?;
        let places = pairs
            .iter()
            .map(|(row, other)| triangle(count, *row.min(other), *row.max(other)));
        Ok(gram.at(places))
    }

    /// All dot products of the vectors with each other: (0,0), (0,1) … (0,n−1), (1,1) … (n−1,n−1). One round;
    /// n(n+1)/2 elements, however long vectors are.
    ///
    /// # Errors
    /// Only [`MpcError::Differs`].
    pub async fn gram(&self, vectors: &Arc<Vectors>) -> Result<Shares<R>, MpcError> {
        let rows = vectors.count();
        let pairs = (0..rows).flat_map(|row| (row..rows).map(move |other| (row, other)));
        let parts = dots(vectors, &pairs.collect::<Vec<_>>());
        let z = self.reshare(parts).await?;
        self.ledger.add(|| Relation::Gram {
            vectors: vectors.clone(),
            z: z.clone(),
        });
        Ok(z)
    }

    /// Shows masked values modulo 2^64 to all three servers. One round; 8 bytes for each value.
    pub(crate) async fn open_low(&self, x: &Shares<R>) -> Result<Vec<u64>, MpcError> {
        let low = |values: &[R]| values.iter().map(|it| it.low()).collect::<Vec<u64>>();
        let mut to_next = Vec::new();
        u64::write(&low(&x.own), &mut to_next);
        let from_previous = self.pass_on(to_next).await?;
        let missing = u64::read(&from_previous);
        let known = x.pairs().zip(missing);
        let value = |((own, next), missing): ((R, R), u64)| own.plus(next).low().plus(missing);
        let values: Vec<u64> = known.map(value).collect();
        self.see(&values);
        Ok(values)
    }

    /// Writes down what was opened, in the ring that it was opened in.
    pub(crate) fn see<S: Ring>(&self, opened: &[S]) {
        let mut bytes = Vec::new();
        S::write(opened, &mut bytes);
        self.see_bytes(&bytes);
    }

    pub(crate) fn see_bytes(&self, opened: &[u8]) {
        if let Some(seen) = self.ledger.see(opened) {
            self.line.set_mark(seen);
        }
    }
}

/// Where the dot product of two of `count` vectors is among all of them, the first one not behind the second.
pub(crate) fn triangle(count: usize, row: usize, other: usize) -> usize {
    row * count - row * row.saturating_sub(1) / 2 + other - row
}
