//! Arithmetic modulo p < 2^48 on eight lanes with AVX-512 IFMA, which multiplies 52-bit integers.
//!
//! Products by constants are Shoup's, with s = ⌊w 2^52 / p⌋: w x − ⌊s x / 2^52⌋ p is below 2p for every x < 2^52. Only the
//! low 52 bits of a lane count: the products ignore what is above, and sums of lanes may put junk there.

use core::arch::x86_64::*;

/// Bits of a lane that count.
const BITS: u32 = 52;

/// Whether this machine has the instructions.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
}

/// w and s = ⌊w 2^52 / p⌋ for a constant w below p = `modulus`.
pub(crate) fn factor(value: u64, modulus: u64) -> (u64, u64) {
    let quotient = (u128::from(value) << BITS) / u128::from(modulus);
    (value, quotient as u64)
}

/// Constants of a modulus, and proof that this machine has the instructions.
#[derive(Clone, Copy)]
pub(crate) struct Ifma {
    /// p.
    pub(crate) modulus: __m512i,
    /// 2p.
    pub(crate) twice: __m512i,
    /// 2^52 − p.
    negative: __m512i,
    /// ⌊2^52 / p⌋.
    reciprocal: __m512i,
    /// 2^52 − 1.
    mask: __m512i,
}

impl Ifma {
    /// The constants of p = `modulus`.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn new(modulus: u64) -> Self {
        let broadcast = |value: u64| _mm512_set1_epi64(value as i64);
        Self {
            modulus: broadcast(modulus),
            twice: broadcast(2 * modulus),
            negative: broadcast((1 << BITS) - modulus),
            reciprocal: broadcast(factor(1, modulus).1),
            mask: broadcast((1 << BITS) - 1),
        }
    }

    /// 0 in every lane.
    #[inline(always)]
    pub(crate) fn zero(self) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_setzero_si512() }
    }

    /// A number in every lane.
    #[inline(always)]
    pub(crate) fn broadcast(self, value: u64) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_set1_epi64(value as i64) }
    }

    /// sum + w x − ⌊s x / 2^52⌋ p for (w, s) = `factor`, with junk above 52 bits.
    #[inline(always)]
    pub(crate) fn add_product(
        self,
        sum: __m512i,
        x: __m512i,
        factor: (__m512i, __m512i),
    ) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe {
            let quotient = _mm512_madd52hi_epu64(self.zero(), x, factor.1);
            let product = _mm512_madd52lo_epu64(sum, x, factor.0);
            _mm512_madd52lo_epu64(product, quotient, self.negative)
        }
    }

    /// x modulo p, below 2p and without junk, for any x < 2^52 with junk above.
    #[inline(always)]
    pub(crate) fn reduce(self, x: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_and_si512(self.reduce_with_junk(x), self.mask) }
    }

    /// x modulo p, below 2p but with junk above 52 bits, for any such x.
    #[inline(always)]
    pub(crate) fn reduce_with_junk(self, x: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe {
            let quotient = _mm512_madd52hi_epu64(self.zero(), x, self.reciprocal);
            _mm512_madd52lo_epu64(x, quotient, self.negative)
        }
    }

    /// Takes `amount` off unless that goes below zero, for lanes without junk.
    #[inline(always)]
    pub(crate) fn take_off(self, value: __m512i, amount: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_min_epu64(value, _mm512_sub_epi64(value, amount)) }
    }
}
