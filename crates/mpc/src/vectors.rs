//! The parties' vectors, whose components stay modulo 2^64 whatever ring is computed in.

use std::fmt;

use crate::shares::same;
use crate::{MpcError, Ring, Shares};

/// Shares of the parties' vectors, one for each party, all of one length. In a ring larger than Z_2^64 each component
/// is taken as a number below 2^64; of a result only the low 64 bits then have a meaning.
pub struct Vectors {
    length: usize,
    /// A vector, of each party: this server's component, and the next one.
    rows: Vec<[Vec<u64>; 2]>,
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
        Ok(Self { length, rows })
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
        let [own, next] = &self.rows[row];
        own.iter()
            .zip(next)
            .map(|(own, next)| (R::of(*own), R::of(*next)))
    }

    /// The dot product of every vector with the same public numbers. No round.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if there are not as many numbers as in a vector.
    pub fn dot_public<R: Ring>(&self, numbers: &[R]) -> Result<Shares<R>, MpcError> {
        same(self.length, numbers.len())?;
        let dot = |part: usize| {
            let of_row = |row: &[Vec<u64>; 2]| {
                let products = row[part]
                    .iter()
                    .zip(numbers)
                    .map(|(x, it)| R::of(*x).times(*it));
                products.fold(R::ZERO, R::plus)
            };
            self.rows.iter().map(of_row).collect()
        };
        Shares::new(dot(0), dot(1))
    }

    /// The sum of all vectors. No round.
    pub fn sum<R: Ring>(&self) -> Shares<R> {
        let mut sum = Shares::<R>::zeros(self.length);
        for row in 0..self.count() {
            let to = sum.own.iter_mut().zip(&mut sum.next);
            for ((to_own, to_next), (own, next)) in to.zip(self.row::<R>(row)) {
                (*to_own, *to_next) = (to_own.plus(own), to_next.plus(next));
            }
        }
        sum
    }
}
