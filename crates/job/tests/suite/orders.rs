//! Orders of operators to a coordinator that is driven by hand.

use std::time::Duration;

use blindsum_job::coordinator::Input;
use blindsum_job::orders::{Change, Command, OrderError, Outcome, Terms};
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, LeavingCode, RefusalCode};
use blindsum_job::report::{JobState, RoundState};
use blindsum_job::store::{MemoryStore, Store};
use blindsum_protocol::{JobSpec, ProtocolName};

use crate::ensemble::Ensemble;
use crate::scene::{Heard, Scene};

fn spec() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 3,
        min_parties: 2,
        dim: 4,
        rounds: 2,
        join_deadline: 10.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        ..JobSpec::default()
    }
}

fn ban(party: &str, seconds: Option<f64>) -> Command {
    let party = party.into();
    Command::Ban { party, seconds }
}

fn extend(rounds: u32) -> Command {
    Command::Extend(Change {
        rounds: Some(rounds),
        ..Change::default()
    })
}

fn drain() -> Command {
    Command::Drain { within: None }
}

/// The last party does what it has not done: round 1 has all its answers then.
fn last_answers(scene: &mut Scene) {
    scene.play();
}

fn rounds_begun(scene: &Scene) -> usize {
    scene.store.rounds("job", 99).unwrap().len()
}

#[test]
fn a_job_that_drains_finishes_its_round_and_offers_none() {
    let mut scene = Scene::new(spec(), 1);
    scene.begin_without_the_last();
    let outcome = scene.order(drain()).unwrap();
    let (round, within) = (Some(1), 600.0);
    assert_eq!(outcome, Outcome::Draining { round, within });
    assert!(scene.over.is_none(), "a round is under way");
    last_answers(&mut scene);
    assert!(
        matches!(scene.over, Some(Ok(()))),
        "everybody has confirmed"
    );
    let round = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!((round.state, round.survivors.len()), (RoundState::Done, 3));
    assert_eq!(rounds_begun(&scene), 1);
    assert_eq!(scene.confirmed(), [true; 3]);
    // Whoever goes on from the store offers the next one.
    let store = scene.store.snapshot();
    scene.over = None;
    scene.restart(store, 2);
    scene.connect_all();
    scene.play();
    assert_eq!(scene.server.status().rounds_done, 2);
}

#[test]
fn a_job_that_drains_between_rounds_stops_at_once() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect(0);
    scene.order(drain()).unwrap();
    assert!(matches!(scene.over, Some(Ok(()))));
    let last = scene.heard_by(0);
    let Some(Heard::Closed(last)) = last.last() else {
        panic!("{last:?} in the place of a goodbye");
    };
    assert_eq!(last.code(), RefusalCode::RefusalStopping);
}

#[test]
fn a_round_that_is_only_offered_is_taken_back_by_a_drain() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect(0);
    scene.connect(1);
    assert_eq!(rounds_begun(&scene), 1);
    scene.order(drain()).unwrap();
    assert!(matches!(scene.over, Some(Ok(()))));
    let round = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(round.state, RoundState::Aborted);
    assert_eq!(round.reason, "the coordinator drains, and no round begins");
}

#[test]
fn a_drain_lasts_no_longer_than_was_said() {
    let mut scene = Scene::new(spec(), 1);
    scene.begin_without_the_last();
    let within = Some(20.0);
    scene.order(Command::Drain { within }).unwrap();
    scene.pass(Duration::from_secs(19));
    assert!(scene.over.is_none());
    scene.pass(Duration::from_secs(1));
    assert!(matches!(scene.over, Some(Ok(()))));
    let round = scene.store.round("job", 1).unwrap().unwrap();
    let reason = "the coordinator drained, and round 1 had not ended within 20 s";
    assert_eq!(round.reason, reason);
}

