//! What a party refuses, whatever the coordinator says: every test has a coordinator that lies.

use crate::common::fake::{Cast, Fake, Line, job, name, one_round, welcome};
use crate::common::raw::certificate;
use crate::common::*;
use blindsum_net::party::PartyConfig;
use blindsum_net::pb::{self, RoundRefusalCode};
use blindsum_net::{Credentials, JobError, Model, NetError, PolicyError};
use blindsum_protocol::{Adversary, JobSpec, ProtocolName};

/// A party `a` that must refuse what `lie` makes of the beginning of its first round, with this reason,
/// before it has said anything.
fn refuses(seed: u64, lie: impl FnOnce(&Pki, &Cast) -> Cast, code: RoundRefusalCode, says: &str) {
    let pki = Pki::new(seed);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let party = one_round(party_config(&fake.url(), a.clone()));
    let mut line = fake.welcome(&job);
    let model = Model::initial(&job);
    let nonce = line.offer(1, &model);
    let honest = Cast::new(&a, &nonce, &[&pki.party("b"), &pki.party("c")]);
    line.send(lie(&pki, &honest).start(1, &model));
    let (got, reason) = line.refusal();
    assert_eq!(got, code, "{reason}");
    assert!(reason.contains(says), "{reason}");
    let (outcome, _party) = party.join().unwrap();
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
}

const FAULT: RoundRefusalCode = RoundRefusalCode::RoundRefusalFault;
const UNABLE: RoundRefusalCode = RoundRefusalCode::RoundRefusalUnable;
const POLICY: RoundRefusalCode = RoundRefusalCode::RoundRefusalPolicy;

#[test]
fn case_13_uncertified_members_are_refused() {
    let sybil = |_: &Pki, honest: &Cast| {
        let sybil = certificate(&Pki::new(99).party("z"));
        let mut cast = honest.0.clone();
        cast.push((sybil, vec![9; 32]));
        Cast(cast)
    };
    refuses(
        1,
        sybil,
        FAULT,
        "cannot be trusted: certificate: not signed by the job's CA",
    );
}

#[test]
fn case_13_one_member_under_two_nonces_is_refused() {
    let twice = |_: &Pki, honest: &Cast| {
        let mut cast = honest.0.clone();
        let (again, _) = cast.last().unwrap().clone();
        cast.push((again, vec![9; 32]));
        Cast(cast)
    };
    refuses(2, twice, FAULT, "not in the order of the job");
}

/// Abuse case 46: certificates are not kept before they are looked at.
#[test]
fn case_46_certificates_that_no_roster_needs_are_refused() {
    let more = |change: fn(&mut pb::RoundStart), says: &str, seed| {
        let pki = Pki::new(seed);
        let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
        let party = one_round(party_config(&fake.url(), a.clone()));
        let mut line = fake.welcome(&job);
        let model = Model::initial(&job);
        let nonce = line.offer(1, &model);
        let mut start = Cast::new(&a, &nonce, &[&pki.party("b")]).start(1, &model);
        change(&mut start);
        line.send(start);
        let (got, reason) = line.refusal();
        assert_eq!(got, FAULT, "{reason}");
        assert!(reason.contains(says), "{reason}");
        assert!(party.join().unwrap().0.is_err());
    };
    let many = |start: &mut pb::RoundStart| start.certificates.resize(5, vec![7].into());
    more(many, "5 certificates for 2 members", 27);
    let large = |start: &mut pb::RoundStart| start.certificates[1] = vec![7; (64 << 10) + 1].into();
    more(large, "a certificate of 65537 bytes, more than 65536", 28);
    let other = |start: &mut pb::RoundStart| start.certificates[1] = vec![7].into();
    more(other, "a certificate of no member", 29);
}

#[test]
fn a_roster_without_this_party_or_with_another_nonce_of_it_is_refused() {
    let without = |_: &Pki, honest: &Cast| Cast(honest.0[1..].to_vec());
    refuses(3, without, UNABLE, "lacks this party");
    let replayed = |_: &Pki, honest: &Cast| {
        let mut cast = honest.0.clone();
        cast[0].1[0] ^= 1;
        Cast(cast)
    };
    refuses(4, replayed, UNABLE, "another key, nonce or commitment");
    let impostor = |pki: &Pki, honest: &Cast| {
        let mut cast = honest.0.clone();
        cast[0].0 = certificate(&pki.party("a"));
        Cast(cast)
    };
    refuses(5, impostor, UNABLE, "another key, nonce or commitment");
}

