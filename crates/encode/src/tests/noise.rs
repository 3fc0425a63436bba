//! Vectors with noise: laws and refusals.

use blindsum_crypto::kdf::Context;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_privacy::noise::NoiseSeed;
use blindsum_privacy::{Adjacency, Mechanism, Multiplier, Sampler};
use proptest::prelude::*;

use super::{quantised, seed, spec};
use crate::{
    ClipSpec, DensitySchedule, EncodeError, Encoder, Encoding, EncodingKind, EncodingSpec,
    NoiseShare, Rounding, Seeds, Sparsifier, Values,
};

fn share(honest: usize, z: f64) -> NoiseShare {
    NoiseShare {
        honest,
        mechanism: Mechanism::DiscreteGaussian,
        adjacency: Adjacency::ZeroOut,
        multiplier: Multiplier::at_least(z).unwrap(),
        wraps: true,
    }
}

/// A job of ten parties with noise.
fn noised(dim: usize, bits: u32, rounding: Rounding) -> EncodingSpec {
    EncodingSpec {
        noise: Some(share(8, 1.0)),
        ..spec(dim, quantised(bits, ClipSpec::L2(1.0), rounding), 10, 1)
    }
}

fn seeds(byte: u8) -> Seeds {
    Seeds::with_noise(seed(byte), NoiseSeed::from(Secret::from([byte ^ 0x80; 32])))
}

pub(super) fn words(encoding: &Encoding, values: &[f64], seeds: Seeds) -> Words {
    let encoder = Encoder::new(encoding, values, 1, seeds).unwrap();
    let mut words = Words::zeros(encoding.width(), encoding.lanes());
    encoder
        .encode_tile(0, words.tile_mut(0..encoding.lanes()))
        .unwrap();
    words
}

/// A word as the number that it stands for.
fn lifted(encoding: &Encoding, word: u64) -> i64 {
    word.cast_signed() - (1 << (encoding.width().bits() - 1))
}

/// The whole numbers behind words: without the noise of the same seed.
fn whole_numbers(encoding: &Encoding, words: &Words, byte: u8) -> Vec<i64> {
    let sizes = encoding.noise().unwrap();
    let sampler = Sampler::new(sizes.spec().mechanism, sizes.variance()).unwrap();
    let mut noise = vec![0; encoding.dim()];
    let key = NoiseSeed::from(Secret::from([byte ^ 0x80; 32])).key();
    sampler.draw(&key, 0, &mut noise);
    let without =
        |(lane, noise): (usize, i32)| lifted(encoding, words.get(lane)) - i64::from(noise);
    noise.into_iter().enumerate().map(without).collect()
}

/// A sum with these words.
pub(super) fn summed(encoding: &Encoding, words: &[u64]) -> Words {
    Words::from_values(encoding.width(), words).unwrap()
}

#[test]
fn case_39_sums_up_to_the_limit_are_decoded_and_none_beyond() {
    let encoding = noised(3, 12, Rounding::Stochastic).validate().unwrap();
    let limit = encoding.noise().unwrap().limit().cast_signed();
    let decode = |sums: [i64; 3]| {
        let words = sums.map(|sum| sum.cast_unsigned() & encoding.width().mask());
        let mut mean = [0.0; 3];
        let decoded = encoding.decode_mean(&summed(&encoding, &words), 10, &mut mean);
        decoded.map(|_| mean)
    };
    let step = 1.0 / 2047.0 / 10.0;
    let least = -(1 << (encoding.width().bits() - 1));
    let mean = decode([limit, -limit, 0]).unwrap();
    // Beyond the clip: nothing is clamped.
    assert_eq!(mean, [limit as f64 * step, -limit as f64 * step, 0.0]);
    assert!(mean[0] > 1.0);
    for (sums, lane) in [
        ([limit + 1, 0, 0], 0),
        ([0, -limit - 1, 0], 1),
        ([0, 1, least], 2),
    ] {
        let total_weight = 10;
        assert_eq!(decode(sums), Err(EncodeError::Sum { lane, total_weight }));
    }
}

#[test]
fn case_39_no_vector_goes_without_its_noise() {
    let encoding = noised(3, 12, Rounding::Stochastic).validate().unwrap();
    let values = [0.1, 0.2, 0.3];
    let refused = Encoder::new(&encoding, &values[..], 1, seed(1)).err();
    assert_eq!(refused, Some(EncodeError::NoiseSeed));
    let plain = EncodingSpec {
        noise: None,
        ..noised(3, 12, Rounding::Stochastic)
    };
    let plain = plain.validate().unwrap();
    let refused = Encoder::new(&plain, &values[..], 1, seeds(1)).err();
    assert_eq!(refused, Some(EncodeError::NoNoise));
    let integers = [1_u32, 2, 3];
    let refused = Encoder::new(&encoding, &integers[..], 1, seeds(1)).err();
    assert_eq!(refused, Some(EncodeError::Integers));
}

