//! Metrics: agreement with the slow model `vectors/model/metrics.py`, laws, and what is refused.

use std::sync::Arc;

use blindsum_math::words::Words;
use proptest::prelude::*;
use serde::Deserialize;

use super::vectors::double;
use super::{quantised, seed, spec};
use crate::{
    ClipSpec, EncodeError, Encoder, Encoding, EncodingKind, EncodingSpec, Judged, MAX_METRICS,
    MetricNote, MetricRange, MetricSum, Rounding, Update, VoidMetric,
};

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    spec: Spec,
    ranges: Vec<[String; 2]>,
    digit_bits: u32,
    parties: Vec<Party>,
    sum: Vec<u64>,
    total_weight: u64,
    sums: Vec<Sum>,
}

#[derive(Deserialize)]
struct Spec {
    kind: String,
    rounding: String,
    dim: usize,
    bits: u32,
    max_weight: u32,
    parties: usize,
}

#[derive(Deserialize)]
struct Party {
    values: Vec<Option<String>>,
    weight: u32,
    levels: Vec<Option<u32>>,
    words: Vec<u64>,
}

#[derive(Deserialize)]
struct Sum {
    levels: String,
    weight: u64,
    mean: Option<String>,
    share: String,
}

const TOP: u128 = (1 << 24) - 1;

fn ranged(ranges: &[(f64, f64)], of: EncodingSpec) -> Encoding {
    let range = |&(low, high): &(f64, f64)| MetricRange { low, high };
    let metrics = ranges.iter().map(range).collect();
    EncodingSpec { metrics, ..of }.validate().unwrap()
}

/// All words of a vector of zeros with these metrics.
fn words_of(encoding: &Encoding, metrics: &[Option<f64>], weight: u32) -> Words {
    let (reals, integers) = (vec![0.0; encoding.dim()], vec![0_u64; encoding.dim()]);
    let encoder = match encoding.clip_runs(0..1).next() {
        Some(_) => Encoder::new(encoding, &reals[..], weight, seed(1)),
        None => Encoder::new(encoding, &integers[..], weight, seed(1)),
    };
    let levels = encoding.metric_levels(metrics).unwrap();
    let encoder = encoder.unwrap().with_metrics(&levels);
    let mut words = Words::zeros(encoding.width(), encoding.lanes());
    // In two pieces, of which the second begins in the words of the metrics.
    let cut = encoding.lanes() - 1;
    encoder.encode_tile(0, words.tile_mut(0..cut)).unwrap();
    encoder
        .encode_tile(cut, words.tile_mut(cut..cut + 1))
        .unwrap();
    words
}

/// The last words of a vector, which are those of the metrics.
fn tail(encoding: &Encoding, words: &Words) -> Vec<u64> {
    let lanes = encoding.lanes() - encoding.metric_words()..encoding.lanes();
    lanes.map(|lane| words.get(lane)).collect()
}

