//! The coordinator's clock is wrong for a while: no round begins, none counts as failed, and nobody is sent away.

use std::time::Duration;

use blindsum_crypto::pki::Validity;
use blindsum_job::pb::RefusalCode;
use blindsum_job::report::JobState;
use blindsum_protocol::{JobSpec, ProtocolName};

use crate::scene::{BEGIN, Heard, Scene, VALIDITY};

const DAY: i64 = 86_400;

/// A job of five parties, of which `plain` needs all.
fn spec(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        parties: 5,
        min_parties: match protocol {
            ProtocolName::Plain => 5,
            _ => 4,
        },
        corrupt: 0.2,
        dropout: 0.2,
        dim: 4,
        rounds: 6,
        join_deadline: 10.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        ..JobSpec::default()
    }
}

/// Time passes, in which more rounds could fail than may.
fn go_by(scene: &mut Scene) {
    for _ in 0..100 {
        scene.pass(Duration::from_secs(2));
        scene.play();
    }
}

fn assert_waits(scene: &Scene, rounds_done: u64) {
    let status = scene.server.status();
    assert_eq!((status.state, &*status.reason), (JobState::Running, ""));
    assert_eq!(status.rounds_done, rounds_done);
    assert_eq!(status.connected.len(), 5);
    assert!(
        status.warnings == [status.warning.clone()] && status.warning.contains("check the clocks"),
        "{}",
        status.warning
    );
}

fn assert_ends_well(scene: &mut Scene) {
    while scene.state() == JobState::Running {
        scene.wait();
        scene.play();
    }
    let status = scene.server.status();
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 6));
    assert_eq!(status.warning, "");
}

#[test]
fn case_56_a_clock_that_is_wrong_from_the_start_delays_a_job_until_it_is_right() {
    for protocol in [ProtocolName::Plain, ProtocolName::SecAggPlus] {
        let mut scene = Scene::new(spec(protocol), 1);
        scene.set_clock(-3 * DAY);
        scene.connect_all();
        go_by(&mut scene);
        assert_waits(&scene, 0);
        let warning = scene.server.status().warning.clone();
        assert!(warning.contains("(2027-01-12"), "{warning}");
        assert!(
            warning.contains("is not valid before 2027-01-14"),
            "{warning}"
        );
        scene.set_clock(3 * DAY);
        assert_ends_well(&mut scene);
        let sent_away = |heard: &Heard| matches!(heard, Heard::Cut(_) | Heard::Refused(_));
        assert!(!scene.said.iter().any(|(_, heard)| sent_away(heard)));
    }
}

#[test]
fn case_56_a_clock_that_goes_wrong_amid_a_job_delays_it_until_it_is_right() {
    for off in [-3 * DAY, 400 * DAY] {
        let mut scene = Scene::new(spec(ProtocolName::SecAggPlus), 1);
        scene.begin_without_the_last();
        scene.set_clock(off);
        // The round under way goes on to its end.
        scene.play();
        let done = scene.server.status().rounds_done;
        assert!(done > 0);
        go_by(&mut scene);
        assert_waits(&scene, done);
        scene.set_clock(-off);
        assert_ends_well(&mut scene);
    }
}

#[test]
fn no_round_begins_while_the_own_certificate_is_not_in_its_time() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    scene.restart_certified((BEGIN + 1000, BEGIN + 2000));
    scene.connect_all();
    go_by(&mut scene);
    assert_waits(&scene, 0);
    let warning = scene.server.status().warning.clone();
    assert!(
        warning.contains("the coordinator's own certificate is not valid before"),
        "{warning}"
    );
    scene.set_clock(1000);
    assert_ends_well(&mut scene);
}

/// A status is sent with each change: a warning names a few parties, however many there are.
#[test]
fn a_warning_of_many_parties_names_five_and_counts_the_others() {
    let many = JobSpec {
        parties: 40,
        min_parties: 40,
        ..spec(ProtocolName::Plain)
    };
    let mut scene = Scene::new(many, 1);
    scene.set_clock(-3 * DAY);
    scene.connect_all();
    go_by(&mut scene);
    let warning = scene.server.status().warning.clone();
    assert!(warning.contains("those of 40 of 40"), "{warning}");
    assert!(warning.contains(", and 35 more)"), "{warning}");
    // Five, and once more the one whose dates are told.
    assert_eq!(warning.matches("party-").count(), 6, "{warning}");
}

/// A certificate that was issued by a machine whose clock is ahead: every round needs its party.
#[test]
fn case_56_one_needed_party_that_is_not_valid_yet_ends_no_job() {
    let valid = |i| match i {
        3 => Validity {
            not_before: BEGIN + 3600,
            ..VALIDITY
        },
        _ => VALIDITY,
    };
    let mut scene = Scene::certified(spec(ProtocolName::Plain), 1, valid);
    scene.connect_all();
    go_by(&mut scene);
    assert_waits(&scene, 0);
    let warning = scene.server.status().warning.clone();
    assert!(
        warning.contains("those of 1 of 5 connected parties (party-3)"),
        "{warning}"
    );
    scene.pass(Duration::from_secs(3600));
    assert_ends_well(&mut scene);
}

/// One certificate ends while the others are valid for longer: its party is told that it may be a matter of clocks.
#[test]
fn a_party_whose_time_alone_is_over_is_told_by_whose_clock() {
    let valid = |i| match i {
        3 => Validity {
            not_after: BEGIN + 100,
            ..VALIDITY
        },
        _ => VALIDITY,
    };
    let mut scene = Scene::certified(spec(ProtocolName::Plain), 1, valid);
    scene.set_clock(3600);
    for party in [0, 1, 2, 4] {
        scene.connect(party);
    }
    scene.connect(3);
    let heard = scene.heard_by(3);
    let [Heard::Refused(refused)] = &heard[..] else {
        panic!("{heard:?}");
    };
    assert_eq!(refused.code(), RefusalCode::RefusalOutOfTime);
    assert!(
        refused
            .reason
            .contains("by the coordinator's clock (2027-01-15"),
        "{}",
        refused.reason
    );
    assert!(
        refused.reason.contains("check the clocks"),
        "{}",
        refused.reason
    );
}
