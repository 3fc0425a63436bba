//! Exact sums of unsigned integers.

use blindsum_math::words::{TileMut, Words};
use proptest::prelude::*;

use super::{encode, quantised, seed, spec};
use crate::{
    ClipSpec, EncodeError, EncodeReport, Encoder, Encoding, EncodingKind, IntegerWords, Rounding,
    TensorSpec,
};

const DIM: usize = 13;

fn integers(dim: usize, bits: u32, parties: usize, max_weight: u32) -> Encoding {
    spec(dim, EncodingKind::Integers { bits }, parties, max_weight)
        .validate()
        .unwrap()
}

fn sum_of(encoding: &Encoding, words: &[u64]) -> Words {
    let mut sum = Words::zeros(encoding.width(), encoding.lanes());
    match sum.tile_mut(0..words.len()) {
        TileMut::W32(lanes) => {
            let narrow = words.iter().map(|&word| u32::try_from(word).unwrap());
            lanes
                .iter_mut()
                .zip(narrow)
                .for_each(|(lane, word)| *lane = word);
        }
        TileMut::W64(lanes) => lanes.copy_from_slice(words),
    }
    sum
}

proptest! {
    #[test]
    fn sums_are_exact(
        bits in 1..=64_u32,
        max_weight in prop_oneof![Just(1), 1..=u32::MAX],
        inputs in prop::collection::vec((prop::collection::vec(any::<u64>(), DIM), any::<u32>()), 1..=6),
        full in any::<bool>(),
    ) {
        let parties = if max_weight > u32::MAX / 6 { 1 } else { inputs.len() };
        let encoding = integers(DIM, bits, parties, max_weight);
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        let (mut exact, mut total) = ([0_u128; DIM], 0_u64);
        let largest = u64::MAX >> (64 - bits);
        for (values, weight) in &inputs[..parties] {
            // Where `full`, everything is as large as it may be.
            let weight = if full { max_weight } else { 1 + weight % max_weight };
            let values: Vec<u64> = values.iter().map(|x| if full { largest } else { x & largest }).collect();
            sum.add(&encode(&encoding, &values[..], weight, 0).unwrap()).unwrap();
            exact.iter_mut().zip(&values).for_each(|(sum, &x)| *sum += u128::from(x) * u128::from(weight));
            total += u64::from(weight);
        }
        let mut sums = [0; DIM];
        prop_assert_eq!(encoding.decode_sums(&sum, parties, &mut sums), Ok(total));
        prop_assert_eq!(sums, exact);
        let mut mean = [0.0_f64; DIM];
        prop_assert_eq!(encoding.decode_mean(&sum, parties, &mut mean), Ok(total));
        let mut single = [0.0_f32; DIM];
        prop_assert_eq!(encoding.decode_mean(&sum, parties, &mut single), Ok(total));
        for i in 0..DIM {
            let (whole, rest) = (exact[i] / u128::from(total), exact[i] % u128::from(total));
            let error = (mean[i] - whole as f64) - rest as f64 / total as f64;
            prop_assert!(error.abs() <= encoding.max_error(), "{} of {}", error, encoding.max_error());
            prop_assert_eq!(single[i], mean[i] as f32);
        }
        let largest_word = sum.iter().max().unwrap();
        prop_assert!(u128::from(largest_word) <= encoding.largest_sum());
    }

    #[test]
    fn tiles_do_not_matter(
        bits in prop_oneof![1..=64_u32, Just(64)],
        max_weight in prop_oneof![Just(1), 1..1000_u32],
        values in prop::collection::vec(any::<u64>(), DIM),
        tile_len in 1..2 * DIM + 3,
        weight in any::<u32>(),
    ) {
        let encoding = integers(DIM, bits, 6, max_weight);
        let values: Vec<u64> = values.iter().map(|x| x & (u64::MAX >> (64 - bits))).collect();
        let weight = 1 + weight % max_weight;
        let whole = encode(&encoding, &values[..], weight, 0).unwrap();
        let encoder = Encoder::new(&encoding, &values[..], weight, seed(0)).unwrap();
        prop_assert_eq!(encoder.lanes(), whole.len());
        let mut words = Words::zeros(encoding.width(), encoding.lanes());
        for first in (0..encoding.lanes()).step_by(tile_len) {
            let tile = first..encoding.lanes().min(first + tile_len);
            encoder.encode_tile(first, words.tile_mut(tile)).unwrap();
        }
        prop_assert_eq!(words, whole);
    }
}

