//! Bounds from earlier rounds: the model's (`vectors/model/aciq.py`), the literature's, and what they do.

use blindsum_math::words::Words;
use proptest::prelude::*;
use serde::Deserialize;

use super::vectors::double;
use super::{hex, quantised, spec};
use crate::{
    Averaged, ClipSpec, Divisor, EncodeError, Encoder, Encoding, EncodingKind, EncodingSpec,
    Rounding, Sparse, TensorSpec, UpdateHistory, gaussian_factor,
};

#[derive(Deserialize)]
struct Vectors {
    factors: Vec<String>,
    histories: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    bits: u32,
    tensors: Vec<(usize, String)>,
    max_weight: u32,
    rounding: String,
    /// 0 for dense rounds.
    minimum: u32,
    /// Parties by whose number sums of sparse rounds are divided; 0 where senders are counted.
    divisor: u32,
    rounds: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    mean: Vec<String>,
    /// By coordinate, or the number of survivors and their total weight.
    counts: Vec<u32>,
    state: String,
    clips: Vec<String>,
}

/// What a mean of so many parties without weights is of.
pub(super) fn of(survivors: usize) -> Averaged {
    Averaged {
        survivors,
        total_weight: survivors as u64,
    }
}

fn weighted(bits: u32, tensors: &[(usize, f64)], max_weight: u32) -> Encoding {
    let spec = unchecked(bits, tensors);
    EncodingSpec { max_weight, ..spec }.validate().unwrap()
}

fn encoding(bits: u32, tensors: &[(usize, f64)]) -> Encoding {
    unchecked(bits, tensors).validate().unwrap()
}

fn unchecked(bits: u32, tensors: &[(usize, f64)]) -> EncodingSpec {
    let dim = tensors.iter().map(|(len, _)| len).sum();
    let kind = quantised(bits, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    let mut spec = spec(dim, kind, 1000, 1);
    spec.tensors = tensors
        .iter()
        .map(|&(len, clip)| TensorSpec { len, clip })
        .collect();
    spec
}

#[test]
fn factors_and_histories_are_those_of_the_model() {
    let text = include_str!("../../../../vectors/aciq.json");
    let vectors: Vectors = serde_json::from_str(text).unwrap();
    assert_eq!(vectors.factors.len(), 32);
    for (bits, factor) in (1..).zip(&vectors.factors) {
        assert_eq!(gaussian_factor(bits), double(factor), "{bits} bits");
    }
    assert!(!vectors.histories.is_empty());
    for case in &vectors.histories {
        check(case);
    }
}

fn check(case: &Case) {
    let tensors: Vec<(usize, f64)> = case
        .tensors
        .iter()
        .map(|(len, clip)| (*len, double(clip)))
        .collect();
    let rounding = match case.rounding.as_str() {
        "nearest" => Rounding::Nearest,
        _ => Rounding::Stochastic,
    };
    let mut spec = unchecked(case.bits, &tensors);
    spec.kind = quantised(case.bits, ClipSpec::Tensor(1.0), rounding);
    spec.max_weight = case.max_weight;
    let encoding = spec.validate().unwrap();
    let mut history = UpdateHistory::new(&encoding).unwrap();
    let job_clips: Vec<f64> = tensors.iter().map(|(_, clip)| *clip).collect();
    assert_eq!(history.clips(), job_clips);
    for step in &case.rounds {
        let mean: Vec<f32> = step.mean.iter().map(|x| double(x) as f32).collect();
        match case.minimum {
            0 => {
                let averaged = Averaged {
                    survivors: step.counts[0] as usize,
                    total_weight: step.counts[1].into(),
                };
                history.observe(&mean, averaged).unwrap()
            }
            minimum => {
                let sparse = Sparse {
                    counts: &step.counts,
                    minimum,
                    divisor: match case.divisor {
                        0 => Divisor::Senders,
                        parties => Divisor::Parties(parties),
                    },
                };
                history.observe_sparse(&mean, sparse).unwrap()
            }
        }
        assert_eq!(hex(&history.to_bytes()), step.state);
        assert_eq!(history.to_bytes().len(), history.encoded_len());
        let read = UpdateHistory::from_bytes(&encoding, &history.to_bytes());
        assert_eq!(read.as_ref(), Ok(&history));
        let expected: Vec<f64> = step.clips.iter().map(|clip| double(clip)).collect();
        assert_eq!(history.clips(), expected);
        let of_round = encoding.with_clips(&expected).unwrap();
        let bounds: Vec<f64> = of_round.tensors().map(|(_, clip)| clip).collect();
        assert_eq!(bounds, expected);
    }
}

#[test]
fn factors_are_those_of_the_literature() {
    // Banner, Nahshan and Soudry, "Post training 4-bit quantization of convolutional networks for
    // rapid-deployment": found there by a general minimiser, to five digits.
    let table = [
        (2, 1.71063519),
        (3, 2.15159277),
        (4, 2.55913646),
        (5, 2.93620062),
        (6, 3.28691474),
        (7, 3.6151146),
        (8, 3.92403714),
    ];
    for (bits, factor) in table {
        assert!((gaussian_factor(bits) - factor).abs() < 1e-5, "{bits} bits");
    }
}

#[test]
fn no_other_bound_loses_less_of_a_gaussian() {
    // The error itself, by the midpoint rule, where the minimum is deep enough to be seen.
    let error = |alpha: f64, bits: i32| {
        let clipped: f64 = (0..20_000)
            .map(|i| (f64::from(i) + 0.5) * 1e-3)
            .map(|beyond| beyond * beyond * (-(alpha + beyond).powi(2) / 2.0).exp() * 1e-3)
            .sum();
        2.0 * clipped * 0.398_942_280_401_432_7 + alpha * alpha / (3.0 * 4_f64.powi(bits))
    };
    for bits in 2..=16 {
        let best = gaussian_factor(bits as u32);
        for other in [0.99, 1.01] {
            assert!(error(best, bits) < error(best * other, bits), "{bits} bits");
        }
    }
}

/// Updates of some parties that have nothing in common, or everything: sums of uniform numbers.
fn updates(parties: usize, round: usize, alike: bool, size: f64) -> Vec<Vec<f32>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round as u64 + 1);
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / f64::powi(2.0, 53) - 0.5
    };
    let mut update = || -> Vec<f32> {
        (0..512)
            .map(|_| (0..12).map(|_| uniform()).sum::<f64>() * size)
            .map(|x| x as f32)
            .collect()
    };
    let first = update();
    (0..parties)
        .map(|_| if alike { first.clone() } else { update() })
        .collect()
}

