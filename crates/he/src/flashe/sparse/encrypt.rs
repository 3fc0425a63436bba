//! Encryption of the words at a party's coordinates.

use blindsum_crypto::mask::apply_masks_at;
use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, TileMut, pack_tile},
};
use zeroize::Zeroizing;

use super::{SparseMask, mask::ones};
use crate::{
    HeError,
    flashe::{
        Ciphertext, EncryptionTicket, HEADER_ROOM, RoundKey, Shape, TILE,
        check::{CheckKey, Fingerprint},
        masks::Terms,
    },
};

/// Pieces of a bitmap that a tile has.
pub(super) const TILE_PIECES: usize = TILE / 64;

/// H(m) + τ H(contributors).
pub(super) struct SparseFingerprint<'a> {
    shape: Shape,
    words: Fingerprint<'a>,
    tau: u64,
}

impl<'a> SparseFingerprint<'a> {
    pub(super) fn new(key: &'a CheckKey, shape: Shape) -> Self {
        Self {
            shape,
            words: key.fingerprint(shape.lanes()),
            tau: key.of_contributors(),
        }
    }

    /// What the coordinates of a tile add, each with its word and its number of contributors.
    pub(super) fn of_tile<L: Lane>(
        &self,
        tile: usize,
        coordinates: &[u32],
        words: &[L],
        contributors: &[u32],
    ) -> TwinResidue {
        let (width, first) = (self.shape.width(), tile * TILE);
        let at = || coordinates.iter().map(|&d| d as usize);
        let words = words.iter().map(|word| word.low_bits(width).into());
        let counts = contributors.iter().map(|&count| count.into());
        let of_counts = self.words.of_lanes(width, first, at().zip(counts));
        self.words.of_lanes(width, first, at().zip(words)) + of_counts * self.tau
    }
}

impl RoundKey {
    /// Encrypts the words at the coordinates of `mask`, of the dense vectors of `shape`: `read` is given some
    /// coordinates, in order, and writes the words there over the tile, which is of the lane type of the width. What
    /// a lane holds above bit b makes no difference. Words must be so small that no survivors' sum wraps.
    ///
    /// The ciphertext has [`SparseMask::ciphertext_len`] bytes.
    ///
    /// # Errors
    /// [`HeError::Ticket`] for a ticket of another key or round; [`HeError::MaskLanes`] unless the mask is one of
    /// the shape's lanes; what `read` says. The ticket is lost.
    pub fn encrypt_sparse<E: From<HeError>>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        mask: &SparseMask,
        read: impl FnMut(&[u32], TileMut<'_>) -> Result<(), E>,
    ) -> Result<Ciphertext, E> {
        self.check(&ticket)?;
        let (got, expected) = (mask.lanes(), shape.lanes());
        if got != expected {
            return Err(HeError::MaskLanes { got, expected }.into());
        }
        if shape.width().fits_u32() {
            self.encrypt_compacted::<u32, E>(ticket, shape, mask, read)
        } else {
            self.encrypt_compacted::<u64, E>(ticket, shape, mask, read)
        }
    }

    fn encrypt_compacted<L: Lane, E: From<HeError>>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        mask: &SparseMask,
        mut read: impl FnMut(&[u32], TileMut<'_>) -> Result<(), E>,
    ) -> Result<Ciphertext, E> {
        let streams = Terms::of_party(ticket.rank, shape.scheme()).streams(self);
        let fingerprint = SparseFingerprint::new(&self.checks, shape);
        let mut check = self.checks.pad(ticket.rank);
        let mut words = Zeroizing::new(vec![L::default(); mask.count()]);
        let mut rest = &mut words[..];
        for (tile, pieces) in mask.pieces().chunks(TILE_PIECES).enumerate() {
            let coordinates: Vec<u32> = ones(tile * TILE_PIECES, pieces).collect();
            let (words, others) = rest.split_at_mut(coordinates.len());
            read(&coordinates, L::tile_mut(words))?;
            let ones = &[1; TILE][..coordinates.len()];
            check += fingerprint.of_tile(tile, &coordinates, words, ones);
            for stream in &streams {
                apply_masks_at(stream, &coordinates, L::tile_mut(words));
            }
            rest = others;
        }
        let mut bytes = Vec::with_capacity(mask.ciphertext_len(shape.width()) + HEADER_ROOM);
        pack_tile(shape.width(), L::tile(&words), &mut bytes);
        bytes.extend_from_slice(&check.to_bytes());
        Ok(Ciphertext(bytes))
    }
}
