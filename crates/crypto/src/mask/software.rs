//! The scalar and the portable backend.

use aes::{Aes256Enc, cipher::BlockCipherEncrypt};
use ctr::{
    Ctr64BE, CtrCore,
    cipher::{InnerIvInit, StreamCipher, StreamCipherSeek},
};
use zeroize::Zeroizing;

use super::{Lane, Sign};

/// The definition of the stream, word by word.
pub(super) fn apply_scalar<L: Lane>(
    cipher: &Aes256Enc,
    origin: u128,
    sign: Sign,
    first_lane: u64,
    lanes: &mut [L],
) {
    let lanes_per_block = 16 / size_of::<L>() as u64;
    let mut number = None;
    let mut block = Zeroizing::new([0u8; 16]);
    for (offset, lane) in lanes.iter_mut().enumerate() {
        let d = first_lane.wrapping_add(offset as u64);
        if number != Some(d / lanes_per_block) {
            number = Some(d / lanes_per_block);
            *block = (origin + u128::from(d / lanes_per_block)).to_be_bytes();
            cipher.encrypt_block((&mut *block).into());
        }
        let start = (d % lanes_per_block) as usize * size_of::<L>();
        let mask = L::from_le_slice(&block[start..start + size_of::<L>()]);
        *lane = lane.masked(mask, sign);
    }
}

/// Bytes of keystream made at a time; they stay in the first-level cache.
const TILE_BYTES: usize = 4096;

/// By tiles: a piece of keystream first, then the sum.
pub(super) fn apply_portable<L: Lane>(
    cipher: &Aes256Enc,
    origin: u128,
    sign: Sign,
    first_lane: u64,
    lanes: &mut [L],
) {
    let mut stream =
        Ctr64BE::from_core(CtrCore::inner_iv_init(cipher, &origin.to_be_bytes().into()));
    // guard: masks-by-place
    stream.seek(u128::from(first_lane) * size_of::<L>() as u128);
    let mut keystream = Zeroizing::new([0u8; TILE_BYTES]);
    for lanes in lanes.chunks_mut(TILE_BYTES / size_of::<L>()) {
        let bytes = &mut keystream[..size_of_val(lanes)];
        stream.write_keystream(bytes);
        for (lane, bytes) in lanes.iter_mut().zip(bytes.chunks_exact(size_of::<L>())) {
            *lane = lane.masked(L::from_le_slice(bytes), sign);
        }
    }
}
