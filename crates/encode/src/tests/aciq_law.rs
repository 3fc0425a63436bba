//! The law of bounds from earlier rounds: what does not grow is not cut off, and after a jump one round is cut off at
//! most, whatever updates look like.

use blindsum_math::words::Words;
use proptest::prelude::*;

use super::aciq::of;
use super::{quantised, seed, spec};
use crate::{ClipSpec, Encoder, Encoding, Rounding, UpdateHistory};

const DIM: usize = 240;
const ROUNDS: usize = 60;

/// What the updates of a job look like.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Dense,
    /// Each party has some rows of an embedding.
    Rows,
    /// All have one coordinate.
    OneHot,
    /// Each has one coordinate of its own.
    OwnOneHot,
    /// Each has its own part of the coordinates.
    Shards,
    /// All have the same, and something of their own.
    Shifted,
    Laplace,
    /// As a t distribution with three degrees of freedom.
    Heavy,
    /// As a Cauchy distribution.
    Wild,
}

const SHAPES: [Shape; 9] = [
    Shape::Dense,
    Shape::Rows,
    Shape::OneHot,
    Shape::OwnOneHot,
    Shape::Shards,
    Shape::Shifted,
    Shape::Laplace,
    Shape::Heavy,
    Shape::Wild,
];

/// How large updates are, round by round.
#[derive(Clone, Copy, Debug)]
enum Course {
    Steady,
    /// Nearly frozen for ten rounds.
    Thawing,
    /// Three times as large in each of the first six rounds.
    Growing,
    /// Smaller and smaller.
    Falling,
}

impl Course {
    fn size(self, round: usize) -> f64 {
        match self {
            Self::Steady => 1.0,
            Self::Thawing if round < 10 => 0.01,
            Self::Thawing => 1.0,
            Self::Growing => f64::powi(3.0, round.min(6) as i32 - 6),
            Self::Falling => f64::powi(0.9, round as i32),
        }
    }
}

/// Random numbers without a crate.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / f64::powi(2.0, 53)
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform() - 0.5).sum()
    }
}

fn update(shape: Shape, party: usize, parties: usize, draws: &mut Draws) -> Vec<f64> {
    let mut values = vec![0.0; DIM];
    match shape {
        Shape::Dense => values.fill_with(|| draws.normal()),
        Shape::Shifted => values.fill_with(|| 3.0 + draws.normal()),
        Shape::Laplace => values.fill_with(|| {
            let size = -draws.uniform().max(1e-9).ln();
            if draws.uniform() < 0.5 { size } else { -size }
        }),
        Shape::Heavy => values.fill_with(|| {
            let squares: f64 = (0..3).map(|_| draws.normal().powi(2)).sum();
            draws.normal() / (squares / 3.0).sqrt().max(1e-3)
        }),
        Shape::Wild => values.fill_with(|| {
            let below = draws.normal();
            draws.normal() / below.abs().max(1e-2)
        }),
        Shape::OneHot => values[7] = 0.5 + draws.uniform(),
        Shape::OwnOneHot => values[party] = 0.5 + draws.uniform(),
        Shape::Shards => values
            .iter_mut()
            .skip(party)
            .step_by(parties)
            .for_each(|value| *value = draws.normal()),
        Shape::Rows => {
            for _ in 0..4 {
                let row = (draws.uniform() * (DIM / 8) as f64) as usize;
                values[8 * row..8 * row + 8].fill_with(|| draws.normal());
            }
        }
    }
    values
}

/// Ratio of the norm of the mean to that of the mean of the updates; and how many coordinates were cut off.
fn play(job: &Encoding, history: &mut UpdateHistory, updates: &[Vec<f64>]) -> (f64, u64) {
    let of_round = job.with_clips(&history.clips()).unwrap();
    let mut sum = Words::zeros(job.width(), job.lanes());
    let (mut clipped, mut exact) = (0, vec![0.0; DIM]);
    for update in updates {
        let encoder = Encoder::new(&of_round, &update[..], 1, seed(0)).unwrap();
        clipped += encoder.report().clipped;
        let mut words = Words::zeros(job.width(), job.lanes());
        encoder
            .encode_tile(0, words.tile_mut(0..job.lanes()))
            .unwrap();
        sum.add(&words).unwrap();
        exact.iter_mut().zip(update).for_each(|(sum, x)| *sum += x);
    }
    let mut mean = vec![0.0_f32; DIM];
    of_round
        .decode_mean(&sum, updates.len(), &mut mean)
        .unwrap();
    history.observe(&mean, of(updates.len())).unwrap();
    let norm = |squares: f64| squares.sqrt();
    let found = norm(mean.iter().map(|x| f64::from(*x).powi(2)).sum());
    let wanted = norm(exact.iter().map(|x| x * x).sum()) / updates.len() as f64;
    (found / wanted, clipped)
}

