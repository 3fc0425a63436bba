//! The law of bounds from earlier rounds: what does not grow is not cut off, and after a jump one round is cut off at
//! most, whatever updates look like.

use blindsum_math::words::Words;
use proptest::prelude::*;

use super::aciq::telling;
use super::seed;
use crate::{Encoder, Encoding, Rounding, UpdateHistory};

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

/// The largest difference between the mean and that of the updates, as a part of the largest coordinate that the mean can
/// have by its rounding; and how many coordinates were cut off.
fn play(job: &Encoding, history: &mut UpdateHistory, updates: &[Vec<f64>]) -> (f64, u64) {
    let of_round = job.with_clips(&history.clips()).unwrap();
    let mut sum = Words::zeros(job.width(), job.lanes());
    let (mut clipped, mut exact) = (0, vec![0.0; DIM]);
    for (party, update) in updates.iter().enumerate() {
        let encoder = Encoder::new(&of_round, &update[..], 1, seed(party as u8)).unwrap();
        clipped += encoder.report().clipped;
        let mut words = Words::zeros(job.width(), job.lanes());
        encoder
            .encode_tile(0, words.tile_mut(0..job.lanes()))
            .unwrap();
        sum.add(&words).unwrap();
        exact.iter_mut().zip(update).for_each(|(sum, x)| *sum += x);
    }
    let mut mean = vec![0.0_f64; DIM];
    of_round
        .decode_mean(&sum, updates.len(), &mut mean)
        .unwrap();
    let reached = of_round.reached(&sum, |_| true).unwrap();
    history.observe(&reached).unwrap();
    let off = exact
        .iter()
        .zip(&mean)
        .map(|(sum, mean)| (sum / updates.len() as f64 - mean).abs());
    (off.fold(0.0, f64::max) / of_round.max_error(), clipped)
}

