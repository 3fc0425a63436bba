//! Bounds from earlier rounds: the model's (`vectors/model/aciq.py`), and how far coordinates go.

use blindsum_math::words::Words;
use proptest::prelude::*;
use serde::Deserialize;

use super::vectors::double;
use super::{hex, quantised, seed, spec};
use crate::{
    ClipSpec, DensitySchedule, EncodeError, Encoder, Encoding, EncodingKind, EncodingSpec, Reach,
    Rounding, Sparsifier, TensorSpec, UpdateHistory,
};

#[derive(Deserialize)]
struct Vectors {
    histories: Vec<Case>,
    sums: Vec<SumCase>,
}

#[derive(Deserialize)]
struct Case {
    clips: Vec<String>,
    rounds: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    reached: Vec<u8>,
    state: String,
    clips: Vec<String>,
}

#[derive(Deserialize)]
struct SumCase {
    bound: String,
    vectors: Vec<Vec<String>>,
    words: Vec<Vec<u64>>,
    reached: u8,
}

/// An encoding whose vectors tell how far tensors of these lengths and bounds go.
pub(super) fn telling(
    bits: u32,
    tensors: &[(usize, f64)],
    rounding: Rounding,
    parties: usize,
) -> Encoding {
    unchecked(bits, tensors, rounding, parties)
        .validate()
        .unwrap()
}

fn unchecked(
    bits: u32,
    tensors: &[(usize, f64)],
    rounding: Rounding,
    parties: usize,
) -> EncodingSpec {
    let dim = tensors.iter().map(|(len, _)| len).sum();
    let kind = quantised(bits, ClipSpec::Tensor(1.0), rounding);
    let tensors = tensors.iter();
    EncodingSpec {
        tensors: tensors
            .map(|&(len, clip)| TensorSpec { len, clip })
            .collect(),
        tells_reach: true,
        metrics: Vec::new(),
        ..spec(dim, kind, parties, 1)
    }
}

fn encoding(bits: u32, tensors: &[(usize, f64)]) -> Encoding {
    telling(bits, tensors, Rounding::Stochastic, 1000)
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../vectors/aciq.json")).unwrap()
}

