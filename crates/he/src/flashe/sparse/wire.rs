//! A [`SparseMask`] as bytes: one byte that names the form, and then
//!
//! * 0: the bitmap, ⌈D/8⌉ bytes, coordinate d in bit d % 8 of byte d / 8, the bits behind the last one zero;
//! * 1: for each coordinate in order its distance from the one before it, less one (for the first, the coordinate),
//!   as LEB128: 7 bits a byte, the lowest first, and the top bit set in all bytes but the last.
//!
//! The shorter form is sent, the bitmap if both have the same length. No other is accepted, so that every set has
//! exactly one form.

use super::{SparseMask, mask::PIECE};
use crate::flashe::FlasheError;

const BITMAP: u8 = 0;
const DISTANCES: u8 = 1;

impl SparseMask {
    /// The encoding, in the shorter form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bitmap_len = self.lanes().div_ceil(8);
        let distances_len = self.distances_len();
        if distances_len < bitmap_len {
            let mut bytes = Vec::with_capacity(1 + distances_len);
            bytes.push(DISTANCES);
            self.distances()
                .for_each(|distance| push_varint(distance, &mut bytes));
            bytes
        } else {
            let mut bytes = Vec::with_capacity(1 + self.pieces().len() * 8);
            bytes.push(BITMAP);
            bytes.extend(self.pieces().iter().flat_map(|piece| piece.to_le_bytes()));
            bytes.truncate(1 + bitmap_len);
            bytes
        }
    }

    /// Reads a set of coordinates below `lanes`. Takes ⌈`lanes`/8⌉ bytes of memory, whatever `bytes` says.
    ///
    /// # Errors
    /// [`FlasheError::MaskEncoding`] for what [`to_bytes`](Self::to_bytes) does not give; [`FlasheError::Coordinate`];
    /// [`FlasheError::DenseLanes`].
    pub fn from_bytes(lanes: usize, bytes: &[u8]) -> Result<Self, FlasheError> {
        let mask = match bytes.split_first() {
            Some((&BITMAP, bitmap)) => read_bitmap(lanes, bitmap)?,
            Some((&DISTANCES, distances)) => read_distances(lanes, distances)?,
            Some(_) => return Err(refused("the kind must be 0 or 1")),
            None => return Err(refused("there must be a kind")),
        };
        let bitmap_len = lanes.div_ceil(8);
        if (mask.distances_len() < bitmap_len) != (bytes.first() == Some(&DISTANCES)) {
            return Err(refused("the shorter form must be used"));
        }
        Ok(mask)
    }

    /// What coordinates are sent as.
    fn distances(&self) -> impl Iterator<Item = u32> + '_ {
        let mut next = 0;
        self.coordinates().map(move |coordinate| {
            let distance = coordinate - next;
            // Behind the last coordinate of all there is none.
            next = coordinate.wrapping_add(1);
            distance
        })
    }

    /// Bytes of all distances.
    fn distances_len(&self) -> usize {
        // One each, and what longer ones take beyond that: those are of coordinates in different pieces.
        let (mut len, mut next) = (self.count(), 0);
        let pieces = self.pieces().iter().zip((0..).step_by(PIECE));
        for (&piece, start) in pieces.filter(|(piece, _)| **piece != 0) {
            let first = start + piece.trailing_zeros();
            len += varint_len(first - next) - 1;
            next = (start + (PIECE as u32 - 1 - piece.leading_zeros())).wrapping_add(1);
        }
        len
    }
}

fn read_bitmap(lanes: usize, bitmap: &[u8]) -> Result<SparseMask, FlasheError> {
    if bitmap.len() != lanes.div_ceil(8) {
        return Err(refused("a bitmap must have a bit for each coordinate"));
    }
    let padding = bitmap.last().map_or(0, |&last| match lanes % 8 {
        0 => 0,
        used => last >> used,
    });
    if padding != 0 {
        return Err(refused("the bits behind the last coordinate must be zero"));
    }
    // Of lanes that are too many, there is an error.
    SparseMask::empty(lanes)?;
    let pieces = bitmap.chunks(PIECE / 8).map(|bytes| {
        let mut piece = [0; PIECE / 8];
        piece[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(piece)
    });
    Ok(SparseMask::from_pieces(lanes, pieces.collect()))
}

fn read_distances(lanes: usize, mut bytes: &[u8]) -> Result<SparseMask, FlasheError> {
    let (mut mask, mut next) = (SparseMask::empty(lanes)?, 0_u64);
    while let Some((&byte, rest)) = bytes.split_first() {
        // Most distances are short.
        let (distance, rest) = match byte {
            0..0x80 => (u32::from(byte), rest),
            _ => read_varint(bytes)?,
        };
        let coordinate = u32::try_from(next + u64::from(distance));
        let coordinate = coordinate.map_err(|_| refused("a coordinate must be below 2^32"))?;
        mask.push(coordinate)?;
        (next, bytes) = (u64::from(coordinate) + 1, rest);
    }
    Ok(mask)
}

fn varint_len(number: u32) -> usize {
    (32 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

fn push_varint(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The first number and what is behind it.
fn read_varint(bytes: &[u8]) -> Result<(u32, &[u8]), FlasheError> {
    let mut number = 0_u64;
    for (i, &byte) in bytes.iter().enumerate().take(5) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            let number =
                u32::try_from(number).map_err(|_| refused("a distance must be below 2^32"))?;
            return match varint_len(number) == i + 1 {
                true => Ok((number, &bytes[i + 1..])),
                false => Err(refused("a distance must take as few bytes as it can")),
            };
        }
    }
    Err(refused("a distance must end, after 5 bytes at most"))
}

fn refused(rule: &'static str) -> FlasheError {
    FlasheError::MaskEncoding { rule }
}
