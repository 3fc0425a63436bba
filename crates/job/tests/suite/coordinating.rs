//! Whole rounds of a coordinator that is driven by hand.

use blindsum_job::coordinator::Input;
use blindsum_job::pb::RefusalCode;
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::report::{JobState, RoundState};
use blindsum_job::store::{MemoryStore, Store};
use blindsum_job::{JobError, Model, hex};
use blindsum_protocol::{Job, JobSpec, ProtocolName};

use crate::scene::{Heard, Scene};

/// Two rounds of a job that goes on without one of its parties.
fn spec(protocol: ProtocolName) -> JobSpec {
    let parties = match protocol {
        ProtocolName::Plain => 3,
        ProtocolName::SecAgg => 4,
        _ => 5,
    };
    JobSpec {
        protocol: protocol.into(),
        parties,
        min_parties: parties - 1,
        dim: 4,
        rounds: 2,
        join_deadline: 10.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        corrupt: 0.2,
        dropout: 0.2,
        ..JobSpec::default()
    }
}

/// The mean over some parties is what they know, and what the coordinator goes on with.
fn assert_mean(scene: &Scene, parties: &[usize]) {
    let status = scene.server.status();
    for &party in parties {
        let party = &scene.parties[party];
        assert_eq!(status.model_hash, hex(party.model.hash()));
        for (d, mean) in party.mean.iter().enumerate() {
            let values = parties.iter().map(|&of| scene.parties[of].values[d]);
            let expected = values.sum::<f32>() / parties.len() as f32;
            assert!((mean - expected).abs() < 1e-3, "{mean} for {expected}");
        }
    }
}

#[test]
fn a_store_is_the_same_from_its_bytes() {
    let mut scene = Scene::new(spec(ProtocolName::SecAgg), 1);
    let name = &scene.job.spec().job.clone();
    let kept = |scene: &Scene| {
        let bytes = scene.store.to_bytes(name).unwrap().unwrap();
        let read = MemoryStore::from_bytes(&scene.job, &bytes, 3).unwrap();
        let open = |store: &MemoryStore| {
            let rounds = store.rounds(name, u32::MAX).unwrap();
            (rounds, store.state(name), store.events(name))
        };
        assert_eq!(open(&read), open(&scene.store));
        let initial = Model::initial(&scene.job);
        let begun = |store: MemoryStore| store.open_job(&scene.job, &initial).unwrap();
        assert_eq!(begun(read), begun(scene.store.snapshot()));
        bytes
    };
    kept(&scene);
    scene.begin_without_the_last();
    kept(&scene);
    scene.play();
    let bytes = kept(&scene);
    assert!(scene.store.to_bytes("another").unwrap().is_none());
    let read = |job: &Job, bytes: &[u8]| MemoryStore::from_bytes(job, bytes, 3).err().unwrap();
    let other = JobSpec {
        dim: 5,
        ..spec(ProtocolName::SecAgg)
    };
    let other = read(&other.validate().unwrap(), &bytes).to_string();
    assert!(other.contains("another specification"), "{other}");
    for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        let damaged = read(&scene.job, &bytes[..end]).to_string();
        assert!(damaged.contains("damaged"), "{damaged}");
    }
}

#[test]
fn rounds_go_from_the_offer_to_the_confirmation_and_the_job_to_its_end() {
    // The last one passes answers on, piece by piece.
    for protocol in [ProtocolName::Plain, ProtocolName::SecAgg, ProtocolName::Pss] {
        let mut scene = Scene::new(spec(protocol), 1);
        assert_eq!(scene.server.status().connected.len(), 0);
        scene.connect_all();
        scene.play();
        let everybody: Vec<usize> = (0..scene.parties.len()).collect();
        assert_mean(&scene, &everybody);
        // Nobody has gone for a while: the second round began as soon as everybody was ready.
        let status = scene.server.status();
        assert_eq!((status.state, status.rounds_done), (JobState::Done, 2));
        // Watchers are told a moment later.
        while !scene.server.status().unconfirmed.is_empty() {
            scene.wait();
        }
        for &party in &everybody {
            assert_eq!(scene.heard_by(party), []);
        }
        let done = |(_, heard): &&(_, Heard)| matches!(heard, Heard::Frame(Frame::JobDone(_)));
        assert_eq!(scene.said.iter().filter(done).count(), everybody.len());
        scene.give(Input::Stop);
        assert!(matches!(scene.over, Some(Ok(()))));
        assert!(scene.confirmed().into_iter().all(|confirmed| confirmed));
        for party in everybody {
            let last = scene.heard_by(party);
            let [Heard::Closed(last)] = &last[..] else {
                panic!("{last:?} in the place of a goodbye");
            };
            assert_eq!(last.code(), RefusalCode::RefusalStopping);
        }
    }
}

#[test]
fn the_same_seed_and_inputs_lead_to_the_same_effects_and_another_seed_to_others() {
    let run = |seed: u8| {
        // The parties are the same; only the coordinator's randomness is another.
        let mut scene = Scene::new(spec(ProtocolName::SecAgg), 1);
        scene.restart(MemoryStore::new(3), seed);
        scene.connect_all();
        scene.play_with(&[0, 1, 2]);
        scene.wait();
        // Another process of the last party shows that it lives with a token, which is drawn.
        scene.parties[3].process = vec![9; 16];
        scene.connect(3);
        scene.play();
        while scene.state() == JobState::Running {
            scene.wait();
            scene.play();
        }
        scene.said
    };
    let said = run(5);
    assert!(said.len() > 30);
    assert_eq!(said, run(5));
    assert_ne!(said, run(6));
}

