//! With AVX-512, which has a mask bit for each lane of a register: 16 narrow or 8 wide lanes a step.

use core::arch::x86_64::*;

use crate::words::Lane;

/// Proof that this machine has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// Asks the machine.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt"))
            .then_some(Self(()))
    }

    /// See [`add_chosen`](super::add_chosen).
    pub(super) fn add_chosen<L: Lane>(self, pieces: &[u64], lanes: &mut [L], addends: &[L]) {
        // SAFETY: `self` proves the feature; bits stand for lanes of both tiles, which was checked.
        unsafe { change_chosen::<L, false>(pieces, lanes, addends) }
    }

    /// See [`subtract_chosen`](super::subtract_chosen).
    pub(super) fn subtract_chosen<L: Lane>(self, pieces: &[u64], lanes: &mut [L], numbers: &[L]) {
        // SAFETY: as above.
        unsafe { change_chosen::<L, true>(pieces, lanes, numbers) }
    }

    /// See [`add_compacted`](super::add_compacted).
    pub(super) fn add_compacted<L: Lane>(self, pieces: &[u64], lanes: &mut [L], compacted: &[L]) {
        // SAFETY: `self` proves the feature; bits stand for lanes, and are as many as compacted ones, which was
        // checked.
        unsafe { add_compacted(pieces, lanes, compacted) }
    }

    /// See [`compact`](super::compact).
    pub(super) fn compact<L: Lane>(self, pieces: &[u64], lanes: &[L], compacted: &mut [L]) {
        // SAFETY: as above.
        unsafe { compact(pieces, lanes, compacted) }
    }
}

/// Lanes of a register.
const fn step<L: Lane>() -> usize {
    64 / size_of::<L>()
}

/// Runs `with` on the first lane and the bits of each step.
#[inline(always)]
fn steps<L: Lane>(pieces: &[u64], lanes: usize, mut with: impl FnMut(usize, u16)) {
    let low = u16::MAX >> (16 - step::<L>());
    for (&piece, start) in pieces.iter().zip((0..lanes).step_by(64)) {
        for shift in (0..64.min(lanes - start)).step_by(step::<L>()) {
            with(start + shift, (piece >> shift) as u16 & low);
        }
    }
}

/// # Safety
/// Bits that are set have a number below the length of both.
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn change_chosen<L: Lane, const SUBTRACT: bool>(pieces: &[u64], lanes: &mut [L], by: &[L]) {
    steps::<L>(pieces, lanes.len(), |first, bits| {
        // SAFETY: `first` is below the length, and only lanes whose bit is set are accessed.
        unsafe {
            let place = lanes.as_mut_ptr().add(first);
            let (lanes, by) = (load(bits, place), load(bits, by.as_ptr().add(first)));
            let changed = match SUBTRACT {
                true => minus::<L>(lanes, by),
                false => plus::<L>(lanes, by),
            };
            store(bits, changed, place);
        }
    });
}

/// # Safety
/// Bits that are set have a number below the number of lanes, and are as many as the compacted lanes.
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn add_compacted<L: Lane>(pieces: &[u64], lanes: &mut [L], compacted: &[L]) {
    let mut from = compacted.as_ptr();
    steps::<L>(pieces, lanes.len(), |first, bits| {
        let chosen = bits.count_ones();
        // SAFETY: as above; of the compacted lanes, those of the bits are read, and those of bits before were.
        unsafe {
            let place = lanes.as_mut_ptr().add(first);
            let addends = expand::<L>(bits, load(first_lanes(chosen), from));
            from = from.add(chosen as usize);
            store(bits, plus::<L>(load(bits, place), addends), place);
        }
    });
}

/// # Safety
/// As [`add_compacted`].
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn compact<L: Lane>(pieces: &[u64], lanes: &[L], compacted: &mut [L]) {
    let mut to = compacted.as_mut_ptr();
    steps::<L>(pieces, lanes.len(), |first, bits| {
        let chosen = bits.count_ones();
        // SAFETY: as above.
        unsafe {
            let lanes = load(bits, lanes.as_ptr().add(first));
            store(first_lanes(chosen), compress::<L>(bits, lanes), to);
            to = to.add(chosen as usize);
        }
    });
}

/// The mask of the first lanes of a register.
fn first_lanes(count: u32) -> u16 {
    ((1_u32 << count) - 1) as u16
}

/// The lanes at `place` whose bit is set.
///
/// # Safety
/// They may be read.
#[target_feature(enable = "avx512f,popcnt")]
#[inline]
unsafe fn load<L: Lane>(bits: u16, place: *const L) -> __m512i {
    // SAFETY: passed on.
    unsafe {
        match size_of::<L>() {
            4 => _mm512_maskz_loadu_epi32(bits, place.cast()),
            _ => _mm512_maskz_loadu_epi64(bits as u8, place.cast()),
        }
    }
}

/// Writes the lanes whose bit is set.
///
/// # Safety
/// They may be written.
#[target_feature(enable = "avx512f,popcnt")]
#[inline]
unsafe fn store<L: Lane>(bits: u16, lanes: __m512i, place: *mut L) {
    // SAFETY: passed on.
    unsafe {
        match size_of::<L>() {
            4 => _mm512_mask_storeu_epi32(place.cast(), bits, lanes),
            _ => _mm512_mask_storeu_epi64(place.cast(), bits as u8, lanes),
        }
    }
}

#[target_feature(enable = "avx512f,popcnt")]
#[inline]
fn plus<L: Lane>(a: __m512i, b: __m512i) -> __m512i {
    match size_of::<L>() {
        4 => _mm512_add_epi32(a, b),
        _ => _mm512_add_epi64(a, b),
    }
}

#[target_feature(enable = "avx512f,popcnt")]
#[inline]
fn minus<L: Lane>(a: __m512i, b: __m512i) -> __m512i {
    match size_of::<L>() {
        4 => _mm512_sub_epi32(a, b),
        _ => _mm512_sub_epi64(a, b),
    }
}

/// The first lanes, each at the place of its bit.
#[target_feature(enable = "avx512f,popcnt")]
#[inline]
fn expand<L: Lane>(bits: u16, lanes: __m512i) -> __m512i {
    match size_of::<L>() {
        4 => _mm512_maskz_expand_epi32(bits, lanes),
        _ => _mm512_maskz_expand_epi64(bits as u8, lanes),
    }
}

/// The lanes whose bit is set, one after the other.
#[target_feature(enable = "avx512f,popcnt")]
#[inline]
fn compress<L: Lane>(bits: u16, lanes: __m512i) -> __m512i {
    match size_of::<L>() {
        4 => _mm512_maskz_compress_epi32(bits, lanes),
        _ => _mm512_maskz_compress_epi64(bits as u8, lanes),
    }
}
