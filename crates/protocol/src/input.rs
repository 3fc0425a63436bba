//! The words that a party adds to the sum.

use blindsum_encode::Encoder;
use blindsum_math::words::TileMut;

use crate::FaultKind;

/// A party's encoded vector, given out tile by tile so that encoding, masking and packing happen in
/// one pass over the cache.
pub trait Input {
    /// How many words there are; must equal [`crate::Job::lanes`].
    fn lanes(&self) -> usize;

    /// Writes words `first_lane..first_lane + tile.len()` over the tile.
    ///
    /// # Errors
    /// A value that cannot be encoded; nothing may be sent then.
    fn read(&mut self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind>;
}

impl Input for Encoder<'_> {
    fn lanes(&self) -> usize {
        Encoder::lanes(self)
    }

    fn read(&mut self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        self.encode_tile(first_lane, tile)
            .map_err(|e| FaultKind::Input(e.to_string()))
    }
}
