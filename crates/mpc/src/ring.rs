//! Whole numbers modulo 2^64 and 2^128.

use std::fmt::Debug;
use std::sync::Arc;
use std::vec;

use blindsum_crypto::mask::{MaskStream, apply_masks};
use blindsum_math::words::TileMut;

/// Whole numbers modulo 2^w: Z_2^64 as `u64`, Z_2^128 as `u128`. On the wire elements are little-endian.
pub trait Ring: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// Bytes of an element.
    const BYTES: usize;
    /// 0.
    const ZERO: Self;

    /// `value` modulo 2^w.
    fn of(value: u64) -> Self;
    /// A wide `value` modulo 2^w.
    fn of_wide(value: u128) -> Self;
    /// A signed `value` modulo 2^w.
    fn of_signed(value: i64) -> Self;
    /// The number modulo 2^64.
    fn low(self) -> u64;
    /// self + other.
    fn plus(self, other: Self) -> Self;
    /// self − other.
    fn minus(self, other: Self) -> Self;
    /// self · other.
    fn times(self, other: Self) -> Self;
    /// So many elements of a stream, from the one with the number `first` on.
    fn stream(stream: &MaskStream, first: usize, count: usize) -> Vec<Self>;
    /// Appends the bytes of the elements.
    fn write(values: &[Self], out: &mut Vec<u8>);
    /// The elements of these bytes, whose number is a multiple of [`Ring::BYTES`].
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! ring {
    ($type:ty, $stream:expr) => {
        impl Ring for $type {
            const BYTES: usize = size_of::<Self>();
            const ZERO: Self = 0;

            fn of(value: u64) -> Self {
                Self::from(value)
            }

            fn of_wide(value: u128) -> Self {
                value as Self
            }

            fn of_signed(value: i64) -> Self {
                value as Self
            }

            fn low(self) -> u64 {
                self as u64
            }

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn stream(stream: &MaskStream, first: usize, count: usize) -> Vec<Self> {
                $stream(stream, first, count)
            }

            fn write(values: &[Self], out: &mut Vec<u8>) {
                out.reserve(values.len() * Self::BYTES);
                for value in values {
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }

            fn read(bytes: &[u8]) -> Vec<Self> {
                let (elements, _) = bytes.as_chunks::<{ size_of::<Self>() }>();
                elements.iter().map(|it| Self::from_le_bytes(*it)).collect()
            }
        }
    };
}

ring!(u64, words);
ring!(u128, |stream, first, count| {
    let halves = words(stream, 2 * first, 2 * count);
    let (pairs, _) = halves.as_chunks::<2>();
    let whole = |[low, high]: &[u64; 2]| u128::from(*low) | u128::from(*high) << 64;
    pairs.iter().map(whole).collect()
});

/// Lanes of 64 bits of a stream, from the one with the number `first` on.
pub(crate) fn words(stream: &MaskStream, first: usize, count: usize) -> Vec<u64> {
    let mut lanes = vec![0; count];
    let tile = TileMut::W64(&mut lanes);
    apply_masks(std::slice::from_ref(stream), first as u64, tile);
    lanes
}

/// Values that are worked on at once where vectors are long: few enough for the first-level cache.
pub(crate) const TILE: usize = 1024;

/// The first elements of a stream, of which a tile is in memory at a time.
pub(crate) struct Flow<R> {
    stream: Arc<MaskStream>,
    at: usize,
    left: usize,
    tile: vec::IntoIter<R>,
}

impl<R: Ring> Flow<R> {
    pub fn new(stream: Arc<MaskStream>, count: usize) -> Self {
        let (at, left, tile) = (0, count, Vec::new().into_iter());
        Self {
            stream,
            at,
            left,
            tile,
        }
    }
}

impl<R: Ring> Iterator for Flow<R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        if let Some(element) = self.tile.next() {
            return Some(element);
        }
        let count = self.left.min(TILE);
        self.tile = R::stream(&self.stream, self.at, count).into_iter();
        self.at += count;
        self.left -= count;
        self.tile.next()
    }
}
