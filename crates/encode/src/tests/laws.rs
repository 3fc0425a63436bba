//! Laws of encoding and decoding, on random vectors.

use std::sync::Arc;

use proptest::prelude::*;

use super::{encode, quantised, seed, spec};
use crate::{
    ClipSpec, EncodeReport, Encoder, Encoding, EncodingKind, EncodingSpec, Judged, Precision,
    Rounding, TensorSpec, largest_fixed64_clip,
};
use blindsum_math::words::Words;

const DIM: usize = 45;

/// A valid encoding of `DIM` coordinates of every kind, for at most 6 parties.
fn encodings() -> impl Strategy<Value = Encoding> {
    let rounding = prop_oneof![Just(Rounding::Stochastic), Just(Rounding::Nearest)];
    let clip = || prop_oneof![6 => 1e-3..1e3_f64, 1 => Just(1e-30), 1 => Just(1e29)];
    let quantised_spec = (2..=32_u32, clip(), 0..3, rounding, clip(), any::<bool>()).prop_map(
        |(bits, clip, bound, rounding, other_clip, two_tensors)| {
            let bound = match bound {
                0 => ClipSpec::L2(clip),
                1 => ClipSpec::Tensor(clip),
                // Rounding may reach 4.5 times the clip with 2 bits.
                _ => ClipSpec::Sent {
                    clip,
                    max_norm: 4.5 * clip + other_clip,
                },
            };
            let mut spec = spec(DIM, quantised(bits, bound, rounding), 6, 1);
            if two_tensors && matches!(bound, ClipSpec::Tensor(_)) {
                let lens = [(13, clip), (DIM - 13, other_clip)];
                spec.tensors = lens.map(|(len, clip)| TensorSpec { len, clip }).to_vec();
            }
            spec
        },
    );
    let fixed = prop_oneof![1e-3..1e3_f64, Just(largest_fixed64_clip(6, 1000))]
        .prop_map(|clip| spec(DIM, EncodingKind::Fixed64 { clip }, 6, 1));
    let max_weight = prop_oneof![Just(1), 1..1000_u32];
    (prop_oneof![4 => quantised_spec, 1 => fixed], max_weight)
        .prop_map(|(spec, max_weight)| EncodingSpec { max_weight, ..spec }.validate().unwrap())
}

/// Coordinates in the range that tests clip at, some of them special.
fn vectors() -> impl Strategy<Value = Vec<f32>> {
    let coordinate = prop_oneof![
        8 => -1500.0..1500.0_f32,
        8 => -1.0..1.0_f32,
        1 => prop::num::f32::SUBNORMAL,
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f32::MAX), Just(f32::MIN)],
    ];
    prop::collection::vec(coordinate, DIM)
}

/// What clipping makes of `values`, computed apart from the encoder.
fn clipped(encoding: &Encoding, values: &[f32]) -> Vec<f64> {
    let values: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let scaled = |x: &f64| match encoding.norm_bound() {
        Some(bound) if norm > bound => x / norm * bound,
        _ => *x,
    };
    encoding
        .clip_runs(0..DIM)
        .flat_map(|(run, clip)| {
            values[run]
                .iter()
                .map(|x| scaled(x).clamp(-clip, clip))
                .collect::<Vec<_>>()
        })
        .collect()
}

