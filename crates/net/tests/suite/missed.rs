//! What a party hears that was not there when it was said: it was stopped for a while, started again, or cut off.

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::fake::{Cast, Fake, Line, done, job, name, one_round, tripled, welcome};
use crate::common::raw::{Raw, hello};
use crate::common::scene::Scene;
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig, RoundResult};
use blindsum_net::pb::{self, party_frame::Frame};
use blindsum_net::{Credentials, JobError, Model, NetError};
use blindsum_protocol::{Flashe, Job, JobSpec, ProtocolName, Quantised};

/// A party that was stopped with its vector out wakes up after its deadlines, and nothing that was said meanwhile has
/// reached it. Beyond the deadlines of a round a party allows for half a minute, which this test lets pass.
#[test]
fn case_54_a_party_that_was_stopped_for_long_asks_what_became_of_its_round() {
    let pki = Pki::new(1);
    let spec = JobSpec {
        input_deadline: 0.5,
        stage_deadline: 0.5,
        ..job().spec().clone()
    };
    let (fake, job, a) = (Fake::start(&pki), spec.validate().unwrap(), pki.party("a"));
    let party = one_round(PartyConfig {
        give_up_after: 600.0,
        ..party_config(&fake.url(), a.clone())
    });
    let model = Model::initial(&job);
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let start = Cast::new(&a, &nonce, &[&pki.party("b"), &pki.party("c")]).start(1, &model);
    line.send(start.clone());
    let told = tripled(&job, &line.chunk());
    std::thread::sleep(Duration::from_secs(33));
    let (line, hello) = match fake.next_hello() {
        Some(asks) => asks,
        None => panic!("it gives the round up: {:?}", line.next()),
    };
    assert_eq!((hello.round, hello.answered), (1, 0));
    line.send(welcome(&job));
    line.send(pb::RoundStart {
        answers_taken: 1,
        ..start
    });
    line.send(told.clone());
    let lead = Model::new(1, vec![1.0; 5]);
    line.send(done(&lead, &told));
    let (outcome, _party) = party.join().unwrap();
    assert_eq!(outcome.unwrap().unwrap().unwrap().model, lead);
}

fn plain(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        ..spec(ProtocolName::Plain, 3)
    }
}

fn one(party: &mut Party, value: f32) -> Result<(), NetError> {
    let mut round = party.next_round()?.unwrap();
    round.submit(vec![value; 5], 1)?;
    round.result().map(drop)
}

/// A party is killed with its vector out, and started again when a later round is done as well, which is the last one
/// or is not.
fn killed_with_its_vector_out(rounds: u32) {
    let scene = Scene::new(plain(rounds), |_| ());
    let (folder, credentials) = (tempfile::tempdir().unwrap(), scene.pki.party("a"));
    let url = scene.coordinator().url();
    let config = || config_in(folder.path(), &url, &credentials);
    let mut mortal = Party::join(config()).unwrap();
    let near = scene.near("b", constant(1.0));
    let mut last = Party::join(scene.config("c", &url)).unwrap();
    let mut own = std::thread::scope(|scope| {
        let own = scope.spawn(|| last.next_round().unwrap().unwrap());
        let mut round = mortal.next_round().unwrap().unwrap();
        round.submit(vec![1.0f32; 5], 1).unwrap();
        own.join().unwrap()
    });
    scene.wait_for("c", 0);
    drop(mortal);
    scene
        .coordinator()
        .wait("test", |status| status.connected == ["b", "c"]);
    own.submit(vec![4.0f32; 5], 1).unwrap();
    own.result().unwrap();
    one(&mut last, 1.0).unwrap();
    let mut again = join_again(config);
    let Err(error) = again.next_round() else {
        panic!("it hears nothing");
    };
    assert!(
        matches!(error, NetError::Job(JobError::Missed { round: 1, .. })),
        "{error}"
    );
    // It is told once, and goes on.
    for _ in 2..rounds {
        std::thread::scope(|scope| {
            let own = scope.spawn(|| one(&mut last, 1.0));
            one(&mut again, 1.0).unwrap();
            own.join().unwrap().unwrap();
        });
    }
    assert!(again.next_round().unwrap().is_none());
    near.join().unwrap().unwrap();
}

#[test]
fn case_54_a_party_that_is_started_again_hears_that_an_earlier_round_counts() {
    killed_with_its_vector_out(3);
}

#[test]
fn case_54_a_party_that_is_started_again_after_the_job_hears_that_an_earlier_round_counts() {
    killed_with_its_vector_out(2);
}