#[test]
fn a_roster_beyond_the_jobs_bounds_or_out_of_order_is_refused() {
    let crowd = |pki: &Pki, honest: &Cast| {
        let mut cast = honest.0.clone();
        for name in ["d", "e"] {
            cast.push((certificate(&pki.party(name)), vec![1; 32]));
        }
        Cast(cast)
    };
    refuses(
        6,
        crowd,
        FAULT,
        "the roster has 5 parties, the job at most 4",
    );
    let unordered = |_: &Pki, honest: &Cast| {
        let mut cast = honest.0.clone();
        cast.reverse();
        Cast(cast)
    };
    refuses(7, unordered, FAULT, "order of the job");
    let alone = |_: &Pki, honest: &Cast| Cast(honest.0[..1].to_vec());
    refuses(
        8,
        alone,
        FAULT,
        "min_parties = 2 <= parties in the roster = 1 must hold",
    );
}

#[test]
fn case_12_a_cohort_below_the_partys_own_minimum_is_refused() {
    let pki = Pki::new(9);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let mut config = party_config(&fake.url(), a.clone());
    config.policy.min_cohort = 3;
    let party = one_round(config);
    let mut line = fake.welcome(&job);
    let model = Model::initial(&job);
    let nonce = line.offer(1, &model);
    line.send(Cast::new(&a, &nonce, &[&pki.party("b")]).start(1, &model));
    assert_eq!(line.refusal().0, POLICY);
    let error = party.join().unwrap().0.unwrap_err();
    let expected = PolicyError::CohortTooSmall { have: 2, need: 3 };
    assert!(matches!(error, NetError::Job(JobError::Policy(broken)) if broken == expected));
}

#[test]
fn case_12_a_cohort_that_differs_by_one_from_an_earlier_one_is_refused_also_after_a_restart() {
    let pki = Pki::new(10);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let others = ["b", "c", "d"].map(|name| pki.party(name));
    let state = tempfile::tempdir().unwrap();
    let config = || {
        let mut config = party_config(&fake.url(), a.clone());
        config.policy.min_cohort_change = 2;
        config.state_dir = Some(state.path().to_owned());
        config
    };
    let model = Model::initial(&job);
    let cohort = |line: &mut Line<'_>, round, others: &[&Credentials]| {
        let nonce = line.offer(round, &model);
        line.send(Cast::new(&a, &nonce, others).start(round, &model));
    };
    let party = one_round(config());
    let mut line = fake.welcome(&job);
    cohort(&mut line, 1, &[&others[0], &others[1], &others[2]]);
    assert_eq!(line.chunk().round, 1);
    let reason = "somebody else's fault".to_owned();
    line.send(pb::RoundAborted {
        round: 1,
        only_you: false,
        counted: false,
        unknown: false,
        reason,
    });
    let (outcome, party) = party.join().unwrap();
    let error = outcome.unwrap().unwrap().unwrap_err();
    let aborted = matches!(
        error,
        NetError::Job(JobError::RoundAborted { round: 1, .. })
    );
    assert!(aborted, "{error}");
    drop((party, line));
    // The party is started again: it remembers whose sums it was in.
    let again = loop {
        let party = one_round(config());
        std::thread::sleep(std::time::Duration::from_millis(100));
        if !party.is_finished() {
            break party;
        }
    };
    let mut line = fake.welcome(&job);
    cohort(&mut line, 2, &[&others[0], &others[1]]);
    let (code, reason) = line.refusal();
    assert_eq!(code, POLICY);
    assert!(
        reason.contains("would show the sum of 1 parties alone"),
        "{reason}"
    );
    assert!(matches!(
        again.join().unwrap().0,
        Err(NetError::Job(JobError::Policy(_)))
    ));
}

