//! [`SparseMask`]: a set of coordinates.

use blindsum_math::words::Width;

use super::tile::TILE_PIECES;
use crate::flashe::{CHECK_LEN, FlasheError};

/// The most dense coordinates: each has a number of 32 bits.
const MAX_LANES: u64 = 1 << 32;

/// Bits of a piece of the bitmap.
pub(super) const PIECE: usize = 64;

/// Which of D dense coordinates a party has.
#[derive(Clone, PartialEq, Eq)]
pub struct SparseMask {
    lanes: usize,
    count: usize,
    /// Bit d % 64 of piece d / 64 is set if coordinate d belongs to the set.
    pieces: Vec<u64>,
}

impl SparseMask {
    /// The set of `coordinates` out of `lanes` dense ones.
    ///
    /// # Errors
    /// [`FlasheError::DenseLanes`] above 2^32 lanes; [`FlasheError::Coordinate`] and [`FlasheError::Coordinates`] unless all
    /// are below `lanes` and increase.
    pub fn new(lanes: usize, coordinates: &[u32]) -> Result<Self, FlasheError> {
        let mut mask = Self::empty(lanes)?;
        let neighbours = coordinates.iter().zip(coordinates.iter().skip(1));
        for (&previous, &coordinate) in neighbours {
            if previous >= coordinate {
                return Err(FlasheError::Coordinates {
                    coordinate,
                    previous,
                });
            }
        }
        for &coordinate in coordinates {
            mask.push(coordinate)?;
        }
        Ok(mask)
    }

    /// The set of no coordinate.
    pub(super) fn empty(lanes: usize) -> Result<Self, FlasheError> {
        if lanes as u64 > MAX_LANES {
            let largest = MAX_LANES;
            return Err(FlasheError::DenseLanes { lanes, largest });
        }
        Ok(Self {
            lanes,
            count: 0,
            pieces: vec![0; lanes.div_ceil(PIECE)],
        })
    }

    /// The set with these pieces; bits behind `lanes` are zero.
    pub(super) fn from_pieces(lanes: usize, pieces: Vec<u64>) -> Self {
        let count = pieces.iter().map(|piece| piece.count_ones() as usize).sum();
        Self {
            lanes,
            count,
            pieces,
        }
    }

    /// Adds a coordinate behind all others.
    pub(super) fn push(&mut self, coordinate: u32) -> Result<(), FlasheError> {
        let (at, lanes) = (coordinate as usize, self.lanes);
        if at >= lanes {
            return Err(FlasheError::Coordinate { coordinate, lanes });
        }
        self.pieces[at / PIECE] |= 1 << (at % PIECE);
        self.count += 1;
        Ok(())
    }

    /// Dense coordinates D.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// The number of coordinates in the set.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The coordinates in order.
    pub fn coordinates(&self) -> impl Iterator<Item = u32> + '_ {
        ones(0, &self.pieces)
    }

    /// Whether `coordinate` is in the set; `false` also where it is not below D.
    pub fn contains(&self, coordinate: u32) -> bool {
        let at = coordinate as usize;
        let piece = self.pieces.get(at / PIECE);
        piece.is_some_and(|piece| piece >> (at % PIECE) & 1 == 1)
    }

    /// Bytes of the compacted ciphertext of words of this width at the coordinates.
    pub fn ciphertext_len(&self, width: Width) -> usize {
        width.packed_len(self.count) + CHECK_LEN
    }

    /// The bitmap of a tile. Behind the last coordinate it is zero.
    pub(super) fn tile(&self, tile: usize) -> [u64; TILE_PIECES] {
        let (start, end) = (tile * TILE_PIECES, (tile + 1) * TILE_PIECES);
        let pieces = &self.pieces[start..end.min(self.pieces.len())];
        let mut padded = [0; TILE_PIECES];
        padded[..pieces.len()].copy_from_slice(pieces);
        padded
    }

    /// The bitmap.
    pub(super) fn pieces(&self) -> &[u64] {
        &self.pieces
    }
}

/// The numbers of the bits set in `pieces`, of which the first one begins with bit 64·`first`.
pub(super) fn ones(first: usize, pieces: &[u64]) -> impl Iterator<Item = u32> + '_ {
    pieces.iter().enumerate().flat_map(move |(i, &piece)| {
        let start = (first + i) * PIECE;
        let mut left = piece;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(start as u32 + bit)
        })
    })
}

/// The same, appended to `numbers`: an inner loop of encryption and decryption.
pub(super) fn push_ones(first: usize, pieces: &[u64], numbers: &mut Vec<u32>) {
    for (i, &piece) in pieces.iter().enumerate() {
        let start = ((first + i) * PIECE) as u32;
        let mut left = piece;
        while left != 0 {
            numbers.push(start + left.trailing_zeros());
            left &= left - 1;
        }
    }
}
