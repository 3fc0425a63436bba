//! Loss, repetition, reordering and delay.

use blindsum_protocol::{FaultKind, JobSpec, ProtocolName};
use blindsum_sim::{DropAt, Network, Scenario, Stage};

use crate::support::{jobs, jobs_of, name, played, simulate, small};

/// Nothing but time: everybody survives, and a round lasts as many ways as it has messages.
#[test]
fn latency_costs_time_only() {
    for job in jobs(&small()) {
        let network = Network {
            latency: 0.05,
            ..Network::default()
        };
        let run = simulate(Scenario {
            network,
            ..Scenario::new(job.clone())
        });
        assert_eq!(run.report.last.survivors, 8);
        // One way up per stage, one way down per stage.
        let mut ways = 2 * played(&job);
        if job.computing_servers().next().is_some() {
            // Before that, parts go to the other servers and receipts come back; after it, servers talk three times.
            ways += 2 + 3;
        }
        let seconds = run.report.last.virtual_seconds;
        assert!(
            (seconds - 0.05 * ways as f64).abs() < 1e-6,
            "{}: {seconds} s",
            name(&job)
        );
    }
}

/// Repeated bytes are no fault, whoever repeats them.
#[test]
fn case_28_duplicates_are_ignored() {
    for job in jobs(&small()) {
        let duplicates = Network {
            latency: 0.01,
            jitter: 0.05,
            duplication: 1.0,
            ..Network::default()
        };
        let run = simulate(Scenario {
            network: duplicates,
            ..Scenario::new(job.clone())
        });
        assert_eq!(run.report.last.survivors, 8, "{}", name(&job));
        assert_eq!(run.last.refused, [], "{}", name(&job));
    }
}

/// Copies that arrive after their stage is over are ignored too: the server knows them.
#[test]
fn case_28_duplicates_of_earlier_stages() {
    for job in jobs(&small()) {
        let held = Network {
            latency: 0.01,
            duplication: 1.0,
            reordering: 0.5,
            ..Network::default()
        };
        for seed in 0..5 {
            let run = simulate(Scenario {
                network: held,
                seed,
                ..Scenario::new(job.clone())
            });
            assert_eq!(run.report.last.survivors, 8, "{}", name(&job));
            assert_eq!(run.last.refused, [], "{}", name(&job));
        }
    }
}

/// Time only goes on, also where a copy arrives while servers compute and nobody is left to take the result: the
/// stages of a round are its whole time.
#[test]
fn case_28_stages_add_up_under_duplicates() {
    let computing = |protocol| {
        matches!(
            protocol,
            ProtocolName::Mpc3 | ProtocolName::PaillierAllReduce
        )
    };
    for job in jobs_of(&small(), computing) {
        for seed in 0..8 {
            let everybody = DropAt {
                stage: Stage::Number(job.plan().answers().count() as u8),
                count: job.spec().parties,
            };
            let held = Network {
                latency: 0.02,
                jitter: 0.5,
                duplication: 0.5,
                reordering: 0.5,
                ..Network::default()
            };
            let run = simulate(Scenario {
                network: held,
                drop_at: vec![everybody],
                seed,
                ..Scenario::new(job.clone())
            });
            let (whole, stages) = (run.report.last.virtual_seconds, &run.report.last.stages);
            let stages = stages.iter().map(|stage| stage.virtual_seconds);
            let stages: f64 = stages.sum();
            let job = name(&job);
            assert!(
                (stages - whole).abs() < 1e-6,
                "{job}, seed {seed}: {stages} s of {whole} s"
            );
        }
    }
}

/// Lost messages are sent again, so that nobody is lost before the deadline, and the bytes show it.
#[test]
fn case_29_lost_messages_are_repeated() {
    for job in jobs(&small()) {
        let network = Network {
            latency: 0.02,
            loss: 0.2,
            ..Network::default()
        };
        let lossy = simulate(Scenario {
            network,
            ..Scenario::new(job.clone())
        });
        let perfect = simulate(Scenario::new(job.clone()));
        assert_eq!(lossy.report.last.survivors, 8, "{}", name(&job));
        assert!(lossy.report.last.up_bytes_per_party > perfect.report.last.up_bytes_per_party);
        assert_eq!(
            lossy.last.mean, perfect.last.mean,
            "the network cannot change the sum"
        );
    }
}

/// A network that loses nearly everything ends in an abort that says so, or in an exact sum.
#[test]
fn case_29_a_broken_network_aborts() {
    for job in jobs(&JobSpec {
        stage_deadline: 3.0,
        input_deadline: 3.0,
        ..small()
    }) {
        let dead = Network {
            loss: 1.0,
            ..Network::default()
        };
        let run = simulate(Scenario {
            network: dead,
            ..Scenario::new(job.clone())
        });
        let fault = run.last.outcome.unwrap_err();
        assert!(
            matches!(fault.kind, FaultKind::TooFewSurvivors { have: 0, .. }),
            "{fault}"
        );
        assert_eq!(run.report.last.virtual_seconds, 3.0);
        let network = Network {
            loss: 0.98,
            ..Network::default()
        };
        let rounds = (0..10).map(|seed| {
            simulate(Scenario {
                network,
                seed,
                ..Scenario::new(job.clone())
            })
        });
        let aborts = rounds.filter(|run| run.last.outcome.is_err()).count();
        assert!(aborts > 0, "{}: everything got through", name(&job));
    }
}
