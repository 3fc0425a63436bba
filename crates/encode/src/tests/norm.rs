//! Bounds on the norm of what is sent.

use proptest::prelude::*;

use super::{encode, quantised, seed, spec};
use crate::{
    ClipSpec, DensitySchedule, EncodeError, EncodeReport, Encoder, Encoding, Rounding, Sparsifier,
    SquaredNorm,
};

fn encoding(
    dim: usize,
    bits: u32,
    (clip, max_norm): (f64, f64),
    rounding: Rounding,
) -> Result<Encoding, EncodeError> {
    let kind = quantised(bits, ClipSpec::Sent { clip, max_norm }, rounding);
    spec(dim, kind, 3, 1).validate()
}

/// The norm that rounding may give to a vector of zeros.
fn least(dim: usize, bits: u32, clip: f64, rounding: Rounding) -> f64 {
    let step = rounding.step(bits, clip);
    let levels = if rounding == Rounding::Nearest {
        0.5
    } else {
        1.0
    };
    levels * step * (dim as f64).sqrt()
}

/// The sum of v(v + slope) over words.
fn sum_of(words: impl Iterator<Item = u64>, bound: SquaredNorm) -> u128 {
    let of = |word: u64| {
        let v = i128::from(word) - i128::from(bound.offset);
        (v * (v + i128::from(bound.slope))).unsigned_abs()
    };
    words.map(of).sum()
}

#[derive(Clone, Debug)]
struct Case {
    bits: u32,
    clip: f64,
    max_norm: f64,
    rounding: Rounding,
    values: Vec<f64>,
}

