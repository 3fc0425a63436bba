//! Whole jobs over real connections, with every protocol.

use crate::common::proxy::Proxy;
use crate::common::raw::Raw;
use crate::common::*;
use blindsum_net::party::Party;
use blindsum_net::report::{JobState, RoundState};
use blindsum_net::{JobError, NetError};
use blindsum_protocol::{Adversary, JobSpec, ModelUpdate, ProtocolName};

/// Every test for every protocol.
macro_rules! each_protocol {
    ($($test:ident)+) => {
        mod plain {
            $(#[test] fn $test() { super::$test(super::plain) })+
        }
        mod secagg_active {
            $(#[test] fn $test() { super::$test(super::secagg) })+
        }
        mod secagg_plus_active {
            $(#[test] fn $test() { super::$test(super::secagg_plus) })+
        }
        mod secagg_semi_honest {
            $(#[test] fn $test() { super::$test(super::semi_honest) })+
        }
        mod fssa_active {
            $(#[test] fn $test() { super::$test(super::fssa) })+
        }
        mod pss_semi_honest {
            $(#[test] fn $test() { super::$test(super::pss) })+
        }
    };
}

each_protocol! {
    everybody_learns_the_exact_mean_and_the_same_model
    case_05_a_party_that_leaves_before_any_stage_does_not_stop_the_others
    case_05_a_silent_party_is_dropped_at_the_deadline
    vectors_of_many_chunks_arrive_whole
    a_late_joiner_gets_the_model
    case_04_too_few_survivors_abort_the_round_and_the_job_goes_on
    case_04_a_round_that_cannot_succeed_ends_before_the_deadline
    reconnecting_parties_go_on_in_the_same_round
}

/// A key set-up comes before the first round of a job.
macro_rules! after_a_key_setup {
    ($($test:ident)+) => {
        mod flashe {
            $(#[test] fn $test() { super::$test(super::flashe) })+
        }
    };
}

after_a_key_setup! {
    everybody_learns_the_exact_mean_and_the_same_model
    case_05_a_party_that_leaves_before_any_stage_does_not_stop_the_others
    case_05_a_silent_party_is_dropped_at_the_deadline
    vectors_of_many_chunks_arrive_whole
    a_late_joiner_gets_the_model
    reconnecting_parties_go_on_in_the_same_round
}

type Spec = fn(u32) -> JobSpec;

fn plain(parties: u32) -> JobSpec {
    spec(ProtocolName::Plain, parties)
}

/// With 5 parties the threshold is 4: one may be lost.
fn secagg(parties: u32) -> JobSpec {
    JobSpec {
        min_parties: 0,
        corrupt: 0.2,
        dropout: 0.2,
        ..spec(ProtocolName::SecAgg, parties)
    }
}

fn secagg_plus(parties: u32) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAggPlus.into(),
        ..secagg(parties)
    }
}

fn semi_honest(parties: u32) -> JobSpec {
    JobSpec {
        adversary: Adversary::SemiHonest,
        ..secagg(parties)
    }
}

fn fssa(parties: u32) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Fssa.into(),
        ..secagg(parties)
    }
}

fn pss(parties: u32) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Pss.into(),
        ..semi_honest(parties)
    }
}

fn flashe(parties: u32) -> JobSpec {
    spec(ProtocolName::Flashe, parties)
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn everybody_learns_the_exact_mean_and_the_same_model(spec: Spec) {
    let pki = Pki::new(1);
    let mut spec = spec(5);
    spec.rounds = 3;
    spec.model_update = ModelUpdate::Add;
    let coordinator = Running::start(&pki, vec![spec], None);
    let parties: Vec<_> = NAMES
        .iter()
        .zip([1.0, 2.5, -0.5, 0.0, 2.0])
        .map(|(name, value)| {
            run_party(
                party_config(&coordinator.url(), pki.party(name)),
                constant(value),
            )
        })
        .collect();
    let mut models = Vec::new();
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.len(), 3);
        for (i, round) in rounds.iter().enumerate() {
            let round = round.as_ref().unwrap();
            assert_eq!(round.mean, [1.0; 5]);
            assert_eq!(round.total_weight, 5);
            assert_eq!(round.survivors, NAMES);
            assert_eq!(round.model.values().to_doubles(), [i as f64 + 1.0; 5]);
        }
        models.push(rounds[2].as_ref().unwrap().model.clone());
    }
    let status = coordinator.wait_done("test");
    assert_eq!((status.state, status.model_version), (JobState::Done, 3));
    assert!(models.iter().all(|model| *model == models[0]));
    coordinator.stop().unwrap();
}

