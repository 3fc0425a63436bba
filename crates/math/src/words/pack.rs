//! Packing lanes into bits and adding packed bits to lanes, with the vector instructions of this machine or in plain
//! Rust.

#[cfg(target_arch = "x86_64")]
use super::vbmi::Vbmi;
use super::{Tile, TileMut, Width, check_packed, portable};
use crate::MathError;

/// Appends the packed form of `tile` to `out`.
///
/// The packed tiles of one vector can be appended one after the other if every tile but the last has a multiple of 8
/// lanes: its packed form then ends with a whole byte.
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

/// Adds the words packed in `packed` to `tile`, wrapping at the lane: [`Words::add_packed`](super::Words::add_packed)
/// for a part of a vector. A packed vector can be cut into such parts if every tile but the last has a multiple of 8
/// lanes.
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
