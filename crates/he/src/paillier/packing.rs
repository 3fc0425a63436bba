//! Many values in one plaintext.

use std::fmt;

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::number::{self, is_less};
use super::{KeySize, PaillierError, PublicKey};

/// Bits of a lane at most: a sum fits into an `i64`.
const MAX_WIDTH: u32 = 63;

/// Numbers below N; secret.
pub struct Plaintexts {
    size: KeySize,
    words: Zeroizing<Vec<u64>>,
}

impl fmt::Debug for Plaintexts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Plaintexts({} of {} bits)",
            self.count(),
            self.size.bits()
        )
    }
}

impl Plaintexts {
    /// Numbers of as many words as N has.
    pub(super) fn of(size: KeySize, words: Zeroizing<Vec<u64>>) -> Self {
        Self { size, words }
    }

    /// Reads plaintexts for `key` that stand one behind the other, each big-endian and as long as N.
    ///
    /// # Errors
    /// [`PaillierError::Pieces`] if the last one is cut off, [`PaillierError::Plaintext`] for the first that is not
    /// below N.
    pub fn from_bytes(key: &PublicKey, bytes: &[u8]) -> Result<Self, PaillierError> {
        let size = key.size();
        let each = size.plaintext_bytes();
        if !bytes.len().is_multiple_of(each) {
            return Err(PaillierError::Pieces {
                what: "plaintexts",
                got: bytes.len(),
                each,
            });
        }
        let mut words = Zeroizing::new(vec![0; bytes.len() / number::WORD_BYTES]);
        let numbers = words.chunks_exact_mut(size.words());
        for (index, (number, bytes)) in numbers.zip(bytes.chunks_exact(each)).enumerate() {
            number::read(bytes, number);
            if !is_less(number, key.modulus()) {
                return Err(PaillierError::Plaintext { index });
            }
        }
        Ok(Self { size, words })
    }

    /// One behind the other, each big-endian and as long as N.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(number::to_bytes(&self.words, self.size.words()))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.len() / self.size.words()
    }

    /// Bits of N.
    #[must_use]
    pub fn size(&self) -> KeySize {
        self.size
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

/// How values stand in plaintexts, checked.
///
/// A value v of b bits, −2^(b−1) ≤ v < 2^(b−1), stands as v + 2^(b−1) in a lane of w = b + ⌈log2 P⌉ bits: the sum of P
/// of them stays below 2^w. There are ⌊(|N| − 1)/w⌋ lanes, lane j at bit w·j, so that a plaintext is below N. Lanes
/// behind the last value are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packing {
    size: KeySize,
    bits: u32,
    parties: u32,
    width: u32,
}

impl Packing {
    /// Values of `bits` bits, of which `parties` are added up.
    ///
    /// # Errors
    /// [`PaillierError::Lanes`] unless b ≥ 1, P ≥ 1 and b + ⌈log2 P⌉ ≤ 63.
    pub fn new(size: KeySize, bits: u32, parties: u32) -> Result<Self, PaillierError> {
        let refused = |rule| {
            Err(PaillierError::Lanes {
                bits,
                parties,
                rule,
            })
        };
        if bits == 0 || parties == 0 {
            return refused("there must be at least one of each");
        }
        let guard = u32::BITS - (parties - 1).leading_zeros();
        // guard: lanes-have-guard-bits
        if bits > MAX_WIDTH || bits + guard > MAX_WIDTH {
            return refused("bits + ceil(log2 parties) <= 63 must hold");
        }
        Ok(Self {
            size,
            bits,
            parties,
            width: bits + guard,
        })
    }

    /// Bits of a value, b.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Parties P.
    #[must_use]
    pub fn parties(self) -> u32 {
        self.parties
    }

    /// Bits of a lane, w.
    #[must_use]
    pub fn width(self) -> u32 {
        self.width
    }

    /// Values in a plaintext.
    #[must_use]
    pub fn lanes(self) -> usize {
        (self.size.bits() - 1) / self.width as usize
    }

