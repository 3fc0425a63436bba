//! What the server does: it adds ciphertexts, without a key.

use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, Width, Words, add_packed_tiles, check_packed, pack_by_tiles, pack_tile},
};

use super::{CHECK_LEN, Shape, TILE};
use crate::flashe::FlasheError;

/// A sum to which ciphertexts are added one by one. It needs no key.
pub struct EncryptedSum {
    shape: Shape,
    words: Words,
    check: TwinResidue,
}

impl EncryptedSum {
    /// The sum of no ciphertext.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            words: Words::zeros(shape.width(), shape.lanes()),
            check: TwinResidue::ZERO,
        }
    }

    /// Scheme, width and lanes of the ciphertexts.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Adds a ciphertext of [`Shape::ciphertext_len`] bytes, or a sum of ciphertexts.
    ///
    /// # Errors
    /// [`FlasheError::CiphertextLength`]; [`FlasheError::Math`] if padding bits are set or the check is not canonical.
    /// The sum is unchanged then.
    pub fn add(&mut self, ciphertext: &[u8]) -> Result<(), FlasheError> {
        let (packed, check) = parts(self.shape.width(), self.shape.lanes(), ciphertext)?;
        self.words.add_packed(packed)?;
        self.check += check;
        Ok(())
    }

    /// The sum, in the form of a ciphertext.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.shape.ciphertext_len());
        let words = self.words.tile(0..self.shape.lanes());
        pack_tile(self.shape.width(), words, &mut bytes);
        bytes.extend_from_slice(&self.check.to_bytes());
        bytes
    }
}

/// The sum of ciphertexts (or of sums), in one pass over all of them. Long ones are added on all threads of the global
/// pool, unless the caller is a thread of a pool. It needs no key.
///
/// A server that does not want to keep all ciphertexts adds each to an [`EncryptedSum`] instead.
///
/// # Errors
/// As [`EncryptedSum::add`].
pub fn sum(shape: Shape, ciphertexts: &[&[u8]]) -> Result<Vec<u8>, FlasheError> {
    let mut vectors = Vec::with_capacity(ciphertexts.len());
    let mut check = TwinResidue::ZERO;
    for ciphertext in ciphertexts {
        let (packed, of_ciphertext) = parts(shape.width(), shape.lanes(), ciphertext)?;
        vectors.push(packed);
        check += of_ciphertext;
    }
    let mut bytes = vec![0; shape.ciphertext_len()];
    let (packed, end) = bytes.split_at_mut(shape.packed_len());
    if shape.width().fits_u32() {
        sum_tiles::<u32>(shape, &vectors, packed)?;
    } else {
        sum_tiles::<u64>(shape, &vectors, packed)?;
    }
    end.copy_from_slice(&check.to_bytes());
    Ok(bytes)
}

/// Packed words, which are well-formed, and check of a ciphertext of `lanes` words.
pub(super) fn parts(
    width: Width,
    lanes: usize,
    ciphertext: &[u8],
) -> Result<(&[u8], TwinResidue), FlasheError> {
    let (got, expected) = (ciphertext.len(), width.packed_len(lanes) + CHECK_LEN);
    match ciphertext.split_last_chunk::<CHECK_LEN>() {
        Some((packed, check)) if got == expected => {
            check_packed(width, lanes, packed)?;
            Ok((packed, TwinResidue::from_bytes(check)?))
        }
        _ => Err(FlasheError::CiphertextLength { got, expected }),
    }
}

fn sum_tiles<L: Lane>(
    shape: Shape,
    vectors: &[&[u8]],
    packed: &mut [u8],
) -> Result<(), FlasheError> {
    let make = |first, tile: &mut [L]| sum_tile(shape.width(), vectors, first, tile);
    let tiles = (shape.lanes(), TILE);
    pack_by_tiles(shape.width(), tiles, packed, ((), |(), ()| ()), make)
}

/// Words `first..` of the sum.
fn sum_tile<L: Lane>(
    width: Width,
    vectors: &[&[u8]],
    first: usize,
    tile: &mut [L],
) -> Result<(), FlasheError> {
    tile.fill(L::default());
    let start = width.packed_len(first);
    let piece = start..start + width.packed_len(tile.len());
    let pieces: Vec<&[u8]> = vectors.iter().map(|v| &v[piece.clone()]).collect();
    Ok(add_packed_tiles(width, L::tile_mut(tile), &pieces)?)
}
