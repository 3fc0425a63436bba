//! Vectors of ciphertexts and their sums.

use rayon::prelude::*;
use zeroize::Zeroize;

use super::number::{self, is_less};
use super::{KeyId, KeySize, PaillierError, PublicKey};

/// Ciphertexts under one key: numbers below N² that have no factor with N in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ciphertexts {
    key: KeyId,
    size: KeySize,
    words: Vec<u64>,
}

impl Ciphertexts {
    /// Numbers that are known to be ciphertexts.
    pub(super) fn of(key: &PublicKey, words: Vec<u64>) -> Self {
        Self {
            key: key.id(),
            size: key.size(),
            words,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.len() / (2 * self.size.words())
    }

    /// The key that they were encrypted for.
    #[must_use]
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// One behind the other, each big-endian and as long as N².
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        number::to_bytes(&self.words, 2 * self.size.words())
    }

    /// Whether some ciphertext stands in the same place in both. Nobody encrypts the same twice: one was copied.
    #[must_use]
    pub fn has_some_of(&self, other: &Self) -> bool {
        let each = |vector: &'_ Self| 2 * vector.size.words();
        let mut both =
            (self.words.chunks_exact(each(self))).zip(other.words.chunks_exact(each(other)));
        // guard: every-ciphertext-is-compared
        both.any(|(one, other)| one == other)
    }

    /// Zeros in the place of numbers that hide nothing yet.
    pub(super) fn wipe(&mut self) {
        self.words.zeroize();
    }

    /// The numbers, if they are of this key.
    pub(super) fn under(&self, key: &PublicKey) -> Result<&[u64], PaillierError> {
        match self.key == key.id() {
            true => Ok(&self.words),
            false => Err(PaillierError::Key),
        }
    }
}

impl PublicKey {
    /// Reads ciphertexts that stand one behind the other, each big-endian and as long as N².
    ///
    /// # Errors
    /// * [`PaillierError::Pieces`] if the last one is cut off.
    /// * [`PaillierError::Ciphertext`] for the first number that is 1 or not below N²; if there is none, for the first
    ///   that has a factor with N in common, as 0 does.
    pub fn ciphertexts(&self, bytes: &[u8]) -> Result<Ciphertexts, PaillierError> {
        let (each, words) = (self.size().ciphertext_bytes(), 2 * self.size().words());
        if !bytes.len().is_multiple_of(each) {
            return Err(PaillierError::Pieces {
                what: "ciphertexts",
                got: bytes.len(),
                each,
            });
        }
        let mut numbers = vec![0; bytes.len() / number::WORD_BYTES];
        bytes
            .par_chunks_exact(each)
            .zip(numbers.par_chunks_exact_mut(words))
            .for_each(|(bytes, number)| number::read(bytes, number));
        let refused = |index, rule| Err(PaillierError::Ciphertext { index, rule });
        for (index, number) in numbers.chunks_exact(words).enumerate() {
            // guard: ciphertexts-are-below-the-square
            if !is_less(number, self.square()) {
                return refused(index, "c < N^2 must hold");
            }
            if number[0] == 1 && number[1..].iter().all(|word| *word == 0) {
                return refused(index, "1 hides nothing");
            }
        }
        // guard: ciphertexts-share-no-factor
        if self.shares_factor(&numbers) {
            return refused(self.first_that_shares(&numbers), "gcd(c, N) = 1 must hold");
        }
        Ok(Ciphertexts::of(self, numbers))
    }

    /// The place of the first number that has a factor with N in common, in a list that has one.
    fn first_that_shares(&self, numbers: &[u64]) -> usize {
        let words = 2 * self.size().words();
        let (mut first, mut count) = (0, numbers.len() / words);
        while count > 1 {
            let half = count / 2;
            match self.shares_factor(&numbers[first * words..][..half * words]) {
                true => count = half,
                false => (first, count) = (first + half, count - half),
            }
        }
        first
    }

    /// Ciphertexts of the sum of vectors, modulo N at each place. It is no secret whose sum it is: re-randomise it
    /// where that matters.
    ///
    /// # Errors
    /// [`PaillierError::NothingToAdd`], [`PaillierError::Key`], [`PaillierError::Count`]: vectors of another key or
    /// length.
    pub fn sum(&self, vectors: &[&Ciphertexts]) -> Result<Ciphertexts, PaillierError> {
        let first = vectors.first().ok_or(PaillierError::NothingToAdd)?;
        let mut numbers = Vec::with_capacity(vectors.len());
        for vector in vectors {
            if vector.count() != first.count() {
                return Err(PaillierError::Count {
                    got: vector.count(),
                    expected: first.count(),
                });
            }
            numbers.push(vector.under(self)?);
        }
        Ok(Ciphertexts::of(self, self.arithmetic().product(&numbers)))
    }
}
