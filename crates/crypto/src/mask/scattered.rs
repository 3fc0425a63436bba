//! Masks of single lanes: only the blocks that they lie in are computed.

use aes::cipher::BlockCipherEncrypt;
use blindsum_math::words::TileMut;
use zeroize::Zeroizing;

use super::{Cipher, Lane, MaskStream};

/// Blocks computed at a time, some times what a backend has in flight.
const BLOCKS: usize = 128;

/// Adds to lane k of `tile` (or takes off it) lane `lanes[k]` of the stream, modulo 2^32 or 2^64. Neighbours in
/// `lanes` that lie in one block of 16 bytes share it.
///
/// # Panics
///
/// If `lanes` has another length than the tile, or the stream is one of a [`MaskKey`](super::MaskKey) and ends
/// before one of them.
pub fn apply_masks_at(stream: &MaskStream, lanes: &[u32], tile: TileMut<'_>) {
    assert_eq!(
        lanes.len(),
        tile.len(),
        "lanes of the stream and of the tile"
    );
    match tile {
        TileMut::W32(tile) => apply(stream, lanes, tile),
        TileMut::W64(tile) => apply(stream, lanes, tile),
    }
}

fn apply<L: Lane>(stream: &MaskStream, mut lanes: &[u32], mut tile: &mut [L]) {
    let lanes_per_block = 16 / size_of::<L>() as u32;
    let mut blocks = Zeroizing::new([[0; 16]; BLOCKS]);
    while !lanes.is_empty() {
        let mut count = 0;
        let mut previous = None;
        let together = lanes.iter().position(|lane| {
            let number = lane / lanes_per_block;
            if previous == Some(number) {
                return false;
            }
            previous = Some(number);
            if let Some(block) = blocks.get_mut(count) {
                *block = stream.counter(u64::from(number)).to_be_bytes();
                count += 1;
                return false;
            }
            true
        });
        stream.encrypt(&mut blocks, count);
        let (these, others) = lanes.split_at(together.unwrap_or(lanes.len()));
        let (part, rest) = tile.split_at_mut(these.len());
        let (mut index, mut number) = (0, these[0] / lanes_per_block);
        for (lane, d) in part.iter_mut().zip(these) {
            index += usize::from(d / lanes_per_block != number);
            number = d / lanes_per_block;
            let start = (d % lanes_per_block) as usize * size_of::<L>();
            let mask = L::from_le_slice(&blocks[index][start..start + size_of::<L>()]);
            *lane = lane.masked(mask, stream.sign);
        }
        (lanes, tile) = (others, rest);
    }
}

impl MaskStream {
    /// The counter block of block `number`.
    fn counter(&self, number: u64) -> u128 {
        assert!(
            u128::from(number) * 16 < self.bytes,
            "the stream ends before block {number}"
        );
        self.origin.wrapping_add(number.into())
    }

    /// Encrypts the first `count` blocks, and may do so with others.
    fn encrypt(&self, blocks: &mut [[u8; 16]; BLOCKS], count: usize) {
        match &self.cipher {
            Cipher::Scalar(cipher) => {
                for block in &mut blocks[..count] {
                    cipher.encrypt_block(block.into());
                }
            }
            Cipher::Portable(cipher) => {
                cipher.encrypt_blocks(aes::Block::cast_slice_from_core_mut(&mut blocks[..count]));
            }
            #[cfg(target_arch = "x86_64")]
            Cipher::Vaes512(keys) => super::vaes512::encrypt(keys, blocks, count),
        }
    }
}
