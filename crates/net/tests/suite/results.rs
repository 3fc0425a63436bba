//! What becomes of the result of a round that counts: whoever is in the sum is told it, whatever ends in
//! between, and nobody who is in it hears the opposite.

use std::time::Duration;

use crate::common::raw::Raw;
use crate::common::scene::{Away, Scene};
use crate::common::*;
use blindsum_net::party::{Party, RoundResult, Update};
use blindsum_net::pb;
use blindsum_net::report::{JobState, JobStatus};
use blindsum_net::{JobError, NetError};
use blindsum_protocol::{Integers, JobSpec, ModelUpdate, ProtocolName};

/// a and b lose their link after they have said everything; c speaks last, by the one of these that fits.
fn two_away<U: Into<Update> + 'static>(scene: &Scene, update: fn(f32) -> U) -> [Away; 2] {
    let last = scene
        .spec
        .clone()
        .validate()
        .unwrap()
        .plan()
        .answers()
        .count() as u8
        - 1;
    let away = ["a", "b"].map(|name| scene.away(name, move |_| update(1.0)));
    if last > 0 {
        let mut raw = Raw::join(&scene.coordinator().url(), scene.pki.party("c"), "c");
        let start = raw.begin();
        raw.play_slowly(&start, 4.0, |stage| {
            if stage == last {
                scene.wait_for("c", last);
                scene.interrupt(&["a", "b"]);
            }
        });
        return away;
    }
    let mut party = Party::join(scene.config("c", &scene.coordinator().url())).unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    scene.wait_for("c", 0);
    scene.interrupt(&["a", "b"]);
    round.submit(update(4.0), 1).unwrap();
    round.result().unwrap();
    away
}

fn the_only(away: Away) -> RoundResult {
    let mut rounds = away.join().unwrap().unwrap();
    let round = rounds.pop().unwrap().unwrap();
    assert!(rounds.is_empty(), "{rounds:?}");
    round
}

fn plain(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        ..spec(ProtocolName::Plain, 3)
    }
}

/// Nothing but the result itself shows what a round led to.
fn without_model(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        dropout: 0.0,
        model_update: ModelUpdate::Nothing,
        rounds: 1,
        ..spec(protocol, 3)
    }
}

fn floats(value: f32) -> Vec<f32> {
    vec![value; 5]
}

/// The coordinator is killed when the last round is recorded and before two of three have heard of it.
fn result_of_a_restarted_coordinator<U: Into<Update> + 'static>(
    spec: JobSpec,
    update: fn(f32) -> U,
) -> [RoundResult; 2] {
    let mut scene = Scene::new(spec, |_| ());
    let away = two_away(&scene, update);
    scene.coordinator().wait_done("test");
    scene.restart();
    assert_eq!(scene.coordinator().wait_done("test").state, JobState::Done);
    scene.proxy.mend();
    let results = away.map(the_only);
    for result in &results {
        assert_eq!(result.survivors, ["a", "b", "c"]);
        assert_eq!((result.mean.to_doubles()[0], result.total_weight), (2.0, 3));
    }
    results
}

#[test]
fn case_54_a_restarted_coordinator_tells_the_last_sum_of_integers() {
    let spec = JobSpec {
        encoding: Integers {
            bits: 16,
            max_weight: 1,
        }
        .into(),
        ..without_model(ProtocolName::Plain)
    };
    let update = |value: f32| vec![value as u32; 5];
    for result in result_of_a_restarted_coordinator(spec, update) {
        assert_eq!(result.sums.unwrap(), [6; 5]);
    }
}

#[test]
fn case_54_a_restarted_coordinator_tells_the_last_sum_secagg() {
    result_of_a_restarted_coordinator(without_model(ProtocolName::SecAgg), floats);
}

#[test]
fn case_54_a_restarted_coordinator_tells_the_last_sum_fssa() {
    result_of_a_restarted_coordinator(without_model(ProtocolName::Fssa), floats);
}

#[test]
fn case_54_a_restarted_coordinator_tells_the_last_sum_that_it_does_not_know() {
    for result in result_of_a_restarted_coordinator(flashe(1), floats) {
        assert_eq!(result.model.values().to_doubles(), [2.0; 5]);
    }
}