/// A round with the bounds that the history gives, which it enters. Gives the part of the updates that was
/// clipped.
fn play(job: &Encoding, history: &mut UpdateHistory, round: usize, updates: &[Vec<f32>]) -> f64 {
    let of_round = job.with_clips(&history.clips()).unwrap();
    let mut sum = Words::zeros(job.width(), job.lanes());
    let mut clipped = 0;
    for (party, update) in updates.iter().enumerate() {
        let seed = super::seed((round * updates.len() + party) as u8);
        let encoder = Encoder::new(&of_round, &update[..], 1, seed).unwrap();
        clipped += encoder.report().clipped;
        let mut words = Words::zeros(job.width(), job.lanes());
        encoder
            .encode_tile(0, words.tile_mut(0..job.lanes()))
            .unwrap();
        sum.add(&words).unwrap();
    }
    let mut mean = vec![0.0_f32; job.dim()];
    of_round
        .decode_mean(&sum, updates.len(), &mut mean)
        .unwrap();
    history.observe(&mean, of(updates.len())).unwrap();
    clipped as f64 / (job.dim() * updates.len()) as f64
}

#[test]
fn bounds_settle_where_parties_agree_and_where_they_do_not() {
    for (bits, parties) in [(8, 6), (16, 10), (16, 3)] {
        for alike in [true, false] {
            let job = encoding(bits, &[(512, 1.0)]);
            let mut history = UpdateHistory::new(&job).unwrap();
            // The largest of 512 coordinates is from 2.5 to 4.5 standard deviations.
            let common = if alike {
                parties as f64
            } else {
                (parties as f64).sqrt()
            };
            let (least, most) = (2.0 * 0.025 * common, 2.0 * 0.045 * common);
            for round in 0..40 {
                let updates = updates(parties, round, alike, 0.01);
                let clipped = play(&job, &mut history, round, &updates);
                assert_eq!(clipped, 0.0, "{bits} bits, round {round}");
                let clip = history.clips()[0];
                assert!(least < clip, "{bits} bits: {clip}");
                assert!(round < 10 || clip < most, "{bits} bits: {clip}");
            }
        }
    }
}

