//! Vectors are multiplied with a few random rows of −1, 0 and 1, by each server for itself: what the range gate looks at.
//!
//! Eighty rows would cost as many additions for each number. Four coordinates have only 81 combinations of signs, though:
//! all their sums are put in a table, with one addition each, and each row looks one up. That is 40 additions for each
//! number in place of 160, and the table serves both components of four vectors at once.
//!
//! The sign of coordinate 4k + j in row r is the number of ones among bits 2j and 2j + 1 of byte 80k + r, less one, of a
//! stream that the coin is the key of: −1 and 1 have probability ¼, 0 has ½.

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

use crate::ring::words;
use crate::{Ring, Shares, Vectors};

/// Random rows.
pub const ROWS: usize = 80;

/// Coordinates whose sums are in one table.
const BLOCK: usize = 4;

/// Combinations of signs of so many coordinates.
const COMBINATIONS: usize = 3usize.pow(BLOCK as u32);

/// Tables at a time: they stay in the first-level cache.
const TABLES: usize = 6;

/// Tiles whose signs are in memory at a time.
const TILES: usize = 64;

/// Numbers side by side: both components of four vectors.
const LANES: usize = 8;

type Lanes = [u64; LANES];

type Table = [Lanes; COMBINATIONS];

/// Coordinates of a tile.
const TILE: usize = BLOCK * TABLES;

/// Bytes of the stream for a tile.
const BYTES: usize = ROWS * TABLES;

/// Both components of every vector times every row: row by row, and in each row one number for each vector.
pub fn project<R: Ring>(vectors: &Vectors, coin: [u8; 32]) -> Shares<R> {
    project_with(vectors, coin, fastest())
}

fn project_with<R: Ring>(vectors: &Vectors, coin: [u8; 32], add: Add) -> Shares<R> {
    let count = vectors.count();
    let mut sums = vec![[[0; LANES]; ROWS]; count.div_ceil(LANES / 2)];
    let stream = MaskStream::new(MaskSeed::from(Secret::from(coin)), Sign::Add);
    let numbers = combinations();
    let tiles = vectors.length().div_ceil(TILE);
    for first in (0..tiles).step_by(TILES) {
        let here = TILES.min(tiles - first);
        let bytes = words(&stream, first * BYTES / 8, here * BYTES / 8);
        let signs: Vec<u8> = bytes
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .map(|byte| numbers[usize::from(byte)])
            .collect();
        for (group, sums) in sums.iter_mut().enumerate() {
            add(vectors, group, first, &signs, sums);
        }
    }
    let component = |part: usize| {
        let of_row = |row: usize| {
            let sums = &sums;
            (0..count).map(move |vector| {
                let of_group = sums.get(vector / 4).and_then(|sums| sums.get(row));
                R::of(of_group.map_or(0, |lanes| lanes[2 * (vector % 4) + part]))
            })
        };
        (0..ROWS).flat_map(of_row).collect()
    };
    Shares::of(component(0), component(1))
}

/// For each byte of the stream the place in a table: a digit 0, 1 or 2 for each coordinate.
fn combinations() -> [u8; 256] {
    let mut numbers = [0; 256];
    for (byte, number) in numbers.iter_mut().enumerate() {
        for place in (0..BLOCK).rev() {
            let bits = byte >> (2 * place) & 3;
            *number = 3 * *number + bits.count_ones() as u8;
        }
    }
    numbers
}

type Add = fn(&Vectors, usize, usize, &[u8], &mut [Lanes; ROWS]);

/// The code that adds tiles on this machine. All of it gives the same sums.
fn fastest() -> Add {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        return |vectors, group, first, signs, sums| {
            // SAFETY: the machine has the instructions.
            unsafe { add_tiles_avx512(vectors, group, first, signs, sums) }
        };
    }
    add_tiles
}

