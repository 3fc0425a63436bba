//! The edges: what is refused, and what just fits.

use super::{encode, quantised, seed, spec};
use crate::{
    ClipSpec, EncodeError, Encoder, Encoding, EncodingKind, EncodingSpec, IntegerWords, Rounding,
    TensorSpec, largest_fixed64_clip,
};
use blindsum_math::words::{TileMut, Width, Words};

const UNIT: ClipSpec = ClipSpec::Tensor(1.0);

fn sent(max_norm: f64) -> ClipSpec {
    let clip = 1.0;
    ClipSpec::Sent { clip, max_norm }
}

/// The field and the rule that `spec` breaks.
fn refusal(spec: EncodingSpec) -> (&'static str, String) {
    match spec.validate() {
        Err(EncodeError::Spec { field, rule }) => (field, rule),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn specifications_that_break_a_rule_are_refused_with_it() {
    let with = |bits, parties, max_weight| {
        spec(
            3,
            quantised(bits, UNIT, Rounding::Nearest),
            parties,
            max_weight,
        )
    };
    let clip = |clip| spec(3, quantised(16, clip, Rounding::Nearest), 2, 1);
    let fixed = |clip, parties, weight| spec(3, EncodingKind::Fixed64 { clip }, parties, weight);
    let tensors = |clip, lens: &[(usize, f64)]| EncodingSpec {
        tensors: lens
            .iter()
            .map(|&(len, clip)| TensorSpec { len, clip })
            .collect(),
        ..spec(3, quantised(16, clip, Rounding::Nearest), 2, 1)
    };
    let cases = [
        (
            spec(0, quantised(16, UNIT, Rounding::Nearest), 2, 1),
            "dim",
            "1 <= dim = 0",
        ),
        (with(16, 0, 1), "parties", "1 <= parties = 0"),
        (with(16, 1, 0), "max_weight", "1 <= max_weight = 0"),
        (with(1, 2, 1), "bits", "2 <= bits = 1 <= 32"),
        (with(33, 2, 1), "bits", "2 <= bits = 33 <= 32"),
        (
            with(32, 1, (1 << 20) + 1),
            "max_weight",
            "1048577 * (2^32 - 1) < 2^52",
        ),
        (
            with(32, (1 << 32) + 1, 1),
            "bits",
            "32 + ceil(log2(4294967297 * 1)) = 65 <= 64",
        ),
        (with(32, (1 << 12) + 1, 1 << 20), "bits", "= 65 <= 64"),
        (
            clip(ClipSpec::Tensor(0.0)),
            "clip",
            "1e-30 <= clip = 0e0 <= 1e30",
        ),
        (clip(ClipSpec::Tensor(-1.0)), "clip", "clip = -1e0"),
        (clip(ClipSpec::Tensor(f64::NAN)), "clip", "clip = NaN"),
        (clip(ClipSpec::L2(f64::INFINITY)), "clip", "clip = inf"),
        (
            fixed(f64::powi(2.0, 47), 1, 1),
            "clip",
            "* 1 * 1 * 2^16 < 2^63",
        ),
        (
            fixed(f64::powi(2.0, 40), 16, 8),
            "clip",
            "1.099511627776e12 * 8 * 16 * 2^16 < 2^63",
        ),
        (
            clip(ClipSpec::Tensor(9e-31)),
            "clip",
            "1e-30 <= clip = 9e-31",
        ),
        (clip(ClipSpec::L2(1.1e30)), "clip", "clip = 1.1e30 <= 1e30"),
        (
            tensors(UNIT, &[(2, 1.0), (1, 1e60)]),
            "tensors.clip",
            "tensors.clip = 1e60 <= 1e30",
        ),
        (fixed(1e30, 1, 1), "clip", "< 2^63"),
        (fixed(1.0, 1 << 40, 1 << 23), "parties", "< 2^63"),
        (
            fixed(f64::powi(2.0, -17), 2, 1),
            "clip",
            "2^-17 = 7.62939453125e-6 < clip = 7.62939453125e-6 must hold",
        ),
        (
            EncodingSpec {
                tensors: vec![TensorSpec { len: 3, clip: 1e-6 }],
                ..fixed(1.0, 2, 1)
            },
            "clip",
            "< clip = 1e-6 must hold",
        ),
        (
            tensors(UNIT, &[(1, 1.0), (1, 1.0)]),
            "tensors",
            "sum of tensors.len = 2 must be dim = 3",
        ),
        (
            tensors(UNIT, &[(usize::MAX, 1.0), (4, 1.0)]),
            "tensors",
            "must be dim = 3",
        ),
        (
            tensors(UNIT, &[(3, 1.0), (0, 1.0)]),
            "tensors.len",
            "1 <= tensors.len = 0",
        ),
        (
            tensors(UNIT, &[(2, 1.0), (1, f64::NAN)]),
            "tensors.clip",
            "tensors.clip = NaN",
        ),
        (
            tensors(ClipSpec::L2(1.0), &[(3, 1.0)]),
            "tensors",
            "must be empty",
        ),
        (
            tensors(sent(1.0), &[(3, 1.0)]),
            "max_norm",
            "must be 0 where tensors have bounds of their own",
        ),
        (
            clip(sent(1e-5)),
            "max_norm",
            "0.5 * sqrt(dim) * 2 * clip / (2^bits - 2) = 2.642",
        ),
        (clip(sent(0.0)), "max_norm", "e-5 < max_norm = 0e0 <= 1e35"),
        (clip(sent(-1.0)), "max_norm", "max_norm = -1e0"),
        (clip(sent(f64::NAN)), "max_norm", "max_norm = NaN"),
        (clip(sent(1.1e35)), "max_norm", "max_norm = 1.1e35 <= 1e35"),
    ];
    for (spec, field, part) in cases {
        let (refused, rule) = refusal(spec);
        assert_eq!(refused, field);
        assert!(rule.contains(part), "{field}: {rule}");
    }
}

#[test]
fn the_width_holds_the_largest_sum() {
    for bits in 2..=32_u32 {
        for parties in [1, 2, 3, 4, 5, 7, 8, 9, 100, 127, 128, 129, 1 << 20] {
            for weight in [1, 2, 3, 15, 16, 17, 1000, 1 << 19] {
                let kind = quantised(bits, UNIT, Rounding::Nearest);
                let Ok(encoding) = spec(1, kind, parties, weight).validate() else {
                    assert!(
                        bits + 20 + 19 > 52,
                        "{bits} bits, {parties} parties, weight {weight}"
                    );
                    continue;
                };
                let (n, w) = (parties as u128, u128::from(weight));
                let width = encoding.width().bits();
                assert!(n * w * ((1 << bits) - 1) < 1 << width);
                // And no wider than the formula, checked without logarithms.
                let factor = 1_u128 << (width - bits);
                assert!(factor >= n * w && factor < 2 * n * w);
            }
        }
    }
    let encoding = |bits, parties, weight| {
        let kind = quantised(bits, UNIT, Rounding::Nearest);
        spec(1, kind, parties, weight).validate().unwrap()
    };
    assert_eq!(encoding(16, 100, 1).width().bits(), 23);
    assert_eq!(encoding(32, 1 << 32, 1).width().bits(), 64);
    assert_eq!(encoding(32, 1 << 12, 1 << 20).width().bits(), 64);
}

/// The sum of `parties` times the words of `one`.
fn times(one: &Words, parties: usize) -> Words {
    let mut sum = Words::zeros(one.width(), one.len());
    (0..parties).for_each(|_| sum.add(one).unwrap());
    sum
}

#[test]
fn sums_of_all_largest_and_all_smallest_words_do_not_wrap() {
    let cases = [
        (2, 5, 1),
        (2, 4, 3),
        (16, 100, 1),
        (16, 128, 1),
        (31, 2, 1),
        (32, 2, 1),
        (32, 33, 1 << 20),
    ];
    for (bits, parties, weight) in cases {
        for rounding in [Rounding::Stochastic, Rounding::Nearest] {
            for clip in [1.0, 0.1, 3.7e-5, 1e30] {
                let kind = quantised(bits, ClipSpec::Tensor(clip), rounding);
                let encoding = spec(4, kind, parties, weight).validate().unwrap();
                let values = [clip, f64::MAX, -clip, f64::MIN];
                let one = encode(&encoding, &values[..], weight, 3).unwrap();
                let top = u64::from(weight) * rounding.last_level(bits);
                assert_eq!(one.iter().take(4).collect::<Vec<_>>(), [top, top, 0, 0]);
                let sum = times(&one, parties);
                assert_eq!(u128::from(sum.get(0)), u128::from(top) * parties as u128);
                let mut mean = [0.0_f64; 4];
                let total = parties as u64 * u64::from(weight);
                assert_eq!(encoding.decode_mean(&sum, parties, &mut mean), Ok(total));
                assert_eq!(mean, [clip, clip, -clip, -clip]);
            }
        }
    }
}

#[test]
fn fixed_point_sums_do_not_wrap_at_the_largest_clip() {
    for (parties, weight) in [(1, 1), (3, 1), (4, 5), (100, 1000)] {
        let clip = largest_fixed64_clip(parties, weight);
        let fixed = |clip| spec(4, EncodingKind::Fixed64 { clip }, parties, weight).validate();
        assert!(fixed(2.0 * clip).is_err());
        let encoding = fixed(clip).unwrap();
        assert_eq!(encoding.width().bits(), 64);
        let one = encode(&encoding, &[clip, -clip, f64::MAX, -1.5][..], weight, 0).unwrap();
        let mut mean = [0.0_f64; 4];
        let total = parties as u64 * u64::from(weight);
        assert_eq!(
            encoding.decode_mean(&times(&one, parties), parties, &mut mean),
            Ok(total)
        );
        assert_eq!(mean, [clip, -clip, clip, -1.5]);
    }
}

#[test]
fn nan_and_infinity_are_refused_wherever_they_stand() {
    let kinds = [
        quantised(16, UNIT, Rounding::Stochastic),
        quantised(16, ClipSpec::L2(1.0), Rounding::Nearest),
        EncodingKind::Fixed64 { clip: 1.0 },
    ];
    for kind in kinds {
        let encoding = spec(5000, kind, 2, 3).validate().unwrap();
        for index in [0, 1, 15, 16, 2047, 2048, 4095, 4999] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = vec![0.25_f32; 5000];
                values[index] = bad;
                let refused = encode(&encoding, &values[..], 1, 0);
                assert_eq!(refused.unwrap_err(), EncodeError::NotFinite { index });
                let values: Vec<f64> = values.into_iter().map(f64::from).collect();
                let refused = encode(&encoding, &values[..], 1, 0);
                assert_eq!(refused.unwrap_err(), EncodeError::NotFinite { index });
            }
        }
    }
}

