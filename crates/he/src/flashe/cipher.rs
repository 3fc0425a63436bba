//! Encryption, addition and decryption, each one pass over the vector by tiles that stay in the cache.

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks};
use blindsum_math::words::{
    Lane, Tile, TileMut, Width, Words, add_packed_tile, add_packed_tiles, check_packed, pack_tile,
    pack_tile_into,
};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{EncryptionTicket, KeyId, RoundKey, Scheme, Shape, Survivors};
use crate::HeError;

/// Lanes of a tile; a multiple of 8 so that tiles meet at the ends of bytes, and small enough that a tile
/// and its packed form stay in the first-level cache.
const TILE: usize = 4096;

/// Tiles that a thread takes at a time.
const TILES_OF_A_TASK: usize = 8;

/// A party's encrypted vector. Its bytes may be sent again, but not made again.
pub struct Ciphertext {
    pub(super) id: KeyId,
    pub(super) round: u64,
    pub(super) rank: u32,
    pub(super) shape: Shape,
    packed: Vec<u8>,
}

impl Ciphertext {
    /// The rank j of the party.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Scheme, width and lanes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The packed words, [`Shape::packed_len`] bytes.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// The same, without the rest.
    pub fn into_packed(self) -> Vec<u8> {
        self.packed
    }
}

impl RoundKey {
    /// Encrypts the vector that `read` gives: it writes words `first..first + tile.len()` over the tile,
    /// which is called in order, for tiles of the lane type of the width. What a lane holds above bit b
    /// makes no difference.
    ///
    /// # Errors
    /// [`HeError::Ticket`] for a ticket of another key or round; what `read` says. The ticket is lost.
    pub fn encrypt<E: From<HeError>>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        read: impl FnMut(usize, TileMut<'_>) -> Result<(), E>,
    ) -> Result<Ciphertext, E> {
        self.check(ticket.id, ticket.round)?;
        let masks = self.masks_of(ticket.rank, shape.scheme());
        let packed = if shape.width().fits_u32() {
            encrypt_in_order::<u32, E>(shape, &masks, read)?
        } else {
            encrypt_in_order::<u64, E>(shape, &masks, read)?
        };
        Ok(self.ciphertext(ticket, shape, packed))
    }

