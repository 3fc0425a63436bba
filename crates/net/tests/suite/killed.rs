//! A party that is killed with its vector out, and started again when its round is over, has the result all the same.

use std::time::{Duration, Instant};

use crate::common::scene::Scene;
use crate::common::*;
use blindsum_net::Credentials;
use blindsum_net::coordinator::Config;
use blindsum_net::party::{NextRound, Party};
use blindsum_net::report::JobStatus;
use blindsum_protocol::{JobSpec, ProtocolName};
use tempfile::TempDir;

fn plain(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        ..spec(ProtocolName::Plain, 3)
    }
}

/// A party that is killed with its vector out and started again once its round is over has nothing but its folder.
struct Killed {
    scene: Scene,
    folder: TempDir,
    credentials: Credentials,
    others: [Party; 2],
}

impl Killed {
    fn new(spec: JobSpec, change: fn(&mut Config)) -> Self {
        let scene = Scene::new(spec, change);
        let join = |name| Party::join(scene.config(name, &scene.coordinator().url())).unwrap();
        Self {
            others: ["b", "c"].map(join),
            folder: tempfile::tempdir().unwrap(),
            credentials: scene.pki.party("a"),
            scene,
        }
    }

    fn party(&self) -> Party {
        let url = self.scene.coordinator().url();
        join_again(|| config_in(self.folder.path(), &url, &self.credentials))
    }

    /// All that are there do a round whose sum is the same for everybody.
    fn round(&mut self, party: Option<&mut Party>) {
        std::thread::scope(|scope| {
            for party in self.others.iter_mut().chain(party) {
                scope.spawn(|| {
                    let mut round = party.next_round().unwrap().unwrap();
                    round.submit(vec![2.0f32; 5], 1).unwrap();
                    assert_eq!(round.result().unwrap().mean, [2.0; 5]);
                });
            }
        });
    }

    /// The round in which the party is killed; the others have its result.
    fn in_round(&mut self, mut party: Party) {
        let [b, c] = &mut self.others;
        let mut rounds = std::thread::scope(|scope| {
            let rounds = [&mut party, b, c];
            let rounds = rounds.map(|party| scope.spawn(|| party.next_round().unwrap().unwrap()));
            rounds.map(|round| round.join().unwrap())
        });
        for round in &mut rounds[..2] {
            round.submit(vec![1.0f32; 5], 1).unwrap();
        }
        self.scene.wait_for("c", 0);
        drop(party);
        let gone = |status: &JobStatus| status.connected == ["b", "c"];
        self.scene.coordinator().wait("test", gone);
        rounds[2].submit(vec![4.0f32; 5], 1).unwrap();
        for round in &mut rounds[1..] {
            assert_eq!(round.result().unwrap().mean, [2.0; 5]);
        }
    }

    /// It is started again, and has the result.
    fn started_again(&self, version: u64) -> Party {
        let mut again = self.party();
        let mut round = again.next_round().unwrap().unwrap();
        assert!(!round.needs_update());
        let result = round.result().unwrap();
        assert_eq!(result.mean, [2.0; 5]);
        let model = &result.model;
        let value = 2.0 * version as f64;
        assert_eq!(
            (model.version(), model.values().to_doubles()[0]),
            (version, value)
        );
        again
    }
}

#[test]
fn case_54_a_party_killed_after_its_answer_gets_the_result_from_its_folder() {
    let mut killed = Killed::new(plain(1), |_| ());
    let party = killed.party();
    killed.in_round(party);
    killed.scene.restart();
    killed.started_again(1);
}

/// The coordinator has no model any more but the one that the last round led to.
#[test]
fn case_54_a_party_killed_after_its_answer_in_the_last_round_of_several_gets_the_result() {
    let mut killed = Killed::new(plain(2), |config| config.limits.models_kept = 1);
    let mut party = killed.party();
    killed.round(Some(&mut party));
    killed.in_round(party);
    killed.scene.restart();
    killed.started_again(2);
}

#[test]
fn case_54_a_party_killed_after_its_answer_gets_the_result_and_goes_on() {
    let mut killed = Killed::new(plain(4), |_| ());
    let mut party = killed.party();
    killed.round(Some(&mut party));
    killed.in_round(party);
    let mut again = killed.started_again(2);
    for _ in 2..4 {
        killed.round(Some(&mut again));
    }
    // What a round needed is gone with it.
    let folder = killed.folder.path().join("test");
    let mut jobs = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let job = jobs.find(|entry| entry.path().is_dir()).unwrap();
    // The caller has the result a moment before the party has cleared up.
    let until = Instant::now() + Duration::from_secs(20);
    while job.path().join("model").exists() {
        assert!(
            Instant::now() < until,
            "the model of a round that is over stays"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The coordinator never had the model: another party sealed it for the one that is killed.
#[test]
fn case_54_a_party_killed_after_its_answer_gets_the_result_that_only_parties_know() {
    let mut killed = Killed::new(flashe(2), |_| ());
    killed.round(None);
    let party = killed.party();
    killed.in_round(party);
    killed.started_again(2);
}

/// The round and its result are there together when the caller looks for a round.
#[test]
fn case_54_a_result_that_comes_before_the_caller_looks_at_its_round_is_kept() {
    let mut killed = Killed::new(plain(1), |_| ());
    let party = killed.party();
    killed.in_round(party);
    let mut again = killed.party();
    let mut asked = again.wait_round(Duration::ZERO).unwrap();
    if matches!(asked, NextRound::Waiting) {
        std::thread::sleep(Duration::from_millis(500));
        asked = again.wait_round(Duration::from_secs(20)).unwrap();
    }
    let NextRound::Round(mut round) = asked else {
        panic!("no round");
    };
    assert_eq!(round.result().unwrap().mean, [2.0; 5]);
}
