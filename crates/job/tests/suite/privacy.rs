//! Jobs with noise: releases are counted, also those of rounds without a result, and a job ends when its target is used up.

use blindsum_job::report::{JobState, PrivacyStatus};
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{Adversary, Clipping, DiscreteGaussian, JobSpec, ProtocolName, Quantised};

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