/// A party that sends nothing sends its noise, and noise is what a sum has but for its vectors.
#[test]
fn case_39_words_of_zeros_are_noise_of_its_variance() {
    const DIM: usize = 100_000;
    for rounding in [Rounding::Stochastic, Rounding::Nearest] {
        let encoding = noised(DIM, 12, rounding).validate().unwrap();
        let words = words(&encoding, &vec![0.0; DIM], seeds(3));
        assert!(
            whole_numbers(&encoding, &words, 3)
                .iter()
                .all(|&number| number == 0)
        );
        let mut mean = vec![0.0_f64; DIM];
        encoding.decode_mean(&words, 1, &mut mean).unwrap();
        let variance = mean.iter().map(|x| x * x).sum::<f64>() / DIM as f64;
        let ratio = variance / encoding.noise_deviation(1).powi(2);
        assert!(
            (ratio - 1.0).abs() < 5.0 * (2.0 / DIM as f64).sqrt(),
            "{ratio}"
        );
        assert!((encoding.noise_deviation(4) / encoding.noise_deviation(1) - 0.5).abs() < 1e-12);
    }
}

/// The same seeds give the same bytes, tile by tile; a seed of another round gives other noise, which has nothing in common
/// with the first.
#[test]
fn case_39_noise_is_that_of_its_seed() {
    const DIM: usize = 100_000;
    let encoding = noised(DIM, 12, Rounding::Stochastic).validate().unwrap();
    let values: Vec<f64> = (0..DIM).map(|i| (i as f64).sin() / 300.0).collect();
    let root = Secret::from([1; 32]);
    let of_round = |round| {
        let noise = NoiseSeed::derive(Secret::from([2; 32]), &root, &Context([round; 32]));
        words(&encoding, &values, Seeds::with_noise(seed(9), noise))
    };
    let (first, again, second) = (of_round(1), of_round(1), of_round(2));
    assert!((0..DIM).all(|lane| first.get(lane) == again.get(lane)));
    let noise = |words: &Words| -> Vec<f64> {
        let lifted = (0..DIM).map(|lane| lifted(&encoding, words.get(lane)) as f64);
        lifted
            .zip(&values)
            .map(|(word, value)| word - value * 2047.0)
            .collect()
    };
    let (first, second) = (noise(&first), noise(&second));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let correlation =
        product(&first, &second) / (product(&first, &first) * product(&second, &second)).sqrt();
    assert!(
        correlation.abs() < 5.0 / (DIM as f64).sqrt(),
        "{correlation}"
    );
}

#[test]
fn case_39_encodings_that_cannot_have_noise_are_refused_with_the_rule() {
    let good = || noised(1000, 12, Rounding::Stochastic);
    assert!(good().validate().is_ok());
    let refused = |spec: EncodingSpec| spec.validate().unwrap_err().to_string();
    let kind = |kind| EncodingSpec { kind, ..good() };
    let rounding = Rounding::Stochastic;
    assert_eq!(
        refused(kind(quantised(12, ClipSpec::Tensor(1.0), rounding))),
        "privacy: clipping must be \"l2\": noise is measured by the norm of a whole update"
    );
    let (clip, max_norm) = (1.0, 1.0);
    assert_eq!(
        refused(kind(quantised(
            12,
            ClipSpec::Sent { clip, max_norm },
            rounding
        ))),
        "privacy: max_norm must be 0: noise is measured by the norm that clip bounds with clipping = \"l2\""
    );
    let quantised_only = "privacy: needs the encoding quantised: noise is of its steps";
    assert_eq!(
        refused(kind(EncodingKind::Fixed64 { clip })),
        quantised_only
    );
    assert_eq!(
        refused(kind(EncodingKind::Integers { bits: 8 })),
        quantised_only
    );
    assert_eq!(
        refused(EncodingSpec {
            max_weight: 3,
            ..good()
        }),
        "privacy: max_weight = 3 must be 1: weights tell how much data a party has"
    );
    let honest = EncodingSpec {
        noise: Some(share(0, 1.0)),
        ..good()
    };
    assert!(
        refused(honest).starts_with("privacy: min_parties - ceil(corrupt * parties) = m = 0, but")
    );
    let coarse = EncodingSpec {
        noise: Some(share(8, 1.0 / 64.0)),
        ..noised(10, 9, rounding)
    };
    assert!(refused(coarse).starts_with("bits: (z^2 T + 8) / m = v = "));
    let grown = noised(100_000, 8, rounding);
    assert!(refused(grown).starts_with("bits: rounding lifts the norm by 1.6"));
    let reach = EncodingSpec {
        tells_reach: true,
        ..good()
    };
    assert!(refused(reach).starts_with("clipping: bounds from earlier rounds"));
    let schedule = DensitySchedule::new(0.5, 0.5, 1, 1).unwrap();
    let sparse = Sparsifier::new(&good().validate().unwrap(), schedule)
        .err()
        .unwrap();
    assert_eq!(
        sparse.to_string(),
        "privacy: sparse rounds tell which coordinates a party sends"
    );
}

