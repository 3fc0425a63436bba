//! Shared bits, many numbers side by side: all lowest bits in one row, then all second ones, and so on. One instruction
//! works on the bits of 64 numbers.

use std::fmt;
use std::sync::Arc;

use crate::shares::same;
use crate::{MpcError, Ring, ServerIndex, Shares};

/// What one server holds of rows of shared bits: the exclusive or of three components, of which it has two.
/// A clone is the same bits in memory.
#[derive(Clone, PartialEq)]
pub struct Bits {
    /// Bits of a row.
    width: usize,
    rows: usize,
    pub(crate) own: Arc<Vec<u64>>,
    pub(crate) next: Arc<Vec<u64>>,
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bits, {} rows of {}", self.rows, self.width)
    }
}

impl Bits {
    /// Rows of so many bits each, with these components; bits behind the end of a row must be 0.
    pub(crate) fn new(width: usize, own: Vec<u64>, next: Vec<u64>) -> Self {
        let rows = own.len().checked_div(width.div_ceil(64)).unwrap_or(0);
        Self {
            width,
            rows,
            own: Arc::new(own),
            next: Arc::new(next),
        }
    }

    /// Rows of zeros.
    pub fn zeros(width: usize, rows: usize) -> Self {
        let words = vec![0; width.div_ceil(64) * rows];
        Self::new(width, words.clone(), words)
    }

    /// Bits of a row: how many numbers there are.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows: how many bits a number has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The two components of each word.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.own.iter().copied().zip(self.next.iter().copied())
    }

    /// Words of a row.
    pub(crate) fn words(&self) -> usize {
        self.width.div_ceil(64)
    }

    /// The `rows` lowest bits of each component: shares of the exclusive or of all three.
    pub(crate) fn of_components<R: Ring>(x: &Shares<R>, rows: usize) -> Self {
        Self::new(x.len(), transposed(&x.own, rows), transposed(&x.next, rows))
    }

    /// Zeros in place of a component, unless it is kept.
    pub(crate) fn only(&self, keep: [bool; 2]) -> Self {
        let part = |words: &[u64], keep: bool| match keep {
            true => words.to_vec(),
            false => vec![0; words.len()],
        };
        Self::new(
            self.width,
            part(&self.own, keep[0]),
            part(&self.next, keep[1]),
        )
    }

    /// Exclusive or.
    pub(crate) fn xor(&self, other: &Self) -> Self {
        let zip = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a ^ b).collect();
        Self::new(
            self.width,
            zip(&self.own, &other.own),
            zip(&self.next, &other.next),
        )
    }

    /// Every bit inverted.
    pub fn not(&self, me: ServerIndex) -> Self {
        let ones = ones(self.width);
        let flip = |words: &[u64], here: bool| {
            let ones = ones.iter().cycle();
            let bits = words.iter().zip(ones);
            bits.map(|(word, ones)| if here { word ^ ones } else { *word })
                .collect()
        };
        let own = flip(&self.own, me.number() == 0);
        Self::new(self.width, own, flip(&self.next, me.number() == 2))
    }

    /// AND with public bits.
    pub(crate) fn and_public(&self, public: &[u64]) -> Self {
        let and = |words: &[u64]| words.iter().zip(public).map(|(a, b)| a & b).collect();
        Self::new(self.width, and(&self.own), and(&self.next))
    }

    /// Exclusive or with public bits.
    pub(crate) fn xor_public(&self, me: ServerIndex, public: &[u64]) -> Self {
        let xor = |words: &[u64], here: bool| {
            let each = words.iter().zip(public);
            each.map(|(word, public)| if here { word ^ public } else { *word })
                .collect()
        };
        let own = xor(&self.own, me.number() == 0);
        Self::new(self.width, own, xor(&self.next, me.number() == 2))
    }

    /// These rows.
    ///
    /// # Panics
    /// If one is not there.
    pub(crate) fn select(&self, rows: impl IntoIterator<Item = usize> + Clone) -> Self {
        let words = self.words();
        let take = |all: &[u64], rows: &mut dyn Iterator<Item = usize>| {
            rows.flat_map(|row| all[row * words..(row + 1) * words].iter().copied())
                .collect()
        };
        let own = take(&self.own, &mut rows.clone().into_iter());
        Self::new(self.width, own, take(&self.next, &mut rows.into_iter()))
    }

    /// Each row cut in rows of this width, which divides its own.
    pub(crate) fn in_rows(&self, width: usize) -> Self {
        let pieces = self.width.checked_div(width).unwrap_or(0);
        let cut = |all: &[u64]| {
            let words = width.div_ceil(64);
            let mut cut = vec![0; words * pieces * self.rows];
            for (number, row) in all.chunks(self.words().max(1)).enumerate() {
                for place in 0..width * pieces {
                    let bit = row[place / 64] >> (place % 64) & 1;
                    let (piece, column) = (number * pieces + place / width, place % width);
                    cut[piece * words + column / 64] |= bit << (column % 64);
                }
            }
            cut
        };
        Self::new(width, cut(&self.own), cut(&self.next))
    }

    /// Rows below each other.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if rows are not of one width.
    pub(crate) fn stack(parts: &[&Self]) -> Result<Self, MpcError> {
        let width = parts.first().map_or(0, |part| part.width);
        for part in parts {
            same(width, part.width)?;
        }
        let own = parts.iter().flat_map(|part| part.own.iter().copied());
        let next = parts.iter().flat_map(|part| part.next.iter().copied());
        Ok(Self::new(width, own.collect(), next.collect()))
    }
}

