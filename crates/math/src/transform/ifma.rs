//! The backend for AVX-512 with IFMA: one row a register.
//!
//! A step down adds at most 2p to residues, so that (1 + 2 · 14) p < 2^52 allows 14 of them for p < 2^47.14, with junk
//! above 52 bits. A step up keeps residues below 2p, with junk as well.

use core::arch::x86_64::*;

use super::Row;
use super::lanes::{Factor, Job, Lanes};
use crate::ifma::{self, Ifma};

/// Whether this machine has the instructions.
pub(super) fn is_available() -> bool {
    ifma::is_available()
}

/// Runs a job modulo `modulus`.
///
/// # Panics
/// If the machine cannot.
pub(super) fn run<J: Job>(modulus: u64, job: J) {
    assert!(is_available(), "a machine with AVX-512 IFMA");
    // SAFETY: the features are there.
    unsafe { run_detected(modulus, job) }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn run_detected<J: Job>(modulus: u64, job: J) {
    job.run(Ifma::new(modulus));
}

/// The factor `value`, below the modulus.
pub(super) fn factor(value: u64, modulus: u64) -> Factor {
    let (value, quotient) = ifma::factor(value, modulus);
    Factor(value, quotient)
}

impl Lanes for Ifma {
    type Vector = __m512i;
    type Broadcast = (__m512i, __m512i);

    #[inline(always)]
    fn load(self, row: &Row) -> __m512i {
        self.load_partial(row)
    }

    #[inline(always)]
    fn store(self, vector: __m512i, row: &mut Row) {
        let canonical = self.take_off(self.reduce(vector), self.modulus);
        self.store_partial(canonical, row);
    }

    #[inline(always)]
    fn load_partial(self, row: &Row) -> __m512i {
        // SAFETY: a row has 64 bytes at a multiple of 64; `self` proves the features.
        unsafe { _mm512_load_si512(row.0.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_partial(self, vector: __m512i, row: &mut Row) {
        // SAFETY: a row has 64 bytes at a multiple of 64; `self` proves the features.
        unsafe { _mm512_store_si512(row.0.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn broadcast(self, factor: &Factor) -> (__m512i, __m512i) {
        (
            Ifma::broadcast(self, factor.0),
            Ifma::broadcast(self, factor.1),
        )
    }

    #[inline(always)]
    fn down(self, a: __m512i, b: __m512i, w: (__m512i, __m512i)) -> (__m512i, __m512i) {
        let plus = self.add_product(a, b, w);
        // SAFETY: `self` proves the features.
        let minus = unsafe {
            // a + 2p − (plus − a): one operation less than with the product by itself.
            let twice_a = _mm512_add_epi64(a, a);
            _mm512_sub_epi64(_mm512_add_epi64(twice_a, self.twice), plus)
        };
        (plus, minus)
    }

    #[inline(always)]
    fn up(self, a: __m512i, b: __m512i, w: (__m512i, __m512i)) -> (__m512i, __m512i) {
        // SAFETY: `self` proves the features.
        unsafe {
            let sum = self.reduce_with_junk(_mm512_add_epi64(a, b));
            let difference = _mm512_add_epi64(_mm512_sub_epi64(a, b), self.twice);
            (sum, self.add_product(self.zero(), difference, w))
        }
    }

    /// The sums of the first step stay below 4p and are not reduced.
    #[inline(always)]
    fn up_twice(self, x: [__m512i; 4], w: [(__m512i, __m512i); 3]) -> [__m512i; 4] {
        // SAFETY: `self` proves the features.
        unsafe {
            let left = _mm512_add_epi64(x[0], x[1]);
            let right = _mm512_add_epi64(x[2], x[3]);
            let difference = _mm512_add_epi64(_mm512_sub_epi64(x[0], x[1]), self.twice);
            let b = self.add_product(self.zero(), difference, w[1]);
            let difference = _mm512_add_epi64(_mm512_sub_epi64(x[2], x[3]), self.twice);
            let d = self.add_product(self.zero(), difference, w[2]);
            let four = _mm512_add_epi64(self.twice, self.twice);
            let difference = _mm512_add_epi64(_mm512_sub_epi64(left, right), four);
            let a = self.reduce_with_junk(_mm512_add_epi64(left, right));
            let c = self.add_product(self.zero(), difference, w[0]);
            let (b, d) = self.up(b, d, w[0]);
            [a, b, c, d]
        }
    }

    #[inline(always)]
    fn scale(self, x: __m512i, w: (__m512i, __m512i)) -> __m512i {
        self.add_product(self.zero(), x, w)
    }
}
