//! Leases: who gets one and who gives one back, and what a job does without a party that has lost its lease.

use std::time::Duration;

use blindsum_job::coordinator::Input;
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, LeavingCode, RefusalCode};
use blindsum_job::report::RoundState;
use blindsum_job::store::Store;
use blindsum_protocol::{JobSpec, ModelUpdate, ProtocolName};

use super::nonces::{fixed_for_the_first, scene, the_next_one_does_without};
use super::scene::{Heard, Scene};

const RAN_OUT: &str = "its lease ran out";

/// Rounds of three parties, of which one may be missing.
fn three(min_parties: u32) -> Scene {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 3,
        min_parties,
        dim: 4,
        rounds: 3,
        dropout: 0.2,
        input_deadline: 600.0,
        model_update: ModelUpdate::Nothing,
        ..JobSpec::default()
    };
    Scene::new(spec, 1)
}

fn leased(scene: &Scene) -> Vec<&str> {
    scene.leased.iter().map(|name| &**name).collect()
}

fn lost(scene: &mut Scene, party: usize, returns: bool) {
    scene.give(Input::Lost {
        link: scene.parties[party].link,
        reason: "lost".into(),
        returns,
    });
}

#[test]
fn who_is_let_in_has_a_lease_until_it_leaves_by_itself() {
    let mut scene = three(2);
    assert!(leased(&scene).is_empty());
    scene.connect_all();
    assert_eq!(leased(&scene), ["party-0", "party-1", "party-2"]);
    // It may come back before its lease runs out.
    lost(&mut scene, 0, true);
    lost(&mut scene, 1, false);
    assert_eq!(leased(&scene), ["party-0", "party-2"]);
    // Who is not let in has none, and who is sent away no more.
    scene.connect_as(1, |hello| hello.name = "another".into());
    assert_eq!(leased(&scene), ["party-0", "party-2"]);
    scene.connect(1);
    let round = scene.server.status().round.as_ref().unwrap().number;
    let ready = pb::Ready {
        round,
        ..pb::Ready::default()
    };
    scene.frame(2, ready);
    assert_eq!(leased(&scene), ["party-0", "party-1"]);
}

#[test]
fn a_party_that_loses_its_lease_in_the_middle_of_a_round_is_out_of_it_at_once() {
    let mut scene = three(2);
    scene.begin_without_the_last();
    scene.heard_by(2);
    let then = scene.now.time;
    assert_eq!(scene.server.status().rounds_done, 0);
    scene.lose_lease(2);
    // Nobody waited for anything, and its connection has ended.
    assert_eq!(scene.now.time, then);
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(report.survivors, ["party-0", "party-1"]);
    assert!(
        report.stages[0].dropped["party-2"].starts_with(RAN_OUT),
        "{report:?}"
    );
    let heard = scene.heard_by(2);
    let Some(Heard::Cut(last)) = heard.last() else {
        panic!("{heard:?} in the place of the end of the connection");
    };
    assert_eq!(last.code(), RefusalCode::RefusalTooSlow);
    assert_eq!(scene.server.status().connected, ["party-0", "party-1"]);
    // The next round is formed without it.
    scene.play_with(&[0, 1]);
    while scene.server.status().round.as_ref().unwrap().state != RoundState::Running {
        scene.wait();
    }
    let parties = scene
        .server
        .status()
        .round
        .as_ref()
        .unwrap()
        .parties
        .clone();
    assert_eq!(parties, ["party-0", "party-1"]);
    // It comes back, with a new lease, and is in the one after that.
    scene.connect(2);
    assert_eq!(leased(&scene), ["party-0", "party-1", "party-2"]);
    scene.play();
    let report = scene.store.round("job", 2).unwrap().unwrap();
    assert_eq!(report.survivors, ["party-0", "party-1"]);
    let report = scene.store.round("job", 3).unwrap().unwrap();
    assert_eq!(report.survivors, ["party-0", "party-1", "party-2"]);
}

fn leaves(scene: &mut Scene, party: usize, code: LeavingCode, reason: &str) {
    let leaving = pb::Leaving {
        code: code.into(),
        reason: reason.into(),
    };
    scene.frame(party, leaving);
}

