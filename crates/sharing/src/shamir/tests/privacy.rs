//! Privacy of the sharing: t − 1 shares have the same distribution whatever the secret, by counting every polynomial
//! there is over small fields, and by a chi-square test over the large one.

use std::collections::BTreeMap;

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use blindsum_math::tiny_field::TinyField;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::super::polynomials::{Polynomials, combine, weights_at_zero};
use super::super::{Point, share};

/// All vectors of `len` elements.
fn all_vectors<const P: u8>(len: usize) -> Vec<Vec<TinyField<P>>> {
    (0..len).fold(vec![Vec::new()], |shorter, _| {
        let extend = |vector: &Vec<_>| {
            let vector = vector.clone();
            TinyField::<P>::all().map(move |element| [&vector[..], &[element]].concat())
        };
        shorter.iter().flat_map(extend).collect()
    })
}

/// How often each view of the holders at `points` arises over all sharings of `secret` with threshold t.
fn views<const P: u8>(
    secret: TinyField<P>,
    threshold: usize,
    points: &[TinyField<P>],
) -> BTreeMap<Vec<u64>, usize> {
    let mut counts = BTreeMap::new();
    for coefficients in all_vectors::<P>(threshold - 1) {
        let rows: Vec<[TinyField<P>; 1]> = coefficients.into_iter().map(|c| [c]).collect();
        let polynomials = Polynomials::new(&[secret], &rows);
        let view = points
            .iter()
            .map(|&point| polynomials.evaluate(point)[0].to_canonical());
        *counts.entry(view.collect()).or_insert(0) += 1;
    }
    counts
}

/// Subsets of the non-zero points with `size` members.
fn coalitions<const P: u8>(size: usize) -> Vec<Vec<TinyField<P>>> {
    let points: Vec<TinyField<P>> = TinyField::all().skip(1).collect();
    (0..1u32 << points.len())
        .filter(|members| members.count_ones() as usize == size)
        .map(|members| {
            (0..points.len())
                .filter(|i| members >> i & 1 == 1)
                .map(|i| points[i])
                .collect()
        })
        .collect()
}

fn enumerate<const P: u8>(max_threshold: usize) {
    for threshold in 1..=max_threshold {
        for coalition in coalitions::<P>(threshold - 1) {
            let expected = all_vectors::<P>(coalition.len())
                .into_iter()
                .map(|view| (view.iter().map(|e| e.to_canonical()).collect(), 1))
                .collect::<BTreeMap<Vec<u64>, usize>>();
            for secret in TinyField::all() {
                assert_eq!(views(secret, threshold, &coalition), expected);
            }
        }
        for quorum in coalitions::<P>(threshold) {
            let weights = weights_at_zero(&quorum).unwrap();
            for secret in TinyField::<P>::all() {
                for view in views(secret, threshold, &quorum).keys() {
                    let shares: Vec<[TinyField<P>; 1]> = view
                        .iter()
                        .map(|&v| [TinyField::from_canonical(v).unwrap()])
                        .collect();
                    assert_eq!(combine(&weights, shares.iter()), [secret]);
                }
            }
        }
    }
}

/// Case 25 of the abuse suite.
#[test]
fn every_coalition_below_t_sees_every_view_equally_often() {
    enumerate::<5>(4);
    enumerate::<7>(3);
}

/// Case 23 of the abuse suite.
#[test]
fn the_point_zero_would_give_the_secret_away() {
    let zero = [TinyField::<5>::ZERO];
    let secret = TinyField::from_canonical(3).unwrap();
    assert_eq!(views(secret, 3, &zero), BTreeMap::from([(vec![3], 25)]));
    assert!(weights_at_zero(&zero).is_err());
}

/// Σ (count − expected)² / expected.
fn chi_square(counts: &[u32]) -> f64 {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let terms = counts
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected);
    terms.sum()
}

/// Case 25 of the abuse suite.
#[test]
fn drawn_polynomials_reach_every_view_of_every_limb() {
    // t = 3 over the field of 5 elements: two holders see four values of a two-limb secret, 5^4 views in all.
    type Tiny = TinyField<5>;
    let points = [Tiny::ONE, Tiny::ONE + Tiny::ONE];
    for secrets in [[Tiny::ZERO; 2], [Tiny::ONE, -Tiny::ONE]] {
        let rng = &mut ChaCha20Rng::from_seed([10; 32]);
        let mut counts = [0u32; 625];
        for _ in 0..20 * counts.len() {
            let polynomials = Polynomials::random(&secrets, 3, rng);
            let view = points.iter().flat_map(|&point| polynomials.evaluate(point));
            counts[view.fold(0, |index, value| 5 * index + value.to_canonical() as usize)] += 1;
        }
        // 624 degrees of freedom: a fair source exceeds 764 once in 10^4 times; the seed is fixed.
        let statistic = chi_square(&counts);
        assert!(statistic < 764.0, "{statistic}");
    }
}

/// Case 25 of the abuse suite.
#[test]
fn shares_below_the_threshold_look_uniform() {
    let holders: Vec<Point> = (1..=3).map(|x| Point::new(x).unwrap()).collect();
    for (secret, seed) in [([0x00; 32], 11), ([0xff; 32], 12), ([0x2c; 32], 13)] {
        let rng = &mut ChaCha20Rng::from_seed([seed; 32]);
        let mut counts = [[0u32; 16]; super::super::LIMBS];
        for _ in 0..4096 {
            let shares = share(&secret, 3, &holders, rng).unwrap();
            for (bins, value) in counts.iter_mut().zip(shares[1].0) {
                bins[(value.to_canonical() >> (Field61::BITS - 4)) as usize] += 1;
            }
        }
        for bins in counts {
            // 15 degrees of freedom: a fair source exceeds 44.3 once in 10^4 times; the seeds are fixed.
            let statistic = chi_square(&bins);
            assert!(statistic < 44.3, "{statistic}");
        }
    }
}
