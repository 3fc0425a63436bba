//! Sparse updates: the model's (`vectors/model/sparse.py`), and the laws they keep.

use blindsum_math::words::Words;
use proptest::prelude::*;
use serde::Deserialize;

use super::vectors::{Spec, double, seed};
use super::{encode, hex, quantised, spec};
use crate::{
    ClipSpec, DensitySchedule, Divisor, EncodeError, Encoder, Encoding, EncodingKind, Rounding,
    Selection, Sent, SparseMean, Sparsifier, TensorSpec,
};

#[derive(Deserialize)]
struct Vectors {
    /// first, last, steps, rounds per step, rounds done, length, coordinates sent.
    kept: Vec<(f64, f64, u32, u32, u64, usize, usize)>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    spec: Spec,
    schedule: Schedule,
    minimum: u32,
    divisor: String,
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
struct Schedule {
    first: f64,
    last: f64,
    steps: u32,
    rounds_per_step: u32,
}

#[derive(Deserialize)]
struct Round {
    parties: Vec<Party>,
    survivors: usize,
    sum: Vec<u64>,
    counts: Vec<u32>,
    opened: u64,
    withheld: u64,
    mean: Vec<String>,
}

#[derive(Deserialize)]
struct Party {
    update: Vec<String>,
    seed: String,
    indices: Vec<u32>,
    values: Vec<String>,
    words: Vec<u64>,
    state: String,
}

fn load() -> Vectors {
    let text = include_str!("../../../../vectors/sparse.json");
    let vectors: Vectors = serde_json::from_str(text).unwrap();
    assert!(!vectors.kept.is_empty() && !vectors.cases.is_empty());
    vectors
}

#[test]
fn densities_are_those_of_the_model() {
    for (first, last, steps, per_step, done, len, kept) in load().kept {
        let schedule = DensitySchedule::new(first, last, steps, per_step).unwrap();
        let shown = format!("{schedule:?}, {done} rounds, {len} coordinates");
        assert_eq!(schedule.kept(done, len), kept, "{shown}");
    }
}

#[test]
fn rounds_are_those_of_the_model() {
    for case in load().cases {
        let encoding = case.spec.validate();
        let Schedule {
            first,
            last,
            steps,
            rounds_per_step,
        } = case.schedule;
        let schedule = DensitySchedule::new(first, last, steps, rounds_per_step).unwrap();
        let new = || Sparsifier::new(&encoding, schedule).unwrap();
        let mut parties: Vec<Sparsifier> = case.rounds[0].parties.iter().map(|_| new()).collect();
        for (number, round) in (0..).zip(&case.rounds) {
            let chosen = select(&encoding, number, &parties, round);
            let divisor = match case.divisor.as_str() {
                "parties" => Divisor::Parties(round.survivors as u32),
                "senders" => Divisor::Senders,
                other => panic!("divisor {other}"),
            };
            check_mean(&encoding, round, (case.minimum, divisor));
            let opened = |d: u32| round.counts[d as usize] >= case.minimum;
            for (rank, selection) in chosen.into_iter().enumerate() {
                if rank < round.survivors {
                    let sent = selection.into_sent().to_bytes();
                    let sent = Sent::from_bytes(&encoding, &sent).unwrap();
                    parties[rank].commit(sent, opened);
                }
                let state = parties[rank].to_bytes();
                assert_eq!(hex(&state), round.parties[rank].state);
                parties[rank] = Sparsifier::from_bytes(&encoding, schedule, &state).unwrap();
            }
        }
    }
}

/// What the parties choose, and that its words add up to the sum.
fn select(
    encoding: &Encoding,
    number: u64,
    parties: &[Sparsifier],
    round: &Round,
) -> Vec<Selection> {
    let (mut sum, mask) = (vec![0_u64; encoding.dim()], encoding.width().mask());
    let mut chosen = Vec::new();
    for (rank, (party, expected)) in parties.iter().zip(&round.parties).enumerate() {
        let doubles = |texts: &[String]| -> Vec<f64> { texts.iter().map(|t| double(t)).collect() };
        let update = doubles(&expected.update);
        let selection = party.select(encoding, number, &update[..]).unwrap();
        assert_eq!(selection.indices(), expected.indices);
        assert_eq!(selection.values(), doubles(&expected.values));
        let words = words_of(&selection, &expected.seed);
        assert_eq!(words, expected.words);
        for (&d, word) in selection.indices().iter().zip(words) {
            if rank < round.survivors {
                sum[d as usize] = sum[d as usize].wrapping_add(word) & mask;
            }
        }
        chosen.push(selection);
    }
    assert_eq!(sum, round.sum);
    chosen
}

fn words_of(selection: &Selection, seed_text: &str) -> Vec<u64> {
    let compact = selection.encoding();
    let encoder = Encoder::new(compact, selection.values(), 1, seed(seed_text)).unwrap();
    let mut words = Words::zeros(compact.width(), compact.lanes());
    encoder
        .encode_tile(0, words.tile_mut(0..compact.lanes()))
        .unwrap();
    words.iter().collect()
}

pub(super) fn words(encoding: &Encoding, words: &[u64]) -> Words {
    let mut packed = Words::zeros(encoding.width(), words.len());
    match packed.tile_mut(0..words.len()) {
        blindsum_math::words::TileMut::W32(lanes) => {
            let pairs = lanes.iter_mut().zip(words);
            pairs.for_each(|(lane, &word)| *lane = word as u32);
        }
        blindsum_math::words::TileMut::W64(lanes) => lanes.copy_from_slice(words),
    }
    packed
}

fn check_mean(encoding: &Encoding, round: &Round, of: (u32, Divisor)) {
    let sum = words(encoding, &round.sum);
    let mut mean = vec![1.0_f64; encoding.dim()];
    let found = encoding.decode_sparse_mean(&sum, &round.counts, of, &mut mean);
    let SparseMean {
        opened,
        withheld,
        absent,
    } = found.unwrap();
    assert_eq!((opened, withheld), (round.opened, round.withheld));
    assert_eq!(opened + withheld + absent, encoding.dim() as u64);
    let bits = |mean: &f64| mean.to_bits();
    let expected: Vec<u64> = round.mean.iter().map(|mean| bits(&double(mean))).collect();
    assert_eq!(mean.iter().map(bits).collect::<Vec<_>>(), expected);
}

/// Tensors of a few coordinates with bounds of their own.
pub(super) fn layers(bits: u32, parties: usize, tensors: &[(usize, f64)]) -> Encoding {
    let dim = tensors.iter().map(|(len, _)| len).sum();
    let kind = quantised(bits, ClipSpec::Tensor(1.0), Rounding::Stochastic);
    let mut spec = spec(dim, kind, parties, 1);
    spec.tensors = tensors
        .iter()
        .map(|&(len, clip)| TensorSpec { len, clip })
        .collect();
    spec.validate().unwrap()
}

pub(super) fn constant(density: f64) -> DensitySchedule {
    DensitySchedule::new(density, density, 0, 1).unwrap()
}

#[test]
fn the_papers_schedule() {
    let schedule = DensitySchedule::new(0.8, 0.1, 3, 10).unwrap();
    for (rounds, density) in [
        (0, 0.8),
        (9, 0.8),
        (10, 0.4),
        (20, 0.2),
        (30, 0.1),
        (1 << 40, 0.1),
    ] {
        assert!((schedule.density(rounds) - density).abs() < 1e-15);
    }
    // From dense to a thousandth in a factor of ten a round.
    let schedule = DensitySchedule::new(1.0, 1e-3, 3, 1).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|done| schedule.kept(done, 1000)),
        [1000, 100, 10, 1]
    );
    assert_eq!(schedule.kept(9, 1), 1);
    let refused = |first, last, per_step| {
        let error = DensitySchedule::new(first, last, 1, per_step).unwrap_err();
        error.to_string()
    };
    for (first, last) in [
        (0.5, 0.0),
        (0.5, 0.6),
        (1.1, 0.5),
        (f64::NAN, 0.5),
        (0.5, f64::NAN),
    ] {
        assert!(refused(first, last, 1).starts_with("density: 0 < last density"));
    }
    assert!(refused(0.5, 0.1, 0).starts_with("rounds_per_step: 1 <="));
}

