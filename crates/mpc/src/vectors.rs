//! The parties' vectors, whose components stay modulo 2^64 whatever ring is computed in.

use std::fmt;
use std::sync::Arc;

use crate::ring::TILE;
use crate::shares::same;
use crate::{MpcError, Ring, Shares};

/// Shares of the parties' vectors, one for each party, all of one length. In a ring larger than Z_2^64 each component
/// is taken as a number below 2^64; of a result only the low 64 bits then have a meaning.
pub struct Vectors {
    length: usize,
    /// A vector, of each party: this server's component, and the next one.
    rows: Vec<Arc<[Vec<u64>; 2]>>,
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} vectors of {} numbers", self.rows.len(), self.length)
    }
}

impl Vectors {
    /// Vectors with these two components each.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if they are not of one length.
    pub fn new(rows: Vec<[Vec<u64>; 2]>) -> Result<Self, MpcError> {
        let length = rows.first().map_or(0, |[own, _]| own.len());
        for [own, next] in &rows {
            same(length, own.len())?;
            same(length, next.len())?;
        }
        let rows = rows.into_iter().map(Arc::new).collect();
        Ok(Self { length, rows })
    }

    /// These and others behind them, as they are in memory.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if they are not of one length.
    pub(crate) fn and(&self, others: &Self) -> Result<Self, MpcError> {
        same(self.length, others.length)?;
        Ok(Self {
            length: self.length,
            rows: self.rows.iter().chain(&others.rows).cloned().collect(),
        })
    }

    /// Those that are kept, as they are in memory.
    pub fn only(&self, kept: &[bool]) -> Self {
        let rows = self.rows.iter().zip(kept).filter(|(_, kept)| **kept);
        Self {
            length: self.length,
            rows: rows.map(|(row, _)| row.clone()).collect(),
        }
    }

    /// Number of vectors.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Numbers in each.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The components of one vector's numbers, in a ring.
    pub(crate) fn row<R: Ring>(&self, row: usize) -> impl Iterator<Item = (R, R)> {
        let [own, next] = &*self.rows[row];
        own.iter()
            .zip(next)
            .map(|(own, next)| (R::of(*own), R::of(*next)))
    }

    /// One component of one vector's numbers: this server's own, or the next one.
    pub(crate) fn component(&self, row: usize, part: usize) -> &[u64] {
        &self.rows[row][part]
    }

    /// The dot product of every vector with the same public numbers. No round.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if there are not as many numbers as in a vector.
    pub fn dot_public<R: Ring>(&self, numbers: &[R]) -> Result<Shares<R>, MpcError> {
        same(self.length, numbers.len())?;
        let dot = |part: usize| {
            let of_row = |row| {
                let component = self.component(row, part).iter().zip(numbers);
                component.fold(R::ZERO, |sum, (x, it)| sum.plus(R::of(*x).times(*it)))
            };
            (0..self.count()).map(of_row).collect()
        };
        Shares::new(dot(0), dot(1))
    }

    /// The sum of all vectors. No round.
    pub fn sum<R: Ring>(&self) -> Shares<R> {
        let sum = |part: usize| {
            let mut sum = vec![R::ZERO; self.length];
            for row in 0..self.count() {
                for (sum, x) in sum.iter_mut().zip(self.component(row, part)) {
                    *sum = sum.plus(R::of(*x));
                }
            }
            sum
        };
        Shares::of(sum(0), sum(1))
    }
}

/// A tile of one vector, both components in a ring.
pub(crate) fn lifted<R: Ring>(
    vectors: &Vectors,
    row: usize,
    tile: usize,
) -> impl Iterator<Item = (R, R)> {
    let of = |part| tile_of(vectors.component(row, part), tile);
    of(0)
        .iter()
        .zip(of(1))
        .map(|(own, next)| (R::of(*own), R::of(*next)))
}

/// A tile of a long vector; the last one may be shorter.
pub(crate) fn tile_of<T>(all: &[T], tile: usize) -> &[T] {
    all.chunks(TILE).nth(tile).unwrap_or_default()
}
