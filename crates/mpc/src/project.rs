//! Vectors are multiplied with a few random rows of −1, 0 and 1, by each server for itself: what the range gate looks at.
//!
//! Eighty rows would cost as many additions for each number. The signs that a coordinate has in four rows make only 81
//! patterns, though: coordinates of one pattern are added up, and in the end the four rows are made of 81 sums. That is one
//! addition of each number for four rows, and it serves both components of four vectors at once.
//!
//! The sign of coordinate 4k + j in row r is the number of ones among bits 2j and 2j + 1 of byte 80k + r, less one, of a
//! stream that the coin is the key of: −1 and 1 have probability ¼, 0 has ½.

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

use crate::ring::{TILE, words};
use crate::vectors::tile_of;
use crate::{Ring, Shares, Vectors};

/// Random rows.
pub const ROWS: usize = 80;

/// Coordinates that have their signs in the same bytes of the stream.
const BLOCK: usize = 4;

/// Rows whose signs make one pattern.
const FOLD: usize = 4;

/// Patterns of signs in so many rows.
const PATTERNS: usize = 3usize.pow(FOLD as u32);

/// Sets of rows: row r is in set r modulo this number.
const SETS: usize = ROWS / FOLD;

/// Sets at a time: their sums stay in the first-level cache.
const NEAR: usize = size_of::<u32>();

/// Numbers side by side: both components of four vectors.
const LANES: usize = 8;

/// Numbers side by side, in one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes([u64; LANES]);

impl Lanes {
    const ZERO: Self = Self([0; LANES]);
}

/// For each pattern of a set of rows the sum of the coordinates that have it.
type Sums = [Lanes; PATTERNS];

/// The patterns of a tile's coordinates: one byte for each of so many sets as are added to at a time.
type Patterns = [[u32; TILE]; SETS / NEAR];

/// Both components of every vector times every row: row by row, and in each row one number for each vector.
pub fn project<R: Ring>(vectors: &Vectors, coin: [u8; 32]) -> Shares<R> {
    project_with(vectors, coin, fastest())
}

fn project_with<R: Ring>(vectors: &Vectors, coin: [u8; 32], add: Add) -> Shares<R> {
    let count = vectors.count();
    let mut sums = vec![[[Lanes::ZERO; PATTERNS]; SETS]; count.div_ceil(LANES / 2)];
    let stream = MaskStream::new(MaskSeed::from(Secret::from(coin)), Sign::Add);
    for tile in 0..vectors.length().div_ceil(TILE) {
        let patterns = patterns(&stream, tile);
        for (group, sums) in sums.iter_mut().enumerate() {
            add(&side_by_side(vectors, group, tile), &patterns, sums);
        }
    }
    let rows: Vec<_> = sums.iter().map(rows).collect();
    let component = |part: usize| {
        let of_row = |row: usize| {
            let rows = &rows;
            (0..count).map(move |vector| {
                let of_group = rows.get(vector / 4).and_then(|rows| rows.get(row));
                R::of(of_group.map_or(0, |lanes| lanes.0[2 * (vector % 4) + part]))
            })
        };
        (0..ROWS).flat_map(of_row).collect()
    };
    Shares::of(component(0), component(1))
}

/// The patterns of a tile, for all sets. In a pattern, row i of its set has digit i to the base 3: its sign and one.
fn patterns(stream: &MaskStream, tile: usize) -> Patterns {
    const WORDS: usize = ROWS / 8;
    /// The lower bit of each sign.
    const LOWER: u64 = 0x5555_5555_5555_5555;
    /// The sign of the first coordinate in each byte.
    const FIRST: u32 = 0x0303_0303;
    let blocks = TILE / BLOCK;
    let mut all = [[0; TILE]; SETS / NEAR];
    let words = words(stream, tile * blocks * WORDS, blocks * WORDS);
    for (block, words) in words.as_chunks::<WORDS>().0.iter().enumerate() {
        let mut rows = [[0; SETS / NEAR]; FOLD];
        let (halves, _) = rows.as_flattened_mut().as_chunks_mut::<2>();
        for (halves, word) in halves.iter_mut().zip(words) {
            let digits = (word & LOWER) + (word >> 1 & LOWER);
            *halves = [digits as u32, (digits >> 32) as u32];
        }
        for (at, all) in all.iter_mut().enumerate() {
            let here = all.iter_mut().skip(BLOCK * block).take(BLOCK);
            for (place, patterns) in here.enumerate() {
                let digits = rows.iter().map(|row| row[at] >> (2 * place) & FIRST);
                *patterns = digits.rev().fold(0, |patterns, it| 3 * patterns + it);
            }
        }
    }
    all
}