#[test]
fn a_round_that_fails_leaves_no_trace() {
    let encoding = layers(16, 4, &[(50, 1.0), (14, 0.1)]);
    let mut party = Sparsifier::new(&encoding, constant(0.25)).unwrap();
    let update: Vec<f32> = (0..64).map(|i| (i as f32).sin()).collect();
    let first = party.select(&encoding, 0, &update[..]).unwrap();
    party.commit(first.into_sent(), |_| true);
    let before = party.to_bytes();
    let lost = party.select(&encoding, 1, &update[..]).unwrap();
    let indices = lost.indices().to_vec();
    drop(lost);
    assert_eq!(party.to_bytes(), before);
    let again = party.select(&encoding, 1, &update[..]).unwrap();
    assert_eq!(again.indices(), indices);
}

#[test]
fn coordinates_that_were_not_opened_are_sent_again() {
    let encoding = layers(16, 4, &[(4, 1.0)]);
    let mut party = Sparsifier::new(&encoding, constant(0.5)).unwrap();
    let sent = party
        .select(&encoding, 0, &[0.5, 0.1, -0.7, 0.2][..])
        .unwrap();
    assert_eq!(sent.indices(), [0, 2]);
    let sent = sent.into_sent();
    let left = sent.leftover(|d| d == 2);
    party.commit(sent, |d| d == 2);
    assert_eq!(party.residual(), [0.5, 0.1, 0.0, 0.2]);
    assert_eq!(party.leftover(), left);
    assert_eq!(left.coordinates, 3);
    assert!((left.norm - 0.3_f64.sqrt()).abs() < 1e-7);
    let sent = party.select(&encoding, 0, &[0.0; 4][..]).unwrap();
    assert_eq!(
        (sent.indices(), sent.values()),
        (&[0, 3][..], &[0.5, 0.2][..])
    );
}

