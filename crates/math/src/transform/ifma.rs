//! The backend for AVX-512 with IFMA, which multiplies 52-bit integers.
//!
//! Products by constants are Shoup's, with s = ⌊w 2^52 / p⌋: w x − ⌊s x / 2^52⌋ p is below 2p for every x < 2^52. Only the
//! low 52 bits of a lane count: the products ignore what is above, and sums of lanes put junk there. A step down adds
//! at most 2p to residues, so that (1 + 2 · 14) p < 2^52 allows 14 of them for p < 2^47.14. A step up keeps them
//! below 2p, without junk.

use core::arch::x86_64::*;

use super::Row;
use super::lanes::{Factor, Job, Lanes};

/// Bits of a lane that count.
const BITS: u32 = 52;

/// Whether this machine has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
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
    let broadcast = |value: u64| _mm512_set1_epi64(value as i64);
    job.run(Ifma {
        modulus: broadcast(modulus),
        twice: broadcast(2 * modulus),
        negative: broadcast((1 << BITS) - modulus),
        reciprocal: broadcast(factor(1, modulus).1),
        mask: broadcast((1 << BITS) - 1),
    });
}

/// The factor `value`, below the modulus.
pub(super) fn factor(value: u64, modulus: u64) -> Factor {
    let quotient = (u128::from(value) << BITS) / u128::from(modulus);
    Factor(value, quotient as u64)
}

/// Proof that this machine has the instructions: made by [`run_detected`] only.
#[derive(Clone, Copy)]
struct Ifma {
    /// p.
    modulus: __m512i,
    /// 2p.
    twice: __m512i,
    /// 2^52 − p.
    negative: __m512i,
    /// ⌊2^52 / p⌋.
    reciprocal: __m512i,
    /// 2^52 − 1.
    mask: __m512i,
}

impl Ifma {
    /// sum + w x − ⌊s x / 2^52⌋ p, with junk above 52 bits.
    #[inline(always)]
    fn add_product(self, sum: __m512i, x: __m512i, w: (__m512i, __m512i)) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe {
            let quotient = _mm512_madd52hi_epu64(_mm512_setzero_si512(), x, w.1);
            _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(sum, x, w.0), quotient, self.negative)
        }
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_setzero_si512() }
    }

    /// Takes `amount` off unless that goes below zero, for lanes without junk.
    #[inline(always)]
    fn take_off(self, value: __m512i, amount: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_min_epu64(value, _mm512_sub_epi64(value, amount)) }
    }
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
        // SAFETY: `self` proves the features.
        let reduced = unsafe {
            let quotient = _mm512_madd52hi_epu64(_mm512_setzero_si512(), vector, self.reciprocal);
            let remainder = _mm512_madd52lo_epu64(vector, quotient, self.negative);
            _mm512_and_si512(remainder, self.mask)
        };
        self.store_partial(self.take_off(reduced, self.modulus), row);
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
        // SAFETY: `self` proves the features.
        unsafe {
            (
                _mm512_set1_epi64(factor.0 as i64),
                _mm512_set1_epi64(factor.1 as i64),
            )
        }
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
            let sum = self.take_off(_mm512_add_epi64(a, b), self.twice);
            let difference = _mm512_add_epi64(_mm512_sub_epi64(a, b), self.twice);
            let product = self.add_product(self.zero(), difference, w);
            (sum, _mm512_and_si512(product, self.mask))
        }
    }

    #[inline(always)]
    fn scale(self, x: __m512i, w: (__m512i, __m512i)) -> __m512i {
        self.add_product(self.zero(), x, w)
    }
}
