//! Adding many packed vectors to one at a time: the sum of a step stays in a register meanwhile.
//!
//! Where a lane and its bit offset fit in 32 (64) bits, that is up to 25 (57) bits, one permutation and one
//! shift unpack it. What is left above bit b does not change the bits below in a sum.

use core::arch::x86_64::*;

use super::super::Width;
use super::{UNPACK, Vbmi, first_bytes, load};

impl Vbmi {
    /// Adds packed lanes of at most 32 bits to `lanes`, from vectors of exactly their packed length.
    pub(in crate::words) fn sum32(self, width: Width, lanes: &mut [u32], packed: &[&[u8]]) {
        if width.bits() > 25 {
            return packed.iter().for_each(|p| self.add32(width, lanes, p));
        }
        let (steps, rest) = lanes.as_chunks_mut::<16>();
        // SAFETY: a step is a register of u32 lanes, and the width is narrow enough.
        unsafe { self.sum::<false, _>(width, steps, packed) };
        let done = width.packed_len(16 * steps.len());
        packed
            .iter()
            .for_each(|p| self.add32(width, rest, &p[done..]));
    }

    /// Adds packed lanes of 33 to 64 bits to `lanes`, from vectors of exactly their packed length.
    pub(in crate::words) fn sum64(self, width: Width, lanes: &mut [u64], packed: &[&[u8]]) {
        if width.bits() > 57 {
            return packed.iter().for_each(|p| self.add64(width, lanes, p));
        }
        let (steps, rest) = lanes.as_chunks_mut::<8>();
        // SAFETY: a step is a register of u64 lanes, and the width is narrow enough.
        unsafe { self.sum::<true, _>(width, steps, packed) };
        let done = width.packed_len(8 * steps.len());
        packed
            .iter()
            .for_each(|p| self.add64(width, rest, &p[done..]));
    }

    /// Adds the first steps of every vector.
    ///
    /// # Safety
    /// A step is 64 bytes, of u32 lanes or (`WIDE`) of u64 lanes.
    unsafe fn sum<const WIDE: bool, S>(self, width: Width, steps: &mut [S], packed: &[&[u8]]) {
        let bits = width.bits() as usize;
        let step = if WIDE { bits } else { 2 * bits };
        let Some(len) = packed.iter().map(|packed| packed.len()).min() else {
            return;
        };
        assert!(size_of::<S>() == 64 && len >= step * steps.len());
        // As long as 64 bytes are left, whole registers can be loaded.
        let whole = steps.len().min((len + step).saturating_sub(64) / step);
        let (first, last) = steps.split_at_mut(whole);
        // SAFETY: `self` proves the features; the bytes of every step lie in every vector, and for the
        // first ones so do the 64 bytes that begin with them.
        unsafe {
            sum_steps::<WIDE, true>(width, step, first.as_mut_ptr().cast(), 0..whole, packed);
            let rest = whole..whole + last.len();
            sum_steps::<WIDE, false>(width, step, last.as_mut_ptr().cast(), rest, packed);
        }
    }
}

/// Adds the given steps of every vector to the lanes from `lanes` on.
///
/// # Safety
/// `lanes` has 64 bytes for each step. Step i has `step` bytes from `i * step` on in every vector, and if
/// `WHOLE` there are 64 bytes from there on.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
unsafe fn sum_steps<const WIDE: bool, const WHOLE: bool>(
    width: Width,
    step: usize,
    lanes: *mut u8,
    steps: core::ops::Range<usize>,
    packed: &[&[u8]],
) {
    let table = &UNPACK[width.bits() as usize];
    let (index, offset) = (load(&table.bytes), load(&table.offset));
    let in_step = first_bytes(step);
    for (i, at) in steps.enumerate() {
        // SAFETY: there are 64 bytes for each step.
        let lanes = unsafe { lanes.add(64 * i) }.cast();
        // SAFETY: as above.
        let mut sum = unsafe { _mm512_loadu_si512(lanes) };
        for packed in packed {
            // SAFETY: the bytes that are loaded lie in the vector.
            let bytes = unsafe {
                let place = packed.as_ptr().add(at * step).cast();
                if WHOLE {
                    _mm512_loadu_epi8(place)
                } else {
                    _mm512_maskz_loadu_epi8(in_step, place)
                }
            };
            let words = _mm512_permutexvar_epi8(index, bytes);
            sum = if WIDE {
                _mm512_add_epi64(sum, _mm512_srlv_epi64(words, offset))
            } else {
                _mm512_add_epi32(sum, _mm512_srlv_epi32(words, offset))
            };
        }
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(lanes.cast(), sum) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::words::portable;

    /// Adds the packings of `vectors`, cut to one length, to zeros, by either code.
    fn check(vbmi: Vbmi, bits: u32, vectors: &[Vec<u64>]) {
        let width = Width::new(bits).unwrap();
        let lanes = vectors.iter().map(Vec::len).min().unwrap_or(9);
        let mut all = vec![vec![0xa5; width.packed_len(lanes)]; vectors.len()];
        let mask = width.mask();
        if width.fits_u32() {
            let [mut sum, mut again] = [vec![7u32; lanes], vec![7; lanes]];
            for (vector, packed) in vectors.iter().zip(&mut all) {
                let vector: Vec<u32> = vector[..lanes].iter().map(|&lane| lane as u32).collect();
                portable::pack32(width, &vector, packed);
                portable::add32(width, &mut sum, packed);
            }
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            vbmi.sum32(width, &mut again, &all);
            let differ = |(a, b): (&u32, &u32)| u64::from(a ^ b) & mask != 0;
            assert!(!sum.iter().zip(&again).any(differ), "{bits} bits");
        } else {
            let [mut sum, mut again] = [vec![7u64; lanes], vec![7; lanes]];
            for (vector, packed) in vectors.iter().zip(&mut all) {
                portable::pack64(width, &vector[..lanes], packed);
                portable::add64(width, &mut sum, packed);
            }
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            vbmi.sum64(width, &mut again, &all);
            let differ = |(a, b): (&u64, &u64)| (a ^ b) & mask != 0;
            assert!(!sum.iter().zip(&again).any(differ), "{bits} bits");
        }
    }

    proptest! {
        #[test]
        fn equals_the_portable_code(
            vectors in prop::collection::vec(
                prop::collection::vec(prop_oneof![4 => any::<u64>(), 1 => Just(u64::MAX)], 0..150),
                0..6,
            ),
        ) {
            if let Some(vbmi) = Vbmi::detect() {
                (1..=64).for_each(|bits| check(vbmi, bits, &vectors));
            }
        }
    }
}