#[test]
fn words_and_sums_are_those_of_the_model() {
    let text = include_str!("../../../../vectors/metrics.json");
    let vectors: Vectors = serde_json::from_str(text).unwrap();
    assert!(!vectors.cases.is_empty());
    for case in vectors.cases {
        let bits = case.spec.bits;
        let rounding = match case.spec.rounding.as_str() {
            "nearest" => Rounding::Nearest,
            _ => Rounding::Stochastic,
        };
        let kind = match case.spec.kind.as_str() {
            "quantised" => quantised(bits, ClipSpec::Tensor(1.0), rounding),
            "fixed64" => EncodingKind::Fixed64 { clip: 1e-4 },
            "integers" => EncodingKind::Integers { bits },
            other => panic!("kind {other}"),
        };
        let of = spec(case.spec.dim, kind, case.spec.parties, case.spec.max_weight);
        let ranges = case.ranges.iter();
        let ranges: Vec<_> = ranges.map(|[a, b]| (double(a), double(b))).collect();
        let encoding = ranged(&ranges, of);
        let digits = 24_u32.div_ceil(case.digit_bits) as usize;
        assert_eq!(encoding.metric_words(), ranges.len() * (1 + digits));
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        for party in &case.parties {
            let values: Vec<Option<f64>> = party
                .values
                .iter()
                .map(|value| value.as_deref().map(double))
                .collect();
            let levels = encoding.metric_levels(&values).unwrap();
            assert_eq!(levels.levels(), party.levels);
            let words = words_of(&encoding, &values, party.weight);
            assert_eq!(tail(&encoding, &words), party.words);
            sum.add(&words).unwrap();
        }
        assert_eq!(tail(&encoding, &sum), case.sum);
        let sums = valid(&encoding, &sum, case.parties.len());
        assert_eq!(sums.len(), case.sums.len());
        for (sum, expected) in sums.iter().zip(&case.sums) {
            assert_eq!(sum.levels.to_string(), expected.levels);
            let weights = (expected.weight, case.total_weight);
            assert_eq!((sum.weight, sum.total_weight), weights);
            let mean = expected.mean.as_deref().map(double);
            assert_eq!(sum.mean().map(f64::to_bits), mean.map(f64::to_bits));
            assert_eq!(sum.share().to_bits(), double(&expected.share).to_bits());
        }
    }
}

/// The sums of metrics of which none is void.
fn valid(encoding: &Encoding, sum: &Words, survivors: usize) -> Vec<MetricSum> {
    let sums = encoding.metric_sums(sum, survivors).unwrap();
    sums.into_iter().map(Result::unwrap).collect()
}

/// Encodings of every kind, for at most 6 parties.
fn encodings() -> impl Strategy<Value = EncodingSpec> {
    let rounding = prop_oneof![Just(Rounding::Stochastic), Just(Rounding::Nearest)];
    let clip = prop_oneof![
        Just(ClipSpec::Tensor(1.0)),
        Just(ClipSpec::L2(1.0)),
        Just(ClipSpec::Sent {
            clip: 1.0,
            max_norm: 9.0
        })
    ];
    let kind = prop_oneof![
        3 => (2..=32_u32, clip, rounding).prop_map(|(bits, clip, rounding)| quantised(bits, clip, rounding)),
        1 => Just(EncodingKind::Fixed64 { clip: 1.0 }),
        2 => (1..=64_u32).prop_map(|bits| EncodingKind::Integers { bits }),
    ];
    let weight = prop_oneof![Just(1), 1..1000_u32];
    (kind, weight).prop_map(|(kind, max_weight)| spec(5, kind, 6, max_weight))
}

fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        8 => (-2.0..2.0_f64).prop_map(Some),
        1 => any::<f64>().prop_map(Some),
        1 => Just(None),
    ]
}

const RANGES: [(f64, f64); 3] = [(0.0, 1.0), (-1.5, -0.5), (-1e3, 1e9)];

/// The sum of levels times weights, and of the weights that reported, by whole numbers alone.
fn plain(encoding: &Encoding, inputs: &[([Option<f64>; 3], u32)]) -> Vec<(u128, u64)> {
    let mut sums = vec![(0, 0); RANGES.len()];
    for (values, weight) in inputs {
        let levels = encoding.metric_levels(values).unwrap();
        for ((levels, weights), level) in sums.iter_mut().zip(levels.levels()) {
            if let Some(level) = level {
                *levels += u128::from(*level) * u128::from(*weight);
                *weights += u64::from(*weight);
            }
        }
    }
    sums
}