/// Both components of four vectors side by side, a tile of them; vectors that are not there are 0.
fn side_by_side(vectors: &Vectors, group: usize, tile: usize) -> Vec<Lanes> {
    const NONE: &[u64] = &[0; TILE];
    let length = TILE.min(vectors.length() - tile * TILE);
    let components: [&[u64]; LANES] = std::array::from_fn(|lane| {
        let vector = group * LANES / 2 + lane / 2;
        match vector < vectors.count() {
            true => tile_of(vectors.component(vector, lane % 2), tile),
            false => &NONE[..length],
        }
    });
    (0..length)
        .map(|at| Lanes(components.map(|component| component[at])))
        .collect()
}

type Add = fn(&[Lanes], &Patterns, &mut [Sums; SETS]);

/// The code that adds a tile on this machine. All of it gives the same sums.
fn fastest() -> Add {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has the instructions.
        return |x, patterns, sums| unsafe { add_tile_avx512(x, patterns, sums) };
    }
    add_tile
}

/// As [`add_tile`], with eight numbers in a register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_tile_avx512(x: &[Lanes], patterns: &Patterns, sums: &mut [Sums; SETS]) {
    add_tile(x, patterns, sums);
}

/// Adds a tile of four vectors to the sums of its patterns.
#[inline(always)]
fn add_tile(x: &[Lanes], patterns: &Patterns, sums: &mut [Sums; SETS]) {
    for (patterns, sums) in patterns.iter().zip(sums.as_chunks_mut::<NEAR>().0) {
        for (x, patterns) in x.iter().zip(patterns) {
            for (sums, pattern) in sums.iter_mut().zip(patterns.to_le_bytes()) {
                // There is no other pattern.
                if let Some(sum) = sums.get_mut(usize::from(pattern)) {
                    *sum = plus(*sum, x);
                }
            }
        }
    }
}

/// What all rows come to.
fn rows(sums: &[Sums; SETS]) -> [Lanes; ROWS] {
    let mut rows = [Lanes::ZERO; ROWS];
    for (row, lanes) in rows.iter_mut().enumerate() {
        let unit = 3usize.pow((row / SETS) as u32);
        for (pattern, sum) in sums[row % SETS].iter().enumerate() {
            *lanes = match pattern / unit % 3 {
                0 => minus(*lanes, sum),
                1 => *lanes,
                _ => plus(*lanes, sum),
            };
        }
    }
    rows
}

#[inline(always)]
fn plus(mut a: Lanes, b: &Lanes) -> Lanes {
    for (a, b) in a.0.iter_mut().zip(b.0) {
        *a = a.wrapping_add(b);
    }
    a
}

#[inline(always)]
fn minus(mut a: Lanes, b: &Lanes) -> Lanes {
    for (a, b) in a.0.iter_mut().zip(b.0) {
        *a = a.wrapping_sub(b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sign as the module says.
    fn sign(bytes: &[u8], row: usize, coordinate: usize) -> i64 {
        let byte = bytes[ROWS * (coordinate / 4) + row];
        let bits = byte >> (2 * (coordinate % 4)) & 3;
        i64::from(bits.count_ones()) - 1
    }

    #[test]
    fn every_number_counts_with_its_sign() {
        let coin = [7; 32];
        let key = || MaskStream::new(MaskSeed::from(Secret::from(coin)), Sign::Add);
        let bytes: Vec<u8> = words(&key(), 0, 6000)
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        let whole = [(4, TILE), (5, 2 * TILE + 3)];
        let short = [(1, 1), (3, 4), (4, 23), (9, 131), (0, 3), (2, 0)];
        for (count, length) in whole.into_iter().chain(short) {
            let number = |vector: usize, part: usize, at: usize| {
                (vector * 1000 + part * 500 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u64
            };
            let row = |vector| {
                [0, 1].map(|part| (0..length).map(|at| number(vector, part, at)).collect())
            };
            let vectors = Vectors::new((0..count).map(row).collect()).unwrap();
            let projected = project::<u64>(&vectors, coin);
            assert!(projected == project_with(&vectors, coin, add_tile));
            for part in 0..2 {
                let found = projected.components()[part];
                assert_eq!(found.len(), ROWS * count);
                for (place, found) in found.iter().enumerate() {
                    let (row, vector) = (place / count, place % count);
                    let terms = (0..length).map(|at| {
                        number(vector, part, at).wrapping_mul(sign(&bytes, row, at) as u64)
                    });
                    let sum = terms.fold(0, u64::wrapping_add);
                    assert_eq!(*found, sum, "{count} of {length}, {row}, {vector}");
                }
            }
        }
    }

    #[test]
    fn signs_are_as_often_as_they_must_be() {
        let mut often = [0; 81];
        for byte in 0..=u8::MAX {
            let signs = [0, 1, 2, 3].map(|coordinate| sign(&[byte; ROWS], 0, coordinate));
            let number = signs.iter().fold(0, |number, sign| 3 * number + sign + 1);
            often[number as usize] += 1;
        }
        for (number, often) in often.into_iter().enumerate() {
            let digits = [1, 3, 9, 27].map(|unit| number / unit % 3);
            let zeros = digits.into_iter().filter(|digit| *digit == 1).count();
            assert_eq!(often, 1 << zeros, "{digits:?}");
        }
    }
}
