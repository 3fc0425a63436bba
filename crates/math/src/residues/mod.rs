//! Vectors of field elements as canonical residues in `u64`: their bytes, sums, and draws from a key stream.
//!
//! An element takes [`Field::ENCODED_LEN`](crate::field::Field::ENCODED_LEN) bytes, little-endian; elements follow each
//! other without padding. A representative ≥ p is refused, so that every vector has exactly one encoding.

use crate::MathError;
use crate::prime_field::NttField;
use crate::transform::Row;

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vbmi;

#[cfg(target_arch = "x86_64")]
use vbmi::Vbmi;

/// Appends the encodings of canonical residues.
pub fn pack<F: NttField>(values: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * F::ENCODED_LEN, 0);
    pack_into::<F>(values, &mut out[start..]);
}

/// Writes encodings into columns. The rows number j of all tiles, one after the other, are the residues for column j:
/// the encodings of the first `count` of them go into `columns[j]`, from byte `at` on. A column that is `None` is left
/// out.
///
/// Take several tiles at once: longer runs are written faster.
///
/// # Panics
/// If the tiles have fewer than `count` residues or fewer rows than there are columns, or if a column is too short.
pub fn pack_columns<F: NttField>(
    tiles: &[&[Row]],
    count: usize,
    at: usize,
    columns: &mut [Option<&mut [u8]>],
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        return vbmi.pack_columns::<F>(tiles, count, at, columns);
    }
    portable::pack_columns::<F>(tiles, count, at, columns);
}

/// Adds the encoded residues to canonical ones, modulo p.
///
/// # Errors
/// [`MathError::PackedElements`] unless there are as many elements as residues; the sum is unchanged then.
/// [`MathError::NonCanonical`] if an encoding is not of a representative below p. The elements are checked in the same
/// pass that adds them, so the sum is useless then.
pub fn add_packed<F: NttField>(sum: &mut [u64], bytes: &[u8]) -> Result<(), MathError> {
    if Some(bytes.len()) != sum.len().checked_mul(F::ENCODED_LEN) {
        return Err(MathError::PackedElements {
            got: bytes.len(),
            elements: sum.len(),
            element_len: F::ENCODED_LEN,
        });
    }
    match add::<F>(sum, bytes) {
        true => Ok(()),
        false => Err(MathError::NonCanonical {
            modulus: F::MODULUS,
        }),
    }
}

/// Takes uniform residues from the draws of a key stream, in order: the low [`Field::BITS`](crate::field::Field::BITS)
/// bits of each little-endian draw of [`NttField::DRAW_BYTES`] bytes, unless they are ≥ p.
///
/// Returns how many draws were used and how many residues were written. Stops when no whole draw is left or `out` is
/// full. Which draws are skipped shows in the time and says nothing about the others.
pub fn accept<F: NttField>(draws: &[u8], out: &mut [u64]) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        return vbmi.accept::<F>(draws, out);
    }
    portable::accept::<F>(draws, out)
}

/// Adds, and says whether every encoding is of a representative below p.
fn add<F: NttField>(sum: &mut [u64], bytes: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        return vbmi.add::<F>(sum, bytes);
    }
    portable::add::<F>(sum, bytes)
}

/// Writes the encodings of canonical residues.
fn pack_into<F: NttField>(values: &[u64], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(vbmi) = Vbmi::detect() {
        return vbmi.pack::<F>(values, out);
    }
    portable::pack::<F>(values, out);
}

/// One element at a time.
mod portable {
    use super::{NttField, Row};

    #[inline(always)]
    pub(super) fn load(bytes: &[u8]) -> u64 {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(padded)
    }

    pub(super) fn pack<F: NttField>(values: &[u64], out: &mut [u8]) {
        for (bytes, value) in out.chunks_exact_mut(F::ENCODED_LEN).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes()[..F::ENCODED_LEN]);
        }
    }

    pub(super) fn pack_columns<F: NttField>(
        tiles: &[&[Row]],
        count: usize,
        at: usize,
        columns: &mut [Option<&mut [u8]>],
    ) {
        for (j, column) in columns.iter_mut().enumerate() {
            let Some(column) = column else { continue };
            let mut place = &mut column[at..][..count * F::ENCODED_LEN];
            for tile in tiles {
                let residues = place.len() / F::ENCODED_LEN;
                let (bytes, rest) = place.split_at_mut(residues.min(8) * F::ENCODED_LEN);
                pack::<F>(&tile[j].0[..residues.min(8)], bytes);
                place = rest;
            }
            assert!(place.is_empty(), "tiles of {count} residues");
        }
    }

    pub(super) fn add<F: NttField>(sum: &mut [u64], bytes: &[u8]) -> bool {
        let mut canonical = true;
        for (sum, bytes) in sum.iter_mut().zip(bytes.chunks_exact(F::ENCODED_LEN)) {
            let value = load(bytes);
            canonical &= value < F::MODULUS;
            let difference = (*sum + value).wrapping_sub(F::MODULUS);
            // The top bit is set exactly when the sum was below p.
            let keep = (difference >> 63).wrapping_neg();
            *sum = difference.wrapping_add(F::MODULUS & keep);
        }
        canonical
    }

    pub(super) fn accept<F: NttField>(draws: &[u8], out: &mut [u64]) -> (usize, usize) {
        let mask = u64::MAX >> (u64::BITS - F::BITS);
        let (mut used, mut written) = (0, 0);
        for draw in draws.chunks_exact(F::DRAW_BYTES) {
            let Some(next) = out.get_mut(written) else {
                break;
            };
            *next = load(draw) & mask;
            written += usize::from(*next < F::MODULUS);
            used += 1;
        }
        (used, written)
    }
}
