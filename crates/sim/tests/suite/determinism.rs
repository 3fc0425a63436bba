//! The same seed gives the same messages, on any number of threads.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_protocol::JobSpec;
use blindsum_sim::{
    DropAt, Event, Happening, Inputs, Network, Progress, RoundReport, Scenario, SimError,
    Simulation, Stage, Synthetic,
};

use crate::support::{Transcript, answered, jobs, name, simulate_with, small};

/// Everything in a report that is not measured.
fn facts(report: &RoundReport) -> String {
    let stages: Vec<_> = report
        .stages
        .iter()
        .map(|s| (&s.name, s.up_bytes, s.down_bytes))
        .collect();
    format!(
        "{:?} {:?} {} {} {:?} {stages:?} {} {} {}",
        report.outcome,
        report.fault,
        report.survivors,
        report.exact,
        report.max_abs_error,
        report.up_bytes_per_party,
        report.down_bytes_per_party,
        report.virtual_seconds
    )
}

#[test]
fn threads_change_nothing() {
    for job in jobs(&JobSpec {
        parties: 12,
        dim: 50,
        ..small()
    }) {
        let run = |threads, seed, network| {
            let mut transcript = Transcript::default();
            let drop_at = vec![DropAt {
                stage: Stage::Number(0),
                count: 1,
            }];
            let scenario = Scenario {
                threads,
                seed,
                network,
                drop: 0.1,
                drop_at,
                rounds: 2,
                ..Scenario::new(job.clone())
            };
            let run = simulate_with(scenario, &mut transcript);
            let facts: Vec<String> = run.report.rounds.iter().map(facts).collect();
            (transcript.hash, transcript.messages, facts, run.last.mean)
        };
        let lossy = Network {
            latency: 0.05,
            jitter: 0.05,
            loss: 0.1,
            duplication: 0.1,
            reordering: 0.2,
        };
        for network in [Network::default(), lossy] {
            let first = run(1, 7, network);
            assert!(first.1 > 20, "{}: {} messages", name(&job), first.1);
            assert_eq!(first.2.len(), 2);
            assert_eq!(first, run(1, 7, network), "{}", name(&job));
            assert_eq!(first, run(3, 7, network), "{}", name(&job));
            assert_ne!(first.0, run(1, 8, network).0, "{}", name(&job));
        }
    }
}

#[test]
fn rounds_differ() {
    for job in jobs(&small()) {
        let run = |first_round| {
            let mut transcript = Transcript::default();
            let run = simulate_with(
                Scenario {
                    first_round,
                    ..Scenario::new(job.clone())
                },
                &mut transcript,
            );
            (transcript.hash, run.last.sum)
        };
        let (first, second) = (run(1), run(2));
        assert_ne!(first.0, second.0);
        assert!(
            first.1 != second.1,
            "synthetic vectors differ from round to round"
        );
    }
}

#[test]
fn report_has_the_promised_fields() {
    let job = jobs(&small()).swap_remove(0);
    let fields = |rounds| {
        let run = simulate_with(
            Scenario {
                rounds,
                ..Scenario::new(job.clone())
            },
            &mut (),
        );
        let value = serde_json::to_value(&run.report).unwrap();
        let again: blindsum_sim::Report = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), value);
        value
    };
    let report = fields(1);
    assert_eq!(
        (&report["protocol"], &report["outcome"]),
        (&"plain".into(), &"sum".into())
    );
    assert_eq!(
        (&report["parties"], &report["dim"], &report["survivors"]),
        (&8.into(), &20.into(), &8.into())
    );
    assert_eq!(
        (&report["fault"], &report["exact"]),
        (&serde_json::Value::Null, &true.into())
    );
    assert!(report["client_ms"]["median"].is_f64() && report["client_ms"]["max"].is_f64());
    let names = [
        "max_abs_error",
        "server_ms",
        "up_bytes_per_party",
        "down_bytes_per_party",
        "peak_rss_bytes",
        "virtual_seconds",
    ];
    assert!(
        names.iter().all(|name| report[*name].is_number()),
        "{report}"
    );
    let rows = report["stages"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(
            row["name"].is_string()
                && row["server_ms"].is_f64()
                && row["client_ms"]["max"].is_f64()
        );
        assert!(row["up_bytes"]["median"].is_u64() && row["down_bytes"]["max"].is_u64());
    }
    // A plain upload is the frame and the packed words, the result has a bitmap in between.
    let packed = job.packed_len();
    assert_eq!(rows[0]["up_bytes"]["max"], 34 + packed);
    assert_eq!(rows[1]["down_bytes"]["max"], 34 + 1 + packed);
    assert!(report.get("rounds").is_none());
    assert_eq!(fields(3)["rounds"].as_array().unwrap().len(), 3);
}