/// What the party says next; whenever it asks for the model it gets it.
fn heard(line: &mut Line, model: &Model) -> Frame {
    loop {
        match line.next().unwrap() {
            Frame::ModelRequest(_) => line.send(pb::ModelChunk {
                version: model.version(),
                offset: 0,
                total: 40,
                data: model.to_bytes(),
            }),
            other => return other,
        }
    }
}

fn offered(line: &mut Line, round: u64, model: &Model) -> Vec<u8> {
    let model_name = Some(name(model));
    line.send(pb::RoundOffer {
        round,
        model: model_name,
        ..pb::RoundOffer::default()
    });
    match heard(line, model) {
        Frame::Ready(ready) => ready.nonce,
        other => panic!("not ready: {other:?}"),
    }
}

/// A party sends its vector in round 1 and is killed. How the round began, and its sum.
fn killed_after_its_answer(
    fake: &Fake,
    job: &Job,
    (a, others): (&Credentials, &[&Credentials]),
    config: impl Fn() -> PartyConfig + Send + 'static,
) -> (pb::RoundStart, pb::Chunk) {
    let (kill, killed) = channel::<()>();
    let mortal = std::thread::spawn(move || {
        let mut party = Party::join(config()).unwrap();
        let mut round = party.next_round().unwrap().unwrap();
        round.submit(vec![1.0f32; 5], 1).unwrap();
        let _ = killed.recv();
    });
    let model = Model::new(1, vec![1.0; 5]);
    let mut line = fake.welcome(job);
    let nonce = offered(&mut line, 1, &model);
    let start = Cast::new(a, &nonce, others).start(1, &model);
    line.send(start.clone());
    let told = tripled(job, &line.chunk());
    drop(kill);
    mortal.join().unwrap();
    (start, told)
}

/// A party is killed with its vector out, and the model of its round is gone when it is started again. It is told the
/// sum and then this; what it says to that, and what its caller hears of this round and of the next one.
fn without_the_model_of_its_round(
    seed: u64,
    end: impl FnOnce(&Line, &pb::Chunk),
    answers: impl FnOnce(&mut Line),
) -> Option<NetError> {
    let pki = Pki::new(seed);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let folder = tempfile::tempdir().unwrap();
    let config = {
        let (folder, url, a) = (folder.path().to_owned(), fake.url(), a.clone());
        move || config_in(&folder, &url, &a)
    };
    let model = Model::new(1, vec![1.0; 5]);
    let others = [&pki.party("b"), &pki.party("c")];
    let (start, told) = killed_after_its_answer(&fake, &job, (&a, &others), config.clone());
    let jobs = std::fs::read_dir(folder.path().join("test")).unwrap();
    for job in jobs {
        let _ = std::fs::remove_file(job.unwrap().path().join("model"));
    }
    let again = std::thread::spawn(move || {
        let mut party = join_again(config);
        let mut missed = None;
        let mut round = loop {
            match party.next_round() {
                Ok(round) => break round.unwrap(),
                Err(error) => missed = Some(error),
            }
        };
        round.submit(vec![1.0f32; 5], 1).unwrap();
        assert_eq!(round.result().unwrap().mean, [1.0; 5]);
        missed
    });
    let (mut line, hello) = fake.accept();
    assert_eq!((hello.round, hello.answered), (1, 0));
    line.send(welcome(&job));
    line.send(pb::RoundStart {
        answers_taken: 1,
        ..start
    });
    line.send(told.clone());
    end(&line, &told);
    answers(&mut line);
    let nonce = offered(&mut line, 2, &model);
    line.send(Cast::new(&a, &nonce, &others).start(2, &model));
    let told = tripled(&job, &line.chunk());
    line.send(told.clone());
    line.send(done(&Model::new(2, vec![2.0; 5]), &told));
    again.join().unwrap()
}

#[test]
fn case_54_a_party_that_has_lost_the_model_of_its_round_hears_that_it_counts() {
    let lead = Model::new(2, vec![2.0; 5]);
    let end = |line: &Line, told: &pb::Chunk| line.send(done(&lead, told));
    let missed = without_the_model_of_its_round(2, end, |line| {
        let (code, reason) = line.refusal();
        assert_eq!(code, pb::RoundRefusalCode::RoundRefusalUnable, "{reason}");
    });
    let missed = missed.expect("it hears nothing");
    assert!(
        matches!(missed, NetError::Job(JobError::Missed { round: 1, .. })),
        "{missed}"
    );
}