/// A party with this policy must refuse this job before it says anything else.
fn refuses_job(seed: u64, change: impl Fn(&mut PartyConfig, &mut JobSpec), says: &str) {
    let pki = Pki::new(seed);
    let fake = Fake::start(&pki);
    let mut config = party_config(&fake.url(), pki.party("a"));
    let mut spec = spec(ProtocolName::Plain, 4);
    change(&mut config, &mut spec);
    let party = one_round(config);
    let mut line = fake.welcome(&spec.validate().unwrap());
    let leaving = line.leaves();
    assert_eq!(leaving.code(), pb::LeavingCode::LeavingPolicy);
    assert!(leaving.reason.starts_with("policy "), "{leaving:?}");
    let error = party.join().unwrap().0.unwrap_err();
    assert!(
        matches!(error, NetError::Job(JobError::Policy(_))),
        "{error}"
    );
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn case_12_jobs_that_break_the_policy_are_refused() {
    let secagg = |spec: &mut JobSpec| {
        spec.protocol = ProtocolName::SecAgg.into();
        spec.min_parties = 0;
        spec.adversary = Adversary::SemiHonest;
    };
    refuses_job(
        11,
        |config, _| config.policy.allowed_protocols = vec![ProtocolName::SecAgg],
        "the job uses plain, this party allows secagg",
    );
    refuses_job(
        12,
        |config, spec| {
            config.policy.require_adversary = Some(Adversary::Active);
            secagg(spec);
        },
        "the job protects against semi-honest adversaries, this party requires active",
    );
    refuses_job(
        13,
        |config, _| config.policy.max_weight = Some(9),
        "the job allows 10, this party 9",
    );
    refuses_job(
        23,
        |config, spec| {
            config.policy.min_corrupt = 0.1;
            secagg(spec);
            spec.corrupt = 0.0;
        },
        "policy min_corrupt: the job tolerates corrupt = 0 of its parties, this party wants 0.1 or more",
    );
    refuses_job(
        24,
        |config, _| config.policy.min_honest = 2,
        "policy min_honest: the job opens sums of 2 parties, this party wants 3",
    );
    refuses_job(
        25,
        |config, _| config.policy.job_hash = Some([7; 32]),
        "policy job_hash",
    );
}

/// Abuse case 46: what a party would allocate for is judged before anything is.
#[test]
fn case_46_a_job_of_endless_vectors_is_refused() {
    let pki = Pki::new(26);
    let fake = Fake::start(&pki);
    let party = one_round(party_config(&fake.url(), pki.party("a")));
    let (mut line, _) = fake.accept();
    let endless = JobSpec {
        dim: 1 << 32,
        ..job().spec().clone()
    };
    line.send(pb::Welcome {
        job_spec: serde_json::to_string(&endless).unwrap(),
        ..welcome(&job())
    });
    line.leaves();
    let error = party.join().unwrap().0.unwrap_err();
    let (job, allowed) = (1 << 32, 1 << 28);
    let expected = PolicyError::MaxDim { job, allowed };
    assert!(matches!(error, NetError::Job(JobError::Policy(broken)) if broken == expected));
}

#[test]
fn case_11_a_job_that_does_not_have_its_hash_is_refused() {
    let pki = Pki::new(14);
    let fake = Fake::start(&pki);
    let party = one_round(party_config(&fake.url(), pki.party("a")));
    let (mut line, hello) = fake.accept();
    assert_eq!(
        (hello.name.as_str(), hello.job.as_str(), hello.round),
        ("a", "test", 0)
    );
    let mut other = welcome(&job());
    other.job_hash[0] ^= 1;
    line.send(other);
    line.leaves();
    let error = party.join().unwrap().0.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does not have the hash announced"),
        "{error}"
    );
}

#[test]
fn case_11_a_model_that_does_not_have_its_hash_is_refused() {
    let pki = Pki::new(15);
    let (fake, job) = (Fake::start(&pki), job());
    let party = one_round(party_config(&fake.url(), pki.party("a")));
    let mut line = fake.welcome(&job);
    let model = Model::new(4, vec![1.0; 5]);
    line.send(pb::RoundOffer {
        round: 1,
        model: Some(name(&model)),
        ..pb::RoundOffer::default()
    });
    let asked = line.next();
    let Some(pb::party_frame::Frame::ModelRequest(request)) = asked else {
        panic!("it does not ask for the model: {asked:?}");
    };
    assert_eq!(request.version, 4);
    let poisoned = Model::new(4, vec![1.0, 1.0, 1.0, 1.0, 66.0]);
    line.send(pb::ModelChunk {
        version: 4,
        offset: 0,
        total: 40,
        data: poisoned.to_bytes(),
    });
    line.leaves();
    let error = party.join().unwrap().0.unwrap_err();
    assert!(
        error.to_string().contains("hash is not the one announced"),
        "{error}"
    );
}

#[test]
fn case_27_a_coordinators_message_beyond_the_jobs_bound_is_refused() {
    let pki = Pki::new(18);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let party = one_round(party_config(&fake.url(), a.clone()));
    let mut line = fake.welcome(&job);
    let model = Model::initial(&job);
    let nonce = line.offer(1, &model);
    line.send(Cast::new(&a, &nonce, &[&pki.party("b"), &pki.party("c")]).start(1, &model));
    let answer = line.chunk();
    line.send(pb::Chunk {
        total: 1 << 40,
        ..answer
    });
    line.leaves();
    let (outcome, _) = party.join().unwrap();
    let error = outcome.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("must be at most"), "{error}");
}

#[test]
fn a_coordinator_that_says_nothing_is_given_up() {
    let pki = Pki::new(19);
    let fake = Fake::start(&pki);
    let mut config = party_config(&fake.url(), pki.party("a"));
    config.give_up_after = 0.3;
    let error = one_round(config).join().unwrap().0.unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    assert!(
        error.to_string().contains("does not answer the Hello"),
        "{error}"
    );
}

#[test]
fn a_job_cannot_change_while_a_party_is_in_it() {
    let pki = Pki::new(20);
    let (fake, job) = (Fake::start(&pki), job());
    let party = one_round(party_config(&fake.url(), pki.party("a")));
    drop(fake.welcome(&job));
    let changed = JobSpec {
        min_parties: 1,
        ..job.spec().clone()
    };
    let mut line = fake.welcome(&changed.validate().unwrap());
    line.leaves();
    let error = party.join().unwrap().0.unwrap_err();
    assert!(error.to_string().contains("has changed the job"), "{error}");
}
