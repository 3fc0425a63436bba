//! The median and the trimmed mean of each coordinate: vectors are sorted, coordinate by coordinate, without anybody
//! knowing the order.

use super::{Weighed, room, within};
use crate::sort::network;
use crate::{Mpc, MpcError, Ring, Shares, Vectors, join, join_all};

/// How many values are left out at each end of n for the median.
pub(super) fn halves(n: usize) -> Result<usize, MpcError> {
    within("n", n, n > 0, "n >= 1")?;
    Ok((n - 1) / 2)
}

/// Refuses what [`Mpc::trimmed_mean`] cannot work with.
pub(super) fn check(bits: usize, trim: usize, n: usize) -> Result<(), MpcError> {
    within("bits", bits, (2..=62).contains(&bits), "2 <= bits <= 62")?;
    let good = trim.saturating_mul(2) < n;
    within("trim", trim, good, "2 * trim < n")?;
    room(bits as u32 - 1, n - 2 * trim)
}

impl<R: Ring> Mpc<R> {
    /// The median of each coordinate; of an even number of vectors, the mean of the middle two. Coordinates have `bits`
    /// bits: they are from −2^(bits−1) to 2^(bits−1) − 1, and others are taken modulo 2^bits.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless bits is from 2 to 62 and there is a vector.
    pub async fn median(&self, vectors: &Vectors, bits: usize) -> Result<Weighed<R>, MpcError> {
        self.middle(vectors, bits, halves(vectors.count())?).await
    }

    /// The mean of each coordinate without its `trim` smallest and largest values.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless bits is from 2 to 62, something is left, and there is room for its sum.
    pub async fn trimmed_mean(
        &self,
        vectors: &Vectors,
        bits: usize,
        trim: usize,
    ) -> Result<Weighed<R>, MpcError> {
        self.middle(vectors, bits, trim).await
    }

    /// The mean of the values that are not among the `trim` first or last ones.
    async fn middle(
        &self,
        vectors: &Vectors,
        bits: usize,
        trim: usize,
    ) -> Result<Weighed<R>, MpcError> {
        let (n, length) = (vectors.count(), vectors.length());
        check(bits, trim, n)?;
        // Above 0, so that they are in the order of their bits.
        let half = 1 << (bits - 1);
        let shifted: Vec<Shares<R>> = (0..n)
            .map(|row| {
                let (own, next) = vectors.row::<R>(row).unzip();
                Shares::of(own, next).plus_public(self.me, R::of(half))
            })
            .collect();
        let taken = join_all(shifted.iter().map(|it| self.to_bits(it, bits)));
        let ahead = self.make_ahead((trim..n - trim).map(|_| (length, bits)));
        let (mut rows, ()) = join(taken, ahead).await?;
        for layer in network(n) {
            let pairs = layer
                .iter()
                .map(|(a, b)| self.ordered(&rows[*a], &rows[*b]));
            let sorted = join_all(pairs).await?;
            for ((a, b), (less, more)) in layer.into_iter().zip(sorted) {
                (rows[a], rows[b]) = (less, more);
            }
        }
        let kept = &rows[trim..n - trim];
        let numbers = join_all(kept.iter().map(|row| self.to_numbers(row))).await?;
        let mut sum = Shares::zeros(length);
        for numbers in &numbers {
            let value = numbers.linear(|all| {
                let mut values = vec![R::ZERO; length];
                for (bit, numbers) in all.chunks(length.max(1)).enumerate() {
                    for (value, number) in values.iter_mut().zip(numbers) {
                        *value = value.plus(number.times(R::of(1 << bit)));
                    }
                }
                values
            });
            sum = sum
                .plus(&value)?
                .plus_public(self.me, R::of_signed(-(half as i64)));
        }
        Ok(Weighed {
            sum,
            total: None,
            divisor: kept.len() as f64,
            even: 0,
            passed: vec![true; n],
            no_direction: None,
        })
    }
}
