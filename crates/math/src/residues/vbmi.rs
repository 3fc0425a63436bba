//! Eight residues a step with AVX-512 VBMI: one byte permutation turns lanes into encodings or back.

use core::arch::x86_64::*;

use super::portable;
use crate::prime_field::NttField;
use crate::transform::Row;

/// Residues of a step.
const STEP: usize = 8;

/// Proof that this machine has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Vbmi(());

/// Where the bytes of encodings and of lanes come from.
#[repr(align(64))]
struct Layout {
    /// For each byte of eight encodings, the byte of the lanes.
    pack: [u8; 64],
    /// For each byte of the lanes, the byte of eight encodings.
    unpack: [u8; 64],
    /// The bytes of eight encodings.
    packed: __mmask64,
    /// The bytes of the lanes that encodings have.
    lanes: __mmask64,
}

const fn layout(len: usize) -> Layout {
    let mut layout = Layout {
        pack: [0; 64],
        unpack: [0; 64],
        packed: u64::MAX >> (64 - STEP * len),
        lanes: 0,
    };
    let mut byte = 0;
    while byte < STEP * len {
        let in_lane = 8 * (byte / len) + byte % len;
        layout.pack[byte] = in_lane as u8;
        layout.unpack[in_lane] = byte as u8;
        layout.lanes |= 1 << in_lane;
        byte += 1;
    }
    layout
}

impl Vbmi {
    /// Asks the machine.
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi");
        found.then_some(Self(()))
    }

    /// See [`portable::pack`].
    pub(super) fn pack<F: NttField>(self, values: &[u64], out: &mut [u8]) {
        let (steps, rest) = values.as_chunks::<STEP>();
        let (step_bytes, rest_bytes) = out.split_at_mut(steps.len() * STEP * F::ENCODED_LEN);
        // SAFETY: `self` proves the features.
        unsafe { pack_steps::<F>(steps, step_bytes) };
        portable::pack::<F>(rest, rest_bytes);
    }

    /// See [`portable::pack_columns`].
    pub(super) fn pack_columns<F: NttField>(
        self,
        tiles: &[&[Row]],
        count: usize,
        at: usize,
        columns: &mut [Option<&mut [u8]>],
    ) {
        if count != tiles.len() * STEP {
            return portable::pack_columns::<F>(tiles, count, at, columns);
        }
        // SAFETY: `self` proves the features.
        unsafe { pack_columns::<F>(tiles, at, columns) }
    }

    /// See [`portable::add`].
    pub(super) fn add<F: NttField>(self, sum: &mut [u64], bytes: &[u8]) -> bool {
        let (steps, rest) = sum.as_chunks_mut::<STEP>();
        let (step_bytes, rest_bytes) = bytes.split_at(steps.len() * STEP * F::ENCODED_LEN);
        // SAFETY: `self` proves the features.
        let canonical = unsafe { add_steps::<F>(steps, step_bytes) };
        canonical & portable::add::<F>(rest, rest_bytes)
    }

    /// See [`portable::accept`].
    pub(super) fn accept<F: NttField>(self, draws: &[u8], out: &mut [u64]) -> (usize, usize) {
        // SAFETY: `self` proves the features.
        let (used, written) = unsafe { accept_steps::<F>(draws, out) };
        let rest = &draws[used * F::DRAW_BYTES..];
        let (more_used, more_written) = portable::accept::<F>(rest, &mut out[written..]);
        (used + more_used, written + more_written)
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn pack_steps<F: NttField>(steps: &[[u64; STEP]], out: &mut [u8]) {
    for (lanes, bytes) in steps
        .iter()
        .zip(out.chunks_exact_mut(STEP * F::ENCODED_LEN))
    {
        store::<F>(load(lanes), bytes);
    }
}

/// Columns that are asked for ahead of the one that is written: each lies elsewhere in memory.
const AHEAD: usize = 12;

/// Whole tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn pack_columns<F: NttField>(tiles: &[&[Row]], at: usize, columns: &mut [Option<&mut [u8]>]) {
    let len = tiles.len() * STEP * F::ENCODED_LEN;
    for j in 0..columns.len() {
        if let Some(Some(column)) = columns.get_mut(j + AHEAD) {
            prefetch(&mut column[at..][..len]);
        }
        if let Some(column) = &mut columns[j] {
            let places = column[at..][..len].chunks_exact_mut(STEP * F::ENCODED_LEN);
            for (tile, place) in tiles.iter().zip(places) {
                store::<F>(load(&tile[j].0), place);
            }
        }
    }
}

