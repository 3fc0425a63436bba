//! Tiles of dense vectors, of which a bitmap says what lanes are meant.

use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, Width},
};
use zeroize::Zeroizing;

use crate::flashe::{
    Shape, TILE,
    check::{CheckKey, Fingerprint},
};

/// Pieces of a bitmap that a tile has.
pub(super) const TILE_PIECES: usize = TILE / 64;

/// From so many lanes of a tile on, the masks of all its lanes are computed: blocks one after the other, and lanes
/// chosen without a branch, are faster than as many single ones.
pub(super) const DENSE_FROM: usize = TILE / 32;

/// The words of a tile or their masks. Wiped when dropped.
pub(super) fn tile<L: Lane>() -> Zeroizing<Vec<L>> {
    Zeroizing::new(vec![L::default(); TILE])
}

/// H(m) + τ H(contributors).
pub(super) struct SparseFingerprint<'a> {
    width: Width,
    words: Fingerprint<'a>,
    tau: u64,
}

impl<'a> SparseFingerprint<'a> {
    pub(super) fn new(key: &'a CheckKey, shape: Shape) -> Self {
        Self {
            width: shape.width(),
            words: key.fingerprint(shape.lanes()),
            tau: key.of_contributors(),
        }
    }

    /// What the tile that begins with lane `first` adds, its words and its numbers of contributors, both zero where
    /// nobody has the coordinate. Reduces the words.
    pub(super) fn of_tile<L: Lane>(
        &self,
        first: usize,
        words: &mut [L],
        contributors: &mut [L],
    ) -> TwinResidue {
        let of_words = self.words.of_tile(self.width, first, L::tile_mut(words));
        let counts = L::tile_mut(contributors);
        of_words + self.words.of_tile(L::WIDTH, first, counts) * self.tau
    }
}
