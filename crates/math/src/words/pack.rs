//! Packing lanes into bits and adding packed bits to lanes.
//!
//! 8 lanes of b bits are exactly b bytes, so the kernels are compiled once for every width and work on groups
//! of 8 lanes, within which every offset and shift is a constant. A last partial group goes through a padded
//! copy of itself.

#[cfg(target_arch = "x86_64")]
use super::vbmi::Vbmi;
use super::{Tile, TileMut, Width, check_packed};
use crate::MathError;

/// Appends the packed form of `tile` to `out`.
///
/// The tiles of one vector can be appended one after the other if every tile but the last has a multiple of 8
/// lanes: then it ends at the end of a byte.
///
/// # Panics
/// If the lanes of `tile` are not those of `width` (`u32` for at most 32 bits, else `u64`).
pub fn pack_tile(width: Width, tile: Tile<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width.packed_len(tile.len()), 0);
    pack_tile_into(width, tile, &mut out[start..]);
}

/// Writes the packed form of `tile` over `packed`, for tiles that are packed on different threads; see
/// [`pack_tile`].
///
/// # Panics
/// If `packed` has another length than `width.packed_len(tile.len())`, or the lanes are not those of `width`.
pub fn pack_tile_into(width: Width, tile: Tile<'_>, packed: &mut [u8]) {
    assert_eq!(
        packed.len(),
        width.packed_len(tile.len()),
        "bytes of a packed tile"
    );
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        return match tile {
            Tile::W32(lanes) => vbmi.pack32(width, lanes, packed),
            Tile::W64(lanes) => vbmi.pack64(width, lanes, packed),
        };
    }
    match tile {
        Tile::W32(lanes) => portable::pack32(width, lanes, packed),
        Tile::W64(lanes) => portable::pack64(width, lanes, packed),
    }
}

/// Adds the words packed in `packed` to `tile`, wrapping at the lane: a piece of
/// [`Words::add_packed`](super::Words::add_packed), for vectors that are worked off tile by tile. Pieces
/// of a packed vector meet at the end of a byte where every tile but the last has a multiple of 8 lanes.
///
/// # Errors
/// [`MathError::PackedLength`] and [`MathError::Padding`]; no lane has changed then.
///
/// # Panics
/// If the lanes of `tile` are not those of `width`.
pub fn add_packed_tile(width: Width, tile: TileMut<'_>, packed: &[u8]) -> Result<(), MathError> {
    check_packed(width, tile.len(), packed)?;
    add_to_tile(width, tile, packed);
    Ok(())
}

/// Adds the words of many packed vectors to `tile`, wrapping at the lane, in one pass over all of them; see
/// [`add_packed_tile`]. Lanes may get junk above bit b.
///
/// # Errors
/// [`MathError::PackedLength`] and [`MathError::Padding`]; no lane has changed then.
///
/// # Panics
/// If the lanes of `tile` are not those of `width`.
pub fn add_packed_tiles(
    width: Width,
    mut tile: TileMut<'_>,
    packed: &[&[u8]],
) -> Result<(), MathError> {
    for packed in packed {
        check_packed(width, tile.len(), packed)?;
    }
    assert!(
        matches!(tile, TileMut::W32(_)) == width.fits_u32(),
        "the tile has lanes of another width than {} bits",
        width.bits()
    );
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        match tile {
            TileMut::W32(lanes) => vbmi.sum32(width, lanes, packed),
            TileMut::W64(lanes) => vbmi.sum64(width, lanes, packed),
        }
        return Ok(());
    }
    for packed in packed {
        add_to_tile(width, tile.reborrow(), packed);
    }
    Ok(())
}

/// Adds the lanes packed in `packed`, whose length the caller has checked, to `tile`, wrapping at the lane.
///
/// # Panics
/// If the lanes of `tile` are not those of `width`.
pub(super) fn add_to_tile(width: Width, tile: TileMut<'_>, packed: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        return match tile {
            TileMut::W32(lanes) => vbmi.add32(width, lanes, packed),
            TileMut::W64(lanes) => vbmi.add64(width, lanes, packed),
        };
    }
    match tile {
        TileMut::W32(lanes) => portable::add32(width, lanes, packed),
        TileMut::W64(lanes) => portable::add64(width, lanes, packed),
    }
}

/// The kernels in plain Rust, one instance a width.
pub(super) mod portable {
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
    pub(in crate::words) fn pack32(width: Width, lanes: &[u32], packed: &mut [u8]) {
        by_narrow_width!(width, pack32_of(lanes, packed));
    }

    /// Packs lanes of 33 to 64 bits into `packed`, which is exactly their packed length.
    pub(in crate::words) fn pack64(width: Width, lanes: &[u64], packed: &mut [u8]) {
        by_wide_width!(width, pack64_of(lanes, packed));
    }

    /// Adds packed lanes of at most 32 bits to `lanes`.
    pub(in crate::words) fn add32(width: Width, lanes: &mut [u32], packed: &[u8]) {
        by_narrow_width!(width, add32_of(lanes, packed));
    }

    /// Adds packed lanes of 33 to 64 bits to `lanes`.
    pub(in crate::words) fn add64(width: Width, lanes: &mut [u64], packed: &[u8]) {
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
}
