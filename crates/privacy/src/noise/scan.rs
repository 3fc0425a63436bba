//! The loops of a draw: all cuts of a table are compared with every random number, so their time depends on neither.
//!
//! A first pass takes 32 bits of each number: one for the sign, and the upper ones for the size. In a key, upper bits of a
//! cut stand before the cut's index, and `word − key` is the smallest for the last cut that is not above the word, whose
//! index then follows from the difference: a subtraction and a minimum for each cut. If a word shares its upper bits with a
//! cut, which is found in the same minimum, the whole block is drawn again on 128 bits. Whether that happens depends on
//! random bits only, with a public chance of about 2^-10 a block.

use blindsum_math::simd::Kernel;
use zeroize::Zeroize;

use super::table::{KEYS, Table};

/// Numbers that are drawn at a time.
pub(super) const BLOCK: usize = 1024;

/// Cuts of 128 bits that a number is compared with at a time.
const CUTS: usize = 4;

/// The first pass over a block: writes signed numbers to `drawn`, and gives whether a word shares its upper bits with a cut,
/// in which case numbers are not right.
pub(super) struct FirstPass<'a> {
    pub(super) table: &'a Table,
    pub(super) words: &'a [u32; BLOCK],
    pub(super) least: &'a mut [u32; BLOCK],
    pub(super) drawn: &'a mut [i32; BLOCK],
}

impl Kernel for FirstPass<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self {
            table,
            words,
            least,
            drawn,
        } = self;
        let all_indices = (1_u32 << table.index_bits) - 1;
        // No word is below the key 0, of upper bits 0 and index 0.
        for (least, word) in least.iter_mut().zip(words) {
            *least = word | all_indices;
        }
        for keys in table.first_pass.as_chunks::<KEYS>().0 {
            for (least, word) in least.iter_mut().zip(words) {
                let end = word | all_indices;
                *least = keys
                    .iter()
                    .fold(*least, |least, key| least.min(end.wrapping_sub(*key)));
            }
        }
        let mut least_of_all = u32::MAX;
        for ((drawn, word), least) in drawn.iter_mut().zip(words).zip(least) {
            *drawn = signed((!*least & all_indices) as i32, *word);
            least_of_all = least_of_all.min(*least);
        }
        least_of_all <= all_indices
    }
}

/// A number of 128 bits for each word: 31 bits of the word, then the upper 97 of 16 bytes.
pub(super) struct Wide {
    pub(super) high: [u64; BLOCK],
    pub(super) low: [u64; BLOCK],
    pub(super) sizes: [u64; BLOCK],
}

impl Default for Wide {
    fn default() -> Self {
        Self {
            high: [0; BLOCK],
            low: [0; BLOCK],
            sizes: [0; BLOCK],
        }
    }
}

impl Zeroize for Wide {
    fn zeroize(&mut self) {
        self.high.zeroize();
        self.low.zeroize();
        self.sizes.zeroize();
    }
}

/// The second pass: the same numbers from 128 bits each. `low` has 16 bytes for each word, lower half first.
pub(super) struct SecondPass<'a> {
    pub(super) table: &'a Table,
    pub(super) words: &'a [u32; BLOCK],
    pub(super) low: &'a [u64; 2 * BLOCK],
    pub(super) wide: &'a mut Wide,
    pub(super) drawn: &'a mut [i32; BLOCK],
}

impl Kernel for SecondPass<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Wide { high, low, sizes } = self.wide;
        let halves = self.words.iter().zip(self.low.as_chunks::<2>().0);
        for ((high, low), (word, [lower, upper])) in high.iter_mut().zip(&mut *low).zip(halves) {
            *high = u64::from(word >> 1) << 33 | upper >> 31;
            *low = upper << 33 | lower >> 31;
        }
        sizes.fill(0);
        let (high_cuts, high_rest) = self.table.high.as_chunks::<CUTS>();
        let (low_cuts, low_rest) = self.table.low.as_chunks::<CUTS>();
        for (high_cuts, low_cuts) in high_cuts.iter().zip(low_cuts) {
            count(high_cuts, low_cuts, high, low, sizes);
        }
        for (high_cut, low_cut) in high_rest.iter().zip(low_rest) {
            count(&[*high_cut], &[*low_cut], high, low, sizes);
        }
        for ((drawn, word), size) in self.drawn.iter_mut().zip(self.words).zip(sizes) {
            *drawn = signed(*size as i32, *word);
        }
    }
}

/// Adds to `sizes` how many of these cuts are not above each number.
#[inline(always)]
fn count<const N: usize>(
    high_cuts: &[u64; N],
    low_cuts: &[u64; N],
    high: &[u64; BLOCK],
    low: &[u64; BLOCK],
    sizes: &mut [u64; BLOCK],
) {
    for ((size, high), low) in sizes.iter_mut().zip(high).zip(low) {
        for (high_cut, low_cut) in high_cuts.iter().zip(low_cuts) {
            let is_below = (high_cut < high) | ((high_cut == high) & (low_cut <= low));
            *size = size.wrapping_add(u64::from(is_below));
        }
    }
}

/// The number of this size whose sign is the last bit of a word.
#[inline(always)]
fn signed(size: i32, word: u32) -> i32 {
    let sign = ((word & 1) as i32).wrapping_neg();
    (size ^ sign).wrapping_sub(sign)
}

/// sums = 2^shift · sums + drawn.
pub(super) struct Combine<'a> {
    pub(super) sums: &'a mut [i32; BLOCK],
    pub(super) drawn: &'a [i32; BLOCK],
    pub(super) shift: u32,
}

impl Kernel for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sum, &drawn) in self.sums.iter_mut().zip(self.drawn) {
            *sum = (*sum << self.shift).wrapping_add(drawn);
        }
    }
}