    /// [`encrypt`](Self::encrypt) on all threads of the current pool, for vectors whose tiles can be read
    /// in any order. The bytes are the same.
    ///
    /// # Errors
    /// As [`encrypt`](Self::encrypt).
    pub fn encrypt_parallel<E: From<HeError> + Send>(
        &self,
        ticket: EncryptionTicket,
        shape: Shape,
        read: impl Fn(usize, TileMut<'_>) -> Result<(), E> + Sync,
    ) -> Result<Ciphertext, E> {
        self.check(ticket.id, ticket.round)?;
        let masks = self.masks_of(ticket.rank, shape.scheme());
        let packed = if shape.width().fits_u32() {
            encrypt_in_parallel::<u32, E>(shape, &masks, read)?
        } else {
            encrypt_in_parallel::<u64, E>(shape, &masks, read)?
        };
        Ok(self.ciphertext(ticket, shape, packed))
    }

    /// Decrypts the packed sum of the ciphertexts of `survivors`, on all threads of the current pool if it
    /// is long.
    ///
    /// A sum of other ciphertexts decrypts to noise, and nothing here can tell.
    ///
    /// # Errors
    /// [`HeError::Math`] if `packed` has the wrong length or padding.
    pub fn decrypt(
        &self,
        shape: Shape,
        survivors: &Survivors,
        packed: &[u8],
    ) -> Result<Words, HeError> {
        check_packed(shape.width(), shape.lanes(), packed)?;
        let masks = self.masks_of_sum(survivors, shape.scheme());
        let mut words = Words::zeros(shape.width(), shape.lanes());
        match words.tile_mut(0..shape.lanes()) {
            TileMut::W32(lanes) => decrypt_tasks(shape.width(), &masks, packed, lanes)?,
            TileMut::W64(lanes) => decrypt_tasks(shape.width(), &masks, packed, lanes)?,
        }
        Ok(words)
    }

    /// [`decrypt`](Self::decrypt) on this thread and without a vector of words: `write` takes words
    /// `first..first + tile.len()` from the tile, in order, to decode them while they are in the cache.
    /// Lanes may hold junk above bit b.
    ///
    /// # Errors
    /// [`HeError::Math`] if `packed` has the wrong length or padding, before anything is written; what
    /// `write` says.
    pub fn decrypt_tiles<E: From<HeError>>(
        &self,
        shape: Shape,
        survivors: &Survivors,
        packed: &[u8],
        write: impl FnMut(usize, Tile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        check_packed(shape.width(), shape.lanes(), packed).map_err(HeError::from)?;
        let masks = self.masks_of_sum(survivors, shape.scheme());
        if shape.width().fits_u32() {
            decrypt_in_order::<u32, E>(shape, &masks, packed, write)
        } else {
            decrypt_in_order::<u64, E>(shape, &masks, packed, write)
        }
    }

    /// Refuses what was made for another key or round.
    pub(super) fn check(&self, id: KeyId, round: u64) -> Result<(), HeError> {
        if id != self.id || round != self.round {
            return Err(HeError::Ticket {
                ticket: round,
                round: self.round,
            });
        }
        Ok(())
    }

    /// The masks of a party's vector. No ticket has rank 2^32 - 1, so there is always a next rank.
    fn masks_of(&self, rank: u32, scheme: Scheme) -> Vec<MaskStream> {
        let mut masks = vec![self.stream(rank, Sign::Add)];
        if scheme == Scheme::Double {
            masks.push(self.stream(rank + 1, Sign::Sub));
        }
        masks
    }

    /// The inverse of the masks of a sum: the ends of runs, or everybody's.
    fn masks_of_sum(&self, survivors: &Survivors, scheme: Scheme) -> Vec<MaskStream> {
        match scheme {
            Scheme::Double => {
                let ends = survivors.runs().iter().flat_map(|&(first, last)| {
                    [
                        self.stream(first, Sign::Sub),
                        self.stream(last + 1, Sign::Add),
                    ]
                });
                ends.collect()
            }
            Scheme::Single => survivors
                .ranks()
                .map(|rank| self.stream(rank, Sign::Sub))
                .collect(),
        }
    }

    fn ciphertext(&self, ticket: EncryptionTicket, shape: Shape, packed: Vec<u8>) -> Ciphertext {
        Ciphertext {
            id: self.id,
            round: self.round,
            rank: ticket.rank,
            shape,
            packed,
        }
    }
}

/// The packed sum mod 2^b of packed ciphertexts (or of packed sums), in one pass and on all threads of the
/// current pool if they are long. It needs no key.
///
/// A server that does not want to keep all ciphertexts folds each into a [`Words`] by
/// [`Words::add_packed`] instead.
///
/// # Errors
/// [`HeError::Math`] if one has the wrong length or padding.
pub fn sum(shape: Shape, ciphertexts: &[&[u8]]) -> Result<Vec<u8>, HeError> {
    for packed in ciphertexts {
        check_packed(shape.width(), shape.lanes(), packed)?;
    }
    if shape.width().fits_u32() {
        sum_tasks::<u32>(shape, ciphertexts)
    } else {
        sum_tasks::<u64>(shape, ciphertexts)
    }
}

fn encrypt_in_order<L: Lane, E: From<HeError>>(
    shape: Shape,
    masks: &[MaskStream],
    mut read: impl FnMut(usize, TileMut<'_>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let (width, lanes) = (shape.width(), shape.lanes());
    let mut packed = Vec::with_capacity(shape.packed_len());
    let mut tile = scratch::<L>(lanes);
    for first in (0..lanes).step_by(TILE) {
        let tile = &mut tile[..TILE.min(lanes - first)];
        read(first, L::tile_mut(tile))?;
        apply_masks(masks, first as u64, L::tile_mut(tile));
        pack_tile(width, L::tile(tile), &mut packed);
    }
    Ok(packed)
}

fn encrypt_in_parallel<L: Lane, E: From<HeError> + Send>(
    shape: Shape,
    masks: &[MaskStream],
    read: impl Fn(usize, TileMut<'_>) -> Result<(), E> + Sync,
) -> Result<Vec<u8>, E> {
    let (width, lanes) = (shape.width(), shape.lanes());
    let mut packed = vec![0; shape.packed_len()];
    each_task(width, &mut packed, |first_of_task, bytes_of_task| {
        let mut tile = scratch::<L>(lanes);
        for (i, bytes) in bytes_of_task.chunks_mut(width.packed_len(TILE)).enumerate() {
            let first = first_of_task + i * TILE;
            let tile = &mut tile[..TILE.min(lanes - first)];
            read(first, L::tile_mut(tile))?;
            apply_masks(masks, first as u64, L::tile_mut(tile));
            pack_tile_into(width, L::tile(tile), bytes);
        }
        Ok::<_, E>(())
    })?;
    Ok(packed)
}

fn sum_tasks<L: Lane>(shape: Shape, ciphertexts: &[&[u8]]) -> Result<Vec<u8>, HeError> {
    let (width, lanes) = (shape.width(), shape.lanes());
    let mut packed = vec![0; shape.packed_len()];
    each_task(width, &mut packed, |first_of_task, bytes_of_task| {
        let mut tile = scratch::<L>(lanes);
        for (i, bytes) in bytes_of_task.chunks_mut(width.packed_len(TILE)).enumerate() {
            let first = first_of_task + i * TILE;
            let tile = &mut tile[..TILE.min(lanes - first)];
            sum_tile(width, ciphertexts, first, tile)?;
            pack_tile_into(width, L::tile(tile), bytes);
        }
        Ok::<_, HeError>(())
    })?;
    Ok(packed)
}

/// Words `first..` of the sum.
fn sum_tile<L: Lane>(
    width: Width,
    ciphertexts: &[&[u8]],
    first: usize,
    tile: &mut [L],
) -> Result<(), HeError> {
    tile.fill(L::default());
    let start = width.packed_len(first);
    let piece = start..start + width.packed_len(tile.len());
    let pieces: Vec<&[u8]> = ciphertexts.iter().map(|c| &c[piece.clone()]).collect();
    Ok(add_packed_tiles(width, L::tile_mut(tile), &pieces)?)
}

/// Runs `work(first lane, bytes)` on every task's piece of a packed vector: several threads if there is
/// more than one piece.
fn each_task<E: Send>(
    width: Width,
    packed: &mut [u8],
    work: impl Fn(usize, &mut [u8]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let lanes = TILES_OF_A_TASK * TILE;
    let pieces = packed.par_chunks_mut(width.packed_len(lanes)).enumerate();
    pieces.try_for_each(|(task, bytes)| work(task * lanes, bytes))
}

fn decrypt_tasks<L: Lane>(
    width: Width,
    masks: &[MaskStream],
    packed: &[u8],
    lanes: &mut [L],
) -> Result<(), HeError> {
    let tasks = lanes.par_chunks_mut(TILES_OF_A_TASK * TILE).enumerate();
    tasks.try_for_each(|(task, lanes)| {
        for (i, tile) in lanes.chunks_mut(TILE).enumerate() {
            let first = (task * TILES_OF_A_TASK + i) * TILE;
            decrypt_tile(width, masks, packed, first, tile)?;
        }
        Ok(())
    })
}

fn decrypt_in_order<L: Lane, E: From<HeError>>(
    shape: Shape,
    masks: &[MaskStream],
    packed: &[u8],
    mut write: impl FnMut(usize, Tile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (width, lanes) = (shape.width(), shape.lanes());
    let mut tile = scratch::<L>(lanes);
    for first in (0..lanes).step_by(TILE) {
        let tile = &mut tile[..TILE.min(lanes - first)];
        tile.fill(L::default());
        decrypt_tile(width, masks, packed, first, tile)?;
        write(first, L::tile(tile))?;
    }
    Ok(())
}

/// Adds the words `first..` and their masks' inverses to a tile of zeros.
fn decrypt_tile<L: Lane>(
    width: Width,
    masks: &[MaskStream],
    packed: &[u8],
    first: usize,
    tile: &mut [L],
) -> Result<(), HeError> {
    let start = width.packed_len(first);
    let piece = &packed[start..start + width.packed_len(tile.len())];
    add_packed_tile(width, L::tile_mut(tile), piece)?;
    apply_masks(masks, first as u64, L::tile_mut(tile));
    Ok(())
}

/// Room for a tile, wiped when dropped.
fn scratch<L: Lane>(lanes: usize) -> Zeroizing<Vec<L>> {
    Zeroizing::new(vec![L::default(); TILE.min(lanes)])
}
