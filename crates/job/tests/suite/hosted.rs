//! Rounds that a host begins, at a coordinator that is driven by hand.

use std::time::Duration;

use blindsum_job::calls::{Call, CallEnd, CallError, CallId, CallLost, CallSum};
use blindsum_job::coordinator::Input;
use blindsum_job::orders::Command;
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, LeavingCode, RoundRefusalCode};
use blindsum_job::report::JobState;
use blindsum_protocol::{Adversary, JobSpec, ModelUpdate, ProtocolName};

use crate::scene::Scene;

fn spec() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        parties: 4,
        min_parties: 2,
        dim: 4,
        rounds: 0,
        model_update: ModelUpdate::Nothing,
        join_deadline: 10.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        ..JobSpec::default()
    }
}

fn active() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAggPlus.into(),
        parties: 6,
        min_parties: 4,
        adversary: Adversary::Active,
        dropout: 0.2,
        ..spec()
    }
}

fn sum(scene: &Scene) -> &CallSum {
    match scene.ended() {
        Some(CallEnd::Sum(sum)) => sum,
        other => panic!("{other:?} in the place of a sum"),
    }
}

fn lost(scene: &Scene) -> &CallLost {
    match scene.ended() {
        Some(CallEnd::Lost(lost)) => lost,
        other => panic!("{other:?} in the place of a lost round"),
    }
}

fn names(parties: &[usize]) -> Vec<String> {
    parties
        .iter()
        .map(|party| format!("party-{party}"))
        .collect()
}

fn leaving(code: LeavingCode) -> pb::Leaving {
    let (code, reason) = (code.into(), String::new());
    pb::Leaving { code, reason }
}

fn offers(frames: Vec<Frame>) -> Vec<(u64, Option<u64>)> {
    let offer = |frame| match frame {
        Frame::RoundOffer(offer) => Some((offer.round, offer.tag)),
        _ => None,
    };
    frames.into_iter().filter_map(offer).collect()
}

#[test]
fn no_round_begins_by_itself_and_a_call_has_exactly_its_parties() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    scene.play();
    scene.pass(Duration::from_secs(10_000));
    assert_eq!(scene.state(), JobState::Running, "nobody loses patience");
    assert!(scene.store_rounds().is_empty());
    scene.call(Some(7), &[0, 2, 3]).unwrap();
    assert_eq!(offers(scene.frames_to(1)), [], "it sits the round out");
    scene.play();
    let first = sum(&scene);
    assert_eq!((first.round, first.tag), (1, Some(7)));
    assert_eq!(first.survivors, names(&[0, 2, 3]));
    assert!(first.lost.is_empty());
    assert_eq!(first.total_weight, Some(3));
    let mean: Vec<f64> = first.mean.as_ref().unwrap().iter().collect();
    assert_eq!(mean.len(), 4);
    // Another size, other parties.
    scene.call(None, &[1, 2]).unwrap();
    scene.play();
    assert_eq!(sum(&scene).survivors, names(&[1, 2]));
    assert_eq!(scene.server.status().rounds_done, 2);
}

#[test]
fn a_party_that_comes_later_is_waited_for_and_nobody_else() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect(0);
    scene.connect(3);
    scene.call(Some(1), &[0, 1]).unwrap();
    scene.play();
    scene.pass(Duration::from_secs(6));
    assert!(
        scene.ended().is_none(),
        "two are here, but one was not called"
    );
    scene.connect(1);
    scene.play();
    assert_eq!(sum(&scene).survivors, names(&[0, 1]));
}

#[test]
fn who_does_not_come_in_time_is_lost_and_hears_so() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect(0);
    scene.connect(1);
    scene.call(Some(1), &[0, 1, 2]).unwrap();
    scene.play_with(&[0, 1]);
    scene.pass(Duration::from_secs(10));
    scene.play_with(&[0]);
    assert!(scene.ended().is_none());
    // It comes when the round has begun.
    scene.connect(2);
    let frames = scene.frames_to(2);
    assert!(
        matches!(&frames[..], [Frame::Welcome(_), Frame::RoundOffer(offer), Frame::RoundAborted(aborted)]
        if offer.tag == Some(1) && aborted.round == offer.round && aborted.only_you),
        "{frames:?}"
    );
    scene.play_with(&[1]);
    scene.play_with(&[0, 1]);
    let sum = sum(&scene);
    assert_eq!(sum.survivors, names(&[0, 1]));
    assert_eq!(sum.lost["party-2"], "it did not come within 10 s");
    // Once more when it has ended.
    scene.connect(2);
    let frames = scene.frames_to(2);
    assert!(
        matches!(&frames[1..], [Frame::RoundOffer(offer), Frame::RoundAborted(aborted)]
        if offer.tag == Some(1) && aborted.round == offer.round && aborted.only_you),
        "{frames:?}"
    );
}