#[test]
fn an_outlier_counts_for_no_more_than_in_a_dense_round() {
    let encoding = layers(16, 4, &[(4, 1.0)]);
    let mut party = Sparsifier::new(&encoding, constant(0.25)).unwrap();
    let sent = party
        .select(&encoding, 0, &[1e30, 0.75, 0.0, 0.0][..])
        .unwrap();
    assert_eq!(sent.report().clipped, 1);
    party.commit(sent.into_sent(), |_| true);
    assert_eq!(party.residual(), [0.0, 0.75, 0.0, 0.0]);
    // What several rounds have added up to is kept where the bound of one cuts it off, and counts as clipped.
    let sent = party
        .select(&encoding, 1, &[0.0, 0.75, 0.0, 0.0][..])
        .unwrap();
    assert_eq!((sent.values(), sent.report().clipped), (&[1.5][..], 1));
    party.commit(sent.into_sent(), |_| true);
    assert_eq!(party.residual(), [0.0, 0.5, 0.0, 0.0]);
    let left = party.leftover();
    assert_eq!((left.norm, left.coordinates), (0.5, 1));
}

#[test]
fn numbers_that_are_none_are_refused() {
    let encoding = layers(8, 4, &[(2, 1e30), (3, 1.0)]);
    let mut party = Sparsifier::new(&encoding, constant(0.2)).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = party.select(&encoding, 0, &[0.0, 0.0, 0.0, bad, 0.0][..]);
        assert_eq!(refused.err(), Some(EncodeError::NotFinite { index: 3 }));
    }
    let refused = party.select(&encoding, 0, &[0.0; 4][..]);
    assert_eq!(refused.err(), Some(EncodeError::Dim { got: 4, dim: 5 }));
    let other = layers(8, 4, &[(4, 1.0)]);
    let refused = party.select(&other, 0, &[0.0; 4][..]);
    assert_eq!(refused.err(), Some(EncodeError::Dim { got: 4, dim: 5 }));
    let refused = party.select(&encoding, 0, &[0_u32; 5][..]);
    assert_eq!(refused.err(), Some(EncodeError::Integers));
    // The sum with the residual is too large.
    let mut bytes = party.to_bytes();
    bytes[17..25].copy_from_slice(&f64::MAX.to_le_bytes());
    party = Sparsifier::from_bytes(&encoding, constant(0.2), &bytes).unwrap();
    let other = party.select(&encoding, 0, &[0.0, 1e30, 0.0, 0.0, 0.0][..]);
    assert!(other.is_ok());
}