/// Four honest parties and one that `spoils` the round at each stage in turn.
fn spoil_every_stage(spec: impl Fn() -> JobSpec, spoils: fn(&mut Raw, u8, Vec<u8>)) {
    let job = spec().validate().unwrap();
    for stage in 0..job.plan().answers().count() as u8 {
        let pki = Pki::new(2);
        let coordinator = Running::start(&pki, vec![spec()], None);
        let honest = NAMES[..4].iter().map(|name| {
            run_party(
                party_config(&coordinator.url(), pki.party(name)),
                constant(1.5),
            )
        });
        let honest: Vec<_> = honest.collect();
        let mut raw = Raw::join(&coordinator.url(), pki.party("e"), "e");
        let start = raw.begin();
        let answer = raw.play(&start, 4.0, stage).expect("the round ended early");
        spoils(&mut raw, stage, answer);
        for party in honest {
            let rounds = party.join().unwrap().unwrap();
            let round = rounds.last().unwrap().as_ref().unwrap();
            let in_sum = stage > job.plan().input_stage().unwrap();
            assert_eq!(
                round.survivors.len(),
                if in_sum { 5 } else { 4 },
                "stage {stage}"
            );
            assert_eq!(
                round.mean,
                [if in_sum { 2.0 } else { 1.5 }; 5],
                "stage {stage}"
            );
        }
        let report = coordinator.wait_done("test").round.unwrap();
        assert_eq!(report.state, RoundState::Done);
        let dropped = &report.stages[usize::from(stage)].dropped;
        assert_eq!(dropped.keys().collect::<Vec<_>>(), ["e"], "{report:?}");
    }
}

fn case_05_a_party_that_leaves_before_any_stage_does_not_stop_the_others(spec: Spec) {
    spoil_every_stage(|| spec(5), |raw, _, _| raw.leave());
}

fn case_05_a_silent_party_is_dropped_at_the_deadline(spec: Spec) {
    let hurried = || JobSpec {
        stage_deadline: 1.2,
        input_deadline: 1.2,
        ..spec(5)
    };
    spoil_every_stage(hurried, |raw, stage, answer| {
        if raw.speaks_last_in(stage) {
            return drop(raw.done());
        }
        let (only_me, reason) = raw.aborted();
        assert!(only_me && reason.contains("within 1.2 s"), "{reason}");
        raw.send_message(stage, &answer); // Too late: nothing changes.
    });
}

fn vectors_of_many_chunks_arrive_whole(spec: Spec) {
    let pki = Pki::new(3);
    let mut spec = spec(5);
    spec.dim = 150_000;
    spec.input_deadline = 20.0;
    spec.stage_deadline = 20.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let parties: Vec<_> = NAMES
        .map(|name| {
            run_party(party_config(&coordinator.url(), pki.party(name)), |_| {
                (0..150_000).map(|i| (i % 1000) as f32).collect::<Vec<_>>()
            })
        })
        .into();
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        let mean = &rounds[0].as_ref().unwrap().mean;
        assert!(mean.iter().enumerate().all(|(i, m)| m == (i % 1000) as f64));
    }
    let report = coordinator.wait_done("test").round.unwrap();
    let up: u64 = report.stages.iter().map(|s| s.bytes["a"].up).sum();
    assert!(up > 1_200_000 && report.wire["a"].up > up, "{report:?}");
}