fn largest(updates: &[Vec<f64>]) -> f64 {
    let all = updates.iter().flatten();
    all.fold(0.0, |most: f64, x| most.max(x.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_does_not_jump_is_not_cut_off(
        shape in prop::sample::select(SHAPES.to_vec()),
        course in prop_oneof![
            Just(Course::Steady), Just(Course::Thawing), Just(Course::Growing), Just(Course::Falling),
        ],
        parties in prop_oneof![Just(3_usize), Just(10)],
        bits in prop_oneof![Just(2_u32), Just(4), Just(8), Just(16), Just(32)],
        nearest in any::<bool>(),
        number in 1..u64::MAX,
        room in 1.5..800.0_f64,
    ) {
        let mut draws = Draws(number);
        let first: Vec<Vec<f64>> = (0..parties).map(|party| update(shape, party, parties, &mut draws)).collect();
        let rounding = if nearest { Rounding::Nearest } else { Rounding::Stochastic };
        let job = telling(bits, &[(DIM, room * largest(&first))], rounding, 10);
        let mut history = UpdateHistory::new(&job).unwrap();
        let mut before = f64::INFINITY;
        for round in 0..ROUNDS {
            let size = course.size(round);
            let updates: Vec<Vec<f64>> =
                first.iter().map(|update| update.iter().map(|x| x * size).collect()).collect();
            let bound = history.clips()[0];
            let (off, clipped) = play(&job, &mut history, &updates);
            if size <= 2.0 * before {
                prop_assert_eq!(clipped, 0, "round {}", round);
                prop_assert!(off <= 1.0 + 1e-9, "round {}: {}", round, off);
            }
            if clipped > 0 {
                prop_assert_eq!(history.clips()[0], job.tensors().next().unwrap().1);
            }
            // Never too wide either, once it had the rounds to come down.
            if round == ROUNDS - 1 && matches!(course, Course::Steady) {
                let most = 8.0 * largest(&first);
                prop_assert!(bound <= most, "{} above {}", bound, most);
            }
            before = size;
        }
    }
}

/// Values of both signs that cancel in the sum, wholly or in part, in one coordinate or in all: the sum does not show them.
#[test]
fn updates_that_cancel_are_not_cut_off() {
    let kinds: [&[f64]; 7] = [
        &[1.0, -0.6, 0.0],
        &[1.0, -0.3, -0.3],
        &[1.0, -1.0],
        &[1.0, 1.0, -0.8, -0.8],
        &[1.0, -0.2, -0.2, -0.2],
        &[1.0, -0.999, 0.0],
        &[1.0, -0.5, -0.5],
    ];
    for parts in kinds {
        for all in [false, true] {
            for rounding in [Rounding::Nearest, Rounding::Stochastic] {
                let job = telling(8, &[(DIM, 10.0)], rounding, parts.len());
                let mut history = UpdateHistory::new(&job).unwrap();
                let of = |part: &f64| {
                    let mut update = vec![0.0; DIM];
                    update[7] = *part;
                    if all {
                        update.fill(*part);
                    }
                    update
                };
                let updates: Vec<Vec<f64>> = parts.iter().map(of).collect();
                for round in 0..ROUNDS {
                    let (off, clipped) = play(&job, &mut history, &updates);
                    assert_eq!(clipped, 0, "{parts:?}, round {round}");
                    assert!(off <= 1.0 + 1e-9, "{parts:?}, round {round}: {off}");
                }
                assert!(history.clips()[0] <= 8.0, "{parts:?}");
            }
        }
    }
}

/// A party with large values that is in every k-th round only is cut off a few times, and then waited for.
#[test]
fn what_comes_and_goes_is_cut_off_a_few_times() {
    for period in [2, 3, 7, 20] {
        let job = telling(8, &[(DIM, 10.0)], Rounding::Nearest, 3);
        let mut history = UpdateHistory::new(&job).unwrap();
        let (small, large) = (vec![0.01; DIM], vec![1.0; DIM]);
        let mut cut = Vec::new();
        for round in 0..2000 {
            let mut updates = vec![small.clone(), small.clone()];
            if round % period == 0 {
                updates.push(large.clone());
            }
            let (_, clipped) = play(&job, &mut history, &updates);
            if clipped > 0 {
                cut.push(round);
            }
        }
        assert!(!cut.is_empty() && cut.len() <= 10, "{period}: {cut:?}");
        let late = cut.iter().filter(|round| **round >= 1000);
        assert!(late.count() <= 2, "{period}: {cut:?}");
    }
}

/// A party that says now and then that it was cut off keeps the bound wide for some rounds, and nothing else.
#[test]
fn a_liar_widens_bounds_and_no_more() {
    let job = telling(16, &[(DIM, 100.0)], Rounding::Nearest, 3);
    let mut history = UpdateHistory::new(&job).unwrap();
    let honest = vec![0.01; DIM];
    for round in 0..3000 {
        let bound = history.clips()[0];
        let lie = vec![
            if round < 1000 && bound < 100.0 {
                100.0
            } else {
                0.0
            };
            DIM
        ];
        let updates = [honest.clone(), honest.clone(), lie];
        let before = history.clone();
        let (_, _) = play(&job, &mut history, &updates);
        assert!(history.clips()[0] >= 0.01, "{before:?}");
    }
    assert!(history.clips()[0] <= 0.16, "{:?}", history.clips());
}

/// The bound comes down from the job's in few rounds, and never below a 2^20th of it.
#[test]
fn bounds_come_down_fast() {
    let job = telling(16, &[(DIM, 1.0)], Rounding::Nearest, 10);
    let mut history = UpdateHistory::new(&job).unwrap();
    let tiny = vec![vec![0.0; DIM]; 3];
    let mut bounds = Vec::new();
    for _ in 0..6 {
        play(&job, &mut history, &tiny);
        bounds.push(history.clips()[0]);
    }
    let powers = [-4, -8, -12, -16, -20, -20];
    assert_eq!(bounds, powers.map(|power| f64::powi(2.0, power)));
}