#[test]
fn who_leaves_fails_or_refuses_is_given_up_at_once() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    scene.call(None, &[0, 1, 2, 3]).unwrap();
    scene.report(3, "its training raised ValueError");
    scene.heard_by(2);
    let ready = scene.parties[2].ready(&scene.job.clone(), 1);
    scene.frame(2, ready);
    scene.frame(2, leaving(LeavingCode::LeavingStopped));
    scene.play_with(&[0, 1]);
    let first = sum(&scene);
    assert_eq!(first.survivors, names(&[0, 1]));
    assert_eq!(first.lost["party-2"], "its program was stopped");
    assert_eq!(
        first.lost["party-3"],
        "the host reports that it has failed: its training raised ValueError"
    );
    // None of that is held against them.
    scene.connect(2);
    scene.call(None, &[0, 1, 2, 3]).unwrap();
    scene.play();
    assert_eq!(sum(&scene).survivors, names(&[0, 1, 2, 3]));
    scene.call(None, &[0, 1, 2]).unwrap();
    let refused = pb::RoundRefused {
        round: 3,
        code: RoundRefusalCode::RoundRefusalUnable.into(),
        reason: "no data".into(),
        ..pb::RoundRefused::default()
    };
    scene.heard_by(0);
    scene.frame(0, refused);
    scene.play();
    assert_eq!(sum(&scene).lost["party-0"], "refused by the party: no data");
}

/// A process of the round before says goodbye, or is lost, when the next round has been called already.
#[test]
fn who_ends_an_earlier_round_is_still_waited_for() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    scene.call(None, &[0, 1, 2, 3]).unwrap();
    scene.frame(2, leaving(LeavingCode::LeavingClosed));
    let (link, reason) = (scene.parties[3].link, "gone".to_owned());
    scene.give(Input::Lost {
        link,
        reason,
        returns: true,
    });
    scene.play_with(&[0, 1]);
    scene.pass(Duration::from_secs(9));
    assert!(scene.ended().is_none());
    scene.connect(2);
    scene.connect(3);
    scene.play();
    assert_eq!(sum(&scene).survivors, names(&[0, 1, 2, 3]));
    // A program that has failed does not come again by itself.
    scene.call(None, &[0, 1, 2]).unwrap();
    scene.frame(2, leaving(LeavingCode::LeavingFailed));
    scene.play_with(&[0, 1]);
    assert_eq!(sum(&scene).lost["party-2"], "it cannot go on");
}

#[test]
fn a_party_that_fails_amid_the_round_is_given_up_at_once() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    scene.call(None, &[0, 1, 2]).unwrap();
    // All are ready, and the third gives no update.
    scene.play_with(&[0, 1]);
    scene.heard_by(2);
    let ready = scene.parties[2].ready(&scene.job.clone(), 1);
    scene.frame(2, ready);
    scene.play_with(&[0, 1]);
    assert!(scene.ended().is_none());
    scene.report(2, "");
    scene.play_with(&[0, 1]);
    assert_eq!(
        sum(&scene).lost["party-2"],
        "the host reports that it has failed"
    );
}

#[test]
fn too_few_are_a_lost_round_at_once_and_the_next_one_begins() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    for _ in 0..5 {
        scene.call(Some(1), &[0, 1]).unwrap();
        scene.report(1, "out of memory");
        let lost = lost(&scene);
        assert_eq!(lost.tag, Some(1));
        assert!(
            lost.reason
                .starts_with("1 of its parties are left, a round of this job needs 2: party-1: "),
            "{}",
            lost.reason
        );
        assert_eq!(lost.lost.len(), 1);
    }
    assert_eq!(
        scene.state(),
        JobState::Running,
        "no round counts as failed"
    );
    scene.call(Some(2), &[0, 1]).unwrap();
    scene.play();
    assert_eq!(sum(&scene).survivors, names(&[0, 1]));
}

#[test]
fn a_lost_connection_is_waited_for_as_long_as_the_grace() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    scene.call(None, &[0, 1, 2]).unwrap();
    scene.heard_by(2);
    let ready = scene.parties[2].ready(&scene.job.clone(), 1);
    scene.frame(2, ready);
    let (link, reason) = (scene.parties[2].link, "gone".to_owned());
    scene.give(Input::Lost {
        link,
        reason,
        returns: true,
    });
    scene.play_with(&[0, 1]);
    assert!(scene.ended().is_none());
    scene.pass(Duration::from_secs(5));
    scene.play_with(&[0, 1]);
    assert_eq!(sum(&scene).lost["party-2"], "its connection was lost");
}

#[test]
fn a_party_without_tags_is_told_to_be_updated() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    scene.call(Some(3), &[0, 1, 2]).unwrap();
    scene.heard_by(2);
    let ready = scene.parties[2].ready(&scene.job.clone(), 1);
    scene.frame(2, ready);
    scene.play_with(&[0, 1]);
    assert_eq!(
        sum(&scene).lost["party-2"],
        "its program knows of no tags of rounds: update it"
    );
}

