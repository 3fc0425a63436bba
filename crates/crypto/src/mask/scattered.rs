//! Masks of single lanes: only the blocks that they lie in are computed.

use aes::cipher::BlockCipherEncrypt;
use blindsum_math::words::TileMut;
use zeroize::Zeroizing;

use super::{Cipher, Lane, MaskStream};

/// Lanes, hence at most blocks, worked off at a time: some times what a backend has in flight.
const BLOCKS: usize = 128;

/// Adds lane `lanes[k]` of the stream to lane k of `tile`, or subtracts it, modulo 2^32 or 2^64. Lanes that follow each
/// other in `lanes` and lie in one block of 16 bytes share its computation.
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

fn apply<L: Lane>(stream: &MaskStream, lanes: &[u32], tile: &mut [L]) {
    let lanes_per_block = 16 / size_of::<L>() as u32;
    let number = |lane: u32| lane / lanes_per_block;
    let last = lanes.iter().max().map_or(0, |&lane| number(lane));
    assert!(
        u128::from(last) * 16 < stream.bytes,
        "the stream ends before block {last}"
    );
    let mut blocks = Zeroizing::new([[0; 16]; BLOCKS]);
    let mut block_of = [0; BLOCKS];
    for (lanes, tile) in lanes.chunks(BLOCKS).zip(tile.chunks_mut(BLOCKS)) {
        // Without a branch, which would be hard to predict: a block is written again for its next lane.
        let (mut index, mut previous) = (0, number(lanes[0]));
        for (&lane, block_of) in lanes.iter().zip(&mut block_of) {
            let number = number(lane);
            index += usize::from(number != previous);
            previous = number;
            blocks[index] = stream.origin.wrapping_add(number.into()).to_be_bytes();
            *block_of = index;
        }
        stream.encrypt(&mut blocks, index + 1);
        for ((&lane, &block), to) in lanes.iter().zip(&block_of).zip(tile) {
            let start = (lane % lanes_per_block) as usize * size_of::<L>();
            let mask = L::from_le_slice(&blocks[block][start..start + size_of::<L>()]);
            *to = to.masked(mask, stream.sign);
        }
    }
}

impl MaskStream {
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
