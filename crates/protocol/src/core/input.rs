//! The words that a party adds to the sum.

use blindsum_encode::Encoder;
use blindsum_math::words::TileMut;

use crate::FaultKind;

/// A party's encoded vector, given out tile by tile so that encoding, masking and packing happen in
/// one pass over the cache, by several threads where there are many.
pub trait Input: Sync {
    /// How many words there are; must equal [`crate::Job::lanes`], or the number of [`coordinates`](Self::coordinates).
    fn lanes(&self) -> usize;

    /// The coordinates that the words belong to, ascending, where rounds are sparse
    /// ([`crate::JobSpec::is_sparse`]); `None` for words of all coordinates.
    fn coordinates(&self) -> Option<&[u32]> {
        None
    }

    /// Writes words `first_lane..first_lane + tile.len()` over the tile.
    ///
    /// # Errors
    /// A value that cannot be encoded; nothing may be sent then.
    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind>;
}

/// The words at some coordinates, for sparse rounds.
pub struct SparseInput<'a, I> {
    coordinates: &'a [u32],
    words: I,
}

impl<'a, I: Input> SparseInput<'a, I> {
    /// `words` are those at `coordinates`, which ascend, in their order.
    pub fn new(coordinates: &'a [u32], words: I) -> Self {
        Self { coordinates, words }
    }
}

impl<I: Input> Input for SparseInput<'_, I> {
    fn lanes(&self) -> usize {
        self.words.lanes()
    }

    fn coordinates(&self) -> Option<&[u32]> {
        Some(self.coordinates)
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        self.words.read(first_lane, tile)
    }
}

impl Input for Encoder<'_> {
    fn lanes(&self) -> usize {
        Encoder::lanes(self)
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        self.encode_tile(first_lane, tile)
            .map_err(|e| FaultKind::Input(e.to_string()))
    }
}