/// Vectors that are hard to bound: long ones, at the bound, flat ones, single coordinates, tiny and subnormal ones.
fn hard() -> impl Strategy<Value = Vec<f64>> {
    let one = prop_oneof![
        Just(0.0),
        Just(1.0),
        Just(-1.0),
        Just(1e-300),
        Just(f64::from_bits(1)),
        -1.0..1.0_f64,
    ];
    let flat = (
        1..4000_usize,
        prop_oneof![Just(1.0), Just(0.5), Just(1.0 + f64::EPSILON)],
    )
        .prop_map(|(dim, norm)| vec![norm / (dim as f64).sqrt(); dim]);
    let spike = (
        1..3000_usize,
        prop_oneof![Just(1.0), Just(1e150), Just(-1.0)],
        any::<prop::sample::Index>(),
    )
        .prop_map(|(dim, value, place)| {
            let mut values = vec![0.0; dim];
            values[place.index(dim)] = value;
            values
        });
    prop_oneof![prop::collection::vec(one, 1..3000), flat, spike]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// No vector without its noise is longer than the bound of the accounting, in whole numbers; and none is far from what
    /// it stands for.
    #[test]
    fn case_39_vectors_are_never_longer_than_their_bound(
        values in hard(),
        byte in 0..=127_u8,
        nearest in any::<bool>(),
    ) {
        let rounding = if nearest { Rounding::Nearest } else { Rounding::Stochastic };
        let encoding = noised(values.len(), 14, rounding).validate().unwrap();
        let sizes = encoding.noise().unwrap();
        let words = words(&encoding, &values, seeds(byte));
        let numbers = whole_numbers(&encoding, &words, byte);
        let squares: u128 = numbers.iter().map(|u| u128::from(u.unsigned_abs()).pow(2)).sum();
        prop_assert!(squares <= u128::from(sizes.squared_norm()));
        let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let factor = if norm > 1.0 { 1.0 / norm } else { 1.0 };
        for (value, number) in values.iter().zip(numbers) {
            prop_assert!(number.unsigned_abs() <= sizes.largest());
            let error = (value * factor - number as f64 / sizes.largest() as f64).abs();
            prop_assert!(error <= encoding.rounding_error(), "{value}: {error}");
        }
    }

    /// Words follow from the vector and the seeds only, not from tiles.
    #[test]
    fn tiles_of_any_size_have_the_same_words(
        first in 0..2500_usize,
        count in 0..2500_usize,
        single in any::<bool>(),
    ) {
        let encoding = noised(2500, 12, Rounding::Stochastic).validate().unwrap();
        let values: Vec<f64> = (0..2500).map(|i| f64::from(i).cos() / 40.0).collect();
        let singles: Vec<f32> = values.iter().map(|&x| x as f32).collect();
        let values = if single { Values::from(&singles[..]) } else { Values::from(&values[..]) };
        let encoder = Encoder::new(&encoding, values, 1, seeds(5)).unwrap();
        let mut all = Words::zeros(encoding.width(), 2500);
        encoder.encode_tile(0, all.tile_mut(0..2500)).unwrap();
        let end = (first + count).min(2500);
        let mut some = Words::zeros(encoding.width(), 2500);
        encoder.encode_tile(first, some.tile_mut(first..end)).unwrap();
        for lane in first..end {
            prop_assert_eq!(some.get(lane), all.get(lane));
        }
    }

    /// Sums of all parties with the longest vectors stay within the limit, and give the mean with as much noise as is said.
    #[test]
    fn sums_of_the_longest_vectors_stay_within_the_limit(sign in any::<bool>(), place in 0..50_usize) {
        let encoding = noised(50, 10, Rounding::Stochastic).validate().unwrap();
        let mut values = vec![0.0; 50];
        values[place] = if sign { -7.0 } else { 7.0 };
        let mut sum = vec![0_u64; 50];
        for party in 0..10 {
            let words = words(&encoding, &values, seeds(party));
            for (lane, sum) in sum.iter_mut().enumerate() {
                *sum = (*sum + words.get(lane)) & encoding.width().mask();
            }
        }
        let mut mean = vec![0.0_f64; 50];
        encoding.decode_mean(&summed(&encoding, &sum), 10, &mut mean).unwrap();
        for (place, mean) in mean.iter().enumerate() {
            let error = mean - values[place] / 7.0;
            prop_assert!(error.abs() <= encoding.max_error() + 6.0 * encoding.noise_deviation(10));
        }
    }
}

