//! How far a vector moves the sum of those that are shortened, however truncations round.

use std::sync::Arc;

use proptest::prelude::*;

use crate::rules::{Bounds, clipped_norm};
use crate::testing::{carry, keys_with};
use crate::{Mpc, Ring, ServerIndex, Vectors};

/// 1 as a weight.
const ONE: i128 = 1 << 28;

/// A weight as servers compute it from the square of a norm, where each truncation rounds down and adds what it is told.
struct Weight<F> {
    clip: i128,
    exponent: u32,
    more: F,
}

impl<F: FnMut() -> bool> Weight<F> {
    fn truncated(&mut self, value: i128, bits: u32) -> i128 {
        assert!((-(1 << 62)..1 << 62).contains(&value), "{value}");
        (value >> bits) + i128::from((self.more)())
    }

    /// min(1, clip / √n) for n from 1 on.
    fn of(mut self, n: i128) -> i128 {
        if n <= self.clip * self.clip {
            return ONE;
        }
        let (exponent, place) = (self.exponent, n.ilog2() / 2);
        let is_upper = n >= 2 << (2 * place);
        let m = self.truncated(n << (2 * (exponent - place)), 2 * exponent - 28);
        let (a, b): (f64, f64) = (1.26410, 0.28632);
        let (a, b) = match is_upper {
            true => (a / 2f64.sqrt(), b / 8f64.sqrt()),
            false => (a, b),
        };
        let [a, b] = [a, b].map(|it| (it * ONE as f64).round() as i128);
        let mut y = a - self.truncated(b * m, 28);
        let mut g = self.truncated(m * y, 28);
        for _ in 0..2 {
            let r = (ONE >> 1) - self.truncated(g * y, 29);
            let (of_g, of_y) = (self.truncated(g * r, 28), self.truncated(y * r, 28));
            (g, y) = (g + of_g, y + of_y);
        }
        let scaled = (self.clip << 28) >> place;
        self.truncated(scaled * y, 28)
    }
}

/// Norms next to the clip, to powers of two and to the ends of what there is.
fn squares(clip: i128, exponent: u32) -> Vec<i128> {
    let corners = (0..=exponent).flat_map(|i| [1 << (2 * i), 2 << (2 * i), 3 << (2 * i)]);
    // Where the straight line meets 1/√m it is not too small, so that rounding shows: m · 2^30.
    let met = [MEETS[0], MEETS[1], 2 * MEETS[0], 2 * MEETS[1]];
    let met = met.map(|at: i128| at << (2 * exponent - 2) >> 30);
    let near = corners.chain(met).chain([clip * clip, 1 << (2 * exponent)]);
    let all = near.flat_map(|at: i128| [at - 1, at, at + 1, at + at / 1000]);
    let most = 1 << (2 * exponent);
    all.filter(|at| (1..most).contains(at)).collect()
}

/// W · √n ≤ clip · 2^28 + 11 √n, in whole numbers.
fn is_within(weight: i128, n: i128, clip: i128) -> bool {
    let above = (weight - i128::from(clipped_norm(0, 1))).max(0);
    0 <= weight && above * above * n <= (clip << 28) * (clip << 28)
}

/// m · 2^30 where the straight line meets 1/√m.
const MEETS: [i128; 2] = [1_214_674_505, 1_976_451_357];

/// Whether each truncation rounds up, from the lowest bit on.
fn by(mut pattern: u32) -> impl FnMut() -> bool {
    move || {
        let up = pattern & 1 == 1;
        pattern >>= 1;
        up
    }
}

/// Abuse case 39: the bound by which noise is sized holds, whichever of the ten truncations round up.
#[test]
fn case_39_no_rounding_of_truncations_moves_the_sum_further() {
    let mut worst = 0.0f64;
    for exponent in [15, 16, 22, 27] {
        for clip in [16, 1 << 10, (1 << 14) - 1, (1 << (exponent - 1)) - 3] {
            for n in squares(clip, exponent) {
                for clip in [clip, (n - 1).max(1).isqrt()] {
                    let exact = clip as f64 * ONE as f64 / (n as f64).sqrt();
                    for pattern in 0..1 << 10 {
                        let more = by(pattern);
                        let weight = Weight {
                            clip,
                            exponent,
                            more,
                        };
                        let weight = weight.of(n);
                        assert!(is_within(weight, n, clip), "{n}, {clip}: {weight}");
                        worst = worst.max(weight as f64 - exact.min(ONE as f64));
                    }
                }
            }
        }
    }
    // It is no empty bound.
    assert!((3.0..11.0).contains(&worst), "{worst}");
}

proptest! {
    #[test]
    fn case_39_nor_does_any_of_many(
        n in 1i128..1 << 54,
        clip in 1i128..1 << 27,
        pattern in any::<u32>(),
    ) {
        let weight = Weight { clip, exponent: 27, more: by(pattern) }.of(n);
        prop_assert!(is_within(weight, n, clip), "{weight}");
    }
}

/// The sum of vectors of which each has a coordinate of its own, by servers with these keys.
fn sums<R: Ring>(
    values: &[i64],
    clip: u64,
    seed: u8,
    make: fn(crate::PairKeys<R>, crate::line::Line) -> Mpc<R>,
) -> Vec<i64> {
    let rows: Vec<Vec<i64>> = (0..values.len())
        .map(|party| {
            let mut row = vec![0; values.len()];
            row[party] = values[party];
            row
        })
        .collect();
    let code = |me: ServerIndex, line| {
        let mpc = make(
            keys_with(me, |server| [seed.wrapping_mul(3) + server.number(); 32]),
            line,
        );
        let components = rows.iter().map(|row| {
            let words: Vec<u64> = row.iter().map(|it| *it as u64).collect();
            crate::testing::shared(me, &words)
                .components()
                .map(<[u64]>::to_vec)
        });
        let vectors = Arc::new(Vectors::new(components.collect()).unwrap());
        async move {
            let weighed = mpc.clipped_mean(&vectors, Bounds::new(27)?, clip).await?;
            weighed.verify(&mpc).await?;
            mpc.reveal(&weighed.sum).await
        }
    };
    let outcome = carry(code, |_| {}).unwrap();
    outcome.results[0].iter().map(|it| *it as i64).collect()
}

/// Abuse case 39: a vector moves what the servers compute by no more than noise is sized for, in both modes and however they
/// round.
#[test]
fn case_39_servers_move_the_sum_no_further() {
    for clip in [16, 1 << 10, (1 << 16) - 1] {
        let squares = squares(i128::from(clip), 27).into_iter();
        let values: Vec<i64> = squares
            .map(|square| square.isqrt() as i64)
            .filter(|value| *value > 0)
            .collect();
        for seed in 0..3 {
            let all = [
                sums::<u64>(&values, clip, seed, Mpc::new),
                sums::<u128>(&values, clip, seed, Mpc::verifying),
                sums::<u64>(&values, clip, seed, |keys, line| {
                    Mpc::new(keys, line).exact()
                }),
            ];
            for sums in all {
                for (value, moved) in values.iter().zip(sums) {
                    let most = clipped_norm(clip, *value as u64);
                    assert!(
                        (0..=most as i64).contains(&moved),
                        "{value}, {clip}: {moved}, not {most}"
                    );
                    let short = *value as u64 <= clip;
                    assert!(!short || moved == value << 28, "{value}: {moved}");
                }
            }
        }
    }
}
