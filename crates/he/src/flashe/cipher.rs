//! Encryption and decryption, each one pass over the vector by tiles that stay in the cache.

use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, TileMut, Words, add_packed_tile, pack_by_tiles},
};
use rayon::prelude::*;

use super::{
    EncryptionTicket, RoundKey, Shape, Survivors, TILE,
    check::Fingerprint,
    masks::{Masks, Terms},
    sum::parts,
};
use crate::flashe::FlasheError;

/// Tiles that a thread decrypts at a time.
const TILES_OF_A_TASK: usize = 8;
/// How what tiles add to H is added up.
const CHECKS: (TwinResidue, fn(TwinResidue, TwinResidue) -> TwinResidue) =
    (TwinResidue::ZERO, |a, b| a + b);

/// Spare capacity of a ciphertext's `Vec`, in bytes: a protocol puts the header of its frame before the
/// ciphertext in place, instead of copying the vector into a longer one.
pub const HEADER_ROOM: usize = 34;

/// A party's encrypted vector: the packed words, then the check. The same bytes may be sent again, but no second
/// encryption is possible.
pub struct Ciphertext(pub(super) Vec<u8>);

impl Ciphertext {
    /// The [`Shape::ciphertext_len`] bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same, with room for [`HEADER_ROOM`] more.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl RoundKey {
    /// Encrypts the vector that `read` gives. `read(first, tile)` writes words `first..first + tile.len()` over the
    /// tile, whose lanes are those of the width; it is called once for each tile. A long vector is read and encrypted
    /// on all threads of the global pool, unless the caller is a thread of a pool; the bytes are the same. Bits of a
    /// lane above bit b are ignored. Words must be so small that no sum over survivors wraps mod 2^b; a sum that does
    /// is refused.
    ///
    /// # Errors
    /// [`FlasheError::Ticket`] for a ticket of another key or round, and the error of `read`. The ticket is used up.
    pub fn encrypt<E: From<FlasheError> + Send>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        read: impl Fn(usize, TileMut<'_>) -> Result<(), E> + Sync,
    ) -> Result<Ciphertext, E> {
        self.check(&ticket)?;
        let terms = Terms::of_party(ticket.rank, shape.scheme());
        let encryption = Encryption {
            shape,
            masks: self.to_encrypt.masks(&self.streams, &terms),
            fingerprint: self.checks.fingerprint(shape.lanes()),
            pad: self.checks.pad(ticket.rank),
        };
        if shape.width().fits_u32() {
            encryption.run::<u32, E>(read)
        } else {
            encryption.run::<u64, E>(read)
        }
    }

    /// Decrypts the sum of the ciphertexts of `survivors`, on all threads of the current pool if it is long. The words
    /// are reduced mod 2^b.
    ///
    /// # Errors
    /// [`FlasheError::CiphertextLength`]; [`FlasheError::Math`] for padding bits or a check that is not canonical;
    /// [`FlasheError::Check`] if it is not the sum of exactly these parties' ciphertexts, or if that sum wraps. (A sum
    /// forged without the key passes with probability at most 2^-59.)
    pub fn decrypt(
        &self,
        shape: Shape,
        survivors: &Survivors,
        encrypted_sum: &[u8],
    ) -> Result<Words, FlasheError> {
        let (packed, check) = parts(shape.width(), shape.lanes(), encrypted_sum)?;
        let terms = Terms::of_sum(survivors, shape.scheme());
        let decryption = Decryption {
            shape,
            masks: self.to_decrypt.masks(&self.streams, &terms),
            fingerprint: self.checks.fingerprint(shape.lanes()),
            packed,
        };
        let mut words = Words::zeros(shape.width(), shape.lanes());
        let found = match words.tile_mut(0..shape.lanes()) {
            TileMut::W32(lanes) => decryption.run(lanes)?,
            TileMut::W64(lanes) => decryption.run(lanes)?,
        };
        // guard: a-wrong-sum-is-noticed, a-wrong-sum-is-noticed-in-he
        if found + self.checks.pads(survivors) == check {
            Ok(words)
        } else {
            Err(FlasheError::Check)
        }
    }

