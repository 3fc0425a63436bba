//! Packing lanes into bits and adding packed bits to lanes in plain Rust, one instance a width.
//!
//! 8 lanes of b bits are exactly b bytes, so the kernels are compiled once for every width and work on groups
//! of 8 lanes, within which every offset and shift is a constant. A last partial group goes through a padded
//! copy of itself.

use super::Width;

macro_rules! by_width {
    ($width:expr, [$($bits:literal)*], $kernel:ident $arguments:tt) => {
        match $width.bits() {
            $($bits => $kernel::<$bits> $arguments,)*
            bits => panic!("the tile has lanes of another width than {bits} bits"),
        }
    };
}
macro_rules! by_narrow_width {
    ($width:expr, $($call:tt)*) => {
        by_width!($width, [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
            29 30 31 32], $($call)*)
    };
}
macro_rules! by_wide_width {
    ($width:expr, $($call:tt)*) => {
        by_width!($width, [33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58
            59 60 61 62 63 64], $($call)*)
    };
}

/// Packs lanes of at most 32 bits into `packed`, which is exactly their packed length.
pub(super) fn pack32(width: Width, lanes: &[u32], packed: &mut [u8]) {
    by_narrow_width!(width, pack32_of(lanes, packed));
}

/// Packs lanes of 33 to 64 bits into `packed`, which is exactly their packed length.
pub(super) fn pack64(width: Width, lanes: &[u64], packed: &mut [u8]) {
    by_wide_width!(width, pack64_of(lanes, packed));
}

/// Adds packed lanes of at most 32 bits to `lanes`.
pub(super) fn add32(width: Width, lanes: &mut [u32], packed: &[u8]) {
    by_narrow_width!(width, add32_of(lanes, packed));
}

/// Adds packed lanes of 33 to 64 bits to `lanes`.
pub(super) fn add64(width: Width, lanes: &mut [u64], packed: &[u8]) {
    by_wide_width!(width, add64_of(lanes, packed));
}

fn pack32_of<const B: usize>(lanes: &[u32], packed: &mut [u8]) {
    pack_groups::<u32, B>(lanes, packed, |group| group.map(u64::from));
}

fn pack64_of<const B: usize>(lanes: &[u64], packed: &mut [u8]) {
    pack_groups::<u64, B>(lanes, packed, |group| *group);
}

fn add32_of<const B: usize>(lanes: &mut [u32], packed: &[u8]) {
    add_groups::<u32, B>(lanes, packed, |lane, word| lane.wrapping_add(word as u32));
}

fn add64_of<const B: usize>(lanes: &mut [u64], packed: &[u8]) {
    add_groups::<u64, B>(lanes, packed, u64::wrapping_add);
}

#[inline(always)]
fn pack_groups<L: Copy + Default, const B: usize>(
    lanes: &[L],
    packed: &mut [u8],
    widen: impl Fn(&[L; 8]) -> [u64; 8],
) {
    let (groups, rest) = lanes.as_chunks::<8>();
    let (group_bytes, rest_bytes) = packed.split_at_mut(groups.len() * B);
    for (group, bytes) in groups.iter().zip(group_bytes.as_chunks_mut::<B>().0) {
        *bytes = pack_group(widen(group));
    }
    let mut last = [L::default(); 8];
    last[..rest.len()].copy_from_slice(rest);
    let bytes: [u8; B] = pack_group(widen(&last));
    rest_bytes.copy_from_slice(&bytes[..rest_bytes.len()]);
}

#[inline(always)]
fn add_groups<L: Copy + Default, const B: usize>(
    lanes: &mut [L],
    packed: &[u8],
    add: impl Fn(L, u64) -> L,
) {
    let (groups, rest) = lanes.as_chunks_mut::<8>();
    let (group_bytes, rest_bytes) = packed.split_at(groups.len() * B);
    for (group, bytes) in groups.iter_mut().zip(group_bytes.as_chunks::<B>().0) {
        let words = unpack_group(bytes);
        for i in 0..8 {
            group[i] = add(group[i], words[i]);
        }
    }
    let mut last = [0; B];
    last[..rest_bytes.len()].copy_from_slice(rest_bytes);
    for (lane, word) in rest.iter_mut().zip(unpack_group(&last)) {
        *lane = add(*lane, word);
    }
}

/// The packed form of 8 lanes, junk above bit B dropped.
#[inline(always)]
fn pack_group<const B: usize>(lanes: [u64; 8]) -> [u8; B] {
    let mut string = [0_u64; 8];
    for (i, lane) in lanes.into_iter().enumerate() {
        let word = lane & (u64::MAX >> (64 - B));
        let (block, shift) = (i * B / 64, i * B % 64);
        string[block] |= word << shift;
        if shift + B > 64 {
            string[block + 1] |= word >> (64 - shift);
        }
    }
    let mut bytes = [0; B];
    for (bytes, block) in bytes.chunks_mut(8).zip(string) {
        bytes.copy_from_slice(&block.to_le_bytes()[..bytes.len()]);
    }
    bytes
}

/// The 8 words packed in `bytes`.
#[inline(always)]
fn unpack_group<const B: usize>(bytes: &[u8; B]) -> [u64; 8] {
    let mut string = [0_u64; 8];
    for (block, bytes) in string.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *block = u64::from_le_bytes(padded);
    }
    let mut words = [0; 8];
    for (i, word) in words.iter_mut().enumerate() {
        let (block, shift) = (i * B / 64, i * B % 64);
        *word = string[block] >> shift;
        if shift + B > 64 {
            *word |= string[block + 1] << (64 - shift);
        }
        *word &= u64::MAX >> (64 - B);
    }
    words
}