#[test]
fn inputs_that_do_not_fit_the_encoding_are_refused() {
    let encoding = spec(3, quantised(16, ClipSpec::L2(1.0), Rounding::Nearest), 2, 7)
        .validate()
        .unwrap();
    let refused = |values: &[f64], weight| encode(&encoding, values, weight, 0).unwrap_err();
    for got in [0, 2, 4] {
        assert_eq!(
            refused(&vec![0.0; got], 1),
            EncodeError::Dim { got, dim: 3 }
        );
    }
    for weight in [0, 8, u32::MAX] {
        assert_eq!(
            refused(&[0.0; 3], weight),
            EncodeError::Weight {
                weight,
                max_weight: 7
            }
        );
    }
    assert_eq!(refused(&[1e200, 0.0, 0.0], 1), EncodeError::Norm);
}

#[test]
fn tiles_outside_the_vector_or_of_the_wrong_lanes_are_refused() {
    let encoding = spec(3, quantised(16, UNIT, Rounding::Nearest), 2, 7)
        .validate()
        .unwrap();
    let values = [0.0_f32; 3];
    let encoder = Encoder::new(&encoding, &values[..], 1, seed(0)).unwrap();
    assert_eq!(encoder.lanes(), 4);
    let mut narrow = [0_u32; 5];
    for (first, len) in [(0, 5), (4, 1), (5, 0), (usize::MAX, 2)] {
        let refused = encoder.encode_tile(first, TileMut::W32(&mut narrow[..len]));
        assert!(
            matches!(refused, Err(EncodeError::Tile { .. })),
            "{first} {len}"
        );
    }
    let refused = encoder.encode_tile(0, TileMut::W64(&mut [0; 4]));
    let expected = EncodeError::Tile {
        first: 0,
        len: 4,
        tile_bits: 64,
        lanes: 4,
        bits: 32,
    };
    assert_eq!(refused, Err(expected));
    assert_eq!(encoder.encode_tile(4, TileMut::W32(&mut [])), Ok(()));
}