proptest! {
    #[test]
    fn sums_are_exact_whatever_the_encoding_is(
        of in encodings(),
        inputs in prop::collection::vec(([value(), value(), value()], any::<u32>()), 1..=6),
    ) {
        let encoding = ranged(&RANGES, of.clone());
        let plainly = of.validate().unwrap();
        prop_assert_eq!(plainly.lanes() + encoding.metric_words(), encoding.lanes());
        prop_assert_eq!(plainly.width(), encoding.width());
        prop_assert_eq!(plainly.largest_sum(), encoding.largest_sum());
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        let mut total = 0;
        let weigh = |weight: u32| 1 + weight % encoding.max_weight();
        let inputs: Vec<_> = inputs.into_iter().map(|(values, weight)| (values, weigh(weight))).collect();
        for (values, weight) in &inputs {
            let words = words_of(&encoding, values, *weight);
            for lane in plainly.lanes()..encoding.lanes() {
                // As many of it as there may be parties do not wrap, also where each is moved by half of the range.
                prop_assert!(6 * u128::from(words.get(lane)) <= encoding.largest_sum());
                prop_assert!(6 * u128::from(words.get(lane)) < 1 << encoding.width().bits());
            }
            sum.add(&words).unwrap();
            total += u64::from(*weight);
        }
        let sums = valid(&encoding, &sum, inputs.len());
        let found: Vec<_> = sums.iter().map(|sum| (sum.levels, sum.weight)).collect();
        prop_assert_eq!(found, plain(&encoding, &inputs));
        prop_assert!(sums.iter().all(|sum| sum.total_weight == total));
        let mut mean = [0.0_f64; 5];
        prop_assert_eq!(encoding.decode_mean(&sum, inputs.len(), &mut mean), Ok(total));
    }

    #[test]
    fn a_mean_is_within_half_a_level(values in prop::collection::vec(-1.5..-0.5_f64, 1..=6)) {
        let encoding = ranged(&RANGES, spec(5, quantised(2, ClipSpec::Tensor(1.0), Rounding::Nearest), 6, 1));
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        for value in &values {
            sum.add(&words_of(&encoding, &[None, Some(*value), None], 1)).unwrap();
        }
        let sums = valid(&encoding, &sum, values.len());
        let exact = values.iter().sum::<f64>() / values.len() as f64;
        prop_assert!((sums[1].mean().unwrap() - exact).abs() <= 0.5000001 / TOP as f64);
        prop_assert_eq!((sums[0].mean(), sums[0].share(), sums[1].share()), (None, 0.0, 1.0));
    }
}

#[test]
fn case_72_metrics_say_what_became_of_them() {
    let encoding = ranged(
        &[(0.0, 1.0); 6],
        spec(1, EncodingKind::Integers { bits: 8 }, 3, 1),
    );
    let values = [
        Some(0.5),
        Some(1.0),
        Some(1.5),
        Some(f64::NAN),
        Some(f64::INFINITY),
        None,
    ];
    let levels = encoding.metric_levels(&values).unwrap();
    use MetricNote::{Clipped, Missing, NotFinite, Reported};
    let expected = [Reported, Reported, Clipped, NotFinite, NotFinite, Missing];
    assert_eq!(levels.notes(), expected);
    let top = TOP as u32;
    let expected = [
        Some(top.div_ceil(2)),
        Some(top),
        Some(top),
        None,
        None,
        None,
    ];
    assert_eq!(levels.levels(), expected);
    let again = encoding.metrics_of_levels(levels.levels().to_vec());
    assert_eq!(again.unwrap().levels(), expected);
    assert!(encoding.metrics_of_levels(vec![Some(top + 1); 6]).is_err());
    assert!(encoding.metrics_of_levels(vec![None; 5]).is_err());
    let refused = encoding.metric_levels(&values[1..]).err();
    let (got, metrics) = (5, 6);
    assert_eq!(refused, Some(EncodeError::Metrics { got, metrics }));
}

