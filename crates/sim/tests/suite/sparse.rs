//! Sparse rounds: sums and numbers of contributors are right, and what is not sent is not lost.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_protocol::{Clipping, Flashe, Job, JobSpec, Masking, Quantised, RoundingName};
use blindsum_sim::{
    DropAt, Event, Given, Happening, Rounds, Run, Scenario, Simulation, Stage, Synthetic,
};

use crate::support::{simulate, simulate_inputs, small};

fn sparse(spec: JobSpec) -> Arc<Job> {
    Arc::new(spec.validate().unwrap())
}

fn at(stage: &str, count: u32) -> DropAt {
    let stage = Stage::Name(stage.into());
    DropAt { stage, count }
}

/// Bytes that a party sent in the last round.
fn up(run: &Run) -> f64 {
    run.report.last.up_bytes_per_party as f64
}

#[test]
fn rounds_are_exact_with_losses_and_restarts() {
    for masking in [Masking::Cheaper, Masking::Double, Masking::Single] {
        for (clipping, max_norm) in [
            (Clipping::Tensor, 0.0),
            (Clipping::Tensor, 1.0),
            (Clipping::L2, 0.0),
            (Clipping::Aciq, 0.0),
        ] {
            let job = sparse(JobSpec {
                dim: 5000,
                protocol: Flashe {
                    density: 0.1,
                    density_start: 0.5,
                    density_steps: 2,
                    masking,
                    ..Default::default()
                }
                .into(),
                encoding: Quantised {
                    clipping,
                    max_norm,
                    ..Default::default()
                }
                .into(),
                ..small()
            });
            let restart = |stage: &str, party| Event {
                round: 1,
                party,
                stage: Stage::Name(stage.into()),
                what: Happening::Restart,
            };
            let run = simulate(Scenario {
                rounds: 4,
                drop_at: vec![at("mask", 1), at("upload", 1)],
                events: vec![
                    // It has not encrypted yet: the round loses it.
                    restart("mask", 3),
                    restart("upload", 4),
                    restart("upload", 5),
                ],
                ..Scenario::new(job)
            });
            assert_eq!(run.report.last.survivors, 6);
        }
    }
}

#[test]
fn less_is_sent() {
    let bytes = |density| {
        let job = sparse(JobSpec {
            dim: 50_000,
            protocol: Flashe {
                density,
                ..Default::default()
            }
            .into(),
            ..small()
        });
        up(&simulate(Scenario::new(job)))
    };
    let (sparse, dense) = (bytes(0.1), bytes(1.0));
    // A tenth of the words, and 6 bits or so for where each is.
    assert!(sparse < 0.15 * dense, "{sparse} of {dense}");
}

/// How many survivors send each coordinate in the last of so many rounds, where all parties have the same update.
fn sent(rounds: u32, min_contributors: u32, lost: u32) -> Vec<u32> {
    let job = sparse(JobSpec {
        parties: 3,
        min_parties: 2,
        dim: 5,
        protocol: Flashe {
            density: 0.2,
            min_contributors,
            ..Default::default()
        }
        .into(),
        ..small()
    });
    let update = [1.0f32, 0.9, 0.0, 0.0, 0.0];
    let scenario = Scenario {
        rounds,
        drop_at: vec![at("upload", lost)],
        ..Scenario::new(job)
    };
    let run = simulate_inputs(scenario, &Given::new([&update[..]; 3], vec![]), &mut ()).unwrap();
    assert!(run.report.last.exact);
    run.last.contributors.unwrap()
}

#[test]
fn what_is_not_sent_is_sent_later() {
    assert_eq!(sent(1, 2, 0), [3, 0, 0, 0, 0]);
    // 0.9 was left and is added to the next 0.9.
    assert_eq!(sent(2, 2, 0), [0, 3, 0, 0, 0]);
}

#[test]
fn what_is_not_opened_is_sent_again() {
    assert_eq!(sent(1, 3, 1), [2, 0, 0, 0, 0]);
    assert_eq!(sent(2, 3, 1), [2, 0, 0, 0, 0]);
}

#[test]
fn what_is_left_is_that_of_the_party_also_where_others_take_no_part() {
    let job = sparse(JobSpec {
        dim: 50,
        protocol: Flashe {
            density: 0.2,
            ..Default::default()
        }
        .into(),
        encoding: Quantised {
            rounding: RoundingName::Nearest,
            ..Default::default()
        }
        .into(),
        ..small()
    });
    let inputs = Synthetic::new(&job, 3);
    let simulation = Simulation::new(Scenario::new(job)).unwrap();
    // In the second round the first party takes no part, or is lost before it gives anything.
    let second = |ranks: Vec<usize>, lost: Option<u32>| {
        let mut rounds = Rounds::new(&simulation).unwrap();
        let mut watch = |_: &_| ControlFlow::Continue(());
        rounds.next(&inputs, &mut (), &mut watch).unwrap();
        let drop = |party| (party, Stage::Name("mask".into()), Happening::Drop);
        rounds.expect(lost.map(drop)).unwrap();
        let (report, result) = rounds.next_of(ranks, &inputs, &mut (), &mut watch).unwrap();
        assert!(report.exact && report.survivors == 7);
        (result.mean.unwrap(), report.leftovers)
    };
    assert_eq!(
        second((1..8).collect(), None),
        second((0..8).collect(), Some(0))
    );
}
