//! One pass from input to wire: encode a tile, mask it, pack it, while it is in the cache.

use blindsum_math::words::{Lane, TileMut, Width, pack_by_tiles};

use crate::kit::wire::HEADER;
use crate::{FaultKind, Input, Job};

/// Lanes of a tile; a multiple of 8 so that tiles meet at byte borders, and small enough that a tile
/// and its packed form stay in the first-level cache.
pub(crate) const TILE: usize = 4096;

/// Packs the input, after `mask(first_lane, tile)` has worked on each tile.
///
/// # Errors
/// An input of another length, or one that cannot be encoded.
pub(crate) fn pack_input(
    job: &Job,
    input: &dyn Input,
    mask: impl Fn(u64, TileMut<'_>) + Sync,
) -> Result<Vec<u8>, FaultKind> {
    let lanes = job.lanes();
    if input.lanes() != lanes {
        return Err(FaultKind::lanes(input.lanes(), lanes));
    }
    // With room for the frame, whose bytes come before these.
    let mut packed = vec![0; HEADER + job.packed_len()];
    packed.truncate(job.packed_len());
    match job.width().fits_u32() {
        true => pack_tiles::<u32>(job.width(), input, &mut packed, mask)?,
        false => pack_tiles::<u64>(job.width(), input, &mut packed, mask)?,
    }
    Ok(packed)
}

fn pack_tiles<L: Lane>(
    width: Width,
    input: &dyn Input,
    packed: &mut [u8],
    mask: impl Fn(u64, TileMut<'_>) + Sync,
) -> Result<(), FaultKind> {
    let make = |first: usize, tile: &mut [L]| {
        input.read(first, L::tile_mut(tile))?;
        mask(first as u64, L::tile_mut(tile));
        Ok(())
    };
    pack_by_tiles(
        width,
        (input.lanes(), TILE),
        packed,
        ((), |(), ()| ()),
        make,
    )
}