#[test]
fn words_are_as_wide_as_the_sum_or_split() {
    // bits, parties, largest weight; bits of a word, words of three integers, largest sum of a word.
    for (bits, parties, max_weight, width, lanes, largest) in [
        (1, 1, 1, 1, 3, 1),
        (1, 2, 1, 2, 3, 2),
        (1, 1, 2, 2, 4, 2),
        (16, 100, 1, 23, 3, 100 * 0xffff),
        (25, 100, 1, 32, 3, 100 * 0x01ff_ffff),
        (26, 100, 1, 33, 3, 100 * 0x03ff_ffff),
        (57, 100, 1, 64, 3, 100 * ((1 << 57) - 1)),
        (58, 100, 1, 39, 6, 100 * 0xffff_ffff),
        (58, 25, 4, 39, 7, 100 * 0xffff_ffff),
        (64, 1, 1, 64, 3, u128::from(u64::MAX)),
        (64, 2, 1, 33, 6, 2 * 0xffff_ffff),
        (64, 1, u32::MAX, 64, 7, 0xffff_ffff * 0xffff_ffff),
        (16, 1 << 16, u32::MAX, 64, 4, 0xffff * (0xffff_ffff << 16)),
    ] {
        let encoding = integers(3, bits, parties, max_weight);
        let shown = format!("{bits} bits, {parties} parties, max_weight {max_weight}");
        assert_eq!(encoding.width().bits(), width, "{shown}");
        assert_eq!(encoding.lanes(), lanes, "{shown}");
        assert_eq!(encoding.largest_sum(), largest, "{shown}");
    }
}

#[test]
fn largest_sums_of_real_encodings() {
    let bound = quantised(8, ClipSpec::Tensor(1.0), Rounding::Nearest);
    let encoding = spec(3, bound, 10, 7).validate().unwrap();
    assert_eq!(encoding.largest_sum(), 10 * 7 * 255);
    let fixed = spec(3, EncodingKind::Fixed64 { clip: 1.0 }, 10, 7)
        .validate()
        .unwrap();
    assert_eq!(fixed.largest_sum(), 10 * u128::from(u64::MAX));
}

#[test]
fn impossible_encodings_are_refused() {
    let refusal = |bits, parties, max_weight| {
        let kind = EncodingKind::Integers { bits };
        spec(3, kind, parties, max_weight)
            .validate()
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refusal(0, 1, 1), "bits: 1 <= bits = 0 <= 64");
    assert_eq!(refusal(65, 1, 1), "bits: 1 <= bits = 65 <= 64");
    assert_eq!(
        refusal(64, 2, u32::MAX),
        "bits: min(bits, 32) + ceil(log2(parties * max_weight)) = 32 + ceil(log2(2 * 4294967295)) = 65 <= 64 must hold"
    );
    assert!(refusal(16, (1 << 16) + 2, u32::MAX).contains("= 65 <= 64"));
    let mut tensors = spec(3, EncodingKind::Integers { bits: 8 }, 2, 1);
    tensors.tensors = vec![TensorSpec { len: 3, clip: 1.0 }];
    let error = tensors.validate().unwrap_err().to_string();
    assert!(error.starts_with("tensors: must be empty"), "{error}");
    let long = spec(usize::MAX / 2, EncodingKind::Integers { bits: 64 }, 2, 2);
    assert!(
        long.validate()
            .unwrap_err()
            .to_string()
            .starts_with("dim: ")
    );
}

#[test]
fn only_integers_that_fit_are_encoded() {
    let encoding = integers(3, 33, 4, 5);
    let new = |values: &[u64], weight| Encoder::new(&encoding, values, weight, seed(0)).err();
    assert_eq!(
        new(&[1 << 33, 0, 1 << 40], 1),
        Some(EncodeError::Value { index: 0, bits: 33 })
    );
    assert_eq!(
        new(&[0, (1 << 33) - 1, 1 << 33], 1),
        Some(EncodeError::Value { index: 2, bits: 33 })
    );
    assert_eq!(new(&[0, 0], 1), Some(EncodeError::Dim { got: 2, dim: 3 }));
    for weight in [0, 6] {
        assert_eq!(
            new(&[0; 3], weight),
            Some(EncodeError::Weight {
                weight,
                max_weight: 5
            })
        );
    }
    assert_eq!(new(&[(1 << 33) - 1; 3], 5), None);
    assert_eq!(
        Encoder::new(&integers(2, 8, 1, 1), &[255_u32, 256][..], 1, seed(0)).err(),
        Some(EncodeError::Value { index: 1, bits: 8 })
    );
    let encoder = Encoder::new(&encoding, &[7_u32, 0, u32::MAX][..], 2, seed(0)).unwrap();
    assert_eq!(encoder.report(), EncodeReport::default());
}

