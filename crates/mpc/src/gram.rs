//! Dot products of vectors with each other; modulo 2^128 in a way for machines that multiply many numbers of 32 bits at once.
//!
//! A server's part of x · y is x_own · y_own + x_own · y_next + x_next · y_own. That is s · t − x_next · y_next with
//! s = x_own + x_next and t = y_own + y_next: two products in place of three. Numbers are cut into limbs of 22 bits, and
//! those of s are sums that carry nothing. Three products of limbs below 2^23 come together at a place: 2^16 coordinates
//! stay below 2^64, and a tile has fewer.

use crate::ring::TILE;
use crate::vectors::{lifted, tile_of};
use crate::{Ring, Vectors};

/// Bits of a limb.
const BITS: u32 = 22;

/// All bits of a limb.
const MASK: u64 = (1 << BITS) - 1;

/// Limbs of a number of 64 bits.
const LIMBS: usize = 3;

/// Places of limbs in a product.
const PLACES: usize = 2 * LIMBS - 1;

/// Numbers side by side.
const LANES: usize = 8;

type Lanes<T> = [T; LANES];

/// Limbs of a few coordinates: of the sum of both components, and of the next one.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Limbs {
    both: [Lanes<u32>; LIMBS],
    next: [Lanes<u32>; LIMBS],
}

/// This server's part of each of these dot products.
pub(crate) fn dots<R: Ring>(vectors: &Vectors, pairs: &[(usize, usize)]) -> Vec<R> {
    #[cfg(target_arch = "x86_64")]
    if R::BYTES > size_of::<u64>() && is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has the instructions.
        let parts = unsafe { dots_avx512(vectors, pairs) };
        return parts.into_iter().map(R::of_wide).collect();
    }
    dots_of_words(vectors, pairs)
}

/// The same by whole numbers of the ring, tile by tile: vectors pass the cache once.
fn dots_of_words<R: Ring>(vectors: &Vectors, pairs: &[(usize, usize)]) -> Vec<R> {
    let mut parts = vec![R::ZERO; pairs.len()];
    for tile in 0..vectors.length().div_ceil(TILE) {
        for (part, (row, other)) in parts.iter_mut().zip(pairs) {
            let x = lifted::<R>(vectors, *row, tile);
            let products = x.zip(lifted::<R>(vectors, *other, tile));
            *part = products.fold(*part, |part, ((x, x_next), (y, y_next))| {
                let both = x.times(y).plus(x.times(y_next));
                part.plus(both.plus(x_next.times(y)))
            });
        }
    }
    parts
}

/// As [`dots_by_limbs`], with eight numbers in a register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn dots_avx512(vectors: &Vectors, pairs: &[(usize, usize)]) -> Vec<u128> {
    dots_by_limbs(vectors, pairs)
}

/// All of them tile by tile: vectors pass the cache once.
#[inline(always)]
fn dots_by_limbs(vectors: &Vectors, pairs: &[(usize, usize)]) -> Vec<u128> {
    let mut parts = vec![0u128; pairs.len()];
    let mut rows = vec![Vec::with_capacity(TILE / LANES); vectors.count()];
    for tile in 0..vectors.length().div_ceil(TILE) {
        for (row, limbs) in rows.iter_mut().enumerate() {
            let [own, next] = [0, 1].map(|part| tile_of(vectors.component(row, part), tile));
            limbs.clear();
            for at in (0..own.len()).step_by(LANES) {
                limbs.push(cut(&few(own, at), &few(next, at)));
            }
        }
        for (part, (row, other)) in parts.iter_mut().zip(pairs) {
            *part = part.wrapping_add(dot(&rows[*row], &rows[*other]));
        }
    }
    parts
}

/// The numbers from a place on; behind the last one come zeros.
#[inline(always)]
fn few(all: &[u64], at: usize) -> Lanes<u64> {
    let rest = &all[at..];
    match rest.first_chunk() {
        Some(few) => *few,
        None => {
            let mut few = [0; LANES];
            few[..rest.len()].copy_from_slice(rest);
            few
        }
    }
}

#[inline(always)]
fn cut(own: &Lanes<u64>, next: &Lanes<u64>) -> Limbs {
    let mut limbs = Limbs::default();
    for place in 0..LIMBS {
        let limb = |number: u64| (number >> (BITS * place as u32) & MASK) as u32;
        for lane in 0..LANES {
            limbs.next[place][lane] = limb(next[lane]);
            limbs.both[place][lane] = limb(own[lane]) + limb(next[lane]);
        }
    }
    limbs
}

/// The dot product of two tiles.
#[inline(always)]
fn dot(left: &[Limbs], right: &[Limbs]) -> u128 {
    let mut sums = [[0u64; LANES]; PLACES];
    for (left, right) in left.iter().zip(right) {
        for i in 0..LIMBS {
            for j in 0..LIMBS {
                for (lane, sum) in sums[i + j].iter_mut().enumerate() {
                    *sum += u64::from(left.both[i][lane]) * u64::from(right.both[j][lane]);
                    *sum -= u64::from(left.next[i][lane]) * u64::from(right.next[j][lane]);
                }
            }
        }
    }
    sums.iter().rev().fold(0, |dot: u128, sums| {
        let sum: u64 = sums.iter().sum();
        (dot << BITS).wrapping_add(sum.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limbs_give_the_same_dot_products() {
        let all =
            |count: usize| (0..count).flat_map(move |row| (row..count).map(move |it| (row, it)));
        for (count, length) in [
            (1, 1),
            (3, 7),
            (2, 8),
            (4, 2 * TILE + 13),
            (2, TILE),
            (2, 0),
        ] {
            let number = |at: usize| match at % 5 {
                0 => u64::MAX,
                _ => (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            };
            let row = |vector| {
                let begin = |part| 7 * vector * length + part;
                [0, 1].map(|part| (0..length).map(|at| number(begin(part) + at)).collect())
            };
            let vectors = Vectors::new((0..count).map(row).collect()).unwrap();
            let most = Vectors::new(vec![
                [vec![u64::MAX; length], vec![u64::MAX; length]];
                count
            ]);
            for vectors in [&vectors, &most.unwrap()] {
                let pairs: Vec<_> = all(count).collect();
                let expected: Vec<u128> = dots_of_words(vectors, &pairs);
                assert_eq!(
                    dots_by_limbs(vectors, &pairs),
                    expected,
                    "{count} of {length}"
                );
                assert_eq!(
                    dots::<u128>(vectors, &pairs),
                    expected,
                    "{count} of {length}"
                );
            }
        }
    }
}