/// Two coordinates of 4 bits, 3 parties, weights up to 5.
fn small() -> Encoding {
    spec(2, quantised(4, UNIT, Rounding::Nearest), 3, 5)
        .validate()
        .unwrap()
}

#[test]
fn sums_that_no_parties_have_are_refused() {
    let encoding = small();
    let decode = |words: &[u64], survivors| {
        let sum = Words::from_values(encoding.width(), words).unwrap();
        encoding.decode_mean(&sum, survivors, &mut [0.0_f64; 2])
    };
    assert_eq!(decode(&[140, 0, 10], 2), Ok(10));
    for (words, survivors, total_weight) in
        [([0, 0, 0], 1, 0), ([0, 0, 1], 2, 1), ([0, 0, 11], 2, 11)]
    {
        let largest = survivors as u64 * 5;
        let refused = EncodeError::TotalWeight {
            total_weight,
            survivors,
            largest,
        };
        assert_eq!(decode(&words, survivors), Err(refused));
    }
    for survivors in [0, 4] {
        let refused = EncodeError::Survivors {
            survivors,
            parties: 3,
        };
        assert_eq!(decode(&[0, 0, 10], survivors), Err(refused));
    }
    let total_weight = 10;
    assert_eq!(
        decode(&[141, 0, 10], 2),
        Err(EncodeError::Sum {
            lane: 0,
            total_weight
        })
    );
    assert_eq!(
        decode(&[140, 255, 10], 2),
        Err(EncodeError::Sum {
            lane: 1,
            total_weight
        })
    );
    assert!(matches!(
        decode(&[0, 10], 2),
        Err(EncodeError::SumShape { .. })
    ));
    let wider = Words::zeros(Width::new(9).unwrap(), 3);
    let refused = encoding.decode_mean(&wider, 2, &mut [0.0_f64; 2]);
    assert!(matches!(refused, Err(EncodeError::SumShape { .. })));
    let sum = Words::from_values(encoding.width(), &[0, 0, 10]).unwrap();
    let refused = encoding.decode_mean(&sum, 2, &mut [0.0_f32; 3]);
    assert_eq!(refused, Err(EncodeError::Dim { got: 3, dim: 2 }));
}

