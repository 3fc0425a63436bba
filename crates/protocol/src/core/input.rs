//! The words that a party adds to the sum.

use blindsum_encode::Encoder;
use blindsum_math::words::TileMut;

use crate::FaultKind;

/// A party's encoded vector. It is read tile by tile, so that encoding, masking and packing happen in one pass over the
/// cache; a long vector is read by several threads.
pub trait Input: Sync {
    /// The number of words. It must equal [`crate::Job::lanes`], or the number of [`coordinates`](Self::coordinates).
    fn lanes(&self) -> usize;

    /// In sparse rounds ([`crate::JobSpec::is_sparse`]) the coordinates of the words, ascending; otherwise `None`:
    /// there is a word for every coordinate.
    fn coordinates(&self) -> Option<&[u32]> {
        None
    }

    /// Writes words `first_lane..first_lane + tile.len()` over the tile.
    ///
    /// # Errors
    /// A value that cannot be encoded. Nothing is sent then.
    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind>;
}

/// The words at some coordinates, as the input of a sparse round.
pub struct SparseInput<'a, I> {
    coordinates: &'a [u32],
    words: I,
}

impl<'a, I: Input> SparseInput<'a, I> {
    /// An input of `words`, one for each of `coordinates`, which must ascend.
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
