//! What a party is told that is started again, or in whose process something fails, of a round with its update: never the
//! opposite of what happened, once, and nothing of rounds in which it has no update.

use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::JobError;
use blindsum_job::pb::{self, RefusalCode};
use blindsum_job::records::Records;
use blindsum_job::report::RoundState;
use blindsum_protocol::{Adversary, JobSpec, ProtocolName, ServerRole};

use crate::ensemble::Ensemble;
use crate::hosts::{mpc3, toy, validity_of};

/// Rounds of five parties, of which the last one keeps the others waiting for its update.
fn waiting_for_the_last(rounds: u32) -> Ensemble {
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        adversary: Adversary::SemiHonest,
        corrupt: 0.0,
        dropout: 0.4,
        min_parties: 3,
        stage_deadline: 600.0,
        input_deadline: 600.0,
        ..toy("returning", 5, rounds)
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

/// The state of the first party.
fn state(job: &Ensemble) -> Option<(String, Vec<u8>)> {
    let records = job.hosts[0].records.snapshot();
    records
        .into_iter()
        .find(|(name, _)| name.ends_with("/state"))
}

/// Whether it has the machine of a round.
fn keeps_machine(job: &Ensemble) -> bool {
    let header = |state: &[u8]| u64::from_le_bytes(state[..8].try_into().unwrap());
    state(job).is_some_and(|(_, state)| state.len() as u64 > 8 + header(&state))
}

/// Damages the machine of a round.
fn damage(job: &Ensemble) {
    let (name, mut bytes) = state(job).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let records = job.hosts[0].records.clone();
    records.replace(&name, &[&bytes]).unwrap();
}

/// Lets things happen until the first party is back.
fn play_to_return(job: &mut Ensemble) {
    while job.hosts[0].lives < 2 || !job.is_welcome(0) {
        job.advance();
    }
    while job.step() {}
}

/// Lets things happen until a round is over, and what follows from that.
fn play_to_end(job: &mut Ensemble) {
    let is_over = |state| matches!(state, RoundState::Done | RoundState::Aborted);
    while !job
        .reports()
        .first()
        .is_some_and(|round| is_over(round.state))
    {
        job.advance();
    }
    while job.step() {}
}

/// What is computed ahead takes the machine away, and may not give it back.
#[test]
fn case_54_work_ahead_that_fails_says_nothing_of_an_update_that_is_out() {
    let mut job = waiting_for_the_last(1);
    job.mask_memory = 1 << 20;
    play_to_vector(&mut job);
    job.hosts[0].trouble.breaks_task = Some(0);
    while job.failures.is_empty() {
        job.advance();
    }
    job.submit(4);
    play_to_end(&mut job);
    assert!(job.reports()[0].survivors.contains(&"party-0".to_owned()));
    // That the process cannot go on is told behind it.
    let [
        (_, JobError::Unknown { round: 1, .. }),
        (_, JobError::System(_)),
    ] = &job.failures[..]
    else {
        panic!("{:?}", job.failures);
    };
}

/// Whatever fails at the coordinator: a round whose result anybody has been told stays one with a result.
#[test]
fn case_54_a_result_that_was_told_is_not_taken_back() {
    let mut told = 0;
    for task in 0.. {
        let mut job = waiting_for_the_last(1);
        play_to_vector(&mut job);
        job.server_breaks = Some(task);
        job.submit(4);
        for _ in 0..100 {
            job.advance();
        }
        if !job.server_broke {
            break;
        }
        let has_result = job.hosts.iter().any(|host| host.results.contains_key(&1));
        let is_done = job.reports()[0].state == RoundState::Done;
        assert_eq!(has_result, is_done, "task {task}: {:?}", job.reports());
        told += usize::from(has_result);
    }
    // The last one is behind the word of the result.
    assert!(told > 0);
}

/// A member is revoked while the first party is away: it goes on with nobody it does not trust, and says so.
#[test]
fn case_54_whatever_keeps_a_party_from_going_on_reaches_a_late_caller() {
    for asks_late in [false, true] {
        let mut job = waiting_for_the_last(1);
        play_to_vector(&mut job);
        job.newer_anchor = Some(without(&job, 3));
        job.kill(0);
        job.hosts[0].trouble.asks_late = asks_late;
        play_to_return(&mut job);
        assert_eq!(job.failures.is_empty(), asks_late);
        if asks_late {
            job.ask(0);
        }
        job.submit(4);
        play_to_end(&mut job);
        assert!(job.reports()[0].survivors.contains(&"party-0".to_owned()));
        let told = job.failures.iter().filter(|(party, _)| party == "party-0");
        let told: Vec<_> = told.map(|(_, error)| error).collect();
        let [
            JobError::Unknown {
                round: 1, reason, ..
            },
        ] = told[..]
        else {
            panic!("late {asks_late}: {told:?}");
        };
        assert!(reason.contains("revoked"), "{reason}");
    }
}

/// What the first party trusts once another one is revoked.
fn without(job: &Ensemble, other: usize) -> Arc<TrustAnchor> {
    let der = &job.hosts[other].certificate;
    // The serial number follows the version.
    let version = [0xa0, 3, 2, 1, 2, 2];
    let at = der.windows(6).position(|six| six == version).unwrap() + 6;
    let serial = &der[at + 1..at + 1 + usize::from(der[at])];
    let serial: String = serial.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = job.ca.revoke(&[&serial], 1, validity_of(false)).unwrap();
    let anchor = TrustAnchor::from_pem(job.ca.certificate(), Some(&list));
    Arc::new(anchor.unwrap())
}

/// A party refuses a round, and takes it up after all, since its word was lost with the connection: then it is not told that
/// it has left it, and its records stay.
#[test]
fn case_54_a_round_that_is_taken_up_again_is_not_one_that_was_left() {
    let mut taken_up = 0;
    for task in 0..8 {
        let mut job = waiting_for_the_last(1);
        play_to_vector(&mut job);
        job.kill(0);
        job.hosts[0].trouble.breaks_task = Some(task);
        job.hosts[0].trouble.asks_late = true;
        while job.hosts[0].lives < 2 {
            job.advance();
        }
        for _ in 0..100 {
            if !job.refusals(0).is_empty() {
                job.disconnect(0);
                taken_up += 1;
                break;
            }
            job.advance();
        }
        for _ in 0..30 {
            job.advance();
        }
        let kept = keeps_machine(&job);
        job.ask(0);
        while job.step() {}
        assert_eq!(keeps_machine(&job), kept, "task {task}");
        job.submit(4);
        play_to_end(&mut job);
        if job.hosts[0].results.contains_key(&1) {
            assert!(job.failures.is_empty(), "task {task}: {:?}", job.failures);
        }
    }
    assert!(taken_up > 0);
}

/// A party goes on in a round after it was started again, and gets the result: of the next round it knows all there is.
#[test]
fn case_54_what_an_earlier_round_left_says_nothing_of_the_next_one() {
    let mut job = waiting_for_the_last(2);
    job.min_cohort = 5;
    play_to_vector(&mut job);
    job.kill(0);
    play_to_return(&mut job);
    job.hosts[4].trouble.waits = false;
    job.submit(4);
    while !job.hosts[0].results.contains_key(&1) {
        job.advance();
    }
    // Four parties are left, which are too few for the policy of the first.
    job.lose(4);
    while job.failures.is_empty() {
        job.advance();
    }
    assert!(!job.vectors.contains(&(0, 2)));
    let told = job.failures.iter().find(|(party, _)| party == "party-0");
    let told = told.map(|(_, error)| error);
    assert!(matches!(told, Some(JobError::Policy(_))), "{told:?}");
}

/// Nothing of a party is in a key set-up: whatever becomes of it, no update of it counts, and none is out.
#[test]
fn case_54_nothing_of_a_party_counts_in_a_key_set_up() {
    for (asks_late, is_over) in [(false, false), (true, false), (false, true), (true, true)] {
        let spec = JobSpec {
            protocol: ProtocolName::Flashe.into(),
            min_parties: 2,
            stage_deadline: 600.0,
            input_deadline: 600.0,
            ..toy("returning", 4, 1)
        };
        let mut job = Ensemble::new(spec, 1);
        // It delivers the key, or confirms it.
        let mut said = None;
        while said != Some(2) && (is_over || said != Some(1) || !keeps_machine(&job)) {
            said = job.answers_stage(0).or(said);
            job.advance();
        }
        if is_over {
            job.frozen = Some(0);
            let is_done = |job: &Ensemble| {
                let mut reports = job.reports().into_iter();
                reports.any(|round| round.number == 1 && round.state == RoundState::Done)
            };
            while !is_done(&job) {
                job.advance();
            }
        }
        job.kill(0);
        job.frozen = None;
        job.hosts[0].trouble.asks_late = asks_late;
        if keeps_machine(&job) {
            damage(&job);
        }
        play_to_return(&mut job);
        if asks_late {
            job.ask(0);
            while job.step() {}
        }
        let says =
            |error: &JobError| matches!(error, JobError::Unknown { .. } | JobError::Missed { .. });
        let told = job.failures.iter().any(|(_, error)| says(error));
        assert!(!told, "{asks_late} {is_over}: {:?}", job.failures);
    }
}

/// What a party keeps cannot be used: its caller hears at once why, also while there is no connection.
#[test]
fn case_54_records_of_no_use_are_told_at_once() {
    for is_linked in [true, false] {
        let spec = JobSpec {
            protocol: ProtocolName::Flashe.into(),
            min_parties: 2,
            stage_deadline: 600.0,
            input_deadline: 600.0,
            ..toy("returning", 4, 1)
        };
        let mut job = Ensemble::new(spec, 1);
        job.hosts[0].trouble.waits = true;
        while job.hosts[0].trouble.owes.is_none() {
            job.advance();
        }
        while job.step() {}
        let records = job.hosts[0].records.clone();
        let mut vaults = records.snapshot().into_iter();
        let vault = vaults.find(|(name, _)| name.ends_with("/vault"));
        let (name, mut bytes) = vault.unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        records.replace(&name, &[&bytes]).unwrap();
        if !is_linked {
            job.disconnect(0);
        }
        job.submit(0);
        let told = job.failures.first().map(|(_, error)| error);
        assert!(
            matches!(told, Some(JobError::State { .. })),
            "{is_linked}: {told:?}"
        );
    }
}

/// Lets a round begin and time pass, in which the first party is idle for long enough, with its upload under way: a server takes
/// none.
fn wait_with_the_upload(job: &mut Ensemble) {
    job.hosts[3].trouble.waits = true;
    job.takes_no_uploads = Some(ServerRole::Second);
    while job.beginning(0).is_none() {
        job.advance();
    }
    let begun = job.now.time;
    while job.now.time < begun + Duration::from_secs(2) {
        job.advance();
    }
}

/// Another server does not take the part of a party: the coordinator has nothing of its update, whatever the party does meanwhile.
#[test]
fn case_54_who_still_uploads_is_told_that_the_round_goes_on_without_it() {
    for (works_ahead, says_again) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
        job.mask_memory = if works_ahead { 1 << 20 } else { 0 };
        wait_with_the_upload(&mut job);
        if says_again {
            job.disconnect(0);
            while !job.is_welcome(0) || job.beginning(0).is_none() {
                job.advance();
            }
            while job.step() {}
        }
        while !job.refuse_upload(0, ServerRole::Second) {
            job.advance();
        }
        while job.failures.is_empty() {
            job.advance();
        }
        assert!(!job.vectors.contains(&(0, 1)));
        let (party, error) = &job.failures[0];
        assert_eq!(party, "party-0");
        assert!(
            matches!(error, JobError::Dropped { round: 1, .. }),
            "{works_ahead} {says_again}: {error:?}"
        );
    }
}

/// The session of a party ends while another server has not taken its part. The party's next process takes the round up from its
/// records, so no caller is told before that the round goes on without the update.
#[test]
fn case_54_what_the_next_process_may_take_up_is_not_denied() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    wait_with_the_upload(&mut job);
    let replaced = RefusalCode::RefusalReplaced;
    job.say_to(
        0,
        pb::Refused::new(replaced, "another process has connected"),
    );
    while job.failures.is_empty() {
        job.advance();
    }
    let (party, error) = &job.failures[0];
    assert_eq!(party, "party-0");
    assert!(
        matches!(error, JobError::Unknown { round: 1, .. }),
        "{error:?}"
    );
    assert!(!job.vectors.contains(&(0, 1)));
    job.takes_no_uploads = None;
    job.start_again(0);
    play_to_vector(&mut job);
}
