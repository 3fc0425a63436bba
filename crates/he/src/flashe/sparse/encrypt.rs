//! Encryption of the words at a party's coordinates.

use blindsum_crypto::mask::{MaskStream, apply_masks, apply_masks_at};
use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, TileMut, add_chosen, add_compacted, compact, pack_tile},
};
use zeroize::Zeroizing;

use super::{
    SparseMask,
    mask::push_ones,
    tile::{self, DENSE_FROM, SparseFingerprint, TILE_PIECES},
};
use crate::flashe::{
    Ciphertext, EncryptionTicket, FlasheError, HEADER_ROOM, RoundKey, Shape, TILE, masks::Terms,
};

impl RoundKey {
    /// Encrypts the words of a vector of `shape` at the coordinates of `mask`. `read(coordinates, tile)` writes the
    /// words at these coordinates, in order, over the tile, whose lanes are those of the width. Bits of a lane above
    /// bit b are ignored. Words must be so small that no sum over survivors wraps mod 2^b.
    ///
    /// The ciphertext has [`SparseMask::ciphertext_len`] bytes.
    ///
    /// # Errors
    /// [`FlasheError::Ticket`] for a ticket of another key or round, [`FlasheError::MaskLanes`] if the mask is not of
    /// vectors of this shape's length, and the error of `read`. The ticket is used up.
    pub fn encrypt_sparse<E: From<FlasheError>>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        mask: &SparseMask,
        read: impl FnMut(&[u32], TileMut<'_>) -> Result<(), E>,
    ) -> Result<Ciphertext, E> {
        self.check(&ticket)?;
        let (got, expected) = (mask.lanes(), shape.lanes());
        if got != expected {
            return Err(FlasheError::MaskLanes { got, expected }.into());
        }
        if shape.width().fits_u32() {
            self.encrypt_compacted::<u32, E>(ticket, shape, mask, read)
        } else {
            self.encrypt_compacted::<u64, E>(ticket, shape, mask, read)
        }
    }

    fn encrypt_compacted<L: Lane, E: From<FlasheError>>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        mask: &SparseMask,
        mut read: impl FnMut(&[u32], TileMut<'_>) -> Result<(), E>,
    ) -> Result<Ciphertext, E> {
        let mut encryption = Encryption {
            streams: Terms::of_party(ticket.rank, shape.scheme()).streams(&self.streams),
            fingerprint: SparseFingerprint::new(&self.checks, shape),
            dense: tile::tile(),
            contributors: vec![L::default(); TILE],
        };
        let mut check = self.checks.pad(ticket.rank);
        let mut words = Zeroizing::new(vec![L::default(); mask.count()]);
        let mut rest = &mut words[..];
        let mut coordinates = Vec::with_capacity(TILE);
        for tile in 0..mask.lanes().div_ceil(TILE) {
            let pieces = mask.tile(tile);
            coordinates.clear();
            push_ones(tile * TILE_PIECES, &pieces, &mut coordinates);
            let (words, others) = rest.split_at_mut(coordinates.len());
            read(&coordinates, L::tile_mut(words))?;
            check += encryption.run(tile * TILE, &pieces, &coordinates, words);
            rest = others;
        }
        let mut bytes = Vec::with_capacity(mask.ciphertext_len(shape.width()) + HEADER_ROOM);
        pack_tile(shape.width(), L::tile(&words), &mut bytes);
        bytes.extend_from_slice(&check.to_bytes());
        Ok(Ciphertext(bytes))
    }
}

struct Encryption<'a, L: Lane> {
    streams: Vec<MaskStream>,
    fingerprint: SparseFingerprint<'a>,
    /// Words of a tile by coordinate, zero where the party has none.
    dense: Zeroizing<Vec<L>>,
    /// One where the party has a word, otherwise zero.
    contributors: Vec<L>,
}

impl<L: Lane> Encryption<'_, L> {
    /// Masks the words at these coordinates of the tile that begins with lane `first`, and gives their check.
    fn run(
        &mut self,
        first: usize,
        pieces: &[u64],
        coordinates: &[u32],
        words: &mut [L],
    ) -> TwinResidue {
        if coordinates.is_empty() {
            return TwinResidue::ZERO;
        }
        let (dense, contributors) = (&mut self.dense[..], &mut self.contributors[..]);
        dense.fill(L::default());
        add_compacted(pieces, dense, words);
        contributors.fill(L::default());
        add_chosen(pieces, contributors, &[L::truncate(1); TILE]);
        let check = self.fingerprint.of_tile(first, dense, contributors);
        if coordinates.len() < DENSE_FROM {
            for stream in &self.streams {
                apply_masks_at(stream, coordinates, L::tile_mut(words));
            }
        } else {
            apply_masks(&self.streams, first as u64, L::tile_mut(dense));
            compact(pieces, dense, words);
        }
        check
    }
}
