//! Ledgers of parties in whole jobs: every release is charged before its update leaves, whatever happens, and no party takes
//! part in a round that its data cannot afford. The ensemble checks at each vector that it was charged.

use blindsum_job::ledger::Budget;
use blindsum_job::{JobError, PolicyError};
use blindsum_protocol::{
    Adversary, Clipping, DiscreteGaussian, JobSpec, ModelUpdate, ProtocolChoice, ProtocolName,
    Quantised,
};

use crate::ensemble::Ensemble;
use crate::hosts::toy;

/// A job with noise of four parties, three of whom are enough.
fn spec(protocol: impl Into<ProtocolChoice>, rounds: u32) -> JobSpec {
    let encoding = Quantised {
        clipping: Clipping::L2,
        ..Quantised::default()
    };
    let privacy = DiscreteGaussian {
        noise_multiplier: 2.0,
        delta: 1e-5,
        ..DiscreteGaussian::default()
    };
    JobSpec {
        job: "noise".into(),
        protocol: protocol.into(),
        adversary: Adversary::SemiHonest,
        corrupt: 0.0,
        min_parties: 3,
        encoding: encoding.into(),
        privacy: privacy.into(),
        model_update: ModelUpdate::Nothing,
        ..toy("noise", 4, rounds)
    }
}

fn budget_of(releases: u64, job: &JobSpec) -> Option<Budget> {
    let job = job.clone().validate().unwrap();
    // The policy counts on one party less: at least one is corrupt.
    let cost = job.privacy().unwrap().release(2).unwrap();
    let spent = (1..releases).fold(cost.clone(), |spent, _| spent.plus(&cost));
    let delta = 1e-5;
    Some(Budget {
        epsilon: spent.epsilon(delta).unwrap(),
        delta,
    })
}

fn protocols() -> [ProtocolName; 4] {
    [
        ProtocolName::SecAgg,
        ProtocolName::SecAggPlus,
        ProtocolName::Fssa,
        ProtocolName::Pss,
    ]
}

/// Abuse case 39: whoever is killed at whatever step has been charged for what was sent.
#[test]
fn case_39_what_is_sent_was_charged_wherever_a_party_is_killed() {
    for protocol in protocols() {
        let new = || Ensemble::new(spec(protocol, 2), 1);
        let mut job = new();
        let undisturbed = job.play();
        for host in 0..4 {
            assert_eq!(job.hosts[host].charged(), 2, "{protocol}");
        }
        let some = if protocol == ProtocolName::SecAgg {
            5
        } else {
            23
        };
        for step in (1..undisturbed).step_by(some) {
            let mut job = new();
            (0..step).for_each(|_| job.advance());
            job.kill(0);
            job.play();
            let sent = job.vectors.iter().filter(|(host, _)| *host == 0).count() as u64;
            assert!(sent <= job.hosts[0].charged());
        }
    }
}

/// Abuse case 39: a party that is killed each time it was charged, before anything is sent, pays for what it did not send, and
/// comes to the end of its budget.
#[test]
fn case_39_what_was_charged_and_not_sent_is_not_given_back() {
    let spec = spec(ProtocolName::SecAgg, 4);
    let mut job = Ensemble::new(spec.clone(), 1);
    job.budget = budget_of(3, &spec);
    job.hosts[0].trouble.dies_charged = true;
    job.play();
    assert_eq!(job.hosts[0].charged(), 3);
    assert!(!job.vectors.iter().any(|(host, _)| *host == 0));
    assert!(is_out_of_budget(&job, 3));
    assert_eq!(job.status().rounds_done, 4);
}

fn is_out_of_budget(job: &Ensemble, after: u64) -> bool {
    job.failures.iter().any(|(name, error)| {
        let JobError::Policy(PolicyError::Budget { releases, .. }) = error else {
            return false;
        };
        name == "party-0" && *releases == after
    })
}

/// Abuse case 39: a budget for two rounds is met exactly, wherever the party is killed, and the job goes on with the others.
#[test]
fn case_39_no_round_beyond_the_budget_wherever_a_party_is_killed() {
    let spec = spec(ProtocolName::SecAgg, 4);
    let new = || {
        let mut job = Ensemble::new(spec.clone(), 1);
        job.budget = budget_of(2, &spec);
        job
    };
    let mut job = new();
    let undisturbed = job.play();
    assert_eq!(job.hosts[0].charged(), 2);
    assert_eq!(job.hosts[0].results.len(), 2);
    let privacy = job.hosts[0].results[&2].privacy.clone().unwrap();
    assert_eq!(Some(privacy.epsilon), privacy.max_epsilon);
    assert_eq!((privacy.releases, privacy.honest), (2, 2));
    for step in (1..undisturbed).step_by(2) {
        let mut job = new();
        (0..step).for_each(|_| job.advance());
        job.kill(0);
        job.play();
        assert_eq!(job.hosts[0].charged(), 2, "killed after step {step}");
        assert!(is_out_of_budget(&job, 2));
        assert_eq!(job.status().rounds_done, 4);
    }
}

/// Abuse case 39: a party whose budget is used up says so before it is ready, and not what its data was used for.
#[test]
fn case_39_the_coordinator_hears_that_the_budget_is_used_up_and_no_more() {
    let spec = spec(ProtocolName::SecAgg, 4);
    let mut job = Ensemble::new(spec.clone(), 1);
    job.budget = budget_of(1, &spec);
    job.play();
    let said = "this party's privacy budget does not allow another round";
    assert!(is_out_of_budget(&job, 1));
    let of_party = job.reasons.iter().filter(|(host, _)| *host == 0);
    let reasons: Vec<&str> = of_party.map(|(_, reason)| &**reason).collect();
    // It refuses the round, and leaves.
    assert_eq!(reasons, [said, said]);
}

/// Abuse case 39: two coordinators that know nothing of each other share the budget of a party that takes part in both jobs.
#[test]
fn case_39_two_coordinators_share_a_budget() {
    let one = spec(ProtocolName::SecAgg, 2);
    let other = JobSpec {
        job: "another".into(),
        ..spec(ProtocolName::Fssa, 3)
    };
    let mut first = Ensemble::new(one.clone(), 1);
    first.play();
    let mut second = Ensemble::new(other.clone(), 2);
    second.hosts[0].ledger = first.hosts[0].ledger.clone();
    // Both jobs cost the same a round.
    second.budget = budget_of(3, &other);
    second.play();
    assert_eq!(second.hosts[0].charged(), 3);
    assert_eq!(second.hosts[0].results.len(), 1);
    assert!(is_out_of_budget(&second, 3));
}

/// Abuse case 39: a ledger that is put back to an earlier state while its party lives is found out before anything is sent.
#[test]
fn case_39_an_older_ledger_under_a_party_is_refused() {
    let mut job = Ensemble::new(spec(ProtocolName::SecAgg, 3), 1);
    let before = job.hosts[0].ledger.bytes();
    while job.hosts[0].results.is_empty() {
        job.advance();
    }
    job.hosts[0].ledger.restore(before);
    job.play();
    let told = job.failures.iter().find(|(name, _)| name == "party-0");
    let error = told.unwrap().1.to_string();
    assert!(
        error.contains("it is not the one that was read before"),
        "{error}"
    );
    assert_eq!(job.vectors.iter().filter(|(host, _)| *host == 0).count(), 1);
}