#[test]
fn histories_are_those_of_the_model() {
    let cases = vectors().histories;
    assert!(!cases.is_empty());
    for case in cases {
        let job_clips: Vec<f64> = case.clips.iter().map(|clip| double(clip)).collect();
        let tensors: Vec<(usize, f64)> = job_clips.iter().map(|clip| (2, *clip)).collect();
        let encoding = encoding(16, &tensors);
        let mut history = UpdateHistory::new(&encoding).unwrap();
        assert_eq!(history.clips(), job_clips);
        for step in &case.rounds {
            let reached = step.reached.iter().map(|far| Reach::from_u8(*far).unwrap());
            history.observe(&reached.collect::<Vec<_>>()).unwrap();
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
}

/// The words of a vector.
fn words_of(encoder: &Encoder<'_>, job: &Encoding) -> Words {
    let mut words = Words::zeros(job.width(), encoder.lanes());
    encoder
        .encode_tile(0, words.tile_mut(0..encoder.lanes()))
        .unwrap();
    words
}

#[test]
fn what_vectors_tell_is_that_of_the_model() {
    let cases = vectors().sums;
    assert!(!cases.is_empty());
    for case in cases {
        let bound = double(&case.bound);
        let job = encoding(8, &[(2, bound.clamp(1e-30, 1e30))]);
        let job = job.with_clips(&[bound]).unwrap();
        let mut sum = Words::zeros(job.width(), job.lanes());
        for (vector, told) in case.vectors.iter().zip(&case.words) {
            let values: Vec<f64> = vector.iter().map(|x| double(x)).collect();
            let encoder = Encoder::new(&job, &values[..], 1, seed(1)).unwrap();
            let words = words_of(&encoder, &job);
            assert_eq!(&words.iter().skip(2).collect::<Vec<_>>(), told);
            sum.add(&words).unwrap();
        }
        let reached = job.reached(&sum, |_| true).unwrap();
        assert_eq!(reached, [Reach::from_u8(case.reached).unwrap()]);
    }
}

/// Weight first, then the tensors in order; single and double precision tell the same, whatever the tiles.
#[test]
fn words_behind_the_coordinates() {
    let tensors = [(3, 1.0), (9, 0.5), (1, 64.0)];
    for max_weight in [1, 7] {
        let job = EncodingSpec {
            max_weight,
            ..unchecked(8, &tensors, Rounding::Nearest, 5)
        };
        let job = job.validate().unwrap();
        let mut values = [0.0_f64; 13];
        (values[1], values[11], values[12]) = (-0.75, 0.625, 0.5);
        let weight = max_weight.min(3);
        let single = values.map(|value| value as f32);
        let expected = [1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0];
        for encoder in [
            Encoder::new(&job, &values[..], weight, seed(1)).unwrap(),
            Encoder::new(&job, &single[..], weight, seed(1)).unwrap(),
        ] {
            let whole = words_of(&encoder, &job);
            let behind: Vec<u64> = whole.iter().skip(13).collect();
            let (own, told) = behind.split_at(behind.len() - 12);
            assert_eq!(told, expected);
            assert_eq!(own, &[u64::from(weight)][..usize::from(max_weight > 1)]);
            for first in 0..job.lanes() {
                let mut tile = Words::zeros(job.width(), job.lanes() - first);
                let lanes = 0..tile.len();
                encoder.encode_tile(first, tile.tile_mut(lanes)).unwrap();
                assert!(tile.iter().eq(whole.iter().skip(first)), "from {first}");
            }
            let reached = job.reached(&whole, |_| true).unwrap();
            assert_eq!(reached, [Reach::NEAR, Reach::CUT, Reach::TINY]);
        }
    }
}

/// In a sparse round a party tells what the bound cut off of its update too, and of what had gathered; a tensor whose words
/// are not opened keeps its bound.
#[test]
fn sparse_vectors_tell_how_far_they_go() {
    let job = telling(8, &[(4, 1.0), (2, 1.0)], Rounding::Nearest, 3);
    let schedule = DensitySchedule::new(0.25, 0.25, 0, 1).unwrap();
    let mut left = Sparsifier::new(&job, schedule).unwrap();
    let reached = |update: &[f64; 6], left: &Sparsifier| {
        let selection = left.select(&job, 0, &update[..]).unwrap();
        let encoder = selection.encoder(seed(1)).unwrap();
        let words = words_of(&encoder, &job);
        let count = selection.indices().len();
        assert_eq!(selection.places().len(), words.len());
        let behind = [6, 7, 8, 9, 10, 11, 12, 13];
        assert_eq!(selection.places()[..count], *selection.indices());
        assert_eq!(selection.places()[count..], behind);
        let (mut sum, mut counts) = (vec![0; job.lanes()], vec![0; job.lanes()]);
        for (place, word) in selection.places().iter().zip(words.iter()) {
            (sum[*place as usize], counts[*place as usize]) = (word, 1);
        }
        let sum = Words::from_values(job.width(), &sum).unwrap();
        let closed = job.reached(&sum, |word| counts[word] >= 2).unwrap();
        assert_eq!(closed, [Reach::FITTING; 2]);
        let told = job.reached(&sum, |word| counts[word] >= 1).unwrap();
        (told, selection.into_sent())
    };
    // 5 is cut off before it is sent, and 0.4 waits.
    let (told, sent) = reached(&[0.1, 5.0, 0.4, 0.0, 0.01, 0.0], &left);
    assert_eq!(told, [Reach::CUT, Reach::TINY]);
    left.commit(sent, |_| true);
    for expected in [Reach::FITTING, Reach::NEAR] {
        let (told, sent) = reached(&[0.0, 0.0, 0.05, 0.0, 0.0, 0.0], &left);
        let gathered = left.residual()[2] + 0.05;
        assert_eq!(told[0], expected, "{gathered}");
        if expected == Reach::FITTING {
            // The round is lost: what it would have sent waits, with as much again.
            drop(sent);
            let (told, sent) = reached(&[0.0, 0.0, 0.2, 0.0, 0.0, 0.0], &left);
            assert_eq!(told[0], Reach::NEAR);
            left.commit(sent, |_| false);
        }
    }
}

/// What a round's bound cuts off of an update stays left over, however long it takes until bounds follow; only what the bound
/// of the job cuts off is lost. Each coordinate counts once as clipped.
#[test]
fn sparse_rounds_lose_nothing_to_narrow_bounds() {
    let job = telling(16, &[(4, 10.0)], Rounding::Nearest, 3);
    let schedule = DensitySchedule::new(0.5, 0.5, 0, 1).unwrap();
    let mut left = Sparsifier::new(&job, schedule).unwrap();
    let narrow = job.with_clips(&[0.25]).unwrap();
    let (mut given, mut arrived) = ([0.0f64; 4], [0.0f64; 4]);
    for round in 0..30 {
        let update: [f64; 4] = match round {
            0..10 => [5.0, 0.0, -11.0, 0.125],
            _ => [0.0; 4],
        };
        let (of_round, clip) = if round < 20 {
            (&narrow, 0.25)
        } else {
            (&job, 10.0)
        };
        let selection = left.select(of_round, 0, &update[..]).unwrap();
        let cut = |d: &&u32| {
            let of_update = update[**d as usize].abs() > 10.0;
            let total = left.residual()[**d as usize] + update[**d as usize].clamp(-10.0, 10.0);
            of_update || selection.indices().contains(d) && total.abs() > clip
        };
        let clipped = [0, 1, 2, 3].iter().filter(cut).count() as u64;
        assert_eq!(selection.report().clipped, clipped, "round {round}");
        for (d, value) in selection.indices().iter().zip(selection.values()) {
            arrived[*d as usize] += value.clamp(-clip, clip);
        }
        for (sum, value) in given.iter_mut().zip(update) {
            *sum += value.clamp(-10.0, 10.0);
        }
        left.commit(selection.into_sent(), |_| true);
    }
    assert_eq!(arrived, given);
    assert!(left.residual().iter().all(|left| *left == 0.0));
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
        let silent = spec(4, kind, 2, 1);
        let encoding = silent.clone().validate().unwrap();
        assert!(rule(UpdateHistory::new(&encoding)).starts_with("clipping: "));
        let telling = EncodingSpec {
            tells_reach: true,
            metrics: Vec::new(),
            ..silent
        };
        let refused = telling.validate().unwrap_err().to_string();
        assert!(refused.starts_with("clipping: "), "{refused}");
    }
}

#[test]
fn damaged_histories_are_refused() {
    let job = encoding(8, &[(3, 1.0), (2, 0.5)]);
    let mut history = UpdateHistory::new(&job).unwrap();
    history.observe(&[Reach::TINY, Reach::SMALL]).unwrap();
    history.observe(&[Reach::CUT, Reach::SMALL]).unwrap();
    history.observe(&[Reach::SMALL, Reach::SMALL]).unwrap();
    let bytes = history.to_bytes();
    assert_eq!(bytes[5..9], [0, 1, 1, 1]);
    let other = encoding(8, &[(5, 1.0)]);
    assert!(rule(UpdateHistory::from_bytes(&other, &bytes)).contains("21 bytes must be 13"));
    assert!(rule(UpdateHistory::from_bytes(&job, &bytes[1..])).contains("must be 21"));
    // Version, tensors; halvings, patience, rounds waited, how far; rounds since.
    let bad = [
        (0, 2),
        (4, 3),
        (5, 21),
        (6, 7),
        (6, 0),
        (7, 2),
        (7, 0),
        (8, 3),
        (8, 5),
        (9, 1),
        (11, 4),
    ];
    for (at, byte) in bad {
        let mut changed = bytes.clone();
        changed[at] = byte;
        let refused = UpdateHistory::from_bytes(&job, &changed);
        assert!(refused.is_err(), "byte {at} is {byte}");
    }
    for (at, byte) in [(5, 20), (8, 2), (11, 3)] {
        let mut changed = bytes.clone();
        changed[at] = byte;
        let read = UpdateHistory::from_bytes(&job, &changed).unwrap();
        assert_eq!(read.to_bytes(), changed, "byte {at} is {byte}");
    }
}

#[test]
fn another_number_of_tensors_leaves_the_history_alone() {
    let mut history = UpdateHistory::new(&encoding(8, &[(2, 1.0), (1, 0.5)])).unwrap();
    history.observe(&[Reach::TINY; 2]).unwrap();
    let before = history.clone();
    let refused = history.observe(&[Reach::CUT]).unwrap_err().to_string();
    assert_eq!(refused, "reached: reached = 1 = tensors = 2");
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
        far in prop::collection::vec(prop_oneof![3 => 0..=1_u8, 1 => 0..=4_u8], 1..400),
        clip in prop_oneof![Just(1e-30), 1e-6..1e3_f64, Just(1e30)],
    ) {
        let job = encoding(8, &[(3, clip), (2, 1.0)]);
        let mut history = UpdateHistory::new(&job).unwrap();
        for far in far {
            history.observe(&[Reach::from_u8(far).unwrap(), Reach::FITTING]).unwrap();
            let clips = history.clips();
            prop_assert!(clips[0] <= clip && clips[0] >= clip * f64::powi(2.0, -20));
            prop_assert_eq!(clips[1], 1.0);
            prop_assert!(job.with_clips(&clips).is_ok());
            let read = UpdateHistory::from_bytes(&job, &history.to_bytes());
            prop_assert_eq!(read, Ok(history.clone()));
        }
    }
}