fn a_late_joiner_gets_the_model(spec: Spec) {
    let pki = Pki::new(4);
    let mut spec = spec(5);
    spec.rounds = 3;
    spec.input_deadline = 20.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let early = NAMES[1..4].iter();
    let early: Vec<_> = early
        .map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)))
        .collect();
    let mut party = Party::join(party_config(&url, pki.party("a"))).unwrap();
    let mut late = None;
    while let Some(mut round) = party.next_round().unwrap() {
        if late.is_none() && round.model().version() == 1 {
            late = Some(run_party(party_config(&url, pki.party("e")), constant(6.0)));
            coordinator.wait("test", |status| status.connected.len() == 5);
        }
        round.submit(vec![1.0f32; 5], 1).unwrap();
        round.result().unwrap();
    }
    let last = late
        .unwrap()
        .join()
        .unwrap()
        .unwrap()
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(last.survivors, NAMES);
    assert_eq!((last.mean.to_doubles()[0], last.model.version()), (2.0, 3));
    assert_eq!(last.model.values().to_doubles(), [4.0; 5]);
    assert_eq!(*party.final_model().unwrap(), last.model);
    for party in early {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().model, last.model);
    }
}

fn case_04_too_few_survivors_abort_the_round_and_the_job_goes_on(spec: Spec) {
    let pki = Pki::new(5);
    let mut spec = spec(5);
    spec.min_parties = 4;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let start = |name: &&str| run_party(party_config(&url, pki.party(name)), constant(1.0));
    let mut parties: Vec<_> = NAMES[..3].iter().map(start).collect();
    let lost = NAMES[3..]
        .iter()
        .map(|name| Raw::join(&url, pki.party(name), name));
    let mut lost: Vec<Raw> = lost.collect();
    lost.iter_mut().for_each(Raw::ready);
    lost.iter_mut().for_each(Raw::open_nonce);
    for raw in &mut lost {
        raw.started();
    }
    drop(lost);
    parties.extend(NAMES[3..].iter().map(start));
    for (i, party) in parties.into_iter().enumerate() {
        let mut rounds = party.join().unwrap().unwrap();
        let last = rounds.pop();
        if i >= 3 {
            // The round was lost with one of them or with both. If it was one, there are enough others.
            match last {
                Some(Ok(result)) => assert_eq!(result.mean, [1.0; 5]),
                Some(Err(error)) => assert!(error.to_string().contains("sits out"), "{error}"),
                None => {}
            }
            assert!(rounds.is_empty());
            continue;
        }
        assert_eq!(last.unwrap().unwrap().mean, [1.0; 5]);
        let error = rounds.pop().unwrap().unwrap_err();
        let aborted = matches!(
            error,
            NetError::Job(JobError::RoundAborted { round: 1, .. })
        );
        assert!(aborted, "{error}");
        // How many had answered when it was clear that too few were left depends on the machine.
        let error = error.to_string();
        let says = |text| error.contains(text);
        assert!(
            says("too few parties are left") && says("4 are needed"),
            "{error}"
        );
        assert!(rounds.is_empty());
    }
    assert_eq!(coordinator.wait_done("test").round.unwrap().number, 2);
}

/// One party is lost that is needed, another one is there and silent: nobody waits for it.
fn case_04_a_round_that_cannot_succeed_ends_before_the_deadline(spec: Spec) {
    let pki = Pki::new(11);
    let mut spec = spec(5);
    spec.min_parties = 5;
    (spec.stage_deadline, spec.input_deadline) = (600.0, 600.0);
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    for name in &NAMES[..3] {
        // It would try to reconnect for a while in the end; nobody waits for it.
        drop(run_party(
            party_config(&url, pki.party(name)),
            constant(1.0),
        ));
    }
    let [mut lost, mut silent] =
        [NAMES[3], NAMES[4]].map(|name| Raw::join(&url, pki.party(name), name));
    lost.ready();
    silent.ready();
    lost.open_nonce();
    silent.started();
    drop(lost);
    let (only_you, reason) = silent.aborted();
    let says = "too few parties are left: 4 are left, 5 are needed; d left (";
    assert!(!only_you && reason.contains(says), "{reason}");
    coordinator.stop().unwrap();
}

