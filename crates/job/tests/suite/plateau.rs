//! Jobs that a metric ends, at a coordinator that is driven by hand.

use blindsum_job::orders::{Change, Command, Outcome};
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::report::{Best, JobState, RoundState};
use blindsum_job::store::Store;
use blindsum_protocol::{JobSpec, Metric, Plateau, ProtocolName};

use crate::scene::{Heard, Scene};

/// The accuracy of the model from which each round starts. Round 4 has none, round 5 as much as round 2.
const MEASURED: [Option<f64>; 8] = [
    Some(0.25),
    Some(0.5),
    Some(0.375),
    None,
    Some(0.5),
    Some(0.125),
    Some(0.75),
    Some(0.5),
];
const REASON: &str = "accuracy has not risen for 3 rounds; the best is 0.5, of model version 1";

fn measured(round: u64) -> Option<f64> {
    MEASURED[round as usize - 1]
}

fn spec(patience: u32) -> JobSpec {
    let metric = Metric {
        name: "accuracy".into(),
        low: 0.0,
        high: 1.0,
    };
    let stop = Plateau {
        metric: "accuracy".into(),
        patience,
        ..Plateau::default()
    };
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 3,
        min_parties: 2,
        dim: 4,
        rounds: 8,
        metrics: vec![metric],
        stop: stop.into(),
        ..JobSpec::default()
    }
}

/// A job that keeps only the latest model, whose parties are connected and report the same.
fn scene(patience: u32) -> Scene {
    let mut scene = Scene::new(spec(patience), 1).keeping(1);
    for party in &mut scene.parties {
        party.metric = measured;
    }
    scene.connect_all();
    scene
}

/// Everybody takes part until that many rounds are done.
fn play_rounds(scene: &mut Scene, rounds: u64) {
    while scene.server.status().rounds_done < rounds {
        for party in 0..scene.parties.len() {
            for heard in scene.heard_by(party) {
                scene.react(party, heard);
            }
        }
    }
}

fn kept(scene: &Scene) -> Vec<u64> {
    let has = |version: &u64| scene.store.model("job", *version).unwrap().is_some();
    (0..=9).filter(has).collect()
}

/// What of the best value can be told apart: round, version, and rounds since.
fn best(scene: &Scene) -> (u64, u64, u32) {
    let Best {
        round,
        version,
        without_gain,
        ..
    } = scene.server.status().best.clone().unwrap();
    (round, version, without_gain)
}

fn extend(rounds: u32) -> Command {
    Command::Extend(Change {
        rounds: Some(rounds),
        ..Change::default()
    })
}

#[test]
fn a_job_ends_once_a_metric_has_become_no_better_and_keeps_the_best_model() {
    let mut scene = scene(3);
    scene.play();
    let status = scene.server.status();
    // Rounds 3, 5 and 6 had a value and no gain; round 4 had no value.
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 6));
    assert_eq!((status.reason.as_str(), best(&scene)), (REASON, (2, 1, 3)));
    let stored = scene.store.state("job").unwrap();
    assert_eq!(stored, (JobState::Done, REASON.into()));
    // With one version kept, the best is kept beside it.
    assert_eq!(kept(&scene), [1, 6]);
    let told: Vec<_> = scene
        .said
        .iter()
        .filter_map(|(_, heard)| match heard {
            Heard::Frame(Frame::JobDone(done)) => Some(done.reason.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told, [REASON; 3]);
    // The report of every round has the best after it.
    let after = |round: u64| {
        scene
            .store
            .round("job", round)
            .unwrap()
            .unwrap()
            .best
            .unwrap()
    };
    let after: Vec<_> = (1..=6)
        .map(after)
        .map(|best| (best.version, best.without_gain))
        .collect();
    assert_eq!(after, [(0, 0), (1, 0), (1, 1), (1, 1), (1, 2), (1, 3)]);
}

#[test]
fn without_patience_all_rounds_are_run_and_the_best_model_is_kept() {
    let mut scene = scene(0);
    scene.play();
    let status = scene.server.status();
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 8));
    assert_eq!((status.reason.as_str(), best(&scene)), ("", (7, 6, 1)));
    // The one that was the best before has gone.
    assert_eq!(kept(&scene), [6, 8]);
}

#[test]
fn a_coordinator_that_is_killed_goes_on_with_the_best_value_and_the_count() {
    for done in 1..6 {
        let mut scene = scene(3);
        play_rounds(&mut scene, done);
        scene.killed(2);
        // Rounds without a sum in between change nothing: this one is cut off as well.
        scene.killed(3);
        let cut = scene.store.rounds("job", 1).unwrap().remove(0);
        let is_lost = matches!(
            cut.state,
            RoundState::Aborted | RoundState::Joining | RoundState::Running
        );
        assert!(is_lost && cut.best.is_some(), "{cut:?}");
        for party in &mut scene.parties {
            // Numbers of rounds are never used again.
            party.metric = |_| Some(0.0);
        }
        scene.play();
        let status = scene.server.status();
        assert_eq!(status.state, JobState::Done);
        assert!(
            status
                .reason
                .starts_with("accuracy has not risen for 3 rounds")
        );
        let version = u64::from(done > 1);
        assert_eq!(status.best.as_ref().unwrap().version, version);
        assert!(kept(&scene).contains(&version));
    }
}

#[test]
fn a_job_that_is_opened_again_after_its_end_is_done_for_the_same_reason() {
    let mut scene = scene(3);
    scene.play();
    scene.killed(2);
    let status = scene.server.status();
    assert_eq!(
        (status.state, status.reason.as_str()),
        (JobState::Done, REASON)
    );
    assert_eq!(best(&scene), (2, 1, 3));
}

#[test]
fn an_operator_lets_the_job_go_on_and_the_count_begins_anew() {
    for restarts in [false, true] {
        let mut scene = scene(3);
        scene.play();
        // The job has rounds left: no other number is asked for.
        let outcome = scene.order(extend(8));
        assert!(matches!(outcome, Ok(Outcome::Extended(_))), "{outcome:?}");
        assert_eq!(scene.state(), JobState::Running);
        assert_eq!(best(&scene), (2, 1, 0));
        if restarts {
            scene.killed(2);
            assert_eq!(
                (scene.state(), best(&scene)),
                (JobState::Running, (2, 1, 0))
            );
            scene.killed(3);
            for party in &mut scene.parties {
                party.metric = |_| Some(0.75);
            }
        }
        scene.play();
        let status = scene.server.status();
        assert_eq!((status.state, status.rounds_done), (JobState::Done, 8));
        assert_eq!(status.reason, "", "all rounds are done");
        let value = status.best.as_ref().unwrap().value;
        assert!((value - 0.75).abs() < 1e-6, "{value}");
    }
}

#[test]
fn an_end_by_an_operator_is_as_it_was() {
    let mut scene = scene(3);
    play_rounds(&mut scene, 2);
    scene.order(Command::End {}).unwrap();
    scene.play();
    let status = scene.server.status();
    assert_eq!((status.state, status.reason.as_str()), (JobState::Done, ""));
    assert!(status.rounds_done < 6);
}