/// Vectors far above, at and below the bound, with coordinates that are alike or not, on levels, between them or anywhere.
fn cases() -> impl Strategy<Value = Case> {
    let rounding = prop_oneof![Just(Rounding::Stochastic), Just(Rounding::Nearest)];
    let shape = prop::collection::vec(-1.0..1.0_f64, 1..200);
    let above_least = prop_oneof![1.0001..1.01_f64, 1.01..4.0_f64, 4.0..1e4_f64];
    let times = prop_oneof![Just(1.0), 0.99..1.01_f64, 0.0..1.0_f64, 1.0..1e6_f64];
    (
        2..=32_u32,
        -20..20_i32,
        1.0..2.0_f64,
        above_least,
        rounding,
        shape,
        times,
        0..4,
    )
        .prop_map(
            |(bits, power, mantissa, above, rounding, mut values, times, form)| {
                let clip = mantissa * f64::powi(2.0, power);
                let max_norm = above * least(values.len(), bits, clip, rounding);
                let step = rounding.step(bits, clip);
                match form {
                    0 => values.iter_mut().for_each(|x| *x = 1.0),
                    1 => values.iter_mut().skip(1).for_each(|x| *x = 0.0),
                    _ => {}
                }
                let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-9);
                values
                    .iter_mut()
                    .for_each(|x| *x *= times * max_norm / norm);
                if form == 2 {
                    values
                        .iter_mut()
                        .for_each(|x| *x = (*x / step * 2.0).round() / 2.0 * step);
                }
                Case {
                    bits,
                    clip,
                    max_norm,
                    rounding,
                    values,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn case_14_no_vector_is_sent_above_the_bound(case in cases(), byte in any::<u8>()) {
        let Case { bits, clip, max_norm, rounding, values } = case;
        let encoding = encoding(values.len(), bits, (clip, max_norm), rounding).unwrap();
        let words = encode(&encoding, &values[..], 1, byte).unwrap();
        let bound = encoding.squared_norm().unwrap();
        let sum = sum_of(words.iter(), bound);
        prop_assert!(sum <= u128::from(bound.most), "{} > {}", sum, bound.most);
        let mut decoded = vec![0.0_f64; values.len()];
        encoding.decode_mean(&words, 1, &mut decoded).unwrap();
        let norm = decoded.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assert!(norm <= max_norm, "{} > {}", norm, max_norm);
        // Single precision as well.
        let single: Vec<f32> = values.iter().map(|&x| x as f32).collect();
        let words = encode(&encoding, &single[..], 1, byte).unwrap();
        prop_assert!(sum_of(words.iter(), bound) <= u128::from(bound.most));
    }

    #[test]
    fn weights_change_nothing_about_the_bound(case in cases(), weight in 1..=1000_u32) {
        let Case { bits, clip, max_norm, rounding, values } = case;
        let kind = quantised(bits, ClipSpec::Sent { clip, max_norm }, rounding);
        let encoding = spec(values.len(), kind, 3, 1000).validate().unwrap();
        prop_assert_eq!(encoding.squared_norm(), None);
        let words = encode(&encoding, &values[..], weight, 1).unwrap();
        let mut decoded = vec![0.0_f64; values.len()];
        encoding.decode_mean(&words, 1, &mut decoded).unwrap();
        let norm = decoded.iter().map(|x| x * x).sum::<f64>().sqrt();
        prop_assert!(norm <= max_norm, "{} > {}", norm, max_norm);
    }

    #[test]
    fn sparse_words_keep_the_bound(case in cases()) {
        let Case { bits, clip, max_norm, rounding, values } = case;
        let encoding = encoding(values.len(), bits, (clip, max_norm), rounding).unwrap();
        let schedule = DensitySchedule::new(0.3, 0.3, 0, 1).unwrap();
        let mut sparsifier = Sparsifier::new(&encoding, schedule).unwrap();
        let update: Vec<f32> = values.iter().map(|&x| x as f32).collect();
        for round in 0..4 {
            let selection = sparsifier.select(&encoding, round, &update[..]).unwrap();
            let of = selection.encoding();
            let words = encode(of, selection.values(), 1, 1).unwrap();
            let bound = of.squared_norm().unwrap();
            prop_assert!(sum_of(words.iter(), bound) <= u128::from(bound.most));
            sparsifier.commit(selection.into_sent(), |_| true);
        }
    }
}

/// Ties that the addition before nearest rounding makes: each of them grows by more than half a level.
#[test]
fn ties_that_are_none_stay_below_the_bound() {
    let (dim, bits, clip) = (64, 32, 1.0);
    let step = Rounding::Nearest.step(bits, clip);
    for power in 20..36 {
        let norm = 1.5 * 8.0 * step * (1.0 - f64::powi(2.0, -power));
        let encoding = encoding(dim, bits, (clip, norm), Rounding::Nearest).unwrap();
        let words = encode(&encoding, &[-1.0; 64][..], 1, 0).unwrap();
        let bound = encoding.squared_norm().unwrap();
        assert!(sum_of(words.iter(), bound) <= u128::from(bound.most));
    }
}

#[test]
fn case_14_the_bound_on_words_is_exact() {
    let bound = |dim, clip, max_norm, rounding| {
        let encoding = encoding(dim, 2, (clip, max_norm), rounding).unwrap();
        encoding.squared_norm().unwrap()
    };
    // With 2 bits and a clip of 1.5 a step of stochastic rounding is 1: 4T + dim <= 4 * max_norm^2.
    for (dim, max_norm, most) in [
        (1, 1.5, 2),
        (1, 1.5_f64.next_down(), 1),
        (4, 3.0, 8),
        (4, 3.0_f64.next_down(), 7),
        (4, 3.0_f64.next_up(), 8),
        (100, 13.0, 144),
        (100, 13.0_f64.next_down(), 143),
    ] {
        let (offset, slope) = (2, 1);
        let expected = SquaredNorm {
            offset,
            slope,
            most,
        };
        let found = bound(dim, 1.5, max_norm, Rounding::Stochastic);
        assert_eq!(found, expected, "{dim} {max_norm}");
    }
    // With 2 bits and a clip of 1 a step of rounding to nearest is 1: T <= max_norm^2.
    for (dim, max_norm, most) in [
        (1, 0.75, 0),
        (1, 1.0, 1),
        (1, 1.0_f64.next_down(), 0),
        (4, 1.5, 2),
        (4, 3.0, 9),
        (4, 3.0_f64.next_down(), 8),
        (4, 3.0_f64.next_up(), 9),
        (100, 13.0, 169),
        (100, 13.0_f64.next_down(), 168),
    ] {
        let (offset, slope) = (1, 0);
        let expected = SquaredNorm {
            offset,
            slope,
            most,
        };
        let found = bound(dim, 1.0, max_norm, Rounding::Nearest);
        assert_eq!(found, expected, "{dim} {max_norm}");
    }
}

/// m^2 * top^2 <=> (4T + quarters) * c^2 by schoolbook multiplication of bits, apart from the crate's long division.
fn holds(most: u64, quarters: usize, (max_norm, top, clip): (f64, u64, f64)) -> bool {
    let whole = |number: f64| {
        let bits = number.to_bits();
        let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
        (u128::from(mantissa), (bits >> 52) as i32)
    };
    let ((norm, norm_power), (clip, clip_power)) = (whole(max_norm), whole(clip));
    let digits = |mut number: u128| {
        let mut digits = Vec::new();
        while number > 0 {
            digits.push((number & 0xff) as u64);
            number >>= 8;
        }
        digits
    };
    let times = |a: &[u64], b: &[u64]| {
        let mut product = vec![0_u64; a.len() + b.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                product[i + j] += x * y;
            }
        }
        for i in 1..product.len() {
            product[i] += product[i - 1] >> 8;
            product[i - 1] &= 0xff;
        }
        product
    };
    let root = digits(norm * u128::from(top));
    let mut larger = times(&root, &root);
    let clip = digits(clip);
    let four = digits(4 * u128::from(most) + quarters as u128);
    let mut smaller = times(&times(&clip, &clip), &four);
    let shift = 2 * (norm_power - clip_power);
    let shifted = match shift > 0 {
        true => &mut larger,
        false => &mut smaller,
    };
    *shifted = times(shifted, &digits(1 << shift.unsigned_abs()));
    let length = larger.len().max(smaller.len());
    larger.resize(length, 0);
    smaller.resize(length, 0);
    smaller.iter().rev().cmp(larger.iter().rev()).is_le()
}

proptest! {
    #[test]
    fn no_larger_bound_would_do(case in cases()) {
        let Case { bits, clip, max_norm, rounding, values } = case;
        let dim = values.len();
        let encoding = encoding(dim, bits, (clip, max_norm), rounding).unwrap();
        let SquaredNorm { offset, slope, most } = encoding.squared_norm().unwrap();
        let top = rounding.last_level(bits);
        prop_assert_eq!(2 * offset - slope, top);
        let (of, quarters) = ((max_norm, top, clip), dim * slope as usize);
        prop_assert!(holds(most, quarters, of));
        prop_assert!(!holds(most + 1, quarters, of));
    }
}

#[test]
fn bounds_of_more_than_64_bits_are_none() {
    let of = |max_norm| {
        let encoding = encoding(3, 32, (1.0, max_norm), Rounding::Nearest).unwrap();
        encoding.squared_norm()
    };
    // max_norm / step = max_norm * (2^32 - 2) / 2 must be below 2^32.
    assert!(of(2.0).is_some());
    assert_eq!(of(2.000_001), None);
    assert_eq!(of(1e35), None);
    let tensor = quantised(8, ClipSpec::Tensor(1.0), Rounding::Nearest);
    assert_eq!(
        spec(3, tensor, 2, 1).validate().unwrap().squared_norm(),
        None
    );
}

#[test]
fn scaling_comes_before_clamping_and_is_reported() {
    let encoding = encoding(4, 16, (1.0, 2.0), Rounding::Nearest).unwrap();
    let bound = encoding.norm_bound().unwrap();
    assert!(bound < 2.0 && bound > 1.9999);
    let of = |values: &[f64]| {
        Encoder::new(&encoding, values, 1, seed(0))
            .unwrap()
            .report()
    };
    let none = EncodeReport::default();
    assert_eq!(of(&[1.0, -0.5, 0.25, 0.0]), none);
    assert_eq!(
        of(&[1.5, -1.25, 0.25, 0.0]),
        EncodeReport { clipped: 2, ..none }
    );
    // 5 times the bound: 6 becomes about 1.2, 4 about 0.8.
    let scaled = of(&[6.0, -6.0, 4.0, f64::sqrt(12.0)]);
    assert_eq!((scaled.clipped, scaled.scaled_norm), (2, Some(10.0)));
    assert_eq!(scaled.scaled_by, Some(bound / 10.0));
}

#[test]
fn other_clips_keep_the_rule() {
    let encoding = encoding(4, 2, (0.5, 1.0), Rounding::Stochastic).unwrap();
    assert!(encoding.with_clips(&[0.6]).is_ok());
    let refused = encoding.with_clips(&[0.75]).unwrap_err();
    assert!(matches!(
        refused,
        EncodeError::Spec {
            field: "max_norm",
            ..
        }
    ));
}

/// In sparse rounds: one that the job's bound cuts off the update, or of which the round's bounds let less through than there
/// is. What the norm holds back is left over, and told.
#[test]
fn a_coordinate_that_is_held_back_counts_once_whatever_holds_it() {
    let encoding = encoding(4, 24, (1.0, 1.5), Rounding::Nearest).unwrap();
    let schedule = DensitySchedule::new(0.5, 0.5, 0, 1).unwrap();
    let party = Sparsifier::new(&encoding, schedule).unwrap();
    // The norm 2.5 is scaled down to 1.5 first: 2.4 becomes 1.44 and is cut at 1, and then the norm of both is below its bound.
    let sent = party
        .select(&encoding, 0, &[2.4, 0.7, 0.0, 0.0][..])
        .unwrap();
    let report = sent.report();
    assert_eq!(report.clipped, 1);
    let factor = report.scaled_by.unwrap();
    assert!((factor - 0.6).abs() < 1e-5, "{factor}");
    // What gathers may be within the bound of every coordinate, and its norm is not.
    let encoding = self::encoding(4, 24, (10.0, 1.5), Rounding::Nearest).unwrap();
    let mut party = Sparsifier::new(&encoding, schedule).unwrap();
    let mut told = Vec::new();
    for round in 0..6 {
        let sent = party.select(&encoding, round, &[0.7; 4][..]).unwrap();
        let (report, indices) = (sent.report(), sent.indices().to_vec());
        party.commit(sent.into_sent(), |_| true);
        let is_left = |d: &&u32| party.residual()[**d as usize] != 0.0;
        assert_eq!(
            report.clipped,
            indices.iter().filter(is_left).count() as u64
        );
        assert_eq!(report.scaled_by, None);
        told.push(report.clipped);
    }
    assert_eq!(told, [0, 2, 2, 2, 2, 2]);
    // Both bounds cut off the same coordinate: 1.8 is what is left of it and of an update that the job's bound cuts off.
    let encoding = self::encoding(4, 24, (1.0, 1.5), Rounding::Nearest).unwrap();
    let schedule = DensitySchedule::new(0.25, 0.25, 0, 1).unwrap();
    let mut party = Sparsifier::new(&encoding, schedule).unwrap();
    let rounds = [
        [0.8, 0.8, 0.8, 0.0],
        [0.8, 0.8, 0.8, 0.0],
        [2.4, 0.7, 0.0, 0.0],
    ];
    let mut told = Vec::new();
    for (round, update) in rounds.iter().enumerate() {
        let sent = party.select(&encoding, round as u64, &update[..]).unwrap();
        told.push((sent.indices().to_vec(), sent.report().clipped));
        party.commit(sent.into_sent(), |_| true);
    }
    assert_eq!(told, [(vec![0], 0), (vec![1], 1), (vec![0], 1)]);
}
