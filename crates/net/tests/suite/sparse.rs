//! Sparse rounds over a network: every party sends a part of its update and keeps the rest for later.

use crate::common::raw::Raw;
use crate::common::*;
use blindsum_net::party::{Party, RoundResult};
use blindsum_protocol::{Flashe, JobSpec, Quantised};

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
        encoding: Quantised {
            clip: 4.0,
            max_weight: 1,
            ..Default::default()
        }
        .into(),
        protocol: Flashe {
            density: 0.4,
            min_contributors: 3,
            ..Default::default()
        }
        .into(),
        ..flashe(rounds)
    }
}

fn check_fed_back(result: &RoundResult, rounds: usize) {
    let counts = result.contributors.clone().unwrap();
    assert_eq!(counts.iter().filter(|count| **count == 3).count(), 2);
    assert_eq!(counts.iter().sum::<u32>(), 6);
    let (model, expected) = (result.model.values(), fed_back(&UPDATE, 2, rounds));
    let pairs = model.iter().zip(expected);
    let error = pairs.fold(0.0_f64, |most, (got, expected)| {
        most.max((got - f64::from(expected)).abs())
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
        protocol: Flashe {
            density: 0.2,
            min_contributors: 2,
            ..Default::default()
        }
        .into(),
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
            [0.0, 0.0, 0.0, 0.0, 2.0 / 3.0],
        ),
        // The one of before, and two halves.
        (
            [[0.0; 5], halves, halves],
            [3, 0, 0, 0, 0],
            [2.0 / 3.0, 0.0, 0.0, 0.0, 2.0 / 3.0],
        ),
    ] {
        for result in together(&mut parties, &updates) {
            assert_eq!(result.contributors.as_deref(), Some(&counts[..]));
            let model = result.model.values();
            let close = |(got, expected): (f64, &f64)| (got - expected).abs() < 0.002;
            assert!(
                model.iter().zip(&expected).all(close),
                "{model:?}, {expected:?}"
            );
        }
    }
}

/// One round of a party.
fn give(party: &mut Party, update: [f32; 5]) -> RoundResult {
    let mut round = party.next_round().unwrap().unwrap();
    round.submit(update.to_vec(), 1).unwrap();
    round.result().unwrap()
}

/// A party that is killed between its upload and the result knows afterwards what it had sent.
#[test]
fn a_party_that_is_killed_in_a_sparse_round_goes_on_in_it() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let job = JobSpec {
        protocol: Flashe {
            density: 0.4,
            min_contributors: 1,
            ..Default::default()
        }
        .into(),
        ..sparse(2)
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let url = coordinator.url();
    let credentials = pki.party("a");
    let again = || join_again(|| config_in(folder.path(), &url, &credentials));
    let mut last = Raw::join(&url, pki.party("c"), "c");
    let mut steady = join(&pki, &url, &["b"]).remove(0);
    let mut mortal = again();
    let steady = std::thread::spawn(move || [UPDATE, [0.0; 5]].map(|u| give(&mut steady, u)));
    let begun = std::thread::spawn(move || {
        let mut round = mortal.next_round().unwrap().unwrap();
        round.submit(UPDATE.to_vec(), 1).unwrap();
        (round, mortal)
    });
    let start = last.begin();
    let mut killed = Some(begun.join().unwrap());
    let mut resumed = None;
    last.play_slowly(&start, 0.5, |stage| {
        if stage == 1 {
            // Everybody's places are known, and the others' words are there.
            coordinator.wait("test", |status| status.waiting_for == ["c"]);
            drop(killed.take());
            let mut party = again();
            let round = party.next_round().unwrap().unwrap();
            assert!(!round.needs_update());
            resumed = Some((round, party));
        }
    });
    let (mut round, mut party) = resumed.unwrap();
    let counts = round.result().unwrap().contributors;
    assert_eq!(counts.as_deref(), Some(&[3, 3, 0, 0, 0][..]));
    last.leave();
    // What comes now is what was left, as it is with the one that was not killed.
    let counts = give(&mut party, [0.0; 5]).contributors;
    assert_eq!(counts.as_deref(), Some(&[0, 0, 2, 2, 0][..]));
    steady.join().unwrap();
}

/// A party that is killed when its places are out and its words are not loses the round: nothing is left that could
/// encrypt them. What was left of earlier updates stays.
#[test]
fn a_party_that_is_killed_before_its_words_are_encrypted_loses_the_round() {
    let pki = Pki::new(2);
    let folder = tempfile::tempdir().unwrap();
    let job = JobSpec {
        protocol: Flashe {
            density: 0.4,
            min_contributors: 1,
            ..Default::default()
        }
        .into(),
        ..sparse(3)
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let url = coordinator.url();
    let credentials = pki.party("a");
    let again = || join_again(|| config_in(folder.path(), &url, &credentials));
    let mut parties = join(&pki, &url, &["b", "c"]);
    parties.push(again());
    together(&mut parties, &[UPDATE; 3]);
    let mut mortal = parties.pop().unwrap();
    let (counts, back) = std::thread::scope(|scope| {
        let (started, others) = std::sync::mpsc::channel();
        let rounds: Vec<_> = parties
            .iter_mut()
            .map(|party| {
                let started = started.clone();
                scope.spawn(move || {
                    let mut round = party.next_round().unwrap().unwrap();
                    let (go, wait) = std::sync::mpsc::channel();
                    started.send(go).unwrap();
                    wait.recv().unwrap();
                    round.submit(vec![0.0; 5], 1).unwrap();
                    round.result().unwrap().contributors.unwrap()
                })
            })
            .collect();
        let mut round = mortal.next_round().unwrap().unwrap();
        round.submit(UPDATE.to_vec(), 1).unwrap();
        coordinator.wait("test", |status| status.waiting_for == ["b", "c"]);
        drop((round, mortal));
        let back = again();
        coordinator.wait("test", |status| status.connected.len() == 3);
        let others: Vec<_> = others.iter().take(2).collect();
        others.into_iter().for_each(|go| go.send(()).unwrap());
        let counts = rounds.into_iter().map(|round| round.join().unwrap());
        (counts.collect::<Vec<_>>(), back)
    });
    assert_eq!(counts, [[0, 0, 2, 2, 0]; 2]);
    parties.push(back);
    // The others have two coordinates of nothing left, and one of something: which the other is, is no matter.
    let counts = together(&mut parties, &[[0.0; 5]; 3])
        .remove(0)
        .contributors;
    let counts = counts.unwrap();
    assert_eq!((counts[2], counts[3], counts[4]), (1, 1, 2), "{counts:?}");
}