    /// Plaintexts that so many values take.
    #[must_use]
    pub fn plaintexts(self, values: usize) -> usize {
        values.div_ceil(self.lanes())
    }

    /// What is added to a value so that it is not negative.
    fn offset(self) -> i64 {
        1 << (self.bits - 1)
    }

    /// Packs the values of one party.
    ///
    /// # Errors
    /// [`PaillierError::Value`] for the first value that does not fit.
    pub fn pack(self, values: &[i64]) -> Result<Plaintexts, PaillierError> {
        let offset = self.offset();
        if let Some(index) = values.iter().position(|v| !(-offset..offset).contains(v)) {
            return Err(PaillierError::Value {
                index,
                value: values[index],
                bits: self.bits,
            });
        }
        let words = self.size.words();
        let mut packed = Zeroizing::new(vec![0; self.plaintexts(values.len()) * words]);
        packed
            .par_chunks_exact_mut(words)
            .zip(values.par_chunks(self.lanes()))
            .for_each(|(number, values)| {
                for (at, value) in (0..).step_by(self.width as usize).zip(values) {
                    put(number, at, (value + offset) as u64);
                }
            });
        Ok(Plaintexts::of(self.size, packed))
    }

    /// The `values` sums in plaintexts that are the sums of `contributions` packed vectors.
    ///
    /// # Errors
    /// * [`PaillierError::Contributions`] unless there are between one and P.
    /// * [`PaillierError::Plaintexts`] if there are not exactly as many as the values take.
    /// * [`PaillierError::Sum`] for the first plaintext that no so many packed ones add up to.
    pub fn unpack(
        self,
        plaintexts: &Plaintexts,
        values: usize,
        contributions: u32,
    ) -> Result<Vec<i64>, PaillierError> {
        // guard: no-more-contributions-than-parties
        if contributions == 0 || contributions > self.parties {
            return Err(PaillierError::Contributions {
                contributions,
                parties: self.parties,
            });
        }
        let expected = self.plaintexts(values);
        if plaintexts.size() != self.size || plaintexts.count() != expected {
            return Err(PaillierError::Plaintexts {
                got: plaintexts.count(),
                values,
                expected,
            });
        }
        let mut sums = vec![0; values];
        let refused = plaintexts
            .words()
            .par_chunks_exact(self.size.words())
            .zip(sums.par_chunks_mut(self.lanes()))
            .position_first(|(number, sums)| !self.unpack_one(number, sums, contributions));
        match refused {
            None => Ok(sums),
            Some(index) => Err(PaillierError::Sum {
                index,
                contributions,
            }),
        }
    }

    /// Whether a plaintext is a sum; its lanes.
    fn unpack_one(self, number: &[u64], sums: &mut [i64], contributions: u32) -> bool {
        let largest = ((1 << self.bits) - 1) * u64::from(contributions);
        let offsets = self.offset() * i64::from(contributions);
        let width = self.width as usize;
        let mut right = true;
        for (at, sum) in (0..).step_by(width).zip(&mut *sums) {
            let lane = take(number, at, self.width);
            right &= lane <= largest;
            *sum = lane as i64 - offsets;
        }
        let rest = (sums.len() * width..self.size.bits()).step_by(64);
        right & (rest.fold(0, |any, at| any | take(number, at, 64)) == 0)
    }
}

/// Writes to bits that are 0.
pub(super) fn put(number: &mut [u64], at: usize, value: u64) {
    let wide = u128::from(value) << (at % 64);
    number[at / 64] |= wide as u64;
    if let Some(next) = number.get_mut(at / 64 + 1) {
        *next |= (wide >> 64) as u64;
    }
}

/// Up to 64 bits; those behind the last word are 0.
pub(super) fn take(number: &[u64], at: usize, width: u32) -> u64 {
    let next = number.get(at / 64 + 1).copied().unwrap_or(0);
    let wide = u128::from(number[at / 64]) | u128::from(next) << 64;
    (wide >> (at % 64)) as u64 & (u64::MAX >> (64 - width))
}
