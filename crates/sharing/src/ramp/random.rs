//! Uniform coefficients from one stream, at places that depend on the block only.

use blindsum_crypto::mask::{MaskStream, apply_masks};
use blindsum_math::prime_field::NttField;
use blindsum_math::residues::accept;
use blindsum_math::words::TileMut;
use zeroize::{Zeroize, Zeroizing};

/// Bytes taken from the stream at a time.
const PIECE: usize = 8192;

/// Bytes of the stream that every tile and field has for itself: more than it can use up.
const REGION: u64 = 1 << 35;

/// Fills `out` with uniform canonical elements of `F` from region `region` of the stream; see
/// [`accept`] for how a draw becomes an element.
pub(crate) fn fill<F: NttField>(stream: &[MaskStream; 1], region: u64, out: &mut [u64]) {
    let mut bytes = Zeroizing::new([0; PIECE]);
    let mut at = region * REGION;
    let mut filled = 0;
    while filled < out.len() {
        let wanted = (out.len() - filled) * F::DRAW_BYTES;
        // Whole lanes of 8 bytes; accepting stops where `out` is full.
        let piece = &mut bytes[..wanted.next_multiple_of(8).min(PIECE)];
        key_stream(stream, at, piece);
        at += piece.len() as u64;
        filled += accept::<F>(piece, &mut out[filled..]).1;
    }
}

/// Bytes of the stream from `at`, a multiple of 8, on.
fn key_stream(stream: &[MaskStream; 1], at: u64, out: &mut [u8]) {
    let mut lanes = [0_u64; PIECE / 8];
    let lanes = &mut lanes[..out.len() / 8];
    apply_masks(stream, at / 8, TileMut::W64(lanes));
    for (bytes, lane) in out.chunks_exact_mut(8).zip(&*lanes) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    lanes.zeroize();
}
