//! Sparse rounds over a network: every party sends a part of its update and keeps the rest for later.

mod common;

use blindsum_net::party::{Party, RoundResult};
use blindsum_protocol::{EncodingName, JobSpec};
use common::*;

/// What a model must be after rounds in which everybody gives the same update: the largest `kept` coordinates of
/// it and of what was left.
fn fed_back(update: &[f32; 5], kept: usize, rounds: usize) -> [f32; 5] {
    let (mut model, mut left) = ([0.0; 5], [0.0; 5]);
    for _ in 0..rounds {
        left.iter_mut()
            .zip(update)
            .for_each(|(left, value)| *left += value);
        let mut order = [0, 1, 2, 3, 4];
        order.sort_by(|a, b| f32::total_cmp(&left[*b], &left[*a]));
        for d in &order[..kept] {
            model[*d] += std::mem::take(&mut left[*d]);
        }
    }
    model
}

const UPDATE: [f32; 5] = [0.51, 0.37, 0.29, 0.23, 0.11];

/// Two of five coordinates of every party in each round.
fn sparse(rounds: u32) -> JobSpec {
    JobSpec {
        encoding: EncodingName::Quantised,
        clip: 4.0,
        max_weight: 1,
        density: 0.4,
        min_contributors: 3,
        ..flashe(rounds)
    }
}

fn check_fed_back(result: &RoundResult, rounds: usize) {
    let counts = result.contributors.clone().unwrap();
    assert_eq!(counts.iter().filter(|count| **count == 3).count(), 2);
    assert_eq!(counts.iter().sum::<u32>(), 6);
    let (model, expected) = (result.model.values(), fed_back(&UPDATE, 2, rounds));
    let pairs = model.iter().zip(expected);
    let error = pairs.fold(0.0_f32, |most, (got, expected)| {
        most.max((got - expected).abs())
    });
    assert!(error < 0.002, "{model:?} instead of {expected:?}");
}

/// All parties do one round, each with its update.
fn together(parties: &mut [Party], updates: &[[f32; 5]]) -> Vec<RoundResult> {
    std::thread::scope(|scope| {
        let give = |party: &mut Party, update: &[f32; 5]| {
            let mut round = party.next_round().unwrap().unwrap();
            round.submit(update.to_vec(), 1).unwrap();
            round.result().unwrap()
        };
        let pairs = parties.iter_mut().zip(updates);
        let rounds: Vec<_> = pairs
            .map(|(party, update)| scope.spawn(move || give(party, update)))
            .collect();
        let results = rounds.into_iter().map(|round| round.join().unwrap());
        results.collect()
    })
}

/// Sparse rounds over a network: what is not sent is not lost, also where a party is started again.
#[test]
fn sparse_rounds_feed_back_what_was_left() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Running::start(&pki, vec![sparse(5)], None);
    let url = coordinator.url();
    let credentials = pki.party("a");
    let again = || join_again(|| config_in(folder.path(), &url, &credentials));
    let mut parties = join(&pki, &url, &["b", "c"]);
    parties.push(again());
    for done in 1..=5 {
        let results = together(&mut parties, &[UPDATE; 3]);
        for result in &results {
            assert_eq!(result.model, results[0].model);
            check_fed_back(result, done);
        }
        drop(parties.pop());
        if done < 5 {
            parties.push(again());
        }
    }
}

/// A coordinate that one party alone has sent stays closed, and the party sends it again.
#[test]
fn what_stays_closed_is_left_over() {
    let pki = Pki::new(1);
    let job = JobSpec {
        density: 0.2,
        min_contributors: 2,
        ..sparse(2)
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let mut parties = join(&pki, &coordinator.url(), &["a", "b", "c"]);
    let (first, last) = ([1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]);
    let halves = [0.5, 0.0, 0.0, 0.0, 0.0];
    for (updates, counts, expected) in [
        (
            [first, last, last],
            [1, 0, 0, 0, 2],
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ),
        // The one of before, and two halves.
        (
            [[0.0; 5], halves, halves],
            [3, 0, 0, 0, 0],
            [2.0 / 3.0, 0.0, 0.0, 0.0, 1.0],
        ),
    ] {
        for result in together(&mut parties, &updates) {
            assert_eq!(result.contributors.as_deref(), Some(&counts[..]));
            let model = result.model.values();
            let close = |(got, expected): (&f32, &f32)| (got - expected).abs() < 0.002;
            assert!(
                model.iter().zip(&expected).all(close),
                "{model:?}, {expected:?}"
            );
        }
    }
}

/// A party that is killed between its upload and the result knows afterwards what it had sent.
#[test]
fn a_party_that_is_killed_in_a_sparse_round_goes_on_in_it() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Running::start(&pki, vec![sparse(3)], None);
    let url = coordinator.url();
    let credentials = pki.party("a");
    let again = || join_again(|| config_in(folder.path(), &url, &credentials));
    let mut parties = join(&pki, &url, &["b", "c"]);
    for done in 1..=3 {
        std::thread::scope(|scope| {
            let (started, others) = std::sync::mpsc::channel();
            for party in &mut parties {
                let started = started.clone();
                scope.spawn(move || {
                    let mut round = party.next_round().unwrap().unwrap();
                    let (go, wait) = std::sync::mpsc::channel();
                    started.send(go).unwrap();
                    wait.recv().unwrap();
                    round.submit(UPDATE.to_vec(), 1).unwrap();
                    check_fed_back(&round.result().unwrap(), done);
                });
            }
            let mut killed = again();
            let mut round = killed.next_round().unwrap().unwrap();
            round.submit(UPDATE.to_vec(), 1).unwrap();
            coordinator.wait("test", |status| status.waiting_for == ["b", "c"]);
            drop((round, killed));
            let mut party = again();
            let mut round = party.next_round().unwrap().unwrap();
            assert!(!round.needs_update());
            let others: Vec<_> = others.iter().take(2).collect();
            others.into_iter().for_each(|go| go.send(()).unwrap());
            check_fed_back(&round.result().unwrap(), done);
        });
    }
}
