//! What all sources of words share: lanes, and the place of the words behind the coordinates.

use std::ops::Range;

use blindsum_math::words::TileMut;

use crate::{EncodeError, Encoding};

/// A lane: `u32` or `u64`.
pub(crate) trait Lane: Copy + Default {
    /// The low bits of `word`.
    fn truncate(word: u64) -> Self;
}

impl Lane for u32 {
    #[inline(always)]
    fn truncate(word: u64) -> Self {
        word as u32
    }
}

impl Lane for u64 {
    #[inline(always)]
    fn truncate(word: u64) -> Self {
        word
    }
}

/// Refuses a weight that the job does not allow.
pub(crate) fn check_weight(encoding: &Encoding, weight: u32) -> Result<(), EncodeError> {
    let max_weight = encoding.max_weight();
    if (1..=max_weight).contains(&weight) {
        Ok(())
    } else {
        Err(EncodeError::Weight { weight, max_weight })
    }
}

/// Refuses a tile that does not lie in a vector of the encoding or has the wrong lanes.
pub(crate) fn check_tile(
    encoding: &Encoding,
    first: usize,
    tile: &TileMut<'_>,
) -> Result<(), EncodeError> {
    let lane_bits = |narrow| if narrow { 32 } else { 64 };
    let tile_bits = lane_bits(matches!(tile, TileMut::W32(_)));
    let bits = lane_bits(encoding.width().fits_u32());
    let (len, lanes) = (tile.len(), encoding.lanes());
    let inside = first.checked_add(len).is_some_and(|end| end <= lanes);
    if inside && tile_bits == bits {
        return Ok(());
    }
    Err(EncodeError::Tile {
        first,
        len,
        tile_bits,
        lanes,
        bits,
    })
}

/// Writes the words behind the coordinates, `tail`, where `lanes`, which start at word `first` of a vector, reach that far.
/// Gives the other lanes and which words of the coordinates belong there.
pub(crate) fn split_tail<'l, L: Lane>(
    encoding: &Encoding,
    tail: &[u64],
    first: usize,
    lanes: &'l mut [L],
) -> (&'l mut [L], Range<usize>) {
    let words = encoding.coordinate_lanes();
    let start = first.min(words);
    let end = (first + lanes.len()).min(words);
    let (coordinates, behind) = lanes.split_at_mut(end - start);
    let words = tail.iter().skip(first.saturating_sub(words));
    let pairs = behind.iter_mut().zip(words);
    pairs.for_each(|(lane, &word)| *lane = L::truncate(word));
    (coordinates, start..end)
}
