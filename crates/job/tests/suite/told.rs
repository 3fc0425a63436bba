//! What a party is told of a round that it leaves once its update is out, and how long the certificates in a round count.

use blindsum_job::JobError;
use blindsum_job::records::Records;
use blindsum_job::report::RoundState;
use blindsum_protocol::{Adversary, JobSpec, ProtocolName, ServerRole};

use crate::ensemble::Ensemble;
use crate::hosts::{mpc3, toy};

/// Seconds after which the certificate of the last party has ended, and no other one has.
const LATER: u64 = 2 * 86_400;

/// One round of five parties, of which the last one keeps the others waiting for its update.
fn waiting_for_the_last() -> Ensemble {
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        adversary: Adversary::SemiHonest,
        corrupt: 0.0,
        dropout: 0.4,
        min_parties: 3,
        stage_deadline: 600.0,
        input_deadline: 600.0,
        ..toy("told", 5, 1)
    };
    let mut job = Ensemble::new(spec, 1);
    job.hosts[4].trouble.waits = true;
    job
}

/// Lets things happen until the first party has sent its vector, and everything that follows from that.
fn play_to_vector(job: &mut Ensemble) {
    while !job.vectors.contains(&(0, 1)) {
        job.advance();
    }
    while job.step() {}
}

/// A record of the first party whose name ends so.
fn record(job: &Ensemble, ends: &str) -> (String, Vec<u8>) {
    let records = job.hosts[0].records.snapshot().into_iter();
    let mut named = records.filter(|(name, _)| name.ends_with(ends));
    named.next().unwrap()
}

/// The first party is told once, in the place of a result, and never the opposite of what the report of the round says.
fn check_unknown(mut job: Ensemble, says: &str) {
    while job.failures.is_empty() {
        job.advance();
    }
    job.submit(4);
    job.play();
    let [done] = &job.reports()[..] else {
        panic!("{:?}", job.reports());
    };
    assert_eq!(done.state, RoundState::Done);
    assert!(done.survivors.contains(&"party-0".to_owned()), "{done:?}");
    let [(party, error)] = &job.failures[..] else {
        panic!("{:?}", job.failures);
    };
    assert_eq!(party, "party-0");
    assert!(matches!(error, JobError::Unknown { .. }), "{error:?}");
    assert!(error.to_string().contains(says), "{error}");
}

/// A party and the coordinator are killed while its vector is out: the next process hears that the round has no sum.
#[test]
fn case_54_who_is_started_again_is_told_that_its_update_does_not_count() {
    let mut job = waiting_for_the_last();
    play_to_vector(&mut job);
    job.kill(0);
    job.restart_server();
    let is_first = |(party, _): &&(String, JobError)| party == "party-0";
    for _ in 0..10_000 {
        if job.failures.iter().any(|failure| is_first(&failure)) {
            break;
        }
        job.advance();
    }
    let told: Vec<_> = job.failures.iter().filter(is_first).collect();
    let [(_, error)] = &told[..] else {
        panic!("{:?}", job.failures);
    };
    assert!(
        matches!(error, JobError::RoundAborted { round: 1, .. }),
        "{error:?}"
    );
}

/// What is left of an earlier round says nothing of a later one: an update of which nothing went out is not said to be out.
#[test]
fn case_54_a_round_that_is_refused_after_an_aborted_one_has_no_update_out() {
    let mut job = waiting_for_the_last();
    job.min_cohort = 5;
    job.hosts[3].trouble.waits = true;
    play_to_vector(&mut job);
    job.lose(0);
    job.lose(4);
    let is_aborted = |job: &Ensemble| {
        let mut reports = job.reports().into_iter();
        reports.any(|report| report.state == RoundState::Aborted)
    };
    while !is_aborted(&job) {
        job.advance();
    }
    job.hosts[3].trouble.waits = false;
    job.hosts[0].lost = false;
    job.start_again(0);
    // Four parties are left, which are too few for the policy of the first.
    let refused = |job: &Ensemble| {
        let mut of_first = job.failures.iter().filter(|(party, _)| party == "party-0");
        of_first.any(|(_, error)| !matches!(error, JobError::RoundAborted { round: 1, .. }))
    };
    for _ in 0..10_000 {
        if refused(&job) {
            break;
        }
        job.advance();
    }
    assert!(!job.vectors.contains(&(0, 2)));
    let mut told = job.failures.iter().filter(|(party, _)| party == "party-0");
    let told = told.rfind(|_| true).map(|(_, error)| error);
    assert!(matches!(told, Some(JobError::Policy(_))), "{told:?}");
}

