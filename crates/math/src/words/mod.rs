//! Vectors of words modulo 2^b, their packed form, and the borrowed pieces (tiles) that kernels work on.
//!
//! A vector of b-bit words is held one word a lane, in `u32` lanes for b <= 32 and `u64` lanes above.
//! Arithmetic on lanes wraps at the lane, which agrees with arithmetic mod 2^b in the low b bits: between
//! operations a lane may hold junk above bit b, and whatever leaves the vector is reduced.
//!
//! Packed form: lane i occupies bits `[i*b, (i+1)*b)` of a little-endian bit string, whose bit k is bit
//! `k % 8` of byte `k / 8`. Bits behind the last lane are zero, and a packing where they are not is refused,
//! so that every vector has exactly one packing.

mod chosen;
#[cfg(test)]
mod laws;
mod pack;
mod pieces;
mod portable;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vbmi;
mod vector;
#[cfg(test)]
mod vectors;

pub use chosen::{add_chosen, add_compacted, compact, subtract_chosen};
pub use pack::{add_packed_tile, add_packed_tiles, pack_tile, pack_tile_into};
pub use pieces::pack_by_tiles;
pub use vector::Words;

use zeroize::Zeroize;

use crate::MathError;

/// Number of bits b of a word, 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Width(u8);

impl Width {
    /// 64 bits.
    pub const WIDEST: Self = Self(64);

    /// A width of `bits` bits.
    ///
    /// # Errors
    /// [`MathError::Width`] unless `1 <= bits <= 64`.
    pub const fn new(bits: u32) -> Result<Self, MathError> {
        if bits >= 1 && bits <= 64 {
            Ok(Self(bits as u8))
        } else {
            Err(MathError::Width { bits })
        }
    }

    /// The number of bits b.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// 2^b - 1, the largest word.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Bytes of the packed form of `lanes` lanes: `ceil(lanes * b / 8)`.
    ///
    /// Saturates at `usize::MAX`, a length that no buffer has.
    pub const fn packed_len(self, lanes: usize) -> usize {
        let bits = self.bits() as usize;
        // 8 lanes are exactly b bytes; splitting them off keeps the product from wrapping early.
        let whole = (lanes / 8).saturating_mul(bits);
        whole.saturating_add((lanes % 8 * bits).div_ceil(8))
    }

    /// Whether a lane is a `u32` (b <= 32) rather than a `u64`.
    pub const fn fits_u32(self) -> bool {
        self.bits() <= 32
    }
}

/// A contiguous run of lanes to read.
///
/// Lanes of words up to 32 bits wide are `u32`, wider ones `u64`; a lane may hold junk above bit b.
#[derive(Clone, Copy)]
pub enum Tile<'a> {
    /// Lanes of a vector at most 32 bits wide.
    W32(&'a [u32]),
    /// Lanes of a vector 33 to 64 bits wide.
    W64(&'a [u64]),
}

impl Tile<'_> {
    /// Number of lanes.
    pub const fn len(&self) -> usize {
        match self {
            Tile::W32(lanes) => lanes.len(),
            Tile::W64(lanes) => lanes.len(),
        }
    }

    /// Whether there is no lane.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A contiguous run of lanes to change in place; see [`Tile`].
pub enum TileMut<'a> {
    /// Lanes of a vector at most 32 bits wide.
    W32(&'a mut [u32]),
    /// Lanes of a vector 33 to 64 bits wide.
    W64(&'a mut [u64]),
}

impl TileMut<'_> {
    /// Number of lanes.
    pub const fn len(&self) -> usize {
        match self {
            TileMut::W32(lanes) => lanes.len(),
            TileMut::W64(lanes) => lanes.len(),
        }
    }

    /// Whether there is no lane.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same lanes, borrowed for a shorter time, so that one tile can be passed to several kernels in turn.
    pub const fn reborrow(&mut self) -> TileMut<'_> {
        match self {
            TileMut::W32(lanes) => TileMut::W32(lanes),
            TileMut::W64(lanes) => TileMut::W64(lanes),
        }
    }
}

/// The type of a lane, for code that is written once for both: `u32` or `u64` and no other, as kernels rely on that.
pub trait Lane: sealed::Sealed + Copy + Default + Into<u64> + Send + Sync + Zeroize {
    /// The widest words that lanes have room for.
    const WIDTH: Width;

    /// The sum, wrapping at the lane.
    fn plus(self, other: Self) -> Self;
    /// The difference, wrapping at the lane.
    fn minus(self, other: Self) -> Self;
    /// The low b bits of the lane, which are the word.
    fn low_bits(self, width: Width) -> Self;
    /// The low bits of `number`, as many as the lane has.
    fn truncate(number: u64) -> Self;
    /// Lanes to read.
    fn tile(lanes: &[Self]) -> Tile<'_>;
    /// Lanes to change.
    fn tile_mut(lanes: &mut [Self]) -> TileMut<'_>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl Lane for u32 {
    const WIDTH: Width = Width(32);

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn low_bits(self, width: Width) -> Self {
        self & width.mask() as u32
    }

    fn truncate(number: u64) -> Self {
        number as u32
    }

    fn tile(lanes: &[Self]) -> Tile<'_> {
        Tile::W32(lanes)
    }

    fn tile_mut(lanes: &mut [Self]) -> TileMut<'_> {
        TileMut::W32(lanes)
    }
}

impl Lane for u64 {
    const WIDTH: Width = Width(64);

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn low_bits(self, width: Width) -> Self {
        self & width.mask()
    }

    fn truncate(number: u64) -> Self {
        number
    }

    fn tile(lanes: &[Self]) -> Tile<'_> {
        Tile::W64(lanes)
    }

    fn tile_mut(lanes: &mut [Self]) -> TileMut<'_> {
        TileMut::W64(lanes)
    }
}

/// Checks length and padding of the packed form of `lanes` lanes.
///
/// # Errors
/// [`MathError::PackedLength`] and [`MathError::Padding`].
pub fn check_packed(width: Width, lanes: usize, packed: &[u8]) -> Result<(), MathError> {
    let expected = width.packed_len(lanes);
    if packed.len() != expected {
        return Err(MathError::PackedLength {
            got: packed.len(),
            expected,
            lanes,
            bits: width.bits(),
        });
    }
    let used = (lanes % 8 * width.bits() as usize) % 8;
    match packed.last() {
        Some(&last) if used != 0 && last >> used != 0 => Err(MathError::Padding { last }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_is_1_to_64() {
        for bits in [0, 65, u32::MAX] {
            assert_eq!(Width::new(bits), Err(MathError::Width { bits }));
        }
        for bits in 1..=64 {
            let width = Width::new(bits).unwrap();
            assert_eq!(width.bits(), bits);
            assert_eq!(u128::from(width.mask()), (1 << bits) - 1);
            assert_eq!(width.fits_u32(), bits <= 32);
        }
    }

    #[test]
    fn packed_length_rounds_up_and_never_wraps() {
        for bits in 1..=64_u32 {
            let width = Width::new(bits).unwrap();
            for lanes in 0..100 {
                assert_eq!(width.packed_len(lanes), (lanes * bits as usize).div_ceil(8));
            }
        }
        let widest = Width::new(64).unwrap();
        assert_eq!(widest.packed_len(usize::MAX), usize::MAX);
        assert_eq!(widest.packed_len(usize::MAX / 8), usize::MAX - 7);
    }
}