#[test]
fn a_job_that_is_paused_finishes_its_round_and_waits_without_end() {
    let mut scene = Scene::new(spec(), 1);
    scene.begin_without_the_last();
    let outcome = scene.order(Command::Pause {}).unwrap();
    assert_eq!(outcome, Outcome::Paused { round: Some(1) });
    last_answers(&mut scene);
    assert_eq!(scene.server.status().rounds_done, 1);
    // Far longer than the job's patience.
    scene.pass(Duration::from_secs(50_000));
    assert_eq!(
        (scene.state(), rounds_begun(&scene)),
        (JobState::Running, 1)
    );
    let held = scene.server.status().held.clone();
    assert_eq!(held, "paused by olga: a test");
    let again = scene.order(Command::Pause {}).unwrap_err();
    assert!(again.to_string().contains("paused by olga"), "{again}");
    // A coordinator that goes on from the store is paused, too.
    let store = scene.store.snapshot();
    scene.restart(store, 2);
    scene.connect_all();
    scene.play();
    assert_eq!(rounds_begun(&scene), 1);
    scene.order(Command::Resume {}).unwrap();
    assert_eq!(scene.server.status().held, "");
    scene.play();
    assert_eq!((scene.state(), rounds_begun(&scene)), (JobState::Done, 2));
    let error = scene.order(Command::Resume {}).unwrap_err();
    assert!(matches!(error, OrderError::State { .. }), "{error}");
}

#[test]
fn a_pause_takes_an_offer_back_and_counts_no_failure() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect(0);
    scene.connect(1);
    for number in 1..10 {
        assert_eq!(rounds_begun(&scene), number);
        scene.order(Command::Pause {}).unwrap();
        let frames = scene.frames_to(0);
        let Some(Frame::RoundAborted(aborted)) = frames.last() else {
            panic!("{frames:?} in the place of an end");
        };
        assert!(aborted.reason.contains("paused by olga: a test"));
        scene.order(Command::Resume {}).unwrap();
    }
    assert_eq!(scene.state(), JobState::Running);
}

#[test]
fn more_rounds_are_told_to_the_parties_and_kept() {
    let mut scene = Scene::new(spec(), 1);
    scene.begin_without_the_last();
    let start = |scene: &mut Scene, party| {
        let frames = scene.frames_to(party);
        let start = frames.into_iter().find_map(|frame| match frame {
            Frame::RoundStart(start) => Some(start),
            _ => None,
        });
        start.unwrap()
    };
    assert_eq!(start(&mut scene, 2).terms, None);
    let outcome = scene.order(extend(3)).unwrap();
    let terms = Terms {
        rounds: 3,
        ..Terms::of(&spec())
    };
    assert_eq!(outcome.to_string(), "rounds: 2 → 3");
    assert_eq!(scene.server.status().rounds, 3);
    let store = scene.store.snapshot();
    scene.restart(store, 2);
    assert_eq!(scene.server.status().rounds, 3);
    for party in 0..3 {
        scene.parties[party].round = None;
        scene.connect(party);
    }
    for party in 0..3 {
        scene.frames_to(party);
        let ready = scene.parties[party].ready(&scene.job.clone(), 2);
        scene.frame(party, ready);
    }
    let told = start(&mut scene, 2).terms.unwrap();
    assert_eq!((told.rounds, told.input_deadline_ms), (3, 600_000));
    assert_eq!(Terms::heard(Some(&told), &spec()), Ok(terms));
}

#[test]
fn a_job_that_is_done_goes_on_when_it_is_extended() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect_all();
    scene.play();
    assert_eq!(scene.state(), JobState::Done);
    let fewer = scene.order(extend(2)).unwrap_err().to_string();
    assert!(fewer.contains("name more than 2"), "{fewer}");
    scene.order(extend(4)).unwrap();
    scene.play();
    assert_eq!((scene.state(), rounds_begun(&scene)), (JobState::Done, 4));
    assert_eq!(scene.store.state("job").unwrap().0, JobState::Done);
}