/// Metrics go beside a vector with noise in words of their own, and their sums do not wrap.
/// Where sums must not wrap, words have room for the sum of all, and stand for the same numbers.
#[test]
fn case_39_sums_that_must_not_wrap_have_room() {
    let whole = NoiseShare {
        wraps: false,
        ..share(8, 1.0)
    };
    let wrapping = noised(50, 12, Rounding::Stochastic).validate().unwrap();
    let adding = EncodingSpec {
        noise: Some(whole),
        ..noised(50, 12, Rounding::Stochastic)
    };
    let adding = adding.validate().unwrap();
    // ⌈log2 10⌉ more.
    assert_eq!(adding.width().bits(), wrapping.width().bits() + 4);
    let values: Vec<f64> = (0..50).map(|i| f64::from(i - 25) / 100.0).collect();
    let (mut sums, mut largest) = (vec![0_u64; 50], 0);
    let mut wrapped = vec![0_u64; 50];
    for byte in 0..10 {
        let all = words(&adding, &values, seeds(byte));
        let same = words(&wrapping, &values, seeds(byte));
        assert!(all.iter().eq(same.iter()));
        for ((sum, wrapped), word) in sums.iter_mut().zip(&mut wrapped).zip(all.iter()) {
            *sum += word;
            *wrapped = (*wrapped + word) & wrapping.width().mask();
        }
        largest = sums.iter().copied().max().unwrap();
    }
    assert!(largest > wrapping.width().mask() && largest <= adding.width().mask());
    // The sum of the words before it is reduced is a function of the sum of the numbers: how many of them are below 0 does
    // not show in it.
    let middle = 1 << (wrapping.width().bits() - 1);
    let numbers = (0..10).map(|byte| {
        let words = words(&wrapping, &values, seeds(byte));
        // Without their noise they are the rounded vector: no word was reduced.
        let largest = wrapping.noise().unwrap().largest().cast_signed();
        let rounded = whole_numbers(&wrapping, &words, byte);
        assert!(rounded.iter().all(|number| number.abs() <= largest));
        let lifted = words.iter().map(|word| lifted(&wrapping, word));
        lifted.collect::<Vec<i64>>()
    });
    let numbers: Vec<Vec<i64>> = numbers.collect();
    for (place, sum) in sums.iter().enumerate() {
        let of_numbers: i64 = numbers.iter().map(|of_one| of_one[place]).sum();
        assert_eq!(sum.cast_signed(), of_numbers + 10 * middle);
        assert!(numbers.iter().all(|of_one| of_one[place].abs() < middle));
    }
    let (mut of_all, mut of_wrapped) = (vec![0.0; 50], vec![0.0; 50]);
    adding
        .decode_mean(&summed(&adding, &sums), 10, &mut of_all)
        .unwrap();
    wrapping
        .decode_mean(&summed(&wrapping, &wrapped), 10, &mut of_wrapped)
        .unwrap();
    assert_eq!(of_all, of_wrapped);
}

#[test]
fn metrics_stand_beside_noise() {
    let range = crate::MetricRange {
        low: 0.0,
        high: 1.0,
    };
    for parties in [1, 2, 10, 1000] {
        let encoding = EncodingSpec {
            parties,
            noise: Some(share(parties, 1.0)),
            metrics: vec![range],
            ..noised(4, 12, Rounding::Stochastic)
        };
        let encoding = encoding.validate().unwrap();
        let levels = encoding.metric_levels(&[Some(1.0)]).unwrap();
        let mut sum = vec![0_u64; encoding.lanes()];
        for _ in 0..parties {
            let encoder = Encoder::new(&encoding, &[0.0; 4][..], 1, seeds(6)).unwrap();
            let mut words = Words::zeros(encoding.width(), encoding.lanes());
            let all = 0..encoding.lanes();
            encoder
                .with_metrics(&levels)
                .encode_tile(0, words.tile_mut(all))
                .unwrap();
            for (lane, sum) in sum.iter_mut().enumerate() {
                *sum = (*sum + words.get(lane)) & encoding.width().mask();
            }
        }
        let sums = encoding
            .metric_sums(&summed(&encoding, &sum), parties)
            .unwrap();
        assert_eq!(sums[0].as_ref().unwrap().mean(), Some(1.0));
    }
}