#[test]
fn wrong_scenarios_name_their_field() {
    let job = jobs(&small()).swap_remove(0);
    let refused = |scenario: Scenario| Simulation::new(scenario).err().unwrap().to_string();
    let base = Scenario::new(job.clone());
    let event = |round, party, stage, what| Event {
        round,
        party,
        stage,
        what,
    };
    let with_event = |event| Scenario {
        events: vec![event],
        ..base.clone()
    };
    let input = || Stage::Name("input".into());
    for (scenario, expected) in [
        (
            Scenario {
                rounds: 0,
                ..base.clone()
            },
            "scenario: rounds: 1 <= rounds = 0",
        ),
        (
            Scenario {
                threads: 0,
                ..base.clone()
            },
            "scenario: threads: 1 <= threads = 0 <= 1024",
        ),
        (
            Scenario {
                drop: 1.5,
                ..base.clone()
            },
            "scenario: drop: 0 <= drop = 1.5 <= 1",
        ),
        (
            Scenario {
                first_round: u64::MAX,
                ..base.clone()
            },
            "scenario: first_round: first_round = 18446744073709551615 + rounds < 2^64",
        ),
        (
            Scenario {
                drop: 0.5,
                drop_at: vec!["input:5".parse().unwrap()],
                ..base.clone()
            },
            "scenario: drop_at: parties that drop = 9 <= parties = 8 must hold",
        ),
        (
            Scenario {
                drop_at: vec!["9:1".parse().unwrap()],
                ..base.clone()
            },
            "scenario: drop_at: stage 9 must be one of input, or its number from 0 on",
        ),
        (
            with_event(event(1, 0, input(), Happening::Drop)),
            "scenario: events.round: round = 1 < rounds = 1",
        ),
        (
            with_event(event(0, 8, input(), Happening::Drop)),
            "scenario: events.party: party = 8 < parties = 8",
        ),
        (
            with_event(event(0, 0, Stage::Number(1), Happening::Restart)),
            "scenario: events.stage: nothing is sent in the stage result",
        ),
        (
            with_event(event(0, 0, input(), Happening::Delay(-1.0))),
            "scenario: events.what: 0 <= delay = -1 <= 1000000 seconds",
        ),
    ] {
        assert_eq!(refused(scenario), expected);
    }
    for text in ["input", "input:", "input:x", ":"] {
        let error = text.parse::<DropAt>().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("scenario: drop_at: {text:?} must be STAGE:COUNT")
        );
    }
}

#[test]
fn progress_is_told_and_may_stop_the_run() {
    for job in jobs(&small()) {
        let simulation = Simulation::new(Scenario::new(job.clone())).unwrap();
        let inputs = Synthetic::new(&job, 0);
        let mut seen: Vec<Progress> = Vec::new();
        let inputs: &dyn Inputs = &inputs;
        simulation
            .run(inputs, &mut (), &mut |progress| {
                seen.push(*progress);
                ControlFlow::Continue(())
            })
            .unwrap();
        let played = job.plan().answers().filter(|step| !step.optional);
        for (stage, name) in played.map(|step| (usize::from(step.stage), step.name)) {
            let of_round = seen.iter().filter(|p| p.round == 1);
            let mut told = of_round.filter(|p| usize::from(p.stage) == stage);
            // Parties answer, or the servers beside the coordinator.
            let all = match answered(&job).contains(&(stage as u8)) {
                true => 8,
                false => job.servers().count(),
            };
            assert!(told.all(|p| p.name == name && p.expected == all && p.answered <= all));
            assert!(seen.iter().any(|p| p.name == name && p.answered == all));
        }
        let stopped = simulation.run(inputs, &mut (), &mut |_| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(SimError::Cancelled)));
    }
}

#[test]
fn a_long_stage_may_be_stopped_before_its_end() {
    let spec = JobSpec {
        parties: 40,
        ..small()
    };
    let job = Arc::new(spec.validate().unwrap());
    let simulation = Simulation::new(Scenario::new(job.clone())).unwrap();
    let inputs = Synthetic::new(&job, 0);
    let mut looks = 0;
    let stopped = simulation.run(&inputs, &mut (), &mut |progress| {
        looks += 1;
        assert_eq!((progress.stage, progress.answered), (0, 0));
        match looks {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(stopped, Err(SimError::Cancelled)));
    assert_eq!(looks, 3);
}