/// Asks for memory that will be written.
#[inline]
fn prefetch(bytes: &mut [u8]) {
    for line in bytes.chunks_mut(64) {
        // SAFETY: a hint, and within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast()) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn add_steps<F: NttField>(steps: &mut [[u64; STEP]], bytes: &[u8]) -> bool {
    let modulus = _mm512_set1_epi64(F::MODULUS as i64);
    let mut too_large = 0;
    for (sum, bytes) in steps
        .iter_mut()
        .zip(bytes.chunks_exact(STEP * F::ENCODED_LEN))
    {
        let values = decode::<F>(bytes);
        too_large |= _mm512_cmpge_epu64_mask(values, modulus);
        let total = _mm512_add_epi64(load(sum), values);
        // Below p the difference wraps to a large number.
        let reduced = _mm512_min_epu64(total, _mm512_sub_epi64(total, modulus));
        // SAFETY: an array of 64 bytes.
        unsafe { _mm512_storeu_si512(sum.as_mut_ptr().cast(), reduced) };
    }
    too_large == 0
}

/// Whole steps as long as there is room for all their residues.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn accept_steps<F: NttField>(draws: &[u8], out: &mut [u64]) -> (usize, usize) {
    let modulus = _mm512_set1_epi64(F::MODULUS as i64);
    let bits = _mm512_set1_epi64((u64::MAX >> (u64::BITS - F::BITS)) as i64);
    let (mut used, mut written) = (0, 0);
    for bytes in draws.chunks_exact(STEP * F::DRAW_BYTES) {
        let Some((room, _)) = out[written..].split_first_chunk_mut::<STEP>() else {
            break;
        };
        let values = _mm512_and_si512(load_draws::<F>(bytes), bits);
        let accepted = _mm512_cmplt_epu64_mask(values, modulus);
        let values = _mm512_maskz_compress_epi64(accepted, values);
        // SAFETY: an array of 64 bytes.
        unsafe { _mm512_storeu_si512(room.as_mut_ptr().cast(), values) };
        used += STEP;
        written += accepted.count_ones() as usize;
    }
    (used, written)
}

/// Eight draws.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load_draws<F: NttField>(bytes: &[u8]) -> __m512i {
    assert!(bytes.len() == STEP * F::DRAW_BYTES);
    // SAFETY: `bytes` has the 32 or 64 bytes that are read.
    unsafe {
        match F::DRAW_BYTES {
            4 => _mm512_cvtepu32_epi64(_mm256_loadu_si256(bytes.as_ptr().cast())),
            _ => _mm512_loadu_si512(bytes.as_ptr().cast()),
        }
    }
}

/// Writes eight encodings.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn store<F: NttField>(lanes: __m512i, bytes: &mut [u8]) {
    let layout = const { &layout(F::ENCODED_LEN) };
    assert!(bytes.len() == STEP * F::ENCODED_LEN);
    // SAFETY: an array of 64 bytes; only the bytes of eight encodings are written, which `bytes` has.
    unsafe {
        let index = _mm512_load_si512(layout.pack.as_ptr().cast());
        let packed = _mm512_permutexvar_epi8(index, lanes);
        _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), layout.packed, packed);
    }
}

/// The residues of eight encodings.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn decode<F: NttField>(bytes: &[u8]) -> __m512i {
    let layout = const { &layout(F::ENCODED_LEN) };
    assert!(bytes.len() == STEP * F::ENCODED_LEN);
    // SAFETY: an array of 64 bytes; only the bytes of eight encodings are read, which `bytes` has.
    unsafe {
        let index = _mm512_load_si512(layout.unpack.as_ptr().cast());
        let packed = _mm512_maskz_loadu_epi8(layout.packed, bytes.as_ptr().cast());
        _mm512_maskz_permutexvar_epi8(layout.lanes, index, packed)
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u64; STEP]) -> __m512i {
    // SAFETY: an array of 64 bytes.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prime_field::{Field31, Field47, Field48};

    /// Everything there is, by either code, on the same data.
    fn check<F: NttField>(vbmi: Vbmi, seeds: &[u64], room: usize) {
        let values: Vec<u64> = seeds.iter().map(|seed| seed % F::MODULUS).collect();
        let mut packed = [
            vec![0xa5; values.len() * F::ENCODED_LEN],
            vec![0x5a; values.len() * F::ENCODED_LEN],
        ];
        portable::pack::<F>(&values, &mut packed[0]);
        vbmi.pack::<F>(&values, &mut packed[1]);
        assert_eq!(packed[0], packed[1]);
        let mut sums = [values.clone(), values];
        assert!(portable::add::<F>(&mut sums[0], &packed[0]));
        assert!(vbmi.add::<F>(&mut sums[1], &packed[0]));
        assert_eq!(sums[0], sums[1]);
        let bytes: Vec<u8> = seeds.iter().flat_map(|seed| seed.to_le_bytes()).collect();
        // Elements that may be too large.
        let any = &bytes[..sums[0].len() * F::ENCODED_LEN];
        let canonical = portable::add::<F>(&mut sums[0].clone(), any);
        assert_eq!(vbmi.add::<F>(&mut sums[1], any), canonical);
        let mut residues = [vec![0; room], vec![0; room]];
        let (used, written) = portable::accept::<F>(&bytes, &mut residues[0]);
        assert_eq!((used, written), vbmi.accept::<F>(&bytes, &mut residues[1]));
        assert_eq!(residues[0][..written], residues[1][..written]);
    }

    proptest! {
        #[test]
        fn equals_the_portable_code(
            seeds in prop::collection::vec(prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)], 0..60),
            room in 0_usize..100,
        ) {
            if let Some(vbmi) = Vbmi::detect() {
                check::<Field31>(vbmi, &seeds, room);
                check::<Field47>(vbmi, &seeds, room);
                check::<Field48>(vbmi, &seeds, room);
            }
        }
    }
}