#[test]
fn the_hosts_deadline_and_its_word_end_a_round() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    let call = Call {
        tag: None,
        about: None,
        parties: names(&[0, 1]),
        model: None,
        join_within: Some(3.0),
        deadline: Some(4.5),
    };
    scene.call_with(call.clone()).unwrap();
    scene.play_with(&[0]);
    scene.heard_by(1);
    let ready = scene.parties[1].ready(&scene.job.clone(), 1);
    scene.frame(1, ready);
    scene.play_with(&[0]);
    scene.pass(Duration::from_secs(4));
    assert!(scene.ended().is_none());
    scene.pass(Duration::from_millis(500));
    assert!(
        lost(&scene)
            .reason
            .starts_with("the host gave the round 4.5 s")
    );
    let id = scene.call_with(call).unwrap();
    scene.give(Input::CallOff {
        id: CallId(id.0 - 1),
        reason: "late".into(),
    });
    assert!(scene.ended().is_none(), "of another call");
    scene.give(Input::CallOff {
        id,
        reason: "the run ended".into(),
    });
    assert_eq!(
        lost(&scene).reason,
        "the host has called the round off: the run ended"
    );
}

#[test]
fn calls_that_cannot_be_are_refused_and_nothing_changes() {
    let mut scene = Scene::new(spec(), 1);
    assert!(matches!(
        scene.call(None, &[0, 1]),
        Err(CallError::NotHosted { .. })
    ));
    let mut scene = Scene::hosted(spec(), 1);
    scene.connect_all();
    let field = |called: Result<CallId, CallError>| match called.unwrap_err() {
        CallError::Value { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(scene.call(None, &[0])), "parties");
    assert_eq!(field(scene.call(None, &[0, 1, 2, 3, 4])), "parties");
    assert_eq!(field(scene.call(None, &[0, 1, 0])), "parties");
    let call = |change: fn(&mut Call)| {
        let mut call = Call {
            tag: None,
            about: None,
            parties: names(&[0, 1]),
            model: None,
            join_within: None,
            deadline: None,
        };
        change(&mut call);
        call
    };
    assert_eq!(
        field(scene.call_with(call(|call| call.join_within = Some(0.0)))),
        "join_within"
    );
    assert_eq!(
        field(scene.call_with(call(|call| call.deadline = Some(f64::NAN)))),
        "deadline"
    );
    let model = call(|call| call.model = Some(vec![0.0f32; 4].into()));
    assert_eq!(field(scene.call_with(model)), "model");
    scene.order(Command::Pause {}).unwrap();
    assert!(matches!(
        scene.call(None, &[0, 1]),
        Err(CallError::Held { .. })
    ));
    scene.order(Command::Resume {}).unwrap();
    assert!(scene.store_rounds().is_empty());
    scene.call(None, &[0, 1]).unwrap();
    assert!(matches!(
        scene.call(None, &[2, 3]),
        Err(CallError::Busy { .. })
    ));
    scene.order(Command::Pause {}).unwrap();
    assert!(
        lost(&scene).reason.starts_with("the job was paused"),
        "{:?}",
        lost(&scene)
    );
    scene.order(Command::End {}).unwrap();
    assert!(matches!(
        scene.call(None, &[0, 1]),
        Err(CallError::Over { .. })
    ));
}

#[test]
fn a_stop_ends_a_call() {
    let mut scene = Scene::hosted(spec(), 1);
    scene.call(None, &[0, 1]).unwrap();
    scene.give(Input::Stop);
    assert_eq!(lost(&scene).reason, "the coordinator was stopped");
    assert!(matches!(scene.over, Some(Ok(()))));
}

#[test]
fn the_model_of_a_round_may_come_from_the_host() {
    let mut scene = Scene::hosted(
        JobSpec {
            model_update: ModelUpdate::Add,
            ..spec()
        },
        1,
    );
    scene.connect_all();
    let call = Call {
        tag: None,
        about: None,
        parties: names(&[0, 1]),
        model: Some(vec![0.25f32; 4].into()),
        join_within: None,
        deadline: None,
    };
    scene.call_with(call).unwrap();
    let frames = scene.frames_to(0);
    let offered = frames.into_iter().find_map(|frame| match frame {
        Frame::RoundOffer(offer) => offer.model,
        _ => None,
    });
    let model =
        blindsum_job::Model::given(&scene.job, &scene.parties[0].model, vec![0.25f32; 4].into());
    assert_eq!(offered.unwrap(), model.unwrap().name());
}

#[test]
fn who_does_not_open_its_nonce_is_left_out_and_the_others_begin_anew() {
    let mut scene = Scene::hosted(active(), 1);
    scene.connect_all();
    scene.call(Some(5), &[0, 1, 2, 3, 4]).unwrap();
    let others = [0, 1, 2, 3];
    scene.heard_by(4);
    let ready = scene.parties[4].ready(&scene.job.clone(), 1);
    scene.frame(
        4,
        pb::Ready {
            tag: Some(5),
            ..ready
        },
    );
    scene.play_with(&others);
    assert!(scene.ended().is_none(), "its nonce is missing");
    scene.report(4, "killed");
    scene.play_with(&others);
    let sum = sum(&scene);
    assert_eq!((sum.round, &sum.survivors), (2, &names(&others)));
    assert!(sum.lost["party-4"].ends_with("killed"));
}