fn largest(updates: &[Vec<f64>]) -> f64 {
    let all = updates.iter().flatten();
    all.fold(0.0, |most: f64, x| most.max(x.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_does_not_grow_is_not_cut_off(
        shape in prop::sample::select(SHAPES.to_vec()),
        course in prop_oneof![
            Just(Course::Steady), Just(Course::Thawing), Just(Course::Growing), Just(Course::Falling),
        ],
        parties in prop_oneof![Just(3_usize), Just(10)],
        number in 1..u64::MAX,
        room in 1.5..8.0_f64,
    ) {
        let mut draws = Draws(number);
        let first: Vec<Vec<f64>> = (0..parties).map(|party| update(shape, party, parties, &mut draws)).collect();
        let clip = room * largest(&first);
        let kind = quantised(16, ClipSpec::Tensor(clip), Rounding::Nearest);
        let job = spec(DIM, kind, parties, 1).validate().unwrap();
        let mut history = UpdateHistory::new(&job).unwrap();
        let mut before = 0.0;
        for round in 0..ROUNDS {
            let size = course.size(round);
            let updates: Vec<Vec<f64>> =
                first.iter().map(|update| update.iter().map(|x| x * size).collect()).collect();
            let (ratio, clipped) = play(&job, &mut history, &updates);
            if size <= before {
                prop_assert_eq!(clipped, 0, "round {}", round);
                prop_assert!((ratio - 1.0).abs() < 0.05, "round {}: {}", round, ratio);
            }
            before = size;
        }
    }
}

/// Updates that cancel in the sum, as those of parties with different data do near the optimum: the bound that follows from
/// the sum is too small for each of them. That is tried more and more seldom.
#[test]
fn updates_that_cancel_are_cut_off_more_and_more_seldom() {
    for (parties, rounding) in [(3, Rounding::Nearest), (10, Rounding::Stochastic)] {
        let mut draws = Draws(parties as u64 + 77);
        let mut updates: Vec<Vec<f64>> = (0..parties)
            .map(|_| (0..DIM).map(|_| draws.normal()).collect())
            .collect();
        for d in 0..DIM {
            let mean = updates.iter().map(|update| update[d]).sum::<f64>() / parties as f64;
            updates
                .iter_mut()
                .for_each(|update| update[d] -= mean - 0.01);
        }
        let kind = quantised(16, ClipSpec::Tensor(20.0), rounding);
        let job = spec(DIM, kind, parties, 1).validate().unwrap();
        let mut history = UpdateHistory::new(&job).unwrap();
        let mut cut = Vec::new();
        for round in 1..=400 {
            let (ratio, clipped) = play(&job, &mut history, &updates);
            match clipped {
                0 => assert!((ratio - 1.0).abs() < 0.05, "round {round}: {ratio}"),
                _ => cut.push(round),
            }
        }
        assert_eq!(cut, [2, 35, 164], "{parties} parties");
    }
}

/// The bound never falls to less than half of the one before but from that of the job, however means fall.
#[test]
fn bounds_fall_by_half_at_most() {
    let kind = quantised(16, ClipSpec::Tensor(1.0), Rounding::Nearest);
    let job = spec(2, kind, 10, 1).validate().unwrap();
    let mut history = UpdateHistory::new(&job).unwrap();
    history.observe(&[0.02_f32, 0.0], of(10)).unwrap();
    let mut before = history.clips()[0];
    for round in 1..40 {
        let tiny = 0.02 * f32::powi(0.1, round);
        history.observe(&[tiny, 0.0], of(10)).unwrap();
        let bound = history.clips()[0];
        assert!(bound >= before / 2.0 && bound < before || bound == f64::powi(2.0, -20));
        before = bound;
    }
    assert_eq!(before, f64::powi(2.0, -20));
}