proptest! {
    #[test]
    fn the_sum_decodes_to_the_mean_within_the_bound(
        encoding in encodings(),
        inputs in prop::collection::vec((vectors(), any::<u32>()), 1..=6),
    ) {
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        let mut weighted = [0.0; DIM];
        let mut total = 0_u64;
        for (party, (values, weight)) in inputs.iter().enumerate() {
            let weight = 1 + weight % encoding.max_weight();
            sum.add(&encode(&encoding, &values[..], weight, party as u8).unwrap()).unwrap();
            total += u64::from(weight);
            for (weighted, x) in weighted.iter_mut().zip(clipped(&encoding, values)) {
                *weighted += f64::from(weight) * x;
            }
        }
        let mut mean = [0.0_f64; DIM];
        prop_assert_eq!(encoding.decode_mean(&sum, inputs.len(), &mut mean), Ok(total));
        let mut single = [0.0_f32; DIM];
        prop_assert_eq!(encoding.decode_mean(&sum, inputs.len(), &mut single), Ok(total));
        for i in 0..DIM {
            let exact = weighted[i] / total as f64;
            // The reference has its own rounding errors.
            let bound = encoding.rounding_error() + exact.abs() * 1e-15;
            prop_assert!((mean[i] - exact).abs() <= bound, "{} {} {}", mean[i], exact, bound);
            prop_assert_eq!(single[i], mean[i] as f32);
            if encoding.precision() == Precision::Single {
                let error = (f64::from(single[i]) - exact).abs();
                prop_assert!(error <= bound, "{} {} {}", single[i], exact, bound);
            }
        }
    }

    #[test]
    fn tiles_do_not_matter(
        encoding in encodings(),
        values in vectors(),
        tile_len in 1..DIM + 2,
        weight in any::<u32>(),
    ) {
        let weight = 1 + weight % encoding.max_weight();
        let whole = encode(&encoding, &values[..], weight, 7).unwrap();
        let encoder = Encoder::new(&encoding, &values[..], weight, seed(7)).unwrap();
        let lanes = encoding.lanes();
        let mut words = Words::zeros(encoding.width(), lanes);
        // From the last tile to the first, as words do not depend on those before.
        for first in (0..lanes).step_by(tile_len).collect::<Vec<_>>().into_iter().rev() {
            encoder.encode_tile(first, words.tile_mut(first..lanes.min(first + tile_len))).unwrap();
        }
        prop_assert!(words == whole);
    }

    #[test]
    fn a_judged_update_encodes_as_any_vector(
        encoding in encodings(),
        values in vectors(),
        weight in any::<u32>(),
    ) {
        let weight = 1 + weight % encoding.max_weight();
        let encoding = Arc::new(encoding);
        let judged = Judged::new(&encoding, values.clone().into(), weight).unwrap();
        let encoder = judged.encoder(&encoding, seed(7)).unwrap();
        let expected = Encoder::new(&encoding, &values[..], weight, seed(7)).unwrap();
        prop_assert_eq!(encoder.report(), expected.report());
        let lanes = encoding.lanes();
        let mut words = Words::zeros(encoding.width(), lanes);
        encoder.encode_tile(0, words.tile_mut(0..lanes)).unwrap();
        prop_assert!(words == encode(&encoding, &values[..], weight, 7).unwrap());
    }

    #[test]
    fn both_precisions_encode_alike(encoding in encodings(), values in vectors()) {
        let double: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
        let of_single = encode(&encoding, &values[..], 1, 7).unwrap();
        prop_assert!(of_single == encode(&encoding, &double[..], 1, 7).unwrap());
        let report = |encoder: Encoder<'_>| encoder.report();
        prop_assert_eq!(
            report(Encoder::new(&encoding, &values[..], 1, seed(7)).unwrap()),
            report(Encoder::new(&encoding, &double[..], 1, seed(7)).unwrap())
        );
    }
}

proptest! {
    #[test]
    fn zeros_stay_zeros_when_rounded_to_nearest(
        bits in 2..=32_u32,
        bound in 0..3,
        clip in 1e-3..1e3_f64,
        max_weight in 1..=1000_u32,
        others in prop::collection::vec((any::<u32>(), any::<bool>()), 1..=6),
    ) {
        let bound = match bound {
            0 => ClipSpec::L2(clip),
            1 => ClipSpec::Tensor(clip),
            _ => ClipSpec::Sent { clip, max_norm: 4.5 * clip },
        };
        let kind = quantised(bits, bound, Rounding::Nearest);
        let encoding = spec(DIM, kind, 6, max_weight).validate().unwrap();
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        for (weight, is_negative) in &others {
            let zero = if *is_negative { -0.0_f32 } else { 0.0 };
            let weight = 1 + weight % max_weight;
            sum.add(&encode(&encoding, &[zero; DIM][..], weight, 0).unwrap()).unwrap();
        }
        let mut mean = [1.0_f64; DIM];
        encoding.decode_mean(&sum, others.len(), &mut mean).unwrap();
        prop_assert!(mean.iter().all(|mean| mean.to_bits() == 0), "{mean:?}");
    }

    #[test]
    fn nearest_rounding_treats_both_signs_alike(bits in 2..=32_u32, values in vectors()) {
        let kind = quantised(bits, ClipSpec::Tensor(1.0), Rounding::Nearest);
        let encoding = spec(DIM, kind, 1, 1).validate().unwrap();
        let decoded = |values: &[f32]| {
            let mut mean = [0.0_f64; DIM];
            let words = encode(&encoding, values, 1, 0).unwrap();
            encoding.decode_mean(&words, 1, &mut mean).unwrap();
            mean
        };
        let negative: Vec<f32> = values.iter().map(|value| -value).collect();
        for (one, other) in decoded(&values).into_iter().zip(decoded(&negative)) {
            prop_assert_eq!(one, -other);
        }
    }
}

