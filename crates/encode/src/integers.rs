//! Integers as they are, for sums that must be exact.

use blindsum_math::words::TileMut;

use crate::lanes::{self, Lane};
use crate::spec::Kind;
use crate::{EncodeError, Encoding};

/// A vector of unsigned integers.
#[derive(Clone, Copy)]
pub enum Integers<'a> {
    /// 32 bits.
    U32(&'a [u32]),
    /// 64 bits.
    U64(&'a [u64]),
}

impl<'a> From<&'a [u32]> for Integers<'a> {
    fn from(values: &'a [u32]) -> Self {
        Self::U32(values)
    }
}

impl<'a> From<&'a [u64]> for Integers<'a> {
    fn from(values: &'a [u64]) -> Self {
        Self::U64(values)
    }
}

/// Integers below 2^q on their way into words, q being the bits of a quantised encoding: word d is the
/// integer at d times the weight, so that the sum of the words is the exact weighted sum of the integers.
/// It cannot wrap, because quantised values have the same bounds.
pub struct IntegerWords<'a> {
    encoding: &'a Encoding,
    values: Integers<'a>,
    weight: u32,
}

impl<'a> IntegerWords<'a> {
    /// Checks `values` against the bits of `encoding`.
    ///
    /// # Errors
    /// [`EncodeError::Integers`] for fixed point, [`EncodeError::Weight`], [`EncodeError::Dim`] and
    /// [`EncodeError::Value`].
    pub fn new(
        encoding: &'a Encoding,
        values: impl Into<Integers<'a>>,
        weight: u32,
    ) -> Result<Self, EncodeError> {
        let Kind::Quantised { bits, .. } = encoding.kind() else {
            return Err(EncodeError::Integers);
        };
        lanes::check_weight(encoding, weight)?;
        let values = values.into();
        let largest = (1_u64 << bits) - 1;
        let (got, too_large) = match values {
            Integers::U32(values) => (
                values.len(),
                values.iter().position(|&value| u64::from(value) > largest),
            ),
            Integers::U64(values) => (
                values.len(),
                values.iter().position(|&value| value > largest),
            ),
        };
        let dim = encoding.dim();
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        if let Some(index) = too_large {
            return Err(EncodeError::Value { index, bits });
        }
        Ok(Self {
            encoding,
            values,
            weight,
        })
    }

    /// Words of the vector, [`Encoding::lanes`].
    pub fn lanes(&self) -> usize {
        self.encoding.lanes()
    }

    /// Writes words `first_lane..first_lane + tile.len()` over `tile`.
    ///
    /// # Errors
    /// [`EncodeError::Tile`] if they are not all in the vector or the lanes are not those of its width.
    pub fn encode_tile(&mut self, first_lane: usize, tile: TileMut<'_>) -> Result<(), EncodeError> {
        lanes::check_tile(self.encoding, first_lane, &tile)?;
        match tile {
            TileMut::W32(lanes) => self.write(first_lane, lanes),
            TileMut::W64(lanes) => self.write(first_lane, lanes),
        }
        Ok(())
    }

    fn write<L: Lane>(&self, first: usize, lanes: &mut [L]) {
        let weight = u64::from(self.weight);
        let (lanes, coordinates) = lanes::split_weight(self.encoding, self.weight, first, lanes);
        match self.values {
            Integers::U32(values) => {
                for (lane, &value) in lanes.iter_mut().zip(&values[coordinates]) {
                    *lane = L::truncate(u64::from(value) * weight);
                }
            }
            Integers::U64(values) => {
                for (lane, &value) in lanes.iter_mut().zip(&values[coordinates]) {
                    *lane = L::truncate(value * weight);
                }
            }
        }
    }
}