#[test]
fn case_54_a_restarted_coordinator_tells_the_sum_while_the_job_goes_on() {
    let mut scene = Scene::new(plain(2), |_| ());
    let away = two_away(&scene, floats);
    scene.restart();
    let other = scene.near("c", constant(4.0));
    scene.proxy.mend();
    for away in away {
        let rounds = away.join().unwrap().unwrap();
        assert_eq!(rounds.len(), 2, "{rounds:?}");
        for (i, round) in rounds.iter().enumerate() {
            let model = &round.as_ref().unwrap().model;
            assert_eq!(
                (model.version(), model.values().to_doubles()[0]),
                (i as u64 + 1, 2.0 * (i + 1) as f64)
            );
        }
    }
    other.join().unwrap().unwrap();
}

/// With 5 parties one may be lost in every stage.
fn five() -> JobSpec {
    JobSpec {
        min_parties: 0,
        corrupt: 0.2,
        dropout: 0.2,
        ..spec(ProtocolName::SecAgg, 5)
    }
}

/// Five parties, of which a loses its link before `stage` and comes back before `back`, or else after the end.
fn lost_before(stage: u8, back: Option<u8>) -> Result<Rounds, NetError> {
    let scene = Scene::new(five(), |config| config.limits.reconnect_grace = 0.3);
    let away = scene.away("a", constant(1.0));
    let near = ["b", "c", "d"].map(|name| scene.near(name, constant(1.0)));
    let mut raw = Raw::join(&scene.coordinator().url(), scene.pki.party("e"), "e");
    let start = raw.begin();
    raw.play_slowly(&start, 6.0, |now| {
        scene.wait_for("e", now);
        if now + 1 == stage {
            scene.interrupt(&["a"]);
        }
        if Some(now) == back {
            scene.proxy.mend();
            scene
                .coordinator()
                .wait("test", |status| status.connected.len() == 5);
        }
    });
    for party in near {
        let result = the_only(party);
        assert_eq!(
            (result.mean.to_doubles()[0], result.survivors.len()),
            (2.0, 5)
        );
    }
    scene.proxy.mend();
    away.join().unwrap()
}

#[test]
fn case_54_a_survivor_that_is_lost_in_the_last_stage_gets_the_sum() {
    for back in [None, Some(4)] {
        let rounds = lost_before(4, back).unwrap();
        let round = rounds[0].as_ref().unwrap();
        assert_eq!(
            (round.mean.to_doubles()[0], round.survivors.len()),
            (2.0, 5)
        );
    }
}

#[test]
fn case_54_a_coordinator_stays_until_every_survivor_has_the_result() {
    let mut scene = Scene::new(plain(1), |config| config.stop_when_done = true);
    let away = two_away(&scene, floats);
    let coordinator = scene.coordinator.take().unwrap();
    coordinator.wait_done("test");
    let ending = std::thread::spawn(|| coordinator.finish());
    // Nobody is connected; whoever leaves now leaves two survivors behind.
    std::thread::sleep(Duration::from_secs(1));
    scene.proxy.mend();
    for away in away {
        assert_eq!(the_only(away).mean, [2.0; 5]);
    }
    ending.join().unwrap().unwrap();
}

#[test]
fn case_54_a_finished_job_that_is_restarted_serves_who_has_not_confirmed_and_then_ends() {
    let mut scene = Scene::new(plain(1), |config| config.stop_when_done = true);
    let away = two_away(&scene, floats);
    scene
        .coordinator()
        .wait("test", |status| status.unconfirmed == ["a", "b"]);
    let coordinator = scene.coordinator.take().unwrap();
    let port = coordinator.port;
    coordinator.stop().unwrap();
    scene.start(port);
    let coordinator = scene.coordinator.take().unwrap();
    let ending = std::thread::spawn(|| coordinator.finish());
    scene.proxy.mend();
    for away in away {
        assert_eq!(the_only(away).mean, [2.0; 5]);
    }
    ending.join().unwrap().unwrap();
    // All have confirmed, and that was written down: nobody is waited for.
    scene.change = |config| {
        config.stop_when_done = true;
        config.limits.farewell = 600.0;
    };
    scene.start(port);
    scene.coordinator.take().unwrap().finish().unwrap();
}