#[test]
fn sums_of_wide_levels_and_fixed_point_are_checked_too() {
    let encoding = spec(2, quantised(32, UNIT, Rounding::Nearest), 1 << 30, 1)
        .validate()
        .unwrap();
    let top = (1 << 30) * ((1 << 32) - 2);
    let sum = Words::from_values(encoding.width(), &[top, top + 1]).unwrap();
    let refused = encoding.decode_mean(&sum, 1 << 30, &mut [0.0_f64; 2]);
    assert_eq!(
        refused,
        Err(EncodeError::Sum {
            lane: 1,
            total_weight: 1 << 30
        })
    );

    let fixed = spec(2, EncodingKind::Fixed64 { clip: 2.0 }, 4, 1)
        .validate()
        .unwrap();
    for (word, fits) in [
        (4_i64 << 16, true),
        (-4 << 16, true),
        ((4 << 16) + 4, false),
        (i64::MIN, false),
    ] {
        let sum = Words::from_values(fixed.width(), &[0, word as u64]).unwrap();
        let decoded = fixed.decode_mean(&sum, 2, &mut [0.0_f64; 2]);
        let refused = Err(EncodeError::Sum {
            lane: 1,
            total_weight: 2,
        });
        assert_eq!(decoded, if fits { Ok(2) } else { refused });
    }
}

#[test]
fn without_weights_no_word_is_spent_on_them() {
    let encoding = spec(2, quantised(4, UNIT, Rounding::Nearest), 3, 1)
        .validate()
        .unwrap();
    assert_eq!((encoding.dim(), encoding.lanes()), (2, 2));
    let sum = times(&encode(&encoding, &[1.0_f32, -1.0][..], 1, 0).unwrap(), 3);
    let mut mean = [0.0_f32; 2];
    assert_eq!(encoding.decode_mean(&sum, 3, &mut mean), Ok(3));
    assert_eq!(mean, [1.0, -1.0]);
}

#[test]
fn integers_pass_as_they_are_times_the_weight() {
    let encoding = small();
    let words_of = |source: IntegerWords<'_>| {
        let mut words = Words::zeros(encoding.width(), source.lanes());
        for lane in 0..source.lanes() {
            source
                .encode_tile(lane, words.tile_mut(lane..lane + 1))
                .unwrap();
        }
        assert!(source.encode_tile(0, TileMut::W64(&mut [0])).is_err());
        words.iter().collect::<Vec<_>>()
    };
    let narrow = IntegerWords::new(&encoding, &[15_u32, 3][..], 5).unwrap();
    assert_eq!(words_of(narrow), [75, 15, 5]);
    let wide = IntegerWords::new(&encoding, &[15_u64, 3][..], 1).unwrap();
    assert_eq!(words_of(wide), [15, 3, 1]);

    let refusal = |values: &[u64], weight| IntegerWords::new(&encoding, values, weight).err();
    let (index, bits) = (1, 4);
    assert_eq!(
        refusal(&[0, 16], 1),
        Some(EncodeError::Value { index, bits })
    );
    assert_eq!(
        refusal(&[0, u64::MAX], 1),
        Some(EncodeError::Value { index, bits })
    );
    assert_eq!(refusal(&[0], 1), Some(EncodeError::Dim { got: 1, dim: 2 }));
    assert_eq!(
        refusal(&[0; 2], 6),
        Some(EncodeError::Weight {
            weight: 6,
            max_weight: 5
        })
    );
    let narrow = IntegerWords::new(&encoding, &[0, u32::MAX][..], 1).err();
    assert_eq!(narrow, Some(EncodeError::Value { index, bits }));
    let fixed = spec(2, EncodingKind::Fixed64 { clip: 1.0 }, 3, 5)
        .validate()
        .unwrap();
    assert_eq!(
        IntegerWords::new(&fixed, &[0_u32, 0][..], 1).err(),
        Some(EncodeError::Integers)
    );
}
