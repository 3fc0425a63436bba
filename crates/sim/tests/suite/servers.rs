//! Three servers that compute together: exact sums whoever vanishes wherever, and what each server did.

use std::sync::Arc;

use blindsum_protocol::{
    Adversary, EncodingName, FaultKind, Fixed64, Integers, Job, JobSpec, Message, ModelUpdate,
    PartyId, ProtocolName, Quantised,
};
use blindsum_sim::{
    Action, DropAt, Event, Happening, Hooks, Network, PartyEnd, RoundReport, Scenario, Simulation,
    Stage,
};

use crate::support::{simulate, simulate_with, small, too_few};

/// A job of three servers, for each adversary.
fn three(spec: &JobSpec) -> [Arc<Job>; 2] {
    [Adversary::SemiHonest, Adversary::Active].map(|adversary| {
        let spec = JobSpec {
            protocol: ProtocolName::Mpc3.into(),
            adversary,
            ..spec.clone()
        };
        Arc::new(spec.validate().unwrap())
    })
}

/// Sums of words of 32 and of 64 bits, and of several words, of up to 100 parties.
#[test]
fn sums_are_exact_whatever_the_words() {
    let quantised = |bits| Quantised {
        bits,
        max_weight: 100,
        ..Default::default()
    };
    let integers = |bits| JobSpec {
        encoding: Integers {
            bits,
            max_weight: 1000,
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..small()
    };
    let of = |encoding| JobSpec {
        encoding,
        ..small()
    };
    let specs = [
        of(quantised(16).into()),
        of(quantised(32).into()),
        of(EncodingName::Fixed64.into()),
        of(Fixed64 {
            max_weight: 100,
            ..Default::default()
        }
        .into()),
        integers(16),
        integers(48),
        integers(64),
    ];
    let mut widths = Vec::new();
    for spec in specs {
        for parties in [3, 4, 16, 100] {
            for job in three(&JobSpec {
                parties,
                dim: 33,
                dropout: 0.1,
                ..spec.clone()
            }) {
                let run = simulate(Scenario {
                    drop: 0.1,
                    ..Scenario::new(job.clone())
                });
                let lost = job.spec().dropouts_among(parties as usize);
                assert_eq!(run.report.last.survivors, parties as usize - lost);
                widths.push(job.width().bits());
            }
        }
    }
    let of_a_word = |word: std::ops::RangeInclusive<u32>| {
        let found = widths.iter().filter(|bits| word.contains(bits));
        found.count()
    };
    assert!(
        of_a_word(1..=32) >= 8 && of_a_word(33..=64) >= 8,
        "{widths:?}"
    );
}

/// Parties vanish at every stage at once, on two threads and over a bad network.
#[test]
fn sums_are_exact_over_a_bad_network() {
    let bad = Network {
        latency: 0.3,
        jitter: 0.5,
        loss: 0.2,
        duplication: 0.3,
        reordering: 0.3,
    };
    for job in three(&JobSpec {
        parties: 20,
        dropout: 0.3,
        ..small()
    }) {
        let drop = |stage: &str| DropAt {
            stage: stage.parse().unwrap(),
            count: 2,
        };
        for seed in 0..10 {
            let run = simulate(Scenario {
                drop_at: vec![drop("upload"), drop("open"), drop("result")],
                network: bad,
                seed,
                threads: 2,
                rounds: 2,
                ..Scenario::new(job.clone())
            });
            assert_eq!(run.report.last.survivors, 18, "{:?}", run.report.last.fault);
            assert_eq!(run.last.refused, []);
        }
    }
}

/// Whoever has not given all three servers its parts is in no sum, and costs nobody else anything.
#[test]
fn parties_that_vanish_between_their_uploads_are_in_no_sum() {
    for job in three(&small()) {
        let at = |party, servers| Event {
            round: 0,
            party,
            stage: "upload".parse().unwrap(),
            what: Happening::DropUploading(servers),
        };
        let run = |events| {
            simulate(Scenario {
                events,
                ..Scenario::new(job.clone())
            })
        };
        let whole = run(Vec::new());
        let some = run(vec![at(1, 0), at(4, 1), at(6, 2)]);
        let outcome = some.last.outcome.as_ref().unwrap();
        assert_eq!(outcome.faults, []);
        for (party, end) in (0..).map(PartyId).zip(&some.last.ends) {
            let gone = [1, 4, 6].contains(&party.0);
            assert_eq!(*end == PartyEnd::Dropped, gone, "{party}");
            assert_eq!(outcome.survivors.contains(party), !gone, "{party}");
        }
        // What they gave reached those servers.
        let received = |report: &RoundReport| [1, 2].map(|k| report.servers[k].received_bytes);
        let ([second, third], [all, _]) =
            (received(&some.report.last), received(&whole.report.last));
        assert!(third < second && second < all, "{third} {second} {all}");
        let most = (0..6).map(|party| at(party, party as u8 % 3)).collect();
        assert!(too_few(&run(most)));
    }
}

#[test]
fn parts_are_given_in_the_upload_only() {
    let [job, _] = three(&small());
    let plain = JobSpec {
        protocol: ProtocolName::Plain.into(),
        ..small()
    };
    let plain = Arc::new(plain.validate().unwrap());
    let refused = |job: &Arc<Job>, stage, servers| {
        let event = Event {
            round: 0,
            party: 0,
            stage: Stage::Number(stage),
            what: Happening::DropUploading(servers),
        };
        let simulation = Simulation::new(Scenario {
            events: vec![event],
            ..Scenario::new(job.clone())
        });
        simulation.err().map(|error| error.to_string())
    };
    assert_eq!(refused(&job, 0, 2), None);
    let text = "scenario: events.what: 3 parts of an answer, where the stage 0 has 2";
    assert_eq!(refused(&job, 0, 3).as_deref(), Some(text));
    let text = "scenario: events.what: 1 parts of an answer, where the stage 1 has 0";
    assert_eq!(refused(&job, 1, 1).as_deref(), Some(text));
    assert!(refused(&plain, 0, 0).is_some());
}

/// Every byte that somebody sends is received by somebody, and servers talk in three rounds.
#[test]
fn every_server_says_what_it_did() {
    for job in three(&JobSpec {
        dim: 1000,
        parties: 9,
        ..small()
    }) {
        let report = simulate(Scenario::new(job.clone())).report.last;
        let names: Vec<&str> = report.servers.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["coordinator", "second server", "third server"]);
        assert_eq!(report.servers[0].server_ms, report.server_ms);
        let (mut sent, mut received) = (0, 0);
        for server in &report.servers {
            let both = server.received_bytes + server.sent_bytes;
            assert_eq!((server.server_rounds, server.server_bytes), (3, both));
            assert!(server.server_ms > 0.0);
            // It holds two of three components, and one in three is explicit.
            let vectors = 6 * job.packed_len() as u64;
            assert!(server.received_bytes > vectors, "{server:?}");
            sent += server.sent_bytes;
            received += server.received_bytes;
        }
        let (up, down) = (report.up_bytes_per_party, report.down_bytes_per_party);
        // An average is rounded up.
        let (by_parties, missing) = (9 * up, sent + 9 * up - received - 9 * down);
        assert!(missing < 9, "{missing} of {by_parties} are lost");
        assert!(up > 2 * job.packed_len() as u64, "two explicit parts: {up}");
    }
}

