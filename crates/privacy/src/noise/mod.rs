//! Noise: numbers of a discrete Gaussian distribution, or of Skellam's, with whole numbers only.
//!
//! A [`Sampler`] has the tables of one distribution, and draws from the streams of a key: block ⌊d / 1024⌋ of numbers has a
//! stream of its own, so ranges can be drawn each by itself. A draw takes the same time for every number: there is no branch
//! and no address that depends on one, no division and no floating point.
//!
//! Large variances are sums: X = 4^L · X_top + Σ 4^l · X_l for l below L, where all X_l have variance 103. Each sum of two of
//! these is a discrete Gaussian up to a factor of 1 ± 2^-126 for each probability (Poisson summation). Tables end at 14
//! standard deviations and have cuts of 128 bits. So a draw is off by less than 2^-116 in total variation. Skellam's
//! distribution of a large variance is the sum of equal parts, exactly.

mod fixed;
mod scan;
mod seed;
mod table;
#[cfg(test)]
mod tests;

use blindsum_crypto::Zeroizing;
use blindsum_crypto::mask::{MaskKey, MaskStream, Sign, apply_masks};
use blindsum_math::simd;
use blindsum_math::words::TileMut;
use zeroize::Zeroize;

pub use seed::NoiseSeed;

use crate::PrivacyError;
use scan::{BLOCK, Combine, FirstPass, SecondPass, Wide};
use table::Table;

/// The distribution of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The discrete Gaussian distribution: P[k] ∝ e^(−k²/2v). Canonne, Kamath and Steinke 2020; Kairouz, Liu and Steinke 2021
    /// for its sums.
    DiscreteGaussian,
    /// The difference of two Poisson variables of mean v/2. Agarwal, Kairouz and Liu 2021.
    Skellam,
}

/// A variance above 0, as a fraction, in steps².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variance {
    numerator: u64,
    denominator: u64,
}

/// The largest denominator of a variance.
pub const MAX_DENOMINATOR: u64 = 1 << 10;
/// ⌊log2⌋ of the largest variance of discrete Gaussian noise.
const MAX_GAUSSIAN_BITS: u32 = 40;
/// ⌊log2⌋ of the largest variance of Skellam noise: its parts are drawn each by itself, and these are 64.
const MAX_SKELLAM_BITS: u32 = 20;
/// ⌊log2⌋ of the largest variance of a part of Skellam noise.
const PART_BITS: u32 = 14;
/// The variance of a level below the top.
const BASE: u64 = 103;
/// The least variance on top for which there is no further level.
const TOP: u64 = 360;
/// log2 of the factor between levels.
const RADIX_BITS: u32 = 2;

impl Variance {
    /// `numerator` / `denominator`.
    ///
    /// # Errors
    /// [`PrivacyError::Range`] unless 1 <= denominator <= 2^10 and 0 < numerator/denominator <= 2^40.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, PrivacyError> {
        if !(1..=MAX_DENOMINATOR).contains(&denominator) {
            let rule = "1 <= denominator <= 2^10";
            let name = "denominator of the variance";
            return Err(PrivacyError::range(name, denominator, rule));
        }
        if !(1..=denominator << MAX_GAUSSIAN_BITS).contains(&numerator) {
            let rule = "0 < variance <= 2^40";
            let name = "numerator of the variance";
            return Err(PrivacyError::range(name, numerator, rule));
        }
        Ok(Self {
            numerator,
            denominator,
        })
    }

    /// `units` / 1024, which is in its range.
    pub(crate) fn of_units(units: u64) -> Self {
        Self {
            numerator: units,
            denominator: MAX_DENOMINATOR,
        }
    }

    /// Refuses variances above 2^20.
    pub(crate) fn check_skellam(self) -> Result<(), PrivacyError> {
        let Self {
            numerator,
            denominator,
        } = self;
        if numerator <= denominator << MAX_SKELLAM_BITS {
            return Ok(());
        }
        Err(PrivacyError::SkellamVariance {
            numerator,
            denominator,
        })
    }

    /// a, of a / b.
    pub fn numerator(self) -> u64 {
        self.numerator
    }

    /// b, of a / b.
    pub fn denominator(self) -> u64 {
        self.denominator
    }

    /// Rounded down.
    fn floor(self) -> u64 {
        self.numerator / self.denominator
    }

    /// Whether it is at least a whole number.
    fn is_at_least(self, whole: u64) -> bool {
        u128::from(self.numerator) >= u128::from(whole) * u128::from(self.denominator)
    }
}

/// The tables of one distribution.
pub struct Sampler {
    first: Table,
    /// Of the scans after the first one, where it is another table.
    others: Option<Table>,
    scans: u32,
    /// The sum so far is multiplied by 2^shift before the next scan.
    shift: u32,
}

impl Sampler {
    /// Computes the tables of `mechanism` with this variance: some 10^2 entries for each of at most two tables, less than
    /// 64 KiB.
    ///
    /// # Errors
    /// [`PrivacyError::SkellamVariance`] above 2^20 with [`Mechanism::Skellam`].
    pub fn new(mechanism: Mechanism, variance: Variance) -> Result<Self, PrivacyError> {
        match mechanism {
            Mechanism::DiscreteGaussian => Ok(Self::gaussian(variance)),
            Mechanism::Skellam => Self::skellam(variance),
        }
    }