#[test]
fn an_update_takes_its_metrics_along() {
    let kind = quantised(16, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    let encoding = Arc::new(ranged(&[(0.0, 1.0)], spec(2, kind, 3, 4)));
    let judged = Judged::new(&encoding, Update::F32(vec![0.0; 2]), 3).unwrap();
    let words = |judged: &Judged| {
        let encoder = judged.encoder(&encoding, seed(0)).unwrap();
        let mut words = Words::zeros(encoding.width(), encoding.lanes());
        let all = 0..encoding.lanes();
        encoder.encode_tile(0, words.tile_mut(all)).unwrap();
        tail(&encoding, &words)
    };
    assert_eq!(words(&judged), [0, 0, 0]);
    let judged = judged.with_metrics(encoding.metric_levels(&[Some(1.0)]).unwrap());
    assert_eq!(words(&judged), [3, 3 * 0xffff, 3 * 0xff]);
}

/// Abuse case 72: one corrupt party adds words to a metric that fit no values.
#[test]
fn case_72_words_that_no_parties_have_void_their_metric_and_nothing_else() {
    let kind = quantised(16, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    let encoding = ranged(&[(0.0, 1.0), (0.0, 1.0)], spec(1, kind, 3, 4));
    // A coordinate, the weight, and two metrics of three words each, in a sum of two parties with the weights 3 and 4.
    let decoded = |metric: [u64; 3]| {
        let words = [&[0, 7, 7, 0, 0][..], &metric].concat();
        let sum = Words::from_values(encoding.width(), &words).unwrap();
        encoding.metric_sums(&sum, 2).unwrap()
    };
    let sums = decoded([4, 4 * 0xffff, 4 * 0xff]);
    let [Ok(first), Ok(second)] = &sums[..] else {
        panic!("{sums:?}");
    };
    let range = MetricRange {
        low: 0.0,
        high: 1.0,
    };
    let expected = MetricSum {
        levels: 4 * TOP,
        weight: 4,
        total_weight: 7,
        range,
    };
    assert_eq!(second, &expected);
    assert_eq!((second.mean(), first.mean()), (Some(1.0), Some(0.0)));
    for (words, rule) in [
        ([8, 0, 0], "weight that reported = 8 <= total weight = 7"),
        ([4, 4 * 0xffff + 1, 0], "digit 0 = 262141 <= 262140"),
        ([4, 0, 4 * 0xff + 1], "digit 1 = 1021 <= 1020"),
        ([0, 1, 0], "digit 0 = 1 <= 0"),
    ] {
        match &decoded(words)[..] {
            [Ok(other), Err(VoidMetric { rule: found })] => {
                assert_eq!(other, first);
                assert!(found.contains(rule), "{found}");
            }
            other => panic!("{words:?}: {other:?}"),
        }
    }
}

#[test]
fn ranges_without_values_are_refused() {
    let with = |ranges: Vec<MetricRange>| {
        let of = spec(1, EncodingKind::Integers { bits: 8 }, 3, 1);
        let metrics = ranges;
        EncodingSpec { metrics, ..of }.validate()
    };
    let range = |low, high| MetricRange { low, high };
    for bad in [
        range(1.0, 1.0),
        range(1.0, 0.0),
        range(f64::NAN, 1.0),
        range(0.0, f64::INFINITY),
        range(-1.7e308, 1.7e308),
    ] {
        let refused = with(vec![bad]).unwrap_err().to_string();
        assert!(refused.starts_with("metrics: low = "), "{refused}");
    }
    assert!(with(vec![range(0.0, 1.0); MAX_METRICS]).is_ok());
    assert!(with(vec![range(0.0, 1.0); MAX_METRICS + 1]).is_err());
    let wide = spec(
        1,
        EncodingKind::Fixed64 { clip: 1e-5 },
        1 << 31,
        u32::MAX >> 1,
    );
    let wide = EncodingSpec {
        metrics: vec![range(0.0, 1.0)],
        ..wide
    };
    assert!(wide.clone().validate().is_ok());
    let wider = EncodingSpec {
        max_weight: u32::MAX,
        parties: (1 << 31) - 1,
        ..wide
    };
    let refused = wider.validate().unwrap_err().to_string();
    assert!(refused.contains("< 2^62 with metrics"), "{refused}");
}