#[test]
fn case_54_a_coordinator_does_not_stay_for_ever() {
    let mut scene = Scene::new(plain(1), |config| {
        config.stop_when_done = true;
        config.limits.farewell = 0.3;
    });
    let _never_back = two_away(&scene, floats);
    scene.coordinator().wait("test", |status| {
        status.state == JobState::Done && status.unconfirmed == ["a", "b"]
    });
    scene.coordinator.take().unwrap().finish().unwrap();
}

/// Only the latest result is kept; a survivor of an earlier round hears that it counts.
#[test]
fn case_54_a_survivor_that_was_away_for_two_rounds_is_not_told_that_there_was_no_sum() {
    let scene = Scene::new(plain(2), |config| config.limits.reconnect_grace = 0.3);
    let away = scene.away("a", constant(1.0));
    let near = scene.near("b", constant(1.0));
    let mut last = Party::join(scene.config("c", &scene.coordinator().url())).unwrap();
    for turn in 1..=2 {
        let mut round = last.next_round().unwrap().unwrap();
        scene.wait_for("c", 0);
        if turn == 1 {
            scene.interrupt(&["a"]);
        }
        round.submit(floats(4.0), 1).unwrap();
        round.result().unwrap();
    }
    near.join().unwrap().unwrap();
    scene.proxy.mend();
    let rounds = away.join().unwrap().unwrap();
    let error = rounds[0].as_ref().unwrap_err();
    assert!(
        matches!(error, NetError::Job(JobError::Missed { round: 1, .. })),
        "{error}"
    );
    assert!(
        error.to_string().contains("counts this party's update"),
        "{error}"
    );
    assert_eq!(rounds.len(), 1, "{rounds:?}");
}

/// Whoever misses more than the last stage cannot be told the sum, but that it counts.
#[test]
fn case_54_a_survivor_that_is_lost_before_the_last_stage_hears_that_it_counts() {
    for back in [None, Some(4)] {
        let rounds = lost_before(3, back).unwrap();
        let error = rounds[0].as_ref().unwrap_err();
        assert!(
            matches!(error, NetError::Job(JobError::Missed { round: 1, .. })),
            "{error}"
        );
    }
}

#[test]
fn case_54_a_job_that_fails_later_still_tells_the_latest_sum() {
    let scene = Scene::new(plain(0), |config| config.limits.patience = 0.5);
    let [first, second] = two_away(&scene, floats);
    assert_eq!(
        scene.coordinator().wait_done("test").state,
        JobState::Failed
    );
    scene.proxy.mend();
    let nobody = |status: &JobStatus| status.unconfirmed.is_empty();
    assert_eq!(
        scene.coordinator().wait("test", nobody).state,
        JobState::Failed
    );
    // Both wait for the job to be started again.
    assert!(!first.is_finished() && !second.is_finished());
}

/// The names of the result at everybody, and what becomes of a survivor that says it was told another one.
#[test]
fn case_45_a_survivor_that_was_told_another_result_is_recorded_once() {
    let mut scene = Scene::new(plain(1), |_| ());
    let near = ["a", "b"].map(|name| scene.near(name, constant(1.0)));
    let mut raw = Raw::join(&scene.coordinator().url(), scene.pki.party("c"), "c");
    let start = raw.begin();
    raw.play(&start, 4.0, u8::MAX);
    let done = raw.done();
    for byte in 0..20 {
        raw.send(pb::RoundConfirmed {
            round: 1,
            model: done.model.clone(),
            result: vec![byte; 32],
        });
    }
    for party in near {
        assert_eq!(the_only(party).result[..], done.result[..]);
    }
    let status = scene
        .coordinator()
        .wait("test", |status| status.unconfirmed.is_empty());
    let hex: String = done
        .result
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!((status.round.unwrap().result, hex.len()), (hex, 64));
    raw.leave();
    scene.coordinator.take().unwrap().stop().unwrap();
    let store = rusqlite::Connection::open(scene.folder.path().join("store.db")).unwrap();
    let query = "SELECT detail FROM events WHERE kind = 'result'";
    let mut query = store.prepare(query).unwrap();
    let events = query.query_map([], |row| row.get(0)).unwrap();
    let events: Vec<String> = events.map(Result::unwrap).collect();
    assert_eq!(events, ["c was told another result"]);
}