#[test]
fn bounds_widen_again() {
    // A tensor that stood still for long begins to move.
    for bits in [2, 8, 16] {
        let job = encoding(bits, &[(512, 1.0)]);
        let mut history = UpdateHistory::new(&job).unwrap();
        history.observe(&[1e-20_f32; 512], of(10)).unwrap();
        assert_eq!(history.clips(), [f64::powi(2.0, -20)]);
        assert!(play(&job, &mut history, 0, &updates(10, 0, false, 0.05)) > 0.9);
        assert_eq!(history.clips(), [1.0], "{bits} bits");
        assert_eq!(
            play(&job, &mut history, 1, &updates(10, 1, false, 0.05)),
            0.0
        );
    }
}

#[test]
fn a_tensor_that_stands_still_keeps_its_bound() {
    let mut history = UpdateHistory::new(&encoding(16, &[(4, 1.0)])).unwrap();
    history.observe(&[0.01_f32, 0.0, 0.0, 0.0], of(3)).unwrap();
    let before = history.clone();
    assert_eq!(history.clips(), [f64::from(0.01_f32) * 6.0]);
    for _ in 0..50 {
        history.observe(&[0.0_f32, -0.0, 0.0, 0.0], of(3)).unwrap();
    }
    assert_eq!(history, before);
}

#[test]
fn updates_that_are_rounded_to_zero_are_seen_in_the_end() {
    // Half a level of the job's bound is 1 / 14.
    let spec = EncodingSpec {
        kind: quantised(4, ClipSpec::Tensor(1.0), Rounding::Nearest),
        ..unchecked(4, &[(512, 1.0)])
    };
    let job = spec.validate().unwrap();
    let mut history = UpdateHistory::new(&job).unwrap();
    for (round, bound) in [(0, 0.5), (1, 0.25), (2, 0.125), (3, 0.0625)] {
        assert_eq!(
            play(&job, &mut history, round, &updates(3, 0, true, 1e-3)),
            0.0
        );
        assert_eq!(history.clips(), [bound]);
    }
    for round in 4..40 {
        assert_eq!(
            play(&job, &mut history, round, &updates(3, 0, true, 1e-3)),
            0.0
        );
    }
    let clip = history.clips()[0];
    assert!(clip < 0.05 && clip > 0.003, "{clip}");
}

#[test]
fn bounds_are_those_of_the_lightest_party_that_there_can_be() {
    let (job, mut mean) = (weighted(16, &[(1000, 1e6)], 100), [0.0_f32; 1000]);
    mean[7] = -0.5;
    let bound = |survivors, total_weight| {
        let mut history = UpdateHistory::new(&job).unwrap();
        let averaged = Averaged {
            survivors,
            total_weight,
        };
        history.observe(&mean, averaged).unwrap();
        history.clips()[0]
    };
    // All have the largest weight; one may have 10 less; one may have 1.
    assert_eq!(bound(3, 300), 3.0);
    assert_eq!(bound(3, 290), 290.0 / 90.0);
    assert_eq!(bound(3, 201), 201.0);
    assert_eq!(bound(3, 30), 30.0);
    assert_eq!(bound(1, 7), 1.0);
}

