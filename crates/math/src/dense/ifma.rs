//! Products with AVX-512 IFMA: the low and the high 52 bits of every product are summed up in lanes of their own.

use core::arch::x86_64::*;

use super::Line;
use crate::ifma::{Ifma, factor, is_available};
use crate::prime_field::NttField;
use crate::transform::Row;

/// Terms summed up between reductions: 512 high halves of at most p^2 / 2^52 < 2^43 and what the low ones carry over
/// stay below 2^52.
const TERMS: usize = 512;

/// Rows of the matrix that share the loads of the operand.
const ROWS: usize = 4;

/// Proof that this machine has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Detected(());

impl Detected {
    /// Asks the machine.
    pub(super) fn detect() -> Option<Self> {
        is_available().then_some(Self(()))
    }

    /// See [`multiply_portable`](super::multiply_portable).
    pub(super) fn multiply<F: NttField>(
        self,
        entries: &[F],
        operand: &[Line],
        product: &mut [Line],
    ) {
        // SAFETY: `self` proves the features.
        unsafe { multiply(entries, operand, product) }
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply<F: NttField>(entries: &[F], operand: &[Line], product: &mut [Line]) {
    let ifma = Ifma::new(F::MODULUS);
    let (groups, rest) = product.as_chunks_mut::<ROWS>();
    let (group_entries, rest_entries) = entries.split_at(groups.len() * ROWS * operand.len());
    for (lines, entries) in groups
        .iter_mut()
        .zip(group_entries.chunks_exact(ROWS * operand.len()))
    {
        rows(ifma, entries, operand, lines);
    }
    for (line, entries) in rest
        .iter_mut()
        .zip(rest_entries.chunks_exact(operand.len()))
    {
        rows(ifma, entries, operand, std::array::from_mut(line));
    }
}

/// `R` rows of the product.
#[target_feature(enable = "avx512f,avx512ifma")]
fn rows<F: NttField, const R: usize>(
    ifma: Ifma,
    entries: &[F],
    operand: &[Line],
    lines: &mut [Line; R],
) {
    let high_factor = (1_u64 << 52) % F::MODULUS;
    let (w, s) = factor(high_factor, F::MODULUS);
    let high_factor = (ifma.broadcast(w), ifma.broadcast(s));
    for (number, operand) in operand.chunks(TERMS).enumerate() {
        let start = number * TERMS;
        let columns = entries.len() / R;
        let entries: [&[F]; R] =
            std::array::from_fn(|r| &entries[r * columns + start..][..operand.len()]);
        let (low, high) = sums(ifma, entries, operand);
        for (r, line) in lines.iter_mut().enumerate() {
            for (half, row) in line.iter_mut().enumerate() {
                let (low, high) = (low[r][half], high[r][half]);
                let high = _mm512_add_epi64(high, _mm512_srli_epi64::<52>(low));
                // Below 4p, and below 5p with the earlier terms' sum.
                let sum = ifma.add_product(ifma.reduce(low), high, high_factor);
                let sum = _mm512_add_epi64(sum, if number == 0 { ifma.zero() } else { load(row) });
                store(ifma.take_off(ifma.reduce(sum), ifma.modulus), row);
            }
        }
    }
}

/// The sums of the low and of the high halves of the products.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn sums<F: NttField, const R: usize>(
    ifma: Ifma,
    entries: [&[F]; R],
    operand: &[Line],
) -> ([[__m512i; 2]; R], [[__m512i; 2]; R]) {
    let mut low = [[ifma.zero(); 2]; R];
    let mut high = low;
    for (k, [left, right]) in operand.iter().enumerate() {
        let (left, right) = (load(left), load(right));
        for r in 0..R {
            let entry = ifma.broadcast(entries[r][k].to_canonical());
            low[r][0] = _mm512_madd52lo_epu64(low[r][0], entry, left);
            low[r][1] = _mm512_madd52lo_epu64(low[r][1], entry, right);
            high[r][0] = _mm512_madd52hi_epu64(high[r][0], entry, left);
            high[r][1] = _mm512_madd52hi_epu64(high[r][1], entry, right);
        }
    }
    (low, high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(row: &Row) -> __m512i {
    // SAFETY: a row has 64 bytes at a multiple of 64.
    unsafe { _mm512_load_si512(row.0.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(vector: __m512i, row: &mut Row) {
    // SAFETY: a row has 64 bytes at a multiple of 64.
    unsafe { _mm512_store_si512(row.0.as_mut_ptr().cast(), vector) }
}
