//! What a party of a test puts into a round: words that are encoded already.

use blindsum_math::words::{TileMut, Words};
use blindsum_protocol::{FaultKind, Input};

/// Words, all of them or those at two coordinates.
pub struct Encoded {
    pub words: Words,
    pub coordinates: Option<[u32; 2]>,
}

impl Input for Encoded {
    fn lanes(&self) -> usize {
        self.coordinates.map_or(self.words.len(), |two| two.len())
    }

    fn coordinates(&self) -> Option<&[u32]> {
        self.coordinates.as_ref().map(<[u32; 2]>::as_slice)
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let words = (first_lane..).map(|lane| self.words.get(lane));
        match tile {
            TileMut::W32(lanes) => lanes.iter_mut().zip(words).for_each(|(l, w)| *l = w as u32),
            TileMut::W64(lanes) => lanes.iter_mut().zip(words).for_each(|(l, w)| *l = w),
        }
        Ok(())
    }
}