/// A party that was started again hears that its round counts, and is killed once more before its caller asks.
#[test]
fn case_54_a_round_that_is_missed_is_remembered_until_the_caller_hears_of_it() {
    let pki = Pki::new(5);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let folder = tempfile::tempdir().unwrap();
    let config = {
        let (folder, url, a) = (folder.path().to_owned(), fake.url(), a.clone());
        move || config_in(&folder, &url, &a)
    };
    let others = [&pki.party("b"), &pki.party("c")];
    killed_after_its_answer(&fake, &job, (&a, &others), config.clone());
    let counted = pb::RoundAborted {
        round: 1,
        reason: "it is over".into(),
        counted: true,
        ..pb::RoundAborted::default()
    };
    let (kill, killed) = channel::<()>();
    let quiet = std::thread::spawn({
        let config = config.clone();
        move || {
            let _party = join_again(config);
            let _ = killed.recv();
        }
    });
    let (mut line, hello) = fake.accept();
    assert_eq!(hello.round, 1);
    line.send(welcome(&job));
    line.send(counted.clone());
    // When it asks for the last model it has heard everything before.
    line.send(pb::JobDone {
        model: Some(name(&Model::new(2, vec![2.0; 5]))),
        ..pb::JobDone::default()
    });
    assert!(matches!(line.next(), Some(Frame::ModelRequest(_))));
    drop(kill);
    quiet.join().unwrap();
    let again = std::thread::spawn(move || join_again(config).next_round().err());
    let (line, hello) = fake.accept();
    assert_eq!(hello.round, 1, "it has forgotten the round");
    line.send(welcome(&job));
    line.send(counted);
    let missed = again.join().unwrap().expect("it hears nothing");
    assert!(
        matches!(missed, NetError::Job(JobError::Missed { round: 1, .. })),
        "{missed}"
    );
}

/// A coordinator whose store was put back offers the number of the round that a party has sent its vector in. It waits
/// for no party that waits for it.
#[test]
fn case_54_a_round_whose_number_is_offered_again_is_over() {
    let pki = Pki::new(6);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let party = one_round(party_config(&fake.url(), a.clone()));
    let model = Model::initial(&job);
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let cast = Cast::new(&a, &nonce, &[&pki.party("b"), &pki.party("c")]);
    line.send(cast.start(1, &model));
    line.chunk();
    drop(line);
    let (mut line, hello) = fake.accept();
    assert_eq!(hello.round, 1);
    line.send(welcome(&job));
    line.send(pb::RoundOffer {
        round: 1,
        model: Some(name(&model)),
        ..pb::RoundOffer::default()
    });
    let (code, reason) = line.refusal();
    assert_eq!(code, pb::RoundRefusalCode::RoundRefusalUnable, "{reason}");
    let (outcome, _party) = party.join().unwrap();
    let error = outcome.unwrap().unwrap().unwrap_err();
    assert!(
        matches!(error, NetError::Job(JobError::Unknown { round: 1, .. })),
        "{error}"
    );
}

/// What came for a round that is not gone on with is not taken for a word on the next one.
#[test]
fn case_54_a_message_of_a_round_that_is_over_goes_with_it() {
    let end = |line: &Line, _: &pb::Chunk| {
        line.send(pb::RoundAborted {
            round: 1,
            reason: "it is over".into(),
            ..pb::RoundAborted::default()
        });
    };
    let missed = without_the_model_of_its_round(3, end, |_| ());
    // The process that sent the update is no more: this one hears that it does not count.
    let is_told = matches!(
        missed,
        Some(NetError::Job(JobError::RoundAborted { round: 1, .. }))
    );
    assert!(is_told, "{missed:?}");
}

/// What a party sent in a round that counts is in the sum, also where it is not told the sum: it is not sent again.
#[test]
fn case_54_what_was_sent_in_a_sparse_round_that_is_missed_is_not_sent_again() {
    let spec = JobSpec {
        encoding: Quantised {
            clip: 4.0,
            max_weight: 1,
            ..Default::default()
        }
        .into(),
        protocol: Flashe {
            density: 0.4,
            min_contributors: 1,
            ..Default::default()
        }
        .into(),
        ..flashe(4)
    };
    let scene = Scene::new(spec, |config| config.limits.reconnect_grace = 0.3);
    // The key comes in round 1. In round 2 the party sends the first two, in round 3 two that were left.
    let away = scene.away("a", |round| match round {
        2 => vec![0.5, 0.4, 0.3, 0.2, 0.1],
        _ => vec![0.0; 5],
    });
    let near = scene.near("b", |_| vec![0.0f32; 5]);
    let mut raw = Raw::join(&scene.coordinator().url(), scene.pki.party("c"), "c");
    for turn in 1..=4 {
        if turn == 4 {
            scene.proxy.mend();
            scene
                .coordinator()
                .wait("test", |status| status.connected.len() == 3);
        }
        let start = raw.begin();
        raw.play_slowly(&start, 0.0, |stage| {
            if (turn, stage) == (2, 1) {
                scene.wait_for("c", 1);
                scene.interrupt(&["a"]);
            }
        });
    }
    near.join().unwrap().unwrap();
    let rounds = away.join().unwrap().unwrap();
    let missed = rounds[1].as_ref().unwrap_err();
    assert!(
        matches!(missed, NetError::Job(JobError::Missed { round: 3, .. })),
        "{missed}"
    );
    let sent = |round: &Result<_, _>| {
        let RoundResult { mean, .. } = round.as_ref().unwrap();
        mean.iter().map(|mean| mean > 0.01).collect::<Vec<_>>()
    };
    assert_eq!(sent(&rounds[0]), [true, true, false, false, false]);
    assert_eq!(sent(&rounds[2]), [false, false, false, false, true]);
}

