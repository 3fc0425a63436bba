//! [`Words`]: a vector of words modulo 2^b.

use std::fmt;
use std::ops::Range;

use super::{Tile, TileMut, Width, check_packed, pack, pack_tile};
use crate::MathError;

/// A vector of words modulo 2^b; lanes are reduced only when they are read out one by one or packed.
///
/// Two vectors are equal when they have the same width and length and their words are equal mod 2^b.
#[derive(Clone)]
pub struct Words {
    width: Width,
    lanes: Lanes,
}

#[derive(Clone)]
enum Lanes {
    W32(Vec<u32>),
    W64(Vec<u64>),
}

impl Words {
    /// `len` words of value zero.
    pub fn zeros(width: Width, len: usize) -> Self {
        let lanes = if width.fits_u32() {
            Lanes::W32(vec![0; len])
        } else {
            Lanes::W64(vec![0; len])
        };
        Self { width, lanes }
    }

    /// The words with the given values, each below 2^b.
    ///
    /// # Errors
    /// [`MathError::Value`] at the first value of 2^b or more.
    pub fn from_values(width: Width, values: &[u64]) -> Result<Self, MathError> {
        if let Some(lane) = values.iter().position(|&value| value > width.mask()) {
            return Err(MathError::Value {
                lane,
                value: values[lane],
                bits: width.bits(),
            });
        }
        let lanes = if width.fits_u32() {
            Lanes::W32(values.iter().map(|&value| value as u32).collect())
        } else {
            Lanes::W64(values.to_vec())
        };
        Ok(Self { width, lanes })
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.whole().len()
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bits b of a word.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Word `i`, in `0..2^b`.
    ///
    /// # Panics
    /// If `i >= len()`.
    pub fn get(&self, i: usize) -> u64 {
        let lane = match &self.lanes {
            Lanes::W32(lanes) => u64::from(lanes[i]),
            Lanes::W64(lanes) => lanes[i],
        };
        lane & self.width.mask()
    }

    /// The words in order, each in `0..2^b`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The words, each in `0..2^b`, without a copy where they take 64 bits.
    pub fn into_values(self) -> Vec<u64> {
        let mask = self.width.mask();
        match self.lanes {
            Lanes::W32(lanes) => lanes.iter().map(|&lane| u64::from(lane) & mask).collect(),
            Lanes::W64(mut lanes) => {
                lanes.iter_mut().for_each(|lane| *lane &= mask);
                lanes
            }
        }
    }

    /// Lanes `range`, to read; they may hold junk above bit b.
    ///
    /// # Panics
    /// If the range ends behind `len()`.
    pub fn tile(&self, range: Range<usize>) -> Tile<'_> {
        match &self.lanes {
            Lanes::W32(lanes) => Tile::W32(&lanes[range]),
            Lanes::W64(lanes) => Tile::W64(&lanes[range]),
        }
    }

    /// Lanes `range`, to change in place; they may be left with junk above bit b.
    ///
    /// # Panics
    /// If the range ends behind `len()`.
    pub fn tile_mut(&mut self, range: Range<usize>) -> TileMut<'_> {
        match &mut self.lanes {
            Lanes::W32(lanes) => TileMut::W32(&mut lanes[range]),
            Lanes::W64(lanes) => TileMut::W64(&mut lanes[range]),
        }
    }

    /// The packed form, `width().packed_len(len())` bytes.
    pub fn pack(&self) -> Vec<u8> {
        let mut packed = Vec::new();
        pack_tile(self.width, self.whole(), &mut packed);
        packed
    }

    /// Reads the packed form of `len` words.
    ///
    /// Nothing is allocated before the length of `packed` is known to be right.
    ///
    /// # Errors
    /// [`MathError::PackedLength`] and [`MathError::Padding`].
    pub fn unpack(width: Width, len: usize, packed: &[u8]) -> Result<Self, MathError> {
        check_packed(width, len, packed)?;
        let mut words = Self::zeros(width, len);
        pack::add_to_tile(width, words.tile_mut(0..len), packed);
        Ok(words)
    }

    /// Adds a packed vector of the same width and length, mod 2^b.
    ///
    /// # Errors
    /// [`MathError::PackedLength`] and [`MathError::Padding`]; no lane has changed then.
    pub fn add_packed(&mut self, packed: &[u8]) -> Result<(), MathError> {
        let len = self.len();
        check_packed(self.width, len, packed)?;
        pack::add_to_tile(self.width, self.tile_mut(0..len), packed);
        Ok(())
    }

    /// Adds another vector of the same width and length, mod 2^b.
    ///
    /// # Errors
    /// [`MathError::Shape`]; no lane has changed then.
    pub fn add(&mut self, other: &Words) -> Result<(), MathError> {
        if self.width != other.width || self.len() != other.len() {
            return Err(MathError::Shape {
                got_lanes: other.len(),
                got_bits: other.width.bits(),
                lanes: self.len(),
                bits: self.width.bits(),
            });
        }
        match (&mut self.lanes, &other.lanes) {
            (Lanes::W32(sum), Lanes::W32(lanes)) => {
                let pairs = sum.iter_mut().zip(lanes);
                pairs.for_each(|(sum, &lane)| *sum = sum.wrapping_add(lane));
            }
            (Lanes::W64(sum), Lanes::W64(lanes)) => {
                let pairs = sum.iter_mut().zip(lanes);
                pairs.for_each(|(sum, &lane)| *sum = sum.wrapping_add(lane));
            }
            _ => unreachable!("equal widths have the same lanes"),
        }
        Ok(())
    }

    fn whole(&self) -> Tile<'_> {
        match &self.lanes {
            Lanes::W32(lanes) => Tile::W32(lanes),
            Lanes::W64(lanes) => Tile::W64(lanes),
        }
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        let mask = self.width.mask();
        self.width == other.width
            && self.len() == other.len()
            && match (&self.lanes, &other.lanes) {
                (Lanes::W32(ours), Lanes::W32(others)) => differences(ours, others) & mask == 0,
                (Lanes::W64(ours), Lanes::W64(others)) => differences(ours, others) & mask == 0,
                _ => false,
            }
    }
}

/// The bits in which any two lanes differ, all lanes looked at: no branch, so that it is vectorised.
fn differences<L: Copy + Into<u64>>(ours: &[L], others: &[L]) -> u64 {
    ours.iter().zip(others).fold(0, |bits, (ours, others)| {
        bits | ((*ours).into() ^ (*others).into())
    })
}

impl Eq for Words {}

/// Shape only: a vector may be one party's update, which belongs in no log.
impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words")
            .field("width", &self.width.bits())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