#[test]
fn a_round_that_counts_is_told_by_the_coordinator_that_finds_it_in_its_store() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    scene.begin_without_the_last();
    // The last one sends its vector, hears the result and confirms it. The coordinator is killed before it has written
    // that down, and before the others hear anything.
    scene.play_with(&[2]);
    assert_eq!(scene.server.status().rounds_done, 1);
    let store = scene.store.snapshot();
    scene.restart(store, 2);
    assert_eq!(scene.server.status().rounds_done, 1);
    assert_eq!(scene.server.status().unconfirmed.len(), 3);
    scene.connect_all();
    scene.play();
    assert_mean(&scene, &[0, 1, 2]);
    assert_eq!(scene.server.status().rounds_done, 2);
}

#[test]
fn who_goes_on_from_a_copy_has_forgotten_what_came_later_and_takes_no_number_twice() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    scene.begin_without_the_last();
    let copy = scene.store.snapshot();
    scene.restart(copy, 2);
    let round = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(round.state, RoundState::Aborted);
    assert_eq!(round.reason, "the coordinator was restarted");
    // The round that the copy has begun is over for everybody; the next one has another number.
    scene.connect(0);
    let frames = scene.frames_to(0);
    let [Frame::Welcome(_), Frame::RoundAborted(aborted)] = &frames[..] else {
        panic!("{frames:?} in the place of the end of a round");
    };
    assert!((aborted.round, aborted.only_you, aborted.counted) == (1, false, false));
    assert_eq!(aborted.reason, round.reason);
    scene.parties[0].round = None;
    scene.connect_all();
    scene.play();
    assert_eq!(scene.state(), JobState::Done);
    let numbers = scene.store.rounds("job", 9).unwrap();
    let numbers: Vec<u64> = numbers.iter().map(|report| report.number).collect();
    assert_eq!(numbers, [3, 2, 1]);
}

#[test]
fn an_hour_passes_only_when_it_is_told_to() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    scene.begin_without_the_last();
    let begun = scene.now.time;
    while scene.server.status().rounds_done == 0 {
        scene.wait();
    }
    assert_eq!((scene.now.time - begun).as_secs(), 600);
    scene.play_with(&[0, 1]);
    assert_mean(&scene, &[0, 1]);
    let report = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(report.survivors, ["party-0", "party-1"]);
    assert_eq!(report.stages[0].seconds, 600.0);
    let told = scene.frames_to(2);
    let [Frame::RoundStart(_), Frame::RoundAborted(aborted), ..] = &told[..] else {
        panic!("{told:?} in the place of the end of a round");
    };
    assert!(aborted.only_you && !aborted.counted, "{aborted:?}");
}

#[test]
fn a_coordinator_that_stops_writes_the_round_down_and_says_goodbye() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    scene.begin_without_the_last();
    scene.heard_by(2);
    scene.give(Input::Stop);
    assert!(matches!(scene.over, Some(Ok(()))));
    let round = scene.store.round("job", 1).unwrap().unwrap();
    assert_eq!(round.reason, "the coordinator was stopped");
    let last = scene.heard_by(2);
    let [Heard::Frame(Frame::RoundAborted(_)), Heard::Closed(last)] = &last[..] else {
        panic!("{last:?} in the place of a goodbye");
    };
    assert_eq!(last.code(), RefusalCode::RefusalStopping);
    // Whatever comes now comes too late.
    scene.connect(2);
    assert_eq!(scene.heard_by(2), []);
}

#[test]
fn work_without_a_result_ends_the_coordinator_and_parties_come_again() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    scene.begin_without_the_last();
    scene.lose_work = true;
    scene.play_with(&[2]);
    scene.lose_work = false;
    let status = scene.server.status();
    assert_eq!(status.state, JobState::Stopped);
    assert_eq!(status.reason, "internal error: a task gave no result");
    let stopping = |(_, heard): &&(_, Heard)| matches!(heard, Heard::Closed(last) if last.code() == RefusalCode::RefusalStopping);
    assert_eq!(scene.said.iter().filter(stopping).count(), 3);
    let (stored, _) = scene.store.state("job").unwrap();
    assert_eq!(stored, JobState::Running, "the job has not failed");
    scene.give(Input::Stop);
    assert!(matches!(scene.over, Some(Err(JobError::System(_)))));
}

#[test]
fn a_newer_connection_takes_the_place_of_an_older_one_of_which_nothing_is_heard_any_more() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    let older = scene.connect(0);
    let newer = scene.connect(0);
    assert_eq!(scene.server.status().connected, ["party-0"]);
    let last = scene.heard[&older].last();
    assert!(matches!(last, Some(Heard::Cut(last)) if last.code() == RefusalCode::RefusalReplaced));
    scene.give(Input::Lost {
        link: older,
        reason: "ended by the coordinator".into(),
        returns: true,
    });
    scene.parties[0].link = newer;
    scene.wait();
    assert_eq!(scene.server.status().connected, ["party-0"]);
    assert!(scene.server.status().lost.is_empty());
}

#[test]
fn who_calls_itself_as_another_or_speaks_no_version_of_ours_is_not_let_in() {
    let mut scene = Scene::new(spec(ProtocolName::Plain), 1);
    let refused = |scene: &mut Scene, change: fn(&mut blindsum_job::pb::Hello)| {
        let link = scene.connect_as(0, change);
        assert!(scene.server.status().connected.is_empty());
        match &scene.heard[&link][..] {
            [Heard::Refused(refused)] => refused.code(),
            other => panic!("{other:?} in the place of a refusal"),
        }
    };
    let code = refused(&mut scene, |hello| hello.name = "party-1".into());
    assert_eq!(code, RefusalCode::RefusalName);
    let code = refused(&mut scene, |hello| hello.first_version = 9);
    assert_eq!(code, RefusalCode::RefusalVersion);
}