#[test]
fn real_numbers_and_integers_have_encodings_of_their_own() {
    let encoding = integers(3, 8, 4, 1);
    assert_eq!(
        Encoder::new(&encoding, &[1.0_f32; 3][..], 1, seed(0)).err(),
        Some(EncodeError::Reals)
    );
    let bound = quantised(8, ClipSpec::Tensor(1.0), Rounding::Nearest);
    for kind in [bound, EncodingKind::Fixed64 { clip: 1.0 }] {
        let real = spec(3, kind, 4, 1).validate().unwrap();
        let refused = Encoder::new(&real, &[1_u64; 3][..], 1, seed(0)).err();
        assert_eq!(refused, Some(EncodeError::Integers));
        let zeros = Words::zeros(real.width(), real.lanes());
        let refused = real.decode_sums(&zeros, 1, &mut [0; 3]);
        assert_eq!(refused, Err(EncodeError::Integers));
    }
    let words = IntegerWords::new(&encoding, &[1_u64, 2, 3][..], 1).unwrap();
    let mut sum = Words::zeros(encoding.width(), encoding.lanes());
    words.encode_tile(0, sum.tile_mut(0..3)).unwrap();
    assert_eq!(sum.iter().collect::<Vec<_>>(), [1, 2, 3]);
}

/// Words that no integers add up to.
#[test]
fn forged_sums_are_refused() {
    let decode = |encoding: &Encoding, words: &[u64], survivors| {
        let mut sums = vec![0; encoding.dim()];
        encoding
            .decode_sums(&sum_of(encoding, words), survivors, &mut sums)
            .map(|_| sums)
    };
    let one = integers(2, 10, 4, 1);
    let bad = |lane, total_weight| Err(EncodeError::Sum { lane, total_weight });
    assert_eq!(decode(&one, &[3 * 1023, 0], 3), Ok(vec![3 * 1023, 0]));
    assert_eq!(decode(&one, &[0, 3 * 1023 + 1], 3), bad(1, 3));
    let two = integers(2, 64, 4, 10);
    let (low, high) = (20 * 0xffff_ffff, 20 * 0xffff_ffff_u64);
    let full = 20 * u128::from(u64::MAX);
    assert_eq!(
        decode(&two, &[low, 0, high, 1, 20], 2),
        Ok(vec![full, 1 << 32])
    );
    assert_eq!(decode(&two, &[0, low + 1, 0, 0, 20], 2), bad(1, 20));
    assert_eq!(decode(&two, &[0, 0, high + 1, 0, 20], 2), bad(2, 20));
    let weights = |total_weight| {
        let (survivors, largest) = (2, 20);
        Err(EncodeError::TotalWeight {
            total_weight,
            survivors,
            largest,
        })
    };
    assert_eq!(decode(&two, &[0, 0, 0, 0, 21], 2), weights(21));
    assert_eq!(decode(&two, &[0, 0, 0, 0, 1], 2), weights(1));
    let survivors = Err(EncodeError::Survivors {
        survivors: 5,
        parties: 4,
    });
    assert_eq!(decode(&two, &[0, 0, 0, 0, 5], 5), survivors);
    let high_bits = integers(1, 40, 1 << 30, 1);
    assert_eq!(high_bits.lanes(), 2);
    assert_eq!(decode(&high_bits, &[0, 255], 1), Ok(vec![255 << 32]));
    assert_eq!(decode(&high_bits, &[0, 256], 1), bad(1, 1));
    let short = one.decode_sums(&sum_of(&one, &[0, 0]), 1, &mut [0]);
    assert_eq!(short, Err(EncodeError::Dim { got: 1, dim: 2 }));
}