fn rule(result: Result<UpdateHistory, EncodeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn encodings_without_a_bound_per_coordinate_have_no_history() {
    let kinds = [
        EncodingKind::Fixed64 { clip: 1.0 },
        EncodingKind::Integers { bits: 8 },
        quantised(8, ClipSpec::L2(1.0), Rounding::Nearest),
    ];
    for kind in kinds {
        let encoding = spec(4, kind, 2, 1).validate().unwrap();
        assert!(rule(UpdateHistory::new(&encoding)).starts_with("clipping: "));
    }
}

#[test]
fn damaged_histories_are_refused() {
    let job = encoding(8, &[(3, 1.0), (2, 0.5)]);
    let mut history = UpdateHistory::new(&job).unwrap();
    history.observe(&[0.1_f32; 5], of(3)).unwrap();
    let bytes = history.to_bytes();
    let other = encoding(8, &[(5, 1.0)]);
    assert!(rule(UpdateHistory::from_bytes(&other, &bytes)).contains("53 bytes must be 29"));
    assert!(rule(UpdateHistory::from_bytes(&job, &bytes[1..])).contains("must be 53"));
    for (at, byte) in [(0, 1), (4, 3), (5, 0x80), (13, 0x80)] {
        let mut changed = bytes.clone();
        changed[at] = byte;
        assert!(
            UpdateHistory::from_bytes(&job, &changed).is_err(),
            "byte {at}"
        );
    }
    let changed = |number: f64| {
        let mut changed = bytes.clone();
        changed[37..45].copy_from_slice(&number.to_be_bytes());
        rule(UpdateHistory::from_bytes(&job, &changed))
    };
    for number in [f64::NAN, f64::INFINITY, -0.0] {
        let refused = changed(number);
        assert!(refused.contains("finite and not below 0"), "{refused}");
    }
    assert!(changed(0.0).contains("a peak must not be 0"));
    // The first tensor has reached no bound, and has no rest.
    let mut rests = bytes.clone();
    rests[28] = 1;
    assert!(rule(UpdateHistory::from_bytes(&job, &rests)).contains("for 0 rounds at most"));
    (rests[24], rests[27], rests[28]) = (1, 0, 32);
    assert!(UpdateHistory::from_bytes(&job, &rests).is_ok());
    rests[28] = 33;
    assert!(rule(UpdateHistory::from_bytes(&job, &rests)).contains("for 32 rounds at most"));
}

/// What a sparse mean of three parties is of.
fn sparse(counts: &[u32], minimum: u32) -> Sparse<'_> {
    Sparse {
        counts,
        minimum,
        divisor: Divisor::Parties(3),
    }
}

#[test]
fn means_that_are_none_leave_the_history_alone() {
    let mut history = UpdateHistory::new(&encoding(8, &[(2, 1.0), (1, 0.5)])).unwrap();
    history.observe(&[0.1_f32, 0.2, 0.3], of(2)).unwrap();
    let before = history.clone();
    let wrong_length = Err(EncodeError::Dim { got: 2, dim: 3 });
    assert_eq!(history.observe(&[0.0_f32; 2], of(2)), wrong_length);
    assert_eq!(
        history.observe_sparse(&[0.0_f32; 3], sparse(&[1; 2], 1)),
        wrong_length
    );
    for bad in [f64::NAN, f64::NEG_INFINITY, 1e39] {
        let refused = Err(EncodeError::NotFinite { index: 2 });
        assert_eq!(history.observe(&[0.0, 0.0, bad], of(2)), refused);
        assert_eq!(
            history.observe_sparse(&[0.0, 0.0, bad], sparse(&[1; 3], 1)),
            refused
        );
    }
    assert_eq!(history, before);
    history
        .observe_sparse(&[0.7_f32; 3], sparse(&[1, 0, 1], 2))
        .unwrap();
    assert_eq!(history, before);
}

#[test]
fn other_bounds_must_be_as_many_and_as_good() {
    let job = encoding(8, &[(3, 1.0), (2, 0.5)]);
    let refused = |clips: &[f64]| job.with_clips(clips).unwrap_err().to_string();
    assert_eq!(refused(&[1.0]), "clips: clips = 1 = tensors = 2");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 9e-37, 1.1e30] {
        let refused = refused(&[1.0, bad]);
        assert!(
            refused.starts_with("clips: 9.5367431640625e-37 <= clips"),
            "{refused}"
        );
    }
    let fixed = spec(4, EncodingKind::Fixed64 { clip: 1.0 }, 2, 1)
        .validate()
        .unwrap();
    assert!(fixed.with_clips(&[1e13]).is_ok());
    assert!(fixed.with_clips(&[1e14]).is_err());
    assert_eq!(job.with_clips(&[1.0, 0.5]), Ok(job.clone()));
}

proptest! {
    #[test]
    fn bounds_stay_in_their_range(
        sizes in prop::collection::vec(0.0..1e35_f64, 1..6),
        bits in 2..=32_u32,
        survivors in 1..1000_usize,
        clip in prop_oneof![Just(1e-30), 1e-6..1e3_f64, Just(1e30)],
    ) {
        let job = encoding(bits, &[(3, clip), (2, 1.0)]);
        let mut history = UpdateHistory::new(&job).unwrap();
        for size in sizes {
            history.observe(&[size, 0.0, -size / 3.0, 0.0, 0.0], of(survivors)).unwrap();
            let clips = history.clips();
            prop_assert!(clips[0] <= clip && clips[0] >= clip * f64::powi(2.0, -20));
            prop_assert_eq!(clips[1], 1.0);
            prop_assert!(job.with_clips(&clips).is_ok());
        }
    }
}