#[test]
fn other_deadlines_hold_from_the_next_round_on() {
    let mut scene = Scene::new(spec(), 1);
    scene.begin_without_the_last();
    let input_deadline = Some(1200.0);
    scene
        .order(Command::Extend(Change {
            input_deadline,
            ..Change::default()
        }))
        .unwrap();
    // The round under way began with the old ones, as its parties know.
    let begun = scene.now.time;
    while scene.server.status().rounds_done == 0 {
        scene.wait();
    }
    assert_eq!((scene.now.time - begun).as_secs(), 600);
    scene.play_with(&[0, 1]);
    scene.frames_to(2);
    let ready = scene.parties[2].ready(&scene.job.clone(), 2);
    scene.frame(2, ready);
    scene.play_with(&[0, 1]);
    let begun = scene.now.time;
    while scene.server.status().rounds_done == 1 {
        scene.wait();
    }
    assert_eq!((scene.now.time - begun).as_secs(), 1200);
}

#[test]
fn a_job_is_done_after_its_round_when_it_is_ended() {
    let mut scene = Scene::new(
        JobSpec {
            rounds: 0,
            ..spec()
        },
        1,
    );
    scene.begin_without_the_last();
    let outcome = scene.order(Command::End {}).unwrap();
    assert_eq!(outcome, Outcome::Ended { round: Some(1) });
    last_answers(&mut scene);
    assert_eq!((scene.state(), rounds_begun(&scene)), (JobState::Done, 1));
    let store = scene.store.snapshot();
    scene.restart(store, 2);
    assert_eq!(scene.state(), JobState::Done, "also after a restart");
}

#[test]
fn a_paused_job_can_be_ended() {
    let mut scene = Scene::new(spec(), 1);
    scene.order(Command::Pause {}).unwrap();
    assert_eq!(
        scene.order(Command::End {}).unwrap(),
        Outcome::Ended { round: None }
    );
    assert_eq!(scene.state(), JobState::Done);
}

#[test]
fn case_70_a_banned_party_is_out_of_the_round_and_not_let_in() {
    let mut scene = Scene::new(spec(), 1);
    scene.begin_without_the_last();
    scene.order(ban("party-2", Some(60.0))).unwrap();
    assert_eq!(scene.server.status().connected, ["party-0", "party-1"]);
    // Nobody waits for it.
    scene.play_with(&[0, 1]);
    let round = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(round.survivors, ["party-0", "party-1"]);
    let dropped = &round.stages[0].dropped["party-2"];
    assert_eq!(dropped, "an operator has banned it");
    let refused = |scene: &mut Scene| {
        let link = scene.connect(2);
        match scene.heard[&link].first() {
            Some(Heard::Refused(refused)) => Some((refused.code(), refused.reason.clone())),
            _ => None,
        }
    };
    let store = scene.store.snapshot();
    scene.restart(store, 2);
    let (code, reason) = refused(&mut scene).unwrap();
    assert_eq!(code, RefusalCode::RefusalBanned);
    assert!(
        reason.contains("has banned this party until 2027-01-15 08:01:00 UTC"),
        "{reason}"
    );
    scene.pass(Duration::from_secs(60));
    assert_eq!(refused(&mut scene), None, "its time is over");
    scene.order(ban("party-2", None)).unwrap();
    assert!(refused(&mut scene).is_some());
    let banned = scene.server.status().banned.clone();
    assert_eq!(banned.get("party-2"), Some(&None));
    let party = "party-2".to_owned();
    scene
        .order(Command::Unban {
            party: party.clone(),
        })
        .unwrap();
    assert_eq!(refused(&mut scene), None);
    let error = scene.order(Command::Unban { party }).unwrap_err();
    assert!(matches!(error, OrderError::Unchanged { .. }), "{error}");
}