#[test]
fn one_server_alone_is_not_listed() {
    let plain = JobSpec {
        protocol: ProtocolName::Plain.into(),
        ..small()
    };
    let run = simulate(Scenario::new(Arc::new(plain.validate().unwrap())));
    assert!(run.report.last.servers.is_empty());
    let json = serde_json::to_value(&run.report).unwrap();
    assert!(json.get("servers").is_none() && json.get("server_ms").is_some());
}

/// Lines between servers that are so slow that they do not come to a sum in time.
#[test]
fn servers_that_are_too_slow_end_the_round() {
    for job in three(&JobSpec {
        stage_deadline: 1.0,
        ..small()
    }) {
        let slow = |latency| {
            simulate(Scenario {
                network: Network {
                    latency,
                    ..Network::default()
                },
                ..Scenario::new(job.clone())
            })
        };
        // Told, three rounds of letters, an answer.
        assert!(slow(0.199).last.outcome.is_ok());
        for latency in [0.201, 0.3, 0.9, 1.5] {
            let run = slow(latency);
            let fault = run.last.outcome.unwrap_err();
            let expected = FaultKind::TooFewSurvivors { have: 0, need: 2 };
            assert_eq!(fault.kind, expected, "{latency}");
            let seconds = run.report.last.virtual_seconds;
            assert!((seconds - (3.0 * latency + 1.0)).abs() < 1e-6, "{seconds}");
        }
    }
}

/// Gives the coordinator, at the end, what parties would have sent it that vanished before.
#[derive(Default)]
struct Found(Vec<(PartyId, Message)>);

impl Hooks for Found {
    fn client_says(&mut self, _stage: u8, from: PartyId, message: &Message) -> Action {
        self.0.push((from, message.clone()));
        Action::Deliver
    }

    fn before_close(&mut self, _stage: u8) -> Vec<(PartyId, Message)> {
        std::mem::take(&mut self.0)
    }
}

/// The coordinator goes on, as it has enough uploads; the others do not have the same.
#[test]
fn a_fault_that_servers_find_together_ends_the_round() {
    for job in three(&small()) {
        let vanishes = |party| Event {
            round: 0,
            party,
            stage: Stage::Number(0),
            what: Happening::DropUploading(1),
        };
        let scenario = Scenario {
            events: (0..6).map(vanishes).collect(),
            ..Scenario::new(job.clone())
        };
        let run = simulate_with(scenario, &mut Found::default());
        let fault = run.last.outcome.as_ref().unwrap_err();
        let (have, need) = (2, job.min_parties());
        assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
        // They came to it in their first round.
        let rounds = run.report.last.servers.iter().map(|one| one.server_rounds);
        assert_eq!(rounds.collect::<Vec<_>>(), [1, 1, 1]);
    }
}