/// As [`add_tiles`], with eight numbers in a register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_tiles_avx512(
    vectors: &Vectors,
    group: usize,
    first: usize,
    signs: &[u8],
    sums: &mut [Lanes; ROWS],
) {
    add_tiles(vectors, group, first, signs, sums);
}

/// Adds to the sums of one group of four vectors what the tiles from the one with the number `first` on come to, as many as
/// there are signs for.
#[inline(always)]
fn add_tiles(
    vectors: &Vectors,
    group: usize,
    first: usize,
    signs: &[u8],
    sums: &mut [Lanes; ROWS],
) {
    let mut tables = [[[0; LANES]; COMBINATIONS]; TABLES];
    for (tile, signs) in signs.chunks(BYTES).enumerate() {
        let mut x = [[0; LANES]; TILE];
        take(vectors, group, (first + tile) * TILE, &mut x);
        for (table, x) in tables.iter_mut().zip(x.chunks(BLOCK)) {
            fill(table, x);
        }
        look_up(&tables, signs, sums);
    }
}

/// Both components of four vectors side by side, a tile of them; coordinates and vectors that are not there stay 0.
#[inline(always)]
fn take(vectors: &Vectors, group: usize, begin: usize, x: &mut [Lanes; TILE]) {
    let first = group * LANES / 2;
    for vector in first..vectors.count().min(first + LANES / 2) {
        for part in 0..2 {
            let component = vectors.component(vector, part);
            let here = component.get(begin..).unwrap_or_default();
            let lane = 2 * (vector - first) + part;
            for (x, value) in x.iter_mut().zip(here) {
                x[lane] = *value;
            }
        }
    }
}

/// The sums of four coordinates, for all combinations of signs.
#[inline(always)]
fn fill(table: &mut Table, x: &[Lanes]) {
    let mut least = [0u64; LANES];
    for x in x {
        least = minus(least, x);
    }
    table[0] = least;
    let mut filled = 1;
    for x in x {
        for place in 0..2 * filled {
            table[filled + place] = plus(table[place], x);
        }
        filled *= 3;
    }
}

#[inline(always)]
fn look_up(tables: &[Table; TABLES], signs: &[u8], sums: &mut [Lanes; ROWS]) {
    for (row, sum) in sums.iter_mut().enumerate() {
        let mut lanes = *sum;
        for (table, signs) in tables.iter().zip(signs.chunks_exact(ROWS)) {
            // There is no other number.
            if let Some(of_signs) = table.get(usize::from(signs[row])) {
                lanes = plus(lanes, of_signs);
            }
        }
        *sum = lanes;
    }
}

#[inline(always)]
fn plus(mut a: Lanes, b: &Lanes) -> Lanes {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_add(*b);
    }
    a
}

#[inline(always)]
fn minus(mut a: Lanes, b: &Lanes) -> Lanes {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_sub(*b);
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
        let bytes: Vec<u8> = words(&key(), 0, 5000)
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        for (count, length) in [(1, 1), (3, 4), (4, 23), (5, 24), (9, 131), (0, 3), (2, 0)] {
            let number = |vector: usize, part: usize, at: usize| {
                (vector * 1000 + part * 500 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u64
            };
            let row = |vector| {
                [0, 1].map(|part| (0..length).map(|at| number(vector, part, at)).collect())
            };
            let vectors = Vectors::new((0..count).map(row).collect()).unwrap();
            let projected = project::<u64>(&vectors, coin);
            assert!(projected == project_with(&vectors, coin, add_tiles));
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
        let numbers = combinations();
        let mut often = [0; COMBINATIONS];
        numbers.iter().for_each(|it| often[usize::from(*it)] += 1);
        for (number, often) in often.into_iter().enumerate() {
            let digits = [1, 3, 9, 27].map(|unit| number / unit % 3);
            let zeros = digits.into_iter().filter(|digit| *digit == 1).count();
            assert_eq!(often, 1 << zeros, "{digits:?}");
        }
    }
}