/// A party that is cut off in the input stage of the last round is in no sum, and hears all the same that the job is
/// done, and its last model.
#[test]
fn case_54_a_coordinator_stays_until_those_that_lost_the_last_round_hear_its_end() {
    let mut scene = Scene::new(plain(1), |config| {
        config.stop_when_done = true;
        config.limits.reconnect_grace = 0.3;
    });
    let url = scene.coordinator().url();
    let mut cut_off = Party::join(scene.config("a", &scene.proxy.url())).unwrap();
    let near = scene.near("b", constant(1.0));
    let mut last = Party::join(scene.config("c", &url)).unwrap();
    let (mut lost, mut own) = std::thread::scope(|scope| {
        let own = scope.spawn(|| last.next_round().unwrap().unwrap());
        let lost = cut_off.next_round().unwrap().unwrap();
        (lost, own.join().unwrap())
    });
    scene.interrupt(&["a"]);
    own.submit(vec![3.0f32; 5], 1).unwrap();
    own.result().unwrap();
    assert!(last.next_round().unwrap().is_none());
    near.join().unwrap().unwrap();
    let coordinator = scene.coordinator.take().unwrap();
    let status = coordinator.wait("test", |status| status.connected.is_empty());
    assert_eq!(
        (&status.lost[..], status.unconfirmed),
        (&["a".into()][..], vec![])
    );
    let ending = std::thread::spawn(|| coordinator.finish());
    // Whoever leaves now leaves somebody behind.
    std::thread::sleep(Duration::from_secs(1));
    assert!(!ending.is_finished(), "it does not wait for a");
    scene.proxy.mend();
    lost.submit(vec![1.0f32; 5], 1).unwrap();
    let error = lost.result().unwrap_err();
    assert!(
        matches!(error, NetError::Job(JobError::Dropped { .. })),
        "{error}"
    );
    assert!(cut_off.next_round().unwrap().is_none());
    assert_eq!(
        cut_off.final_model().unwrap().values().to_doubles(),
        [2.0; 5]
    );
    ending.join().unwrap().unwrap();
}

/// Nobody waits for a party that has left by itself.
#[test]
fn case_54_a_coordinator_does_not_stay_for_a_party_that_has_left() {
    let mut scene = Scene::new(plain(1), |config| {
        config.stop_when_done = true;
        config.limits.farewell = 600.0;
    });
    let url = scene.coordinator().url();
    let near = scene.near("b", constant(1.0));
    let other = scene.near("c", constant(3.0));
    let mut leaves = Party::join(scene.config("a", &url)).unwrap();
    drop((leaves.next_round().unwrap().unwrap(), leaves));
    near.join().unwrap().unwrap();
    other.join().unwrap().unwrap();
    scene.coordinator.take().unwrap().finish().unwrap();
}

/// A party whose Ready was lost connects while that round runs: the round is not over, it goes on without this party.
#[test]
fn a_party_whose_ready_was_lost_hears_that_the_round_goes_on_without_it() {
    let pki = Pki::new(17);
    let job = JobSpec {
        input_deadline: 60.0,
        ..spec(ProtocolName::Plain, 2)
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let url = coordinator.url();
    let mut members = ["a", "b"].map(|name| Raw::join(&url, pki.party(name), name));
    members.iter_mut().for_each(Raw::ready);
    let round = members.each_mut().map(|raw| raw.started().round)[0];
    for (round, only_you, says) in [
        (round, true, "began without this party"),
        (round + 7, false, "nothing is known of it"),
    ] {
        let hello = pb::Hello {
            round,
            ..hello("test", "c")
        };
        let (only_it, reason) = Raw::open(&url, pki.party("c"), hello).aborted();
        assert_eq!(only_it, only_you, "{reason}");
        assert!(reason.contains(says), "{reason}");
    }
}
