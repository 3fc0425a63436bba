//! The backend that needs nothing but 64-bit integers.
//!
//! Products by constants are Shoup's: with s = ⌊w 2^64 / p⌋ the remainder w x − ⌊s x / 2^64⌋ p is below 2p for every
//! x < 2^64. A step down adds at most 2p to residues, a step up brings them below 2p.

use super::Row;
use super::lanes::{Factor, Job, Lanes};

/// Runs a job modulo `modulus` < 2^48.
pub(super) fn run<J: Job>(modulus: u64, job: J) {
    let reciprocal = factor(1, modulus).1;
    job.run(Scalar {
        modulus,
        reciprocal,
    });
}

/// The factor `value`, below the modulus.
pub(super) fn factor(value: u64, modulus: u64) -> Factor {
    let quotient = (u128::from(value) << 64) / u128::from(modulus);
    Factor(value, quotient as u64)
}

#[derive(Clone, Copy)]
struct Scalar {
    modulus: u64,
    /// ⌊2^64 / p⌋.
    reciprocal: u64,
}

impl Scalar {
    /// w x − ⌊s x / 2^64⌋ p, below 2p.
    #[inline(always)]
    fn times(self, x: u64, w: u64, s: u64) -> u64 {
        let quotient = (u128::from(x) * u128::from(s)) >> 64;
        x.wrapping_mul(w)
            .wrapping_sub((quotient as u64).wrapping_mul(self.modulus))
    }

    /// Takes `amount` off unless that goes below zero, for values below 2^63.
    #[inline(always)]
    fn take_off(value: u64, amount: u64) -> u64 {
        let difference = value.wrapping_sub(amount);
        let keep = (difference >> 63).wrapping_neg();
        difference.wrapping_add(amount & keep)
    }
}

impl Lanes for Scalar {
    type Vector = [u64; 8];
    type Broadcast = Factor;

    #[inline(always)]
    fn load(self, row: &Row) -> [u64; 8] {
        row.0
    }

    #[inline(always)]
    fn store(self, vector: [u64; 8], row: &mut Row) {
        row.0 = vector.map(|x| Self::take_off(self.times(x, 1, self.reciprocal), self.modulus));
    }

    #[inline(always)]
    fn load_partial(self, row: &Row) -> [u64; 8] {
        row.0
    }

    #[inline(always)]
    fn store_partial(self, vector: [u64; 8], row: &mut Row) {
        row.0 = vector;
    }

    #[inline(always)]
    fn broadcast(self, factor: &Factor) -> Factor {
        *factor
    }

    #[inline(always)]
    fn down(self, mut a: [u64; 8], mut b: [u64; 8], w: Factor) -> ([u64; 8], [u64; 8]) {
        for (a, b) in a.iter_mut().zip(&mut b) {
            let product = self.times(*b, w.0, w.1);
            (*a, *b) = (*a + product, *a + 2 * self.modulus - product);
        }
        (a, b)
    }

    #[inline(always)]
    fn up(self, mut a: [u64; 8], mut b: [u64; 8], w: Factor) -> ([u64; 8], [u64; 8]) {
        let twice = 2 * self.modulus;
        for (a, b) in a.iter_mut().zip(&mut b) {
            let difference = *a + twice - *b;
            (*a, *b) = (
                Self::take_off(*a + *b, twice),
                self.times(difference, w.0, w.1),
            );
        }
        (a, b)
    }

    #[inline(always)]
    fn scale(self, x: [u64; 8], w: Factor) -> [u64; 8] {
        x.map(|x| self.times(x, w.0, w.1))
    }
}