/// Nobody has failed, and nobody is waited for.
#[test]
fn who_leaves_by_itself_gives_its_lease_back_and_says_why() {
    let mut scene = three(2);
    scene.begin_without_the_last();
    let then = scene.now.time;
    leaves(&mut scene, 2, LeavingCode::LeavingFailed, "it is broken");
    assert_eq!(scene.now.time, then);
    assert_eq!(leased(&scene), ["party-0", "party-1"]);
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(report.survivors, ["party-0", "party-1"]);
    let reason = "it is broken";
    assert_eq!(report.stages[0].dropped["party-2"], reason);
    let status = scene.server.status();
    assert_eq!(status.left["party-2"], reason);
    assert!(status.lost.is_empty());
    // What ends its connection is no news, and it may come again.
    lost(&mut scene, 2, true);
    assert!(scene.server.status().lost.is_empty());
    scene.connect(2);
    scene.pass(Duration::from_millis(100));
    assert!(scene.server.status().left.is_empty());
    assert_eq!(leased(&scene), ["party-0", "party-1", "party-2"]);
}

/// Case 54: who leaves once its update is here may be in the sum, and is told so when it comes back.
#[test]
fn case_54_who_leaves_with_its_update_here_may_be_in_the_sum() {
    let mut scene = three(2);
    scene.begin_without_the_last();
    leaves(&mut scene, 0, LeavingCode::LeavingStopped, "");
    assert_eq!(scene.server.status().rounds_done, 0);
    scene.connect(0);
    leaves(&mut scene, 2, LeavingCode::LeavingClosed, "");
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(report.survivors, ["party-0", "party-1"]);
    let told = scene.frames_to(0);
    let denied = told.iter().any(|frame| {
        matches!(frame, Frame::RoundAborted(aborted) if aborted.round == 1 && !aborted.counted)
    });
    assert!(!denied, "{told:?}");
    assert!(
        told.iter()
            .any(|frame| matches!(frame, Frame::RoundDone(done) if done.round == 1))
    );
}

/// Of the two rules the one holds that ends first.
#[test]
fn a_lost_lease_ends_the_grace_of_a_broken_connection() {
    let mut scene = three(2);
    scene.begin_without_the_last();
    lost(&mut scene, 2, true);
    scene.pass(Duration::from_secs(4));
    assert_eq!(scene.server.status().rounds_done, 0);
    scene.lose_lease(2);
    assert_eq!(scene.server.status().rounds_done, 1);
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert!(
        report.stages[0].dropped["party-2"].starts_with(RAN_OUT),
        "{report:?}"
    );
    // And the grace ends the wait of a party whose lease runs on.
    let mut scene = three(2);
    scene.begin_without_the_last();
    lost(&mut scene, 2, true);
    scene.pass(Duration::from_secs(5));
    assert_eq!(scene.server.status().rounds_done, 1);
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(
        report.stages[0].dropped["party-2"],
        "its connection was lost"
    );
    assert_eq!(leased(&scene), ["party-0", "party-1", "party-2"]);
}

#[test]
fn a_round_that_needs_the_party_is_aborted_and_the_next_one_has_it_again() {
    let mut scene = three(3);
    scene.begin_without_the_last();
    scene.lose_lease(2);
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(report.state, RoundState::Aborted);
    scene.heard_by(2);
    scene.connect(2);
    while scene.server.status().rounds_done < 1 {
        scene.play();
        if scene.server.status().rounds_done < 1 {
            scene.wait();
        }
    }
    let report = scene.store.round("job", 2).unwrap().unwrap();
    assert_eq!(report.survivors.len(), 3);
}

#[test]
fn a_member_that_loses_its_lease_before_it_has_opened_its_nonce_ends_the_round_at_once() {
    let mut scene = scene();
    let mut then = scene.now.time;
    fixed_for_the_first(&mut scene, |scene, _| {
        then = scene.now.time;
        scene.lose_lease(0);
        scene.connect(0);
    });
    assert_eq!(scene.now.time, then);
    the_next_one_does_without(&mut scene, RAN_OUT);
}

#[test]
fn a_lease_of_somebody_who_is_in_no_round_costs_no_round() {
    let mut scene = three(2);
    scene.connect(2);
    scene.lose_lease(2);
    // Watchers are told a moment later.
    scene.pass(Duration::from_millis(50));
    assert!(scene.server.status().connected.is_empty());
    // What is told twice, or of a stranger, is nothing.
    scene.lose_lease(2);
    let name = "stranger".into();
    scene.give(Input::LeaseLost { name });
    scene.connect_all();
    scene.play();
    assert_eq!(scene.server.status().rounds_done, 3);
    scene.lose_lease(0);
    assert!(scene.over.is_none());
}