/// A party whose program fails in each round ends no job: the others wait for somebody else, and an operator can ban it.
#[test]
fn a_party_that_fails_in_each_round_ends_no_job() {
    let mut scene = Scene::new(
        JobSpec {
            min_parties: 3,
            ..spec()
        },
        1,
    );
    scene.connect_all();
    let mut failures = 0;
    for _ in 0..500 {
        scene.play_with(&[0, 1]);
        let frames = scene.frames_to(2);
        let quiet = frames.is_empty();
        for frame in frames {
            match frame {
                Frame::RoundOffer(offer) => {
                    let ready = scene.parties[2].ready(&scene.job.clone(), offer.round);
                    scene.frame(2, ready);
                }
                Frame::RoundStart(_) => {
                    scene.frame(
                        2,
                        pb::Leaving {
                            code: LeavingCode::LeavingFailed.into(),
                            reason: "ValueError".into(),
                        },
                    );
                    failures += 1;
                    scene.connect(2);
                }
                _ => {}
            }
        }
        assert_eq!(
            scene.state(),
            JobState::Running,
            "after {failures} failures"
        );
        if failures == 12 {
            break;
        }
        if quiet {
            scene.wait();
        }
    }
    assert_eq!(failures, 12, "many more than may fail in a row");
    let blocked = &scene.server.status().blocked;
    assert!(blocked.contains("party-2"), "{blocked}");
}

#[test]
fn a_job_that_has_failed_goes_on_when_it_is_resumed() {
    let mut scene = Scene::new(spec(), 1);
    // Nobody comes within the job's patience.
    scene.pass(Duration::from_secs(4000));
    assert_eq!(scene.state(), JobState::Failed);
    let link = scene.connect(0);
    let Some(Heard::Refused(refused)) = scene.heard[&link].first() else {
        panic!("{:?} in the place of a refusal", scene.heard[&link]);
    };
    assert_eq!(refused.code(), RefusalCode::RefusalJobFailed);
    assert_eq!(scene.order(Command::Resume {}).unwrap(), Outcome::Resumed);
    assert_eq!(
        (scene.state(), &*scene.server.status().reason),
        (JobState::Running, "")
    );
    assert_eq!(scene.store.state("job").unwrap().0, JobState::Running);
    scene.connect_all();
    scene.play();
    assert_eq!(scene.state(), JobState::Done);
    scene.give(Input::Stop);
    assert!(matches!(scene.over, Some(Ok(()))));
}

#[test]
fn every_order_is_recorded_with_who_and_why_also_where_it_is_refused() {
    let mut scene = Scene::new(spec(), 1);
    scene.order(Command::Resume {}).unwrap_err();
    scene.order(ban("party-1", None)).unwrap();
    let bytes = scene.store.to_bytes("job").unwrap().unwrap();
    let read = MemoryStore::from_bytes(&scene.job, &bytes, 3).unwrap();
    let mut orders = read.orders("job", 9).unwrap();
    assert_eq!(orders, scene.store.orders("job", 9).unwrap());
    orders.reverse();
    let told: Vec<_> = orders
        .iter()
        .map(|order| {
            (
                order.command.name(),
                &*order.by,
                &*order.reason,
                order.refused,
            )
        })
        .collect();
    let all = [
        ("resume", "olga", "a test", true),
        ("ban", "olga", "a test", false),
    ];
    assert_eq!(told, all);
    assert_eq!(orders[0].at_ms, scene.now.unix_millis);
    assert!(
        orders[0].outcome.contains("not paused"),
        "{}",
        orders[0].outcome
    );
}

/// The parties are the ones of the program, and hear of the third round with its beginning.
#[test]
fn parties_take_part_in_more_rounds_where_they_are_told_of_them() {
    let mut job = Ensemble::new(JobSpec { dim: 3, ..spec() }, 1);
    job.play_to_round();
    job.extend(3);
    job.play();
    assert!(job.failures.is_empty(), "{:?}", job.failures);
    for host in &job.hosts {
        let rounds: Vec<u64> = host.results.keys().copied().collect();
        assert_eq!(rounds, [1, 2, 3], "{}", host.name);
    }
}

#[test]
fn case_69_parties_refuse_more_rounds_than_they_know_of() {
    let mut job = Ensemble::new(JobSpec { dim: 3, ..spec() }, 1);
    job.hides_terms = true;
    job.play_to_round();
    job.extend(3);
    while job.failures.len() < 3 {
        job.advance();
    }
    for (name, error) in &job.failures {
        let error = error.to_string();
        assert!(error.contains("has not announced more"), "{name}: {error}");
    }
    for host in &job.hosts {
        assert_eq!(host.results.len(), 2, "{}", host.name);
    }
}
