//! Frames that come twice or late, and members that make the most of what they may say.

use blindsum_job::JobError;
use blindsum_job::coordinator::Input;
use blindsum_job::pb::{self, coordinator_frame::Frame};
use blindsum_job::report::RoundReport;
use blindsum_job::store::Store;
use blindsum_protocol::{JobSpec, ModelUpdate, ProtocolName};

use crate::ensemble::Ensemble;
use crate::hosts::toy;
use crate::scene::Scene;

const PROTOCOLS: [ProtocolName; 5] = [
    ProtocolName::Plain,
    ProtocolName::SecAgg,
    ProtocolName::SecAggPlus,
    ProtocolName::Fssa,
    ProtocolName::Pss,
];

/// Four parties of whom one may be lost.
fn four(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        job: "job".into(),
        min_parties: 3,
        corrupt: 0.2,
        dropout: 0.2,
        ..toy("job", 4, 3)
    }
}

/// Case 55: every message of the coordinator comes twice.
#[test]
fn case_55_a_message_that_comes_twice_costs_nobody_its_place() {
    for protocol in PROTOCOLS {
        let mut job = Ensemble::new(four(protocol), 1);
        job.echo = true;
        job.play();
        for report in job.reports() {
            assert_eq!(report.survivors.len(), 4, "{protocol}: {report:?}");
        }
    }
}

/// Case 54: old frames come once more, at any time. Whoever counts never hears that there was no sum.
#[test]
fn case_54_frames_that_come_again_tell_nobody_the_opposite() {
    for (protocol, seed) in PROTOCOLS
        .iter()
        .flat_map(|p| (0..12).map(move |seed| (p, seed)))
    {
        let mut job = Ensemble::new(four(*protocol), seed);
        job.replay_one_in = 6;
        job.play();
        let counts = |party: &str, round: u64| {
            let reports = job.reports();
            let report = reports.into_iter().find(|report| report.number == round);
            report.is_some_and(|report| report.survivors.iter().any(|name| name == party))
        };
        for (party, error) in &job.failures {
            // A round that it knows to be over is refused in other words.
            if error.to_string().contains("never goes back") {
                continue;
            }
            let lost = match error {
                JobError::RoundAborted { round, .. } | JobError::Dropped { round, .. } => *round,
                _ => continue,
            };
            assert!(!counts(party, lost), "{protocol} {seed}: {party}: {error}");
        }
    }
}

/// Ten parties of whom six are enough.
fn ten() -> Scene {
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        parties: 10,
        min_parties: 6,
        dim: 4,
        rounds: 60,
        model_update: ModelUpdate::Nothing,
        join_deadline: 10.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        corrupt: 0.2,
        dropout: 0.2,
        ..JobSpec::default()
    };
    let mut scene = Scene::new(spec, 1);
    scene.connect_all();
    scene
}

/// Case 52: whoever was caught says that it knows of later rounds.
#[test]
fn case_52_a_word_on_later_rounds_ends_no_punishment() {
    let mut scene = ten();
    let honest: Vec<usize> = (1..10).collect();
    scene.play_with(&honest);
    scene.heard_by(0);
    let job = scene.job.clone();
    let ready = scene.parties[0].ready(&job, 1);
    scene.frame(0, ready);
    let starts = |frame: &Frame| matches!(frame, Frame::RoundStart(_));
    while !scene.frames_to(0).iter().any(starts) {
        scene.wait();
    }
    scene.answer(0, 1, 0, vec![1; 80].into());
    scene.play_with(&honest);
    let (link, reason) = (scene.parties[0].link, "cut".into());
    scene.give(Input::Lost {
        link,
        reason,
        returns: true,
    });
    scene.connect_as(0, |hello| hello.last_round = 500);
    let all: Vec<usize> = (0..10).collect();
    while scene.server.status().rounds_done < 6 {
        scene.play_with(&all);
        scene.wait();
    }
    let mut reports = scene.store.rounds(&scene.job.spec().job, 100).unwrap();
    reports.reverse();
    let has_liar = |report: &RoundReport| report.parties.iter().any(|name| name == "party-0");
    let with_liar: Vec<bool> = reports.iter().take(11).map(has_liar).collect();
    assert_eq!(with_liar, [[true].as_slice(), &[false; 10]].concat());
    assert!(reports[11].number > 500);
}

/// Case 52: who has left a round goes on accusing others, and itself.
#[test]
fn case_52_accusations_without_end_are_heard_once() {
    let mut scene = ten();
    scene.begin_without_the_last();
    for of in [1, 0, 2, 3].into_iter().cycle().take(2000) {
        let refused = pb::RoundRefused {
            round: 1,
            reason: "\u{202e}".repeat(200),
            accused: scene.parties[of].name.to_string(),
            ..pb::RoundRefused::default()
        };
        scene.frame(0, refused);
    }
    scene.wait();
    let status = scene.server.status();
    let faults = &status.round.as_ref().unwrap().faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(scene.store.faults(&scene.job.spec().job).len(), 1);
}
