//! One pass from input to wire: encode a tile, mask it, pack it, while it is in the cache.

use blindsum_math::words::{Lane, TileMut, Width, pack_tile};
use zeroize::Zeroizing;

use crate::wire::HEADER;
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
    input: &mut dyn Input,
    mask: impl Fn(u64, TileMut<'_>),
) -> Result<Vec<u8>, FaultKind> {
    let lanes = job.lanes();
    if input.lanes() != lanes {
        return Err(FaultKind::lanes(input.lanes(), lanes));
    }
    let mut packed = Vec::with_capacity(HEADER + job.packed_len());
    if job.width().bits() <= 32 {
        let mut tile = Zeroizing::new(vec![0u32; TILE.min(lanes)]);
        pack_tiles(lanes, &mut tile, job.width(), &mut packed, input, mask)?;
    } else {
        let mut tile = Zeroizing::new(vec![0u64; TILE.min(lanes)]);
        pack_tiles(lanes, &mut tile, job.width(), &mut packed, input, mask)?;
    }
    Ok(packed)
}

fn pack_tiles<T: Lane>(
    lanes: usize,
    tile: &mut [T],
    width: Width,
    packed: &mut Vec<u8>,
    input: &mut dyn Input,
    mask: impl Fn(u64, TileMut<'_>),
) -> Result<(), FaultKind> {
    for first in (0..lanes).step_by(TILE) {
        let Some(tile) = tile.get_mut(..TILE.min(lanes - first)) else {
            break;
        };
        input.read(first, T::tile_mut(tile))?;
        mask(first as u64, T::tile_mut(tile));
        pack_tile(width, T::tile(tile), packed);
    }
    Ok(())
}