    /// The tables of [`Mechanism::DiscreteGaussian`].
    pub fn gaussian(variance: Variance) -> Self {
        let (mut top, mut levels) = (variance, 0);
        while top.is_at_least(TOP) {
            top.numerator -= BASE * top.denominator;
            top.denominator <<= 2 * RADIX_BITS;
            levels += 1;
        }
        let base = Variance {
            numerator: BASE,
            denominator: 1,
        };
        Self {
            first: Table::gaussian(top),
            others: (levels > 0).then(|| Table::gaussian(base)),
            scans: levels + 1,
            shift: RADIX_BITS,
        }
    }

    fn skellam(variance: Variance) -> Result<Self, PrivacyError> {
        variance.check_skellam()?;
        let Variance {
            numerator,
            denominator,
        } = variance;
        let parts = numerator.div_ceil(denominator << PART_BITS);
        let part = Variance {
            numerator,
            denominator: denominator * parts,
        };
        Ok(Self {
            first: Table::skellam(part),
            others: None,
            scans: parts as u32,
            shift: 0,
        })
    }

    /// Writes the numbers `first..first + numbers.len()` of the noise of `key` over `numbers`. A key has 2^64 blocks of
    /// numbers, and the same place has the same number whatever else is drawn: a key is for one vector.
    pub fn draw(&self, key: &MaskKey, first: u64, numbers: &mut [i32]) {
        let mut block = Zeroizing::new(Block::default());
        let (mut place, mut rest) = (first, numbers);
        while !rest.is_empty() {
            let skipped = (place % BLOCK as u64) as usize;
            let count = rest.len().min(BLOCK - skipped);
            let (numbers, behind) = rest.split_at_mut(count);
            self.draw_block(key, place / BLOCK as u64, &mut block);
            numbers.copy_from_slice(&block.sums[skipped..skipped + count]);
            (place, rest) = (place.wrapping_add(count as u64), behind);
        }
    }

    /// Scan s reads lanes 1024·s.. of the block's stream, and where a word shares its upper bits with a cut the 16 bytes of
    /// each number from lane 1024·(scans + 4s) on.
    fn draw_block(&self, key: &MaskKey, number: u64, block: &mut Block) {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        let stream = key.stream(nonce, Sign::Add);
        let Block {
            words,
            least,
            drawn,
            sums,
        } = block;
        sums.fill(0);
        for scan in 0..self.scans {
            let table = match (&self.others, scan) {
                (Some(others), 1..) => others,
                _ => &self.first,
            };
            words.fill(0);
            let lane = BLOCK as u64 * u64::from(scan);
            add(&stream, lane, TileMut::W32(words));
            let is_settled = !simd::run(FirstPass {
                table,
                words,
                least,
                drawn,
            });
            // guard: words-that-share-bits-with-a-cut-are-compared-in-full
            if !is_settled {
                let lane = BLOCK as u64 * u64::from(self.scans + 4 * scan);
                second_pass(table, &stream, lane, words, drawn);
            }
            let shift = self.shift;
            simd::run(Combine { sums, drawn, shift });
        }
    }

    /// Tables that each number is drawn from, one after the other.
    pub fn scans(&self) -> u32 {
        self.scans
    }

    /// The cuts of the first table.
    #[cfg(test)]
    pub(crate) fn first_cuts(&self) -> impl Iterator<Item = u128> + '_ {
        let cuts = self.first.high.iter().zip(&self.first.low);
        cuts.map(|(&high, &low)| u128::from(high) << 64 | u128::from(low))
    }

    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        self.first.bytes() + self.others.as_ref().map_or(0, Table::bytes)
    }
}

/// Draws a block from 128 bits a number.
#[cold]
fn second_pass(
    table: &Table,
    stream: &MaskStream,
    lane: u64,
    words: &[u32; BLOCK],
    drawn: &mut [i32; BLOCK],
) {
    let mut low = Zeroizing::new([0; 2 * BLOCK]);
    add(stream, lane / 2, TileMut::W64(&mut *low));
    let mut wide = Zeroizing::new(Wide::default());
    simd::run(SecondPass {
        table,
        words,
        low: &low,
        wide: &mut wide,
        drawn,
    });
}

/// Adds lanes of a stream.
fn add(stream: &MaskStream, first_lane: u64, tile: TileMut<'_>) {
    apply_masks(std::slice::from_ref(stream), first_lane, tile);
}

/// The memory in which a block is drawn.
struct Block {
    words: [u32; BLOCK],
    least: [u32; BLOCK],
    drawn: [i32; BLOCK],
    sums: [i32; BLOCK],
}

impl Default for Block {
    fn default() -> Self {
        Self {
            words: [0; BLOCK],
            least: [0; BLOCK],
            drawn: [0; BLOCK],
            sums: [0; BLOCK],
        }
    }
}

impl Zeroize for Block {
    fn zeroize(&mut self) {
        self.words.zeroize();
        self.least.zeroize();
        self.drawn.zeroize();
        self.sums.zeroize();
    }
}
