//! What the server does: it adds compacted ciphertexts at their coordinates, without a key.

use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Tile, TileMut, Width, Words, add_compacted, compact},
};

use super::SparseMask;
use crate::flashe::{CHECK_LEN, FlasheError, sum::parts};

/// A sum to which compacted ciphertexts are added one by one. It needs no key, and the memory of a dense vector.
pub struct EncryptedSparseSum {
    words: Words,
    union: Vec<u64>,
    check: TwinResidue,
}

impl EncryptedSparseSum {
    /// The sum of no ciphertext yet: of words of this width, at some of `lanes` dense coordinates.
    ///
    /// # Errors
    /// [`FlasheError::DenseLanes`] above 2^32 lanes.
    pub fn new(width: Width, lanes: usize) -> Result<Self, FlasheError> {
        let none = SparseMask::empty(lanes)?;
        Ok(Self {
            words: Words::zeros(width, lanes),
            union: none.pieces().to_vec(),
            check: TwinResidue::ZERO,
        })
    }

    /// Adds the ciphertext of the words at the coordinates of `mask`, [`SparseMask::ciphertext_len`] bytes.
    ///
    /// # Errors
    /// [`FlasheError::MaskLanes`] for a mask of vectors of another length; [`FlasheError::CiphertextLength`];
    /// [`FlasheError::Math`] if padding bits are set or the check is not canonical. The sum is unchanged then.
    pub fn add(&mut self, mask: &SparseMask, ciphertext: &[u8]) -> Result<(), FlasheError> {
        let (got, expected) = (mask.lanes(), self.words.len());
        if got != expected {
            return Err(FlasheError::MaskLanes { got, expected });
        }
        let width = self.words.width();
        let (packed, check) = parts(width, mask.count(), ciphertext)?;
        let compacted = Words::unpack(width, mask.count(), packed)?;
        match (
            self.words.tile_mut(0..expected),
            compacted.tile(0..mask.count()),
        ) {
            (TileMut::W32(dense), Tile::W32(words)) => add_compacted(mask.pieces(), dense, words),
            (TileMut::W64(dense), Tile::W64(words)) => add_compacted(mask.pieces(), dense, words),
            _ => unreachable!("equal widths have the same lanes"),
        }
        let pairs = self.union.iter_mut().zip(mask.pieces());
        pairs.for_each(|(union, piece)| *union |= piece);
        self.check += check;
        Ok(())
    }

    /// The sum at the coordinates that anybody has, in the form of a compacted ciphertext.
    pub fn to_bytes(&self) -> Vec<u8> {
        let union = SparseMask::from_pieces(self.words.len(), self.union.clone());
        let mut compacted = Words::zeros(self.words.width(), union.count());
        match (
            compacted.tile_mut(0..union.count()),
            self.words.tile(0..union.lanes()),
        ) {
            (TileMut::W32(words), Tile::W32(dense)) => compact(union.pieces(), dense, words),
            (TileMut::W64(words), Tile::W64(dense)) => compact(union.pieces(), dense, words),
            _ => unreachable!("equal widths have the same lanes"),
        }
        let mut bytes = compacted.pack();
        bytes.reserve_exact(CHECK_LEN);
        bytes.extend_from_slice(&self.check.to_bytes());
        bytes
    }
}