#[test]
fn doubles_are_sent_as_doubles() {
    let encoding = layers(16, 4, &[(4, 1.0)]);
    let mut party = Sparsifier::new(&encoding, constant(0.5)).unwrap();
    let fine = 0.1 + f64::powi(2.0, -40);
    let update = [0.7 + f64::powi(2.0, -40), fine, 0.9, 0.0];
    let sent = party.select(&encoding, 0, &update[..]).unwrap();
    assert_eq!(sent.values(), [update[0], 0.9]);
    party.commit(sent.into_sent(), |_| true);
    assert_eq!(party.residual(), [0.0, fine, 0.0, 0.0]);
}

#[test]
fn encodings_that_sparse_rounds_cannot_use() {
    let integers = spec(4, EncodingKind::Integers { bits: 8 }, 2, 1);
    let weighted = spec(4, EncodingKind::Fixed64 { clip: 1.0 }, 2, 3);
    for (spec, field) in [(integers, "encoding: "), (weighted, "max_weight: ")] {
        let encoding = spec.validate().unwrap();
        let error = Sparsifier::new(&encoding, constant(0.5)).err().unwrap();
        assert!(error.to_string().starts_with(field), "{error}");
        let sum = Words::zeros(encoding.width(), encoding.lanes());
        let error =
            encoding.decode_sparse_mean(&sum, &[0; 4], (1, Divisor::Senders), &mut [0.0_f32; 4]);
        assert!(error.unwrap_err().to_string().starts_with(field));
    }
}

#[test]
fn sums_that_no_parties_have_are_refused() {
    let encoding = layers(8, 4, &[(2, 1.0), (1, 0.5)]);
    let decode = |sum: &Words, counts: &[u32]| {
        let mut mean = [0.0_f32; 3];
        encoding.decode_sparse_mean(sum, counts, (2, Divisor::Senders), &mut mean)
    };
    let sum = words(&encoding, &[2 * 255 + 1, 999, 3 * 255]);
    // A word that is not opened is not looked at.
    let found = SparseMean {
        opened: 2,
        withheld: 1,
        absent: 0,
    };
    assert_eq!(decode(&sum, &[3, 1, 3]), Ok(found));
    let (lane, total_weight) = (0, 2);
    assert_eq!(
        decode(&sum, &[2, 0, 3]),
        Err(EncodeError::Sum { lane, total_weight })
    );
    let (survivors, parties) = (5, 4);
    assert_eq!(
        decode(&sum, &[3, 5, 3]),
        Err(EncodeError::Survivors { survivors, parties })
    );
    assert_eq!(
        decode(&sum, &[3, 3]),
        Err(EncodeError::Dim { got: 2, dim: 3 })
    );
    let short = words(&encoding, &[0, 0]);
    assert!(matches!(
        decode(&short, &[3; 3]),
        Err(EncodeError::SumShape { .. })
    ));
    let fixed = spec(1, EncodingKind::Fixed64 { clip: 1.0 }, 4, 1)
        .validate()
        .unwrap();
    for (word, good) in [(65_537 * 2, true), (65_537 * 2 + 1, false)] {
        for word in [word, -word] {
            let sum = words(&fixed, &[word as i64 as u64]);
            let decoded =
                fixed.decode_sparse_mean(&sum, &[2], (1, Divisor::Senders), &mut [0.0_f64]);
            assert_eq!(decoded.is_ok(), good, "{word}");
        }
    }
}

