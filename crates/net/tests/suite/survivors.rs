//! A party and the survivors of its rounds: what it signs, reveals and adds up for, over rounds, restarts and jobs.

use std::sync::Arc;

use crate::common::fake::Fake;
use crate::common::play::{Play, Reply, abort, offer, reply};
use crate::common::*;
use blindsum_net::party::{PartyConfig, Policy};
use blindsum_net::pb::{RoundKind, RoundRefusalCode};
use blindsum_net::{JobError, NetError, PolicyError};
use blindsum_protocol::{Adversary, JobSpec, ModelUpdate, ProtocolName};

/// Protocols in which parties have a say in who survives, and in both modes.
fn variants() -> impl Iterator<Item = JobSpec> {
    let each = |protocol| {
        [Adversary::SemiHonest, Adversary::Active].map(|adversary| JobSpec {
            adversary,
            min_parties: 0,
            dropout: 0.2,
            model_update: ModelUpdate::Nothing,
            input_deadline: 60.0,
            stage_deadline: 60.0,
            ..spec(protocol, 6)
        })
    };
    let all = ProtocolName::ALL.iter().copied();
    // pss-malicious asks its guard at another stage: the protocol's own tests of guards have that case.
    all.filter(|protocol| protocol.asks_parties() && *protocol != ProtocolName::PssMalicious)
        .flat_map(each)
}

/// A party for which the parties of two sums must differ by two: an honest one and one that may be corrupt.
struct Careful {
    min_honest: usize,
    fake: Fake,
    play: Play,
    folder: tempfile::TempDir,
}

impl Careful {
    fn new(spec: JobSpec, seed: u64) -> Self {
        let pki = Pki::new(seed);
        Self {
            min_honest: 0,
            fake: Fake::start(&pki),
            play: Play::new(&pki, Arc::new(spec.validate().unwrap())),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn config(&self) -> impl Fn() -> PartyConfig + use<> {
        let (folder, url) = (self.folder.path().to_owned(), self.fake.url());
        let min_honest = self.min_honest;
        let credentials = self.play.a();
        move || PartyConfig {
            policy: Policy {
                min_cohort_change: 1,
                min_honest,
                ..lenient()
            },
            ..config_in(&folder, &url, &credentials)
        }
    }
}

/// The party's program: so many rounds, and what became of each.
fn program(config: impl Fn() -> PartyConfig, rounds: usize) -> Vec<Result<(), PolicyError>> {
    let mut party = join_again(config);
    let mut one = || {
        let mut round = party.next_round()?.unwrap();
        round.submit(vec![1.0f32; 5], 1)?;
        round.result().map(drop)
    };
    let outcomes = (0..rounds).map(|_| match one() {
        Err(NetError::Job(JobError::Policy(broken))) => Err(broken),
        // Its vector was out.
        Err(NetError::Job(JobError::Unknown {
            policy: Some(broken),
            ..
        })) => Err(*broken),
        Err(NetError::Job(JobError::RoundAborted { .. })) => Ok(()),
        other => panic!("{other:?}"),
    });
    outcomes.collect()
}

impl Careful {
    /// One process of the party. In each round these of the others vanish with their vectors; the round ends well for
    /// the party where it goes along to its end.
    fn process(&mut self, rounds: &[(u64, &[u32])]) -> Vec<Result<(), PolicyError>> {
        let (config, count) = (self.config(), rounds.len());
        let program = std::thread::spawn(move || program(config, count));
        let (job, play) = (self.play.job.clone(), &mut self.play);
        let mut line = self.fake.welcome(&job);
        for (number, lost) in rounds {
            offer(&line, play, *number);
            let Reply::Ready(ready) = reply(&mut line) else {
                panic!("not ready");
            };
            let said = play.said.len();
            if play.round_without(&mut line, &ready, RoundKind::Sum, lost, || {}) {
                line.send(abort(*number));
                continue;
            }
            let refused = play.refused.take().unwrap();
            assert_eq!(refused.code(), RoundRefusalCode::RoundRefusalPolicy);
            // Its vector was the last thing it said.
            let input = usize::from(job.plan().input_stage().unwrap());
            assert_eq!(play.said.len(), said + input + 1);
        }
        program.join().unwrap()
    }
}

/// One party is told apart from the others.
const ALONE: PolicyError = PolicyError::Differencing {
    have: 1,
    need: 2,
    honest: 1,
    corrupt: 1,
};

/// Abuse case 49: the roster is the same in all rounds, and so is the party's word after a restart.
#[test]
fn case_49_survivors_that_differ_by_one_are_refused_also_after_a_restart() {
    for spec in variants() {
        let mut party = Careful::new(spec, 1);
        let (all, without_5, without_4): (&[u32], &[u32], &[u32]) = (&[], &[5], &[4]);
        let first = party.process(&[(1, without_5), (2, all)]);
        assert_eq!(first, [Ok(()), Err(ALONE)]);
        // Of 4 and 5, whoever is corrupt knows the vector of the other.
        let then = party.process(&[(3, without_4), (4, without_5)]);
        assert_eq!(then, [Err(ALONE), Ok(())]);
        assert_eq!(party.process(&[(5, all)]), [Err(ALONE)]);
    }
}

/// Abuse case 49: 9 is corrupt, and with its vector s1 + s2 − s3 − s4 = 2 x9 − x3 gives that of 3.
#[test]
fn case_49_sums_of_many_rounds_that_together_tell_few_parties_apart_are_refused() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let spec = JobSpec {
            adversary,
            corrupt: 0.1,
            dropout: 0.3,
            parties: 10,
            ..variants().next().unwrap()
        };
        let mut party = Careful::new(spec, 3);
        let rounds: [(u64, &[u32]); 4] = [(1, &[]), (2, &[2, 3]), (3, &[1, 2, 3]), (4, &[])];
        let alone = Err(ALONE);
        assert_eq!(party.process(&rounds), [Ok(()), Ok(()), alone, Ok(())]);
        // A set that was refused does not count, since nothing was said for it.
        assert_eq!(party.process(&[(5, &[4, 5])]), [Ok(())]);
        let refused = party.process(&[(6, &[2, 4, 9]), (7, &[4, 5])]);
        assert_eq!(refused, [Err(ALONE), Ok(())]);
    }
}

/// Abuse case 49: the same parties under another specification of the same name.
#[test]
fn case_49_another_job_of_the_same_name_forgets_nothing() {
    for spec in variants() {
        let mut party = Careful::new(spec.clone(), 2);
        assert_eq!(party.process(&[(1, &[])]), [Ok(())]);
        let other = JobSpec {
            stage_deadline: spec.stage_deadline + 1.0,
            ..spec
        };
        party.play.job = Arc::new(other.validate().unwrap());
        assert_eq!(party.process(&[(1, &[3])]), [Err(ALONE)]);
    }
}
