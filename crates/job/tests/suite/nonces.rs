//! Rounds whose graph is drawn: all members open the nonces to which they committed, or the next round is offered soon
//! and without whoever did not.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_job::pb::{self, coordinator_frame::Frame};
use blindsum_job::report::RoundState;
use blindsum_job::store::Store;
use blindsum_protocol::{JobSpec, ProtocolName};

use super::scene::{Heard, Scene};

/// Six parties of which five are enough. Nobody waits for a join deadline.
pub fn scene() -> Scene {
    Scene::new(
        JobSpec {
            protocol: ProtocolName::SecAggPlus.into(),
            parties: 6,
            min_parties: 5,
            dim: 3,
            rounds: 1,
            corrupt: 0.2,
            join_deadline: 1e6,
            stage_deadline: 30.0,
            ..JobSpec::default()
        },
        1,
    )
}

/// Everybody is ready, and the first party is told that the roster is fixed; what it says of that is in `says`.
pub fn fixed_for_the_first(scene: &mut Scene, says: impl FnOnce(&mut Scene, pb::RosterFixed)) {
    scene.connect_all();
    let others: Vec<usize> = (1..6).collect();
    scene.play_with(&others);
    scene.heard_by(0);
    let job = scene.job.clone();
    let ready = scene.parties[0].ready(&job, 1);
    scene.frame(0, ready);
    scene.play_with(&others);
    let fixed = scene.heard_by(0).into_iter().find_map(|heard| match heard {
        Heard::Frame(Frame::RosterFixed(fixed)) => Some(fixed),
        _ => None,
    });
    says(scene, fixed.expect("no roster was fixed"));
}

/// The first round has come to nothing, for this reason, and the second one has a sum without the first party, long
/// before any join deadline.
pub fn the_next_one_does_without(scene: &mut Scene, says: &str) {
    let all: Vec<usize> = (0..6).collect();
    for _ in 0..1000 {
        if scene.server.status().rounds_done > 0 {
            break;
        }
        scene.play_with(&all);
        scene.wait();
    }
    let mut reports = scene.store.rounds(&scene.job.spec().job, 10).unwrap();
    reports.reverse();
    assert_eq!(reports[0].state, RoundState::Aborted);
    let reason = &reports[0].reason;
    assert!(
        reason.contains("party-0") && reason.contains(says),
        "{reason}"
    );
    assert_eq!(reports[1].state, RoundState::Done);
    assert_eq!(reports[1].survivors.len(), 5);
    assert!(!reports[1].parties.iter().any(|name| name == "party-0"));
}

#[test]
fn what_begins_a_round_is_made_once_for_all_its_members() {
    let mut scene = scene();
    scene.connect_all();
    scene.play();
    let heard = |is: fn(&Frame) -> bool| {
        let said = scene.said.iter();
        said.filter(|(_, heard)| matches!(heard, Heard::Frame(frame) if is(frame)))
            .count()
    };
    assert_eq!(heard(|frame| matches!(frame, Frame::RosterFixed(_))), 6);
    assert_eq!(heard(|frame| matches!(frame, Frame::RoundStart(_))), 6);
    assert_eq!(scene.shared.len(), 12);
    let places: BTreeSet<_> = scene.shared.iter().map(Arc::as_ptr).collect();
    assert_eq!(places.len(), 2);
    let encoded = scene.shared.iter().map(|frame| frame.encoded().as_ptr());
    assert_eq!(encoded.collect::<BTreeSet<_>>().len(), 2);
}

/// Abuse case 46: whoever opens another nonce than it committed to has chosen it after those of the others.
#[test]
fn case_46_a_nonce_that_was_not_committed_to_ends_the_round() {
    let mut scene = scene();
    fixed_for_the_first(&mut scene, |scene, fixed| {
        let mut opening = scene.parties[0].open(&fixed);
        opening.nonce[7] ^= 1;
        scene.frame(0, opening);
    });
    the_next_one_does_without(&mut scene, "not the one that it committed to");
}

/// Abuse case 46: no round begins without one of those whose nonces were opened for it.
#[test]
fn case_46_all_members_open_or_there_is_no_round() {
    let mut scene = scene();
    fixed_for_the_first(&mut scene, |scene, fixed| {
        scene.parties[0].open(&fixed);
    });
    the_next_one_does_without(&mut scene, "it said nothing within 30 s");
}

/// Abuse case 46: who refuses ends the round too, and waits for another one.
#[test]
fn case_46_who_refuses_the_roster_waits_for_another_round() {
    let mut scene = scene();
    fixed_for_the_first(&mut scene, |scene, fixed| {
        scene.parties[0].open(&fixed);
        let refused = pb::RoundRefused {
            round: 1,
            reason: "too small".into(),
            ..pb::RoundRefused::default()
        };
        scene.frame(0, refused);
    });
    the_next_one_does_without(&mut scene, "it refuses the round: too small");
}
