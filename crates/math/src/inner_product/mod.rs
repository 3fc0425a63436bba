//! Inner products of words with secret coefficients over the integers, modulo two primes.
//!
//! Inner products are linear: the product of a sum of vectors is the sum of their products, as long as no word of the
//! sum wraps. Lanes of 32 bits are taken in pairs: lanes 2i and 2i + 1 become the number m_2i + 2^32 m_2i+1. For a
//! difference of two vectors this number is zero only if both lanes are. So one multiplication serves two lanes.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ifma;
#[cfg(test)]
mod tests;

use zeroize::ZeroizeOnDrop;

#[cfg(target_arch = "x86_64")]
use self::ifma::Ifma;
use crate::twin_residue::TwinResidue;
use crate::words::{TileMut, Width};

/// Bits of a coefficient. Both primes are above 2^60, so different coefficients stay different modulo each of them.
pub const COEFFICIENT_BITS: u32 = 60;

/// Coefficients ρ_0, ρ_1, ..., each below 2^60, by which tiles are multiplied. Wiped when dropped.
#[derive(ZeroizeOnDrop)]
pub struct Coefficients(Vec<u64>);

impl Coefficients {
    /// The largest number of coefficients: sums of this many products do not overflow.
    pub const MAX: usize = 4096;

    /// Takes the low 60 bits of each of `numbers` as a coefficient.
    ///
    /// # Panics
    /// If there are more than [`MAX`](Self::MAX).
    pub fn new(mut numbers: Vec<u64>) -> Self {
        assert!(
            numbers.len() <= Self::MAX,
            "at most {} coefficients",
            Self::MAX
        );
        for number in &mut numbers {
            *number &= (1 << COEFFICIENT_BITS) - 1;
        }
        Self(numbers)
    }

    /// Reduces the lanes of `tile` mod 2^b and gives Σ ρ_i m_i over its words, or over its pairs of words if b ≤ 32. No
    /// branch depends on the words or the coefficients.
    ///
    /// # Panics
    /// If there are fewer coefficients than words (or pairs), or if the lanes are not those of `width`.
    pub fn reduce_and_multiply(&self, width: Width, tile: TileMut<'_>) -> TwinResidue {
        let words = match &tile {
            TileMut::W32(lanes) => lanes.len().div_ceil(2),
            TileMut::W64(lanes) => lanes.len(),
        };
        assert!(
            words <= self.0.len(),
            "{words} words, {} coefficients",
            self.0.len()
        );
        assert_eq!(
            matches!(tile, TileMut::W32(_)),
            width.fits_u32(),
            "lanes of another width"
        );
        #[cfg(target_arch = "x86_64")]
        if let Some(ifma) = Ifma::detect() {
            return match tile {
                TileMut::W32(lanes) => ifma.multiply32(width, lanes, &self.0),
                TileMut::W64(lanes) => ifma.multiply64(width, lanes, &self.0),
            };
        }
        match tile {
            TileMut::W32(lanes) => portable::multiply32(width, lanes, &self.0),
            TileMut::W64(lanes) => portable::multiply64(width, lanes, &self.0),
        }
    }
}

/// In plain Rust. A multiplication of 64 by 64 bits serves two narrow lanes; AVX2, whose multiplications take 32
/// bits, needs four of them for four such pairs and is no faster.
mod portable {
    use super::{TwinResidue, Width};

    pub(super) fn multiply32(width: Width, lanes: &mut [u32], rho: &[u64]) -> TwinResidue {
        let mask = width.mask() as u32;
        lanes.iter_mut().for_each(|lane| *lane &= mask);
        let (pairs, last) = lanes.as_chunks::<2>();
        let last = last.iter().map(|&lane| u64::from(lane));
        let pairs = pairs
            .iter()
            .map(|&[low, high]| u64::from(low) | u64::from(high) << 32);
        multiply(rho.iter().copied().zip(pairs.chain(last)))
    }

    pub(super) fn multiply64(width: Width, lanes: &mut [u64], rho: &[u64]) -> TwinResidue {
        let mask = width.mask();
        lanes.iter_mut().for_each(|lane| *lane &= mask);
        multiply(rho.iter().copied().zip(lanes.iter().copied()))
    }

    /// Σ ρ w over less than 2^58 pairs.
    pub(super) fn multiply(pairs: impl Iterator<Item = (u64, u64)>) -> TwinResidue {
        // Products are below 2^124: high·2^128 + low is their sum.
        let (mut low, mut high) = (0_u128, 0_u64);
        for (rho, word) in pairs {
            let (sum, carry) = low.overflowing_add(u128::from(rho) * u128::from(word));
            low = sum;
            high += u64::from(carry);
        }
        // 2^128 = 2^122·2^6.
        TwinResidue::from(low) + TwinResidue::from(1 << 122) * (high << 6)
    }
}