proptest! {
    #[test]
    fn exactly_so_many_of_every_tensor_and_nothing_is_lost(
        updates in prop::collection::vec(prop::collection::vec(-2.0..2.0_f32, 60), 1..6),
        density in 0.001..1.0_f64,
        fates in prop::collection::vec(any::<bool>(), 6),
    ) {
        let tensors = [(37, 1.0), (1, 0.5), (22, 0.25)];
        let encoding = layers(16, 4, &tensors);
        let mut party = Sparsifier::new(&encoding, constant(density)).unwrap();
        let clips: Vec<f64> = tensors.iter().flat_map(|&(len, clip)| vec![clip; len]).collect();
        let (mut given, mut sent) = (vec![0.0; 60], vec![0.0; 60]);
        for (number, update) in updates.iter().enumerate() {
            let selection = party.select(&encoding, 0, &update[..]).unwrap();
            let mut end = 0;
            for (len, _) in tensors {
                let inside = selection.indices().iter().filter(|&&d| (end..end + len).contains(&(d as usize)));
                prop_assert_eq!(inside.count(), ((density * len as f64).ceil() as usize).max(1));
                end += len;
            }
            prop_assert!(selection.indices().is_sorted_by(|a, b| a < b));
            let arrives = fates[number];
            for (d, clip) in clips.iter().enumerate().filter(|_| arrives) {
                given[d] += f64::from(update[d]).clamp(-clip, *clip);
            }
            for (&d, &value) in selection.indices().iter().zip(selection.values()).filter(|_| arrives) {
                sent[d as usize] += value.clamp(-clips[d as usize], clips[d as usize]);
            }
            if arrives {
                party.commit(selection.into_sent(), |_| true);
            }
        }
        for d in 0..60 {
            let kept = party.residual()[d];
            prop_assert!((given[d] - sent[d] - kept).abs() < 1e-14, "{} {} {}", given[d], sent[d], kept);
        }
    }

    #[test]
    fn where_everybody_sends_everything_the_means_are_those_of_dense_rounds(
        vectors in prop::collection::vec(prop::collection::vec(-2.0..2.0_f32, 20), 1..4),
        fixed in any::<bool>(),
    ) {
        let encoding = match fixed {
            false => layers(12, 4, &[(13, 1.0), (7, 0.5)]),
            true => spec(20, EncodingKind::Fixed64 { clip: 1.0 }, 4, 1).validate().unwrap(),
        };
        let mut sum = Words::zeros(encoding.width(), encoding.lanes());
        for (party, vector) in vectors.iter().enumerate() {
            sum.add(&encode(&encoding, &vector[..], 1, party as u8).unwrap()).unwrap();
        }
        let (mut dense, mut sparse) = ([0.0_f64; 20], [0.0_f64; 20]);
        encoding.decode_mean(&sum, vectors.len(), &mut dense).unwrap();
        let counts = [vectors.len() as u32; 20];
        let all = Divisor::Parties(vectors.len() as u32);
        for divisor in [Divisor::Senders, all] {
            encoding.decode_sparse_mean(&sum, &counts, (1, divisor), &mut sparse).unwrap();
            prop_assert_eq!(dense, sparse);
        }
        // Too few of them are nobody.
        let alone = encoding.decode_sparse_mean(&sum, &counts, (9, all), &mut sparse).unwrap();
        prop_assert_eq!((alone.withheld, sparse), (20, [0.0; 20]));
    }
}
