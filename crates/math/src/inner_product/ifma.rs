//! Inner products with AVX-512 IFMA, which multiplies 52-bit integers and adds either half of the product:
//! eight words a step.

use core::arch::x86_64::*;

use super::{TwinResidue, Width};

/// Proof that this machine has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Ifma(());

/// Steps in flight, to hide the latency of a multiplication.
const IN_FLIGHT: usize = 4;

/// Half-lanes of 32 bits in a register.
const HALVES: usize = 16;

/// Sums of a step, by weight, see [`step`].
type Sums = [__m512i; 4];

impl Ifma {
    /// Asks the machine.
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        found.then_some(Self(()))
    }

    /// See [`Coefficients::reduce_and_multiply`](super::Coefficients::reduce_and_multiply).
    pub(super) fn multiply32(self, width: Width, lanes: &mut [u32], rho: &[u64]) -> TwinResidue {
        assert!(lanes.len().div_ceil(2) <= rho.len());
        let mask = width.mask() << 32 | width.mask();
        // SAFETY: `self` proves the features; there is a coefficient for each pair of lanes.
        unsafe { multiply(lanes.as_mut_ptr(), lanes.len(), mask, rho) }
    }

    /// The same for wide lanes.
    pub(super) fn multiply64(self, width: Width, lanes: &mut [u64], rho: &[u64]) -> TwinResidue {
        assert!(lanes.len() <= rho.len());
        // SAFETY: as above; a lane is two halves, the lower one first.
        unsafe {
            multiply(
                lanes.as_mut_ptr().cast(),
                2 * lanes.len(),
                width.mask(),
                rho,
            )
        }
    }
}

/// Σ ρ_i w_i over the words w_i of two 32-bit halves each, and-ed with `mask`; they are written back.
///
/// # Safety
/// `halves` numbers from `place` on may be read and written, and `rho` has an entry for each pair of them.
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn multiply(place: *mut u32, halves: usize, mask: u64, rho: &[u64]) -> TwinResidue {
    // SAFETY: passed on.
    unsafe {
        if mask >> 52 == 0 {
            let sums = sum::<false>(place, halves, mask, rho);
            let [low, middle, more, high] = sums.map(u128::from);
            TwinResidue::from(low + ((middle + more) << 52) + (high << 104))
        } else {
            let sums = sum::<true>(place, halves, mask, rho);
            let [low, high, low_32, high_32] = sums.map(u128::from);
            let upper = TwinResidue::from(low_32 + (high_32 << 52));
            TwinResidue::from(low + (high << 52)) + upper * (1 << 32)
        }
    }
}

/// The sums of all steps, see [`step`]. At most 4096 terms below 2^52 make each of them.
///
/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn sum<const LONG: bool>(
    place: *mut u32,
    halves: usize,
    mask: u64,
    rho: &[u64],
) -> [u64; 4] {
    let mask = _mm512_set1_epi64(mask as i64);
    let mut sums = [[_mm512_setzero_si512(); 4]; IN_FLIGHT];
    let (mut at, rho) = (0, rho.as_ptr());
    // SAFETY: whole registers lie below `halves`; of the last ones only the lanes below it are touched.
    unsafe {
        while at + IN_FLIGHT * HALVES <= halves {
            for sums in &mut sums {
                let word: *mut i32 = place.add(at).cast();
                let words = _mm512_and_si512(_mm512_loadu_epi32(word), mask);
                _mm512_storeu_epi32(word, words);
                step::<LONG>(sums, words, _mm512_loadu_epi64(rho.add(at / 2).cast()));
                at += HALVES;
            }
        }
        while at < halves {
            let left = (halves - at).min(HALVES) as u32;
            let (chosen, pairs) = ((1_u32 << left) - 1, (1_u32 << left.div_ceil(2)) - 1);
            let word: *mut i32 = place.add(at).cast();
            let words = _mm512_maskz_loadu_epi32(chosen as __mmask16, word);
            let words = _mm512_and_si512(words, mask);
            _mm512_mask_storeu_epi32(word, chosen as __mmask16, words);
            let rho = _mm512_maskz_loadu_epi64(pairs as __mmask8, rho.add(at / 2).cast());
            step::<LONG>(&mut sums[0], words, rho);
            at += HALVES;
        }
    }
    let total = |k: usize| {
        let all = sums.iter().map(|sums| sums[k]);
        let all = all.reduce(|a, b| _mm512_add_epi64(a, b));
        _mm512_reduce_add_epi64(all.unwrap_or(_mm512_setzero_si512())) as u64
    };
    [total(0), total(1), total(2), total(3)]
}

/// Adds ρ w to the sums. With ρ = r + 2^52 s: if w < 2^52, the low and the high half of r w, then of s w. Else
/// w = u + 2^32 v, and for each of u and v the low half of its product by r, and the high half plus that by s,
/// which is below 2^40.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn step<const LONG: bool>(sums: &mut Sums, word: __m512i, rho: __m512i) {
    let top = _mm512_srli_epi64::<52>(rho);
    if LONG {
        let low = _mm512_and_si512(word, _mm512_set1_epi64(0xffff_ffff));
        let high = _mm512_srli_epi64::<32>(word);
        for (i, half) in [(0, low), (2, high)] {
            sums[i] = _mm512_madd52lo_epu64(sums[i], half, rho);
            sums[i + 1] = _mm512_madd52hi_epu64(sums[i + 1], half, rho);
            sums[i + 1] = _mm512_madd52lo_epu64(sums[i + 1], half, top);
        }
    } else {
        sums[0] = _mm512_madd52lo_epu64(sums[0], word, rho);
        sums[1] = _mm512_madd52hi_epu64(sums[1], word, rho);
        sums[2] = _mm512_madd52lo_epu64(sums[2], word, top);
        sums[3] = _mm512_madd52hi_epu64(sums[3], word, top);
    }
}
