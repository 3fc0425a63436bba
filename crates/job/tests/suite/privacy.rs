//! Jobs with noise: releases are counted, also those of rounds without a result, and a job ends when its target is used up.

use blindsum_job::report::{JobState, PrivacyStatus, RoundState};
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{
    Adversary, Clipping, DiscreteGaussian, JobSpec, ModelUpdate, Mpc3, ProtocolName, Quantised,
    RuleName, ServerIndex,
};

use crate::ensemble::Ensemble;
use crate::hosts::mpc3;
use crate::scene::Scene;

/// Two rounds of three parties, with room for half as many more.
fn spec() -> JobSpec {
    let encoding = Quantised {
        clipping: Clipping::L2,
        ..Quantised::default()
    };
    let privacy = DiscreteGaussian {
        epsilon: 20.0,
        delta: 1e-5,
        spare: 0.5,
        ..DiscreteGaussian::default()
    };
    JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        adversary: Adversary::SemiHonest,
        parties: 3,
        min_parties: 3,
        dim: 4,
        rounds: 2,
        encoding: encoding.into(),
        privacy: privacy.into(),
        ..JobSpec::default()
    }
}

fn privacy(scene: &Scene) -> PrivacyStatus {
    scene.server.status().privacy.unwrap()
}

#[test]
fn releases_are_counted_and_a_job_comes_to_its_end() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect_all();
    assert_eq!(
        (privacy(&scene).releases, privacy(&scene).epsilon),
        (0, 0.0)
    );
    scene.play();
    let status = scene.server.status();
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 2));
    let after = privacy(&scene);
    let job = scene.job.privacy().unwrap();
    assert_eq!((after.releases, after.delta), (2, 1e-5));
    assert_eq!(after.epsilon, job.epsilon(2).unwrap());
    assert!(after.epsilon < 20.0 && job.releases() == Some(3));
}

/// Abuse case 39: a round whose coordinator was killed counts, as updates may be out; three releases use the target up,
/// though the job has rounds left.
#[test]
fn case_39_rounds_without_a_result_count_and_the_job_ends_when_its_target_is_used_up() {
    let mut scene = Scene::new(spec(), 1);
    for seed in 2..4 {
        scene.begin_without_the_last();
        scene.killed(seed);
    }
    assert_eq!(privacy(&scene).releases, 2);
    scene.play();
    let status = scene.server.status();
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 1));
    let reason = &status.reason;
    assert!(
        reason.starts_with("privacy: the target is used up: epsilon "),
        "{reason}"
    );
    assert!(
        reason.ends_with("after 3 releases; begin another job"),
        "{reason}"
    );
    // Nor does another coordinator begin a further one.
    scene.killed(9);
    assert_eq!(scene.state(), JobState::Done);
    assert_eq!(privacy(&scene).releases, 3);
}

/// Abuse case 39: a coordinator is restored from a copy of its store from before the rounds. Parties speak of these rounds: the
/// status says that the guarantee does not count them, also after another start. No word of a party ends the job.
#[test]
fn case_39_rounds_that_a_store_lacks_are_shown() {
    let mut scene = Scene::new(spec(), 1);
    let before = scene.store.to_bytes("job").unwrap().unwrap();
    scene.connect_all();
    scene.play();
    assert_eq!((privacy(&scene).releases, privacy(&scene).lacking), (2, 0));
    let store = MemoryStore::from_bytes(&scene.job, &before, 1).unwrap();
    scene.restart(store, 2);
    for party in 0..3 {
        scene.connect_as(party, |hello| {
            hello.connection += 1;
            hello.last_round = 500;
        });
    }
    assert_eq!(
        (privacy(&scene).releases, privacy(&scene).lacking),
        (0, 500)
    );
    let said = privacy(&scene).to_string();
    assert!(
        said.ends_with("; 500 rounds that the store lacks are not counted"),
        "{said}"
    );
    scene.killed(3);
    assert_eq!(privacy(&scene).lacking, 500);
    assert_eq!(scene.state(), JobState::Running);
}

/// A round to which too few parties came is no release.
#[test]
fn rounds_that_ask_for_no_update_do_not_count() {
    let mut scene = Scene::new(spec(), 1);
    scene.connect_all();
    scene.play_with(&[0]);
    // Nobody else is ready in time, and three rounds fail in a row.
    while scene.state() == JobState::Running {
        scene.wait();
    }
    assert_eq!(scene.state(), JobState::Failed);
    assert_eq!(privacy(&scene).releases, 0);
}

/// How many things may happen until something does.
const STEPS: usize = 20_000;

/// Two rounds of five parties, whose three servers add noise; with room for half as many more.
fn of_servers(rule: RuleName) -> JobSpec {
    let options = Mpc3 {
        rule,
        ..Mpc3::default()
    };
    JobSpec {
        protocol: options.into(),
        model_update: ModelUpdate::Add,
        encoding: spec().encoding,
        privacy: spec().privacy,
        ..mpc3(Adversary::SemiHonest, 5, 2)
    }
}

/// Abuse case 39: a server ends rounds once it has sent its part of a result, and so has the result of the others. Each of
/// these rounds counts, also after the coordinator has started again, and the job ends when its target is used up.
#[test]
fn case_39_rounds_of_servers_count_once_noise_was_made() {
    for (rule, last) in [(RuleName::FedAvg, 3), (RuleName::Clipped, 4)] {
        let mut job = Ensemble::new(of_servers(rule), 1);
        let host = job.hosts.len() - 1;
        let [_, second, third] = ServerIndex::ALL;
        for round in 1..3 {
            let said = |job: &Ensemble| job.lines.letters.get(&(third, second, round)).copied();
            let mut steps = 0..STEPS;
            // The letter of the agreement, its signature; and the first one of the computation, or all of it.
            while said(&job).unwrap_or(0) < last && steps.next().is_some() {
                job.advance();
            }
            assert!(said(&job).unwrap_or(0) >= last, "{:?}", job.status());
            job.kill(host);
            let is_over = |job: &Ensemble| {
                let reports = job.reports();
                let of_round = reports.iter().find(|report| report.number == round);
                of_round.is_some_and(|report| report.state == RoundState::Aborted)
            };
            while !is_over(&job) && steps.next().is_some() {
                job.advance();
            }
            let privacy = job.status().privacy.unwrap();
            assert_eq!(privacy.releases, round, "{rule}");
        }
        job.restart_server();
        assert_eq!(job.status().privacy.unwrap().releases, 2);
        job.play();
        let status = job.status();
        assert_eq!((status.state, status.rounds_done), (JobState::Done, 1));
        assert!(
            status
                .reason
                .starts_with("privacy: the target is used up: epsilon "),
            "{}",
            status.reason
        );
        let after = status.privacy.unwrap();
        let checked = of_servers(rule).validate().unwrap();
        let claim = checked.privacy().unwrap();
        assert_eq!(
            (after.releases, after.epsilon),
            (3, claim.epsilon(3).unwrap())
        );
        assert_eq!(after.epsilon_alone, None);
        assert_eq!(after.epsilon_outside, claim.epsilon_outside(3).unwrap());
        assert!(after.epsilon_outside.unwrap() < after.epsilon);
    }
}