/// Every connection is cut whenever somebody else is waited for in another stage.
fn reconnecting_parties_go_on_in_the_same_round(spec: Spec) {
    let pki = Pki::new(6);
    let mut spec = spec(5);
    (spec.stage_deadline, spec.input_deadline) = (20.0, 20.0);
    let stages = spec.clone().validate().unwrap().plan().answers().count();
    let mut config = config(&pki, vec![spec], None);
    config.limits.reconnect_grace = 10.0;
    let coordinator = Running::with(config).unwrap();
    let proxy = Proxy::to(coordinator.port);
    let parties = NAMES[..4].iter();
    let parties: Vec<_> = parties
        .map(|name| run_party(party_config(&proxy.url(), pki.party(name)), constant(1.0)))
        .collect();
    let mut slow = Raw::join(&coordinator.url(), pki.party("e"), "e");
    let start = slow.begin();
    slow.play_slowly(&start, 6.0, |stage| {
        coordinator.wait("test", |status| {
            let round = status.round.as_ref();
            let here = round.is_some_and(|round| round.stages.len() == usize::from(stage) + 1);
            here && status.waiting_for == ["e"]
        });
        proxy.cut();
        coordinator.wait("test", |status| status.connected == ["e"]);
    });
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.len(), 1);
        assert_eq!(rounds[0].as_ref().unwrap().mean, [2.0; 5]);
    }
    let report = coordinator.wait_done("test").round.unwrap();
    assert_eq!(
        (report.state, report.survivors.len()),
        (RoundState::Done, 5)
    );
    assert_eq!(report.stages.len(), stages);
}

#[test]
fn wrong_updates_are_refused_before_anything_is_sent_and_the_round_goes_on() {
    let pki = Pki::new(7);
    let coordinator = Running::start(&pki, vec![secagg(5)], None);
    let url = coordinator.url();
    let others = NAMES[1..].iter();
    let others: Vec<_> = others
        .map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)))
        .collect();
    let mut party = Party::join(party_config(&url, pki.party("a"))).unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    assert_eq!(round.parties(), NAMES);
    let mut refused = |update: Vec<f32>, weight, says: &str| {
        let error = round.submit(update, weight).unwrap_err();
        assert!(
            matches!(error, NetError::Job(JobError::Input(_))),
            "{error}"
        );
        assert!(error.to_string().contains(says), "{error}");
    };
    refused(vec![1.0; 4], 1, "4");
    refused(vec![1.0, 2.0, f32::NAN, 0.0, 0.0], 1, "2");
    refused(vec![f32::INFINITY; 5], 1, "0");
    refused(vec![1.0; 5], 11, "11");
    refused(vec![1.0; 5], 0, "0");
    let error = round.result().unwrap_err();
    assert!(error.to_string().contains("submit an update"), "{error}");
    round.submit(vec![8.0f64; 5], 3).unwrap();
    let result = round.result().unwrap();
    assert_eq!(
        (result.mean.to_doubles(), result.total_weight),
        (vec![4.0; 5], 7)
    );
    for party in others {
        assert_eq!(
            party.join().unwrap().unwrap()[0].as_ref().unwrap().mean,
            [4.0; 5]
        );
    }
}

#[test]
fn a_program_that_gives_no_update_costs_the_others_no_time() {
    let pki = Pki::new(8);
    let mut spec = secagg(5);
    spec.input_deadline = 1000.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let others = NAMES[1..].iter();
    let others: Vec<_> = others
        .map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)))
        .collect();
    let mut party = Party::join(party_config(&url, pki.party("a"))).unwrap();
    drop(party.next_round().unwrap().unwrap());
    for party in others {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().survivors, NAMES[1..]);
    }
}

#[test]
fn several_jobs_run_at_once_and_do_not_mix() {
    let pki = Pki::new(9);
    let specs = ["one", "two"].map(|job| JobSpec {
        job: job.into(),
        rounds: 2,
        ..secagg_plus(5)
    });
    let coordinator = Running::start(&pki, specs.to_vec(), None);
    let parties: Vec<_> = [("one", 1.0), ("two", 2.0)]
        .into_iter()
        .flat_map(|(job, value)| NAMES.map(|name| (job, value, name)))
        .map(|(job, value, name)| {
            let mut config = party_config(&coordinator.url(), pki.party(name));
            config.job = job.into();
            (value, run_party(config, constant(value)))
        })
        .collect();
    for (value, party) in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.len(), 2);
        assert!(
            rounds
                .iter()
                .all(|round| round.as_ref().unwrap().mean == [f64::from(value); 5])
        );
    }
    assert_eq!(coordinator.wait_done("one").state, JobState::Done);
    assert_eq!(coordinator.wait_done("two").state, JobState::Done);
}