/// All bits of a row set.
pub(crate) fn ones(width: usize) -> Vec<u64> {
    let mut ones = vec![u64::MAX; width.div_ceil(64)];
    if let (Some(last), rest @ 1..) = (ones.last_mut(), width % 64) {
        *last = (1 << rest) - 1;
    }
    ones
}

/// The `rows` lowest bits of the numbers, bit by bit.
pub(crate) fn transposed<R: Ring>(values: &[R], rows: usize) -> Vec<u64> {
    let words = values.len().div_ceil(64);
    let mut bits = vec![0u64; words * rows];
    for (word, block) in values.chunks(64).enumerate() {
        let mut square = [0u64; 64];
        for (line, value) in square.iter_mut().zip(block) {
            *line = value.low();
        }
        transpose(&mut square);
        for (row, line) in square.iter().take(rows).enumerate() {
            bits[row * words + word] = *line;
        }
    }
    bits
}

/// Mirrors a square of bits at its diagonal: bit c of line r becomes bit r of line c. Halves change places, then quarters
/// within them, and so on (Warren, Hacker's Delight, 7-3).
fn transpose(square: &mut [u64; 64]) {
    let (mut size, mut mask) = (32, 0x0000_0000_ffff_ffff_u64);
    while size > 0 {
        for upper in (0..64).filter(|line| line & size == 0) {
            let lower = upper + size;
            let swap = ((square[upper] >> size) ^ square[lower]) & mask;
            square[lower] ^= swap;
            square[upper] ^= swap << size;
        }
        size /= 2;
        mask ^= mask << size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_numbers_stand_in_rows() {
        let values: Vec<u64> = (0..130)
            .map(|i| u64::wrapping_mul(i, 0x9e37_79b9_7f4a_7c15))
            .collect();
        let bits = transposed(&values, 64);
        for (place, value) in values.iter().enumerate() {
            for row in 0..64 {
                let bit = bits[row * 3 + place / 64] >> (place % 64) & 1;
                assert_eq!(bit, value >> row & 1, "number {place}, bit {row}");
            }
        }
    }

    #[test]
    fn nothing_is_set_behind_the_end_of_a_row() {
        assert_eq!(ones(64), [u64::MAX]);
        assert_eq!(ones(65), [u64::MAX, 1]);
        assert_eq!(ones(3), [7]);
        assert!(ones(0).is_empty());
    }
}