#[test]
fn vectors_longer_than_a_piece_encode_and_decode() {
    let dim = 20_003;
    let values: Vec<f32> = (0..dim).map(|i| (i as f32 * 0.37).sin() * 1.2).collect();
    for rounding in [Rounding::Stochastic, Rounding::Nearest] {
        let encoding = spec(dim, quantised(20, ClipSpec::Tensor(1.0), rounding), 3, 9);
        let encoding = encoding.validate().unwrap();
        let sum = encode(&encoding, &values[..], 5, 1).unwrap();
        let mut mean = vec![0.0_f64; dim];
        assert_eq!(encoding.decode_mean(&sum, 1, &mut mean), Ok(5));
        for (mean, value) in mean.iter().zip(&values) {
            let exact = f64::from(*value).clamp(-1.0, 1.0);
            assert!((mean - exact).abs() <= encoding.max_error());
        }
    }
}

/// The mean of many roundings of one level, against its exact value, in standard deviations.
#[test]
fn stochastic_rounding_is_unbiased() {
    let dim = 400_000;
    for (bits, weight) in [(2, 1), (16, 1), (16, 37), (24, 1000), (32, 1)] {
        let kind = quantised(bits, ClipSpec::Tensor(1.0), Rounding::Stochastic);
        let encoding = spec(dim, kind, 2, 1000).validate().unwrap();
        let top = ((1_u64 << bits) - 1) as f64 * f64::from(weight);
        for fraction in [0.5, 0.25, 0.01, 0.99, 0.123_456_789] {
            let level = (top * 0.6).floor() + fraction;
            let value = 2.0 * level / top - 1.0;
            let level = (value + 1.0) * top / 2.0;
            let fraction = level - level.floor();
            let words = encode(&encoding, &vec![value; dim][..], weight, bits as u8).unwrap();
            let ups: u64 = words.iter().take(dim).map(|word| word - level as u64).sum();
            let expected = dim as f64 * fraction;
            let deviation = (expected * (1.0 - fraction)).sqrt();
            let off = (ups as f64 - expected) / deviation;
            assert!(
                off.abs() < 5.0,
                "{bits} bits, weight {weight}, {fraction}: {off} deviations"
            );
        }
    }
}

#[test]
fn other_seeds_and_coordinates_round_on_their_own() {
    let kind = quantised(8, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    let encoding = spec(10_000, kind, 1, 1).validate().unwrap();
    let values = vec![0.0_f32; 10_000];
    let words: Vec<Words> = (0..2)
        .map(|byte| encode(&encoding, &values[..], 1, byte).unwrap())
        .collect();
    let agree = words[0]
        .iter()
        .zip(words[1].iter())
        .filter(|(a, b)| a == b)
        .count();
    assert!(
        (4700..5300).contains(&agree),
        "two seeds agree on {agree} of 10000"
    );
    let next = words[0]
        .iter()
        .zip(words[0].iter().skip(1))
        .filter(|(a, b)| a == b)
        .count();
    assert!(
        (4700..5300).contains(&next),
        "neighbours agree on {next} of 9999"
    );
}

#[test]
fn clipping_is_reported() {
    let values = [
        0.5,
        -2.0,
        2.0,
        3.0,
        f64::MAX,
        (-3.0_f64).next_up(),
        0.0,
        -0.0,
    ];
    let of = |kind, tensors| {
        let spec = EncodingSpec {
            tensors,
            ..spec(8, kind, 2, 1)
        };
        let encoding = spec.validate().unwrap();
        Encoder::new(&encoding, &values[..], 1, seed(0))
            .unwrap()
            .report()
    };
    let none = EncodeReport::default();
    let bound = |clip| quantised(16, ClipSpec::Tensor(clip), Rounding::Nearest);
    assert_eq!(of(bound(3.0), vec![]), EncodeReport { clipped: 1, ..none });
    assert_eq!(of(bound(2.0), vec![]), EncodeReport { clipped: 3, ..none });
    let tensors = [(2, 1.0), (6, 3.0)].map(|(len, clip)| TensorSpec { len, clip });
    assert_eq!(
        of(bound(9.0), tensors.to_vec()),
        EncodeReport { clipped: 2, ..none }
    );
    assert_eq!(
        of(EncodingKind::Fixed64 { clip: 2.5 }, vec![]),
        EncodeReport { clipped: 3, ..none }
    );

    let encoding = spec(2, quantised(16, ClipSpec::L2(5.0), Rounding::Nearest), 2, 1);
    let encoding = encoding.validate().unwrap();
    let of = |values: &[f64]| {
        Encoder::new(&encoding, values, 1, seed(0))
            .unwrap()
            .report()
    };
    assert_eq!(of(&[3.0, -4.0]), none);
    assert_eq!(
        of(&[6.0, 8.0]),
        EncodeReport {
            scaled_norm: Some(10.0),
            scaled_by: Some(0.5),
            ..none
        }
    );
}
