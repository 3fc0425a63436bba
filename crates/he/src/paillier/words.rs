//! Words of a vector in plaintexts, where the words are so wide that no sum of them wraps.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::packing::{put, take};
use super::{KeySize, PaillierError, Plaintexts};

/// How words stand in plaintexts: w bits each, ⌊(|N| − 1)/w⌋ in a plaintext, word j at bit w·j. What is behind the last
/// word is 0. Whoever chose w made room for sums; [`Packing`](super::Packing) does that itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WordPacking {
    size: KeySize,
    width: u32,
}

impl WordPacking {
    /// Words of `width` bits.
    ///
    /// # Errors
    /// [`PaillierError::Width`] unless 1 ≤ w ≤ 64.
    pub fn new(size: KeySize, width: u32) -> Result<Self, PaillierError> {
        match (1..=64).contains(&width) {
            true => Ok(Self { size, width }),
            false => Err(PaillierError::Width { width }),
        }
    }

    /// Words in a plaintext.
    #[must_use]
    pub fn lanes(self) -> usize {
        (self.size.bits() - 1) / self.width as usize
    }

    /// Plaintexts that so many words take.
    #[must_use]
    pub fn plaintexts(self, words: usize) -> usize {
        words.div_ceil(self.lanes())
    }

    /// Packs words; bits above w do not count.
    #[must_use]
    pub fn pack(self, words: &[u64]) -> Plaintexts {
        let mask = u64::MAX >> (64 - self.width);
        let mut packed = Zeroizing::new(vec![0; self.plaintexts(words.len()) * self.size.words()]);
        packed
            .par_chunks_exact_mut(self.size.words())
            .zip(words.par_chunks(self.lanes()))
            .for_each(|(number, words)| {
                for (at, word) in (0..).step_by(self.width as usize).zip(words) {
                    put(number, at, word & mask);
                }
            });
        Plaintexts::of(self.size, packed)
    }

    /// The words of plaintexts.
    ///
    /// # Errors
    /// * [`PaillierError::Plaintexts`] if there are not exactly as many as the words take.
    /// * [`PaillierError::Rest`] for the first plaintext with something behind its last word.
    pub fn unpack(
        self,
        plaintexts: &Plaintexts,
        words: usize,
    ) -> Result<Zeroizing<Vec<u64>>, PaillierError> {
        let expected = self.plaintexts(words);
        if plaintexts.size() != self.size || plaintexts.count() != expected {
            return Err(PaillierError::Plaintexts {
                got: plaintexts.count(),
                values: words,
                expected,
            });
        }
        let mut unpacked = Zeroizing::new(vec![0; words]);
        let odd = plaintexts
            .words()
            .par_chunks_exact(self.size.words())
            .zip(unpacked.par_chunks_mut(self.lanes()))
            .position_first(|(number, words)| !self.unpack_one(number, words));
        match odd {
            None => Ok(unpacked),
            Some(index) => Err(PaillierError::Rest { index }),
        }
    }

    /// Whether nothing is behind the last word; the words.
    fn unpack_one(self, number: &[u64], words: &mut [u64]) -> bool {
        let width = self.width as usize;
        for (at, word) in (0..).step_by(width).zip(&mut *words) {
            *word = take(number, at, self.width);
        }
        let rest = (words.len() * width..self.size.bits()).step_by(64);
        rest.fold(0, |any, at| any | take(number, at, 64)) == 0
    }
}