/// Whatever fails in the process of a party that is started again: it is never told that its update does not count.
#[test]
fn case_54_a_task_that_fails_says_nothing_of_an_update_that_is_out() {
    let mut unknown = 0;
    for task in 0..8 {
        let mut job = waiting_for_the_last();
        play_to_vector(&mut job);
        job.kill(0);
        job.hosts[0].trouble.breaks_task = Some(task);
        while job.step() {}
        job.submit(4);
        while job
            .reports()
            .first()
            .is_none_or(|report| report.state != RoundState::Done)
        {
            job.advance();
        }
        while job.step() {}
        let counts = job.reports()[0].survivors.contains(&"party-0".to_owned());
        for (party, error) in &job.failures {
            assert_eq!(party, "party-0");
            // What fails before the round is taken up again says nothing of it.
            let is_true = matches!(
                error,
                JobError::Unknown { .. } | JobError::Missed { .. } | JobError::System(_)
            );
            assert!(is_true || !counts, "task {task}: {error:?}");
            unknown += usize::from(matches!(error, JobError::Unknown { .. }));
        }
    }
    // Before the fifth task the round is not known again.
    assert_eq!(unknown, 4);
}

/// The caller of a process that was started again asks for a round only later: what it must know waits for it.
#[test]
fn case_54_what_is_not_known_waits_for_the_caller() {
    for asks_late in [false, true] {
        let mut job = waiting_for_the_last();
        play_to_vector(&mut job);
        job.kill(0);
        job.hosts[0].trouble.asks_late = asks_late;
        let (state, mut bytes) = record(&job, "/state");
        *bytes.last_mut().unwrap() ^= 1;
        let records = job.hosts[0].records.clone();
        records.replace(&state, &[&bytes]).unwrap();
        while job.hosts[0].lives < 2 || !job.is_welcome(0) {
            job.advance();
        }
        while job.step() {}
        assert_eq!(job.failures.is_empty(), asks_late);
        if asks_late {
            job.ask(0);
        }
        check_unknown(job, "round 1");
    }
}

/// The key of a party is replaced while its vector is out: it is in that round no more, and its vector is in the sum.
#[test]
fn case_54_whose_key_was_replaced_is_not_told_that_its_update_does_not_count() {
    let mut job = waiting_for_the_last();
    play_to_vector(&mut job);
    job.kill(0);
    job.hosts[0].key = job.hosts[1].key.clone();
    // It was sealed with the key before.
    let (model, _) = record(&job, "/model");
    job.hosts[0].records.remove(&model).unwrap();
    check_unknown(job, "another key, nonce or commitment of this party");
}

/// What a party kept of the round is damaged.
#[test]
fn case_54_whose_machine_is_damaged_is_not_told_that_its_update_does_not_count() {
    let mut job = waiting_for_the_last();
    play_to_vector(&mut job);
    job.kill(0);
    let (state, mut bytes) = record(&job, "/state");
    *bytes.last_mut().unwrap() ^= 1;
    let records = job.hosts[0].records.clone();
    records.replace(&state, &[&bytes]).unwrap();
    check_unknown(job, "round 1");
}

/// A server refuses the part of a party: before its vector is out that keeps it out, and what it says to the next process,
/// which gives the part again, says nothing of the vector.
#[test]
fn case_54_whose_second_upload_is_refused_is_not_told_that_its_update_does_not_count() {
    for is_first in [false, true] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
        job.hosts[3].trouble.waits = true;
        if !is_first {
            while !job.vectors.contains(&(0, 1)) {
                job.advance();
            }
            // The coordinator has not heard it.
            job.kill(0);
        }
        while !job.refuse_upload(0, ServerRole::Second) {
            job.advance();
        }
        while job.failures.is_empty() {
            job.advance();
        }
        job.submit(3);
        job.play();
        let error = &job.failures[0].1;
        let counts = job.reports()[0].survivors.contains(&"party-0".to_owned());
        let fits = match error {
            JobError::Unknown { .. } => !is_first,
            JobError::Dropped { .. } => is_first && !counts,
            _ => false,
        };
        assert!(fits, "first {is_first}, counts {counts}: {error:?}");
    }
}

/// A certificate ends while the round is under way, and a party comes back to it after that, with what it kept.
#[test]
fn case_56_a_certificate_that_ends_amid_a_round_counts_for_who_was_killed() {
    let mut job = waiting_for_the_last();
    play_to_vector(&mut job);
    job.now.unix_millis += LATER * 1000;
    job.kill(0);
    job.advance();
    job.submit(4);
    job.play();
    assert!(job.failures.is_empty(), "{:?}", job.failures);
    assert_eq!(job.reports()[0].survivors.len(), 5);
    assert!(job.hosts[0].results.contains_key(&1));
}

/// So it does at another server that loses its connection.
#[test]
fn case_56_a_certificate_that_ends_amid_a_round_counts_at_another_server() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.hosts[3].trouble.waits = true;
    play_to_vector(&mut job);
    job.now.unix_millis += LATER * 1000;
    job.disconnect(4);
    while !job.is_welcome(4) {
        job.advance();
    }
    assert!(job.refusals(4).is_empty(), "{:?}", job.refusals(4));
    job.submit(3);
    job.play();
    let [done] = &job.reports()[..] else {
        panic!("{:?}", job.reports());
    };
    assert_eq!((done.state, done.survivors.len()), (RoundState::Done, 4));
}