    /// Computes masks for the encryption of the party of rank `rank` ahead of time: those of the first lanes, as many
    /// tiles of 4096 lanes as fit `memory_bytes`. The encryption then only adds them; the ciphertext is the same. They
    /// are wiped by the next encryption under this key, or when the key is dropped. Masks prepared before are wiped
    /// now.
    ///
    /// Returns the bytes filled: 4 for each lane of up to 32 bits, 8 above. Runs on all threads of the current pool.
    ///
    /// # Errors
    /// [`FlasheError::Rank`] for rank 2^32 - 1, which no ticket has.
    pub fn prepare_encryption(
        &self,
        rank: u32,
        shape: Shape,
        memory_bytes: usize,
    ) -> Result<usize, FlasheError> {
        if rank == u32::MAX {
            let parties = u32::MAX;
            return Err(FlasheError::Rank { rank, parties });
        }
        let terms = Terms::of_party(rank, shape.scheme());
        Ok(self
            .to_encrypt
            .prepare(&self.streams, terms, shape, memory_bytes))
    }

    /// Computes masks for the decryption of the sum of `expected` ahead of time, like
    /// [`prepare_encryption`](Self::prepare_encryption). If others survive, the masks that differ are computed later,
    /// or all of them if that is less work: the result is the same.
    /// everything if that is less: the result is the same.
    pub fn prepare_decryption(
        &self,
        expected: &Survivors,
        shape: Shape,
        memory_bytes: usize,
    ) -> usize {
        let terms = Terms::of_sum(expected, shape.scheme());
        self.to_decrypt
            .prepare(&self.streams, terms, shape, memory_bytes)
    }

    /// Refuses a ticket of another key or round.
    pub(super) fn check(&self, ticket: &EncryptionTicket) -> Result<(), FlasheError> {
        if (ticket.id, ticket.round) != (self.id, self.round()) {
            return Err(FlasheError::Ticket {
                ticket: ticket.round,
                round: self.round(),
            });
        }
        Ok(())
    }
}

struct Encryption<'a> {
    shape: Shape,
    masks: Masks,
    fingerprint: Fingerprint<'a>,
    pad: TwinResidue,
}

impl Encryption<'_> {
    fn run<L: Lane, E: From<FlasheError> + Send>(
        &self,
        read: impl Fn(usize, TileMut<'_>) -> Result<(), E> + Sync,
    ) -> Result<Ciphertext, E> {
        let (width, lanes) = (self.shape.width(), self.shape.lanes());
        let mut bytes = vec![0; self.shape.ciphertext_len() + HEADER_ROOM];
        bytes.truncate(self.shape.packed_len());
        let make = |first: usize, tile: &mut [L]| {
            read(first, L::tile_mut(tile))?;
            Ok::<_, E>(self.encrypt_tile(first, tile))
        };
        let check = pack_by_tiles(width, (lanes, TILE), &mut bytes, CHECKS, make)?;
        bytes.extend_from_slice(&(check + self.pad).to_bytes());
        Ok(Ciphertext(bytes))
    }

    /// Masks the words `first..` and gives what they add to H.
    fn encrypt_tile<L: Lane>(&self, first: usize, tile: &mut [L]) -> TwinResidue {
        let width = self.shape.width();
        let check = self.fingerprint.of_tile(width, first, L::tile_mut(tile));
        self.masks.apply(first, L::tile_mut(tile));
        check
    }
}

struct Decryption<'a> {
    shape: Shape,
    masks: Masks,
    fingerprint: Fingerprint<'a>,
    packed: &'a [u8],
}

impl Decryption<'_> {
    /// Decrypts into zeros and gives H of the result.
    fn run<L: Lane>(&self, lanes: &mut [L]) -> Result<TwinResidue, FlasheError> {
        let tasks = lanes.par_chunks_mut(TILES_OF_A_TASK * TILE).enumerate();
        let checks = tasks.map(|(task, lanes)| {
            let mut check = TwinResidue::ZERO;
            for (i, tile) in lanes.chunks_mut(TILE).enumerate() {
                check += self.decrypt_tile((task * TILES_OF_A_TASK + i) * TILE, tile)?;
            }
            Ok(check)
        });
        checks.try_reduce(|| TwinResidue::ZERO, |a, b| Ok(a + b))
    }

    /// Adds the words `first..` and their masks' inverses to a tile of zeros, and gives what they add to H.
    fn decrypt_tile<L: Lane>(
        &self,
        first: usize,
        tile: &mut [L],
    ) -> Result<TwinResidue, FlasheError> {
        let width = self.shape.width();
        let start = width.packed_len(first);
        let piece = &self.packed[start..start + width.packed_len(tile.len())];
        add_packed_tile(width, L::tile_mut(tile), piece)?;
        self.masks.apply(first, L::tile_mut(tile));
        Ok(self.fingerprint.of_tile(width, first, L::tile_mut(tile)))
    }
}
