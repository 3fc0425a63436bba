//! Jobs of three servers to which parties upload, and which compute together.

use std::sync::Arc;

use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_job::records::{MemoryRecords, Records};
use blindsum_job::report::{RoundReport, RoundState};
use blindsum_protocol::{
    Adversary, JobSpec, ModelUpdate, Mpc3, ResultName, ServerIndex, ServerRole,
};

use crate::ensemble::Ensemble;
use crate::hosts::mpc3;

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

/// The numbers of the rounds that count, and how many parties are in each.
fn counted(job: &Ensemble) -> Vec<(u64, usize)> {
    let reports = job.reports().into_iter().rev();
    let done = reports.filter(|report| report.state == RoundState::Done);
    done.map(|report| (report.number, report.survivors.len()))
        .collect()
}

#[test]
fn every_round_has_the_sum_of_all() {
    for adversary in BOTH {
        let mut job = Ensemble::new(mpc3(adversary, 5, 3), 1);
        job.play();
        assert_eq!(counted(&job), [(1, 5), (2, 5), (3, 5)], "{adversary}");
        for host in &job.hosts[..5] {
            assert_eq!(host.results.len(), 3, "{}", host.name);
        }
    }
}

#[test]
fn a_party_lost_before_its_upload_is_left_out() {
    let mut job = Ensemble::new(mpc3(Adversary::SemiHonest, 5, 2), 1);
    job.play_to_round();
    job.lose(2);
    job.play();
    assert_eq!(counted(&job), [(1, 4), (2, 4)]);
}

/// Abuse case 38: the coordinator has no answer of a party before both other servers have their parts of it, so that a
/// party that vanishes is in no sum in part.
#[test]
fn case_38_a_party_answers_once_the_other_servers_have_their_parts() {
    for role in [ServerRole::Second, ServerRole::Third] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
        job.takes_no_uploads = Some(role);
        job.play_to_round();
        (0..200).for_each(|_| job.advance());
        assert!(job.vectors.is_empty(), "{role}: {:?}", job.vectors);
        job.takes_no_uploads = None;
        job.play();
        assert!(!job.vectors.is_empty(), "{role}");
    }
}

/// Abuse case 3: whoever is killed, at whatever step, comes back, the job comes to its end, and nobody is in a sum twice.
/// A server is in no round any more in which it was killed.
#[test]
fn case_03_a_host_that_is_killed_at_any_step_comes_back() {
    for adversary in BOTH {
        let new = || Ensemble::new(mpc3(adversary, 4, 2), 1);
        let undisturbed = new().play();
        for host in 0..new().hosts.len() {
            for step in 1..undisturbed {
                let mut job = new();
                (0..step).for_each(|_| job.advance());
                job.kill(host);
                job.play();
                let counted = counted(&job);
                assert_eq!(counted.len(), 2, "{adversary}: {host} at step {step}");
            }
        }
    }
}

/// A coordinator with an empty store: the other two servers were in rounds that it knows nothing of, and come back to none.
#[test]
fn numbers_of_rounds_that_other_servers_were_in_are_skipped() {
    let mut before = Ensemble::new(mpc3(Adversary::Active, 4, 3), 1);
    before.play();
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    for (host, old) in job.hosts.iter_mut().zip(&before.hosts).skip(4) {
        host.records = old.records.clone();
    }
    job.play();
    assert_eq!(counted(&job), [(4, 4), (5, 4)]);
    assert_eq!(job.reports().len(), 2, "no round is lost");
}

/// Abuse case 52: a coordinator that says what it must not say loses its connection. The server stays, and goes on with the
/// numbers that it had.
#[test]
fn case_52_no_word_of_a_coordinator_ends_a_server_or_all_numbers() {
    let round = |round| pb::RoundStart {
        round,
        ..pb::RoundStart::default()
    };
    let chunk = pb::Chunk {
        round: 1,
        stage: 0,
        offset: 0,
        total: 1 << 40,
        ..pb::Chunk::default()
    };
    let wrong: [CoordinatorFrame; 6] = [
        CoordinatorFrame::default(),
        pb::Welcome::default().into(),
        chunk.into(),
        round(0).into(),
        round((1 << 40) + 2).into(),
        round(u64::MAX).into(),
    ];
    for frame in wrong {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
        // It is in the first round.
        while job.hosts[4].records.read("last-round").unwrap().is_none() {
            job.advance();
        }
        let link = job.hosts[4].link;
        job.say_to(4, frame.clone());
        assert_eq!(job.hosts[4].link, None, "{frame:?}");
        job.play();
        assert_ne!(job.hosts[4].link, link);
        assert_eq!(counted(&job), [(1, 4), (2, 4)], "{frame:?}");
        let last = job.hosts[4].records.read("last-round").unwrap();
        assert_eq!(last.unwrap(), 2_u64.to_be_bytes(), "{frame:?}");
    }
}

/// A coordinator with an empty store goes on behind a server at once, however far that is.
#[test]
fn a_servers_word_on_later_rounds_is_worth_more_than_a_partys() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    let last = 1_000_000_u64;
    let records = job.hosts[5].records.clone();
    records
        .replace("last-round", &[&last.to_be_bytes()])
        .unwrap();
    job.play();
    assert_eq!(counted(&job), [(last + 1, 4), (last + 2, 4)]);
    assert_eq!(job.reports().len(), 2, "no round is lost");
}

#[test]
fn a_server_that_is_missing_is_named() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.lose(5);
    (0..100).for_each(|_| job.advance());
    let warning = job.status().warning.clone();
    assert!(warning.contains("without the third server"), "{warning}");
    assert!(job.reports().is_empty());
}

/// How many things may happen until a round has ended.
const STEPS: usize = 2000;

/// Lets things happen until a round has come to nothing; gives why.
fn play_to_abort(job: &mut Ensemble) -> String {
    for _ in 0..STEPS {
        let reports = job.reports();
        if let Some(report) = reports.iter().find(|r| r.state == RoundState::Aborted) {
            return report.reason.clone();
        }
        job.advance();
    }
    panic!("no round comes to nothing: {:?}", job.reports());
}

#[test]
fn case_52_a_server_that_does_not_answer_is_named_and_not_the_one_that_waits_for_it() {
    let [first, second, third] = ServerIndex::ALL;
    for (frozen, place, name, other) in [
        (4, second, "second server", "third server"),
        (5, third, "third server", "second server"),
    ] {
        // What it told of uploads may come when the others compute, and is no answer.
        for late in [false, true] {
            let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
            job.lines.holds_notices = late.then_some((place, first));
            job.play_to_round();
            while job.status().round.as_ref().unwrap().stages.len() < 2 {
                job.advance();
            }
            job.frozen = Some(frozen);
            job.release_notices();
            let reason = play_to_abort(&mut job);
            assert!(
                reason.contains(name) && reason.contains("no answer"),
                "{reason}"
            );
            assert!(!reason.contains(other), "{reason}");
            job.frozen = None;
            job.kill(frozen);
            job.play();
        }
    }
}

/// Abuse case 52: who leads a key set-up may give one party another key than the others. Nobody can tell which of the two
/// lies: the party is in the next rounds.
#[test]
fn case_52_a_party_with_another_key_sits_out_nothing() {
    let spec = JobSpec {
        protocol: Mpc3 {
            result: ResultName::Parties,
            ..Mpc3::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..mpc3(Adversary::Active, 6, 2)
    };
    let mut job = Ensemble::new(spec, 1);
    while job.answers_stage(2) != Some(2) {
        job.advance();
    }
    // It shows another key.
    assert!(job.spoil_answer(2));
    job.play();
    let reports = job.reports();
    let of = |report: &RoundReport| report.parties.contains(&"party-2".to_string());
    let (setups, rounds): (Vec<_>, Vec<_>) = reports.iter().partition(|report| report.key_setup);
    let faults = setups.iter().flat_map(|report| &report.faults);
    assert_eq!(faults.filter(|fault| fault.contains("party-2")).count(), 1);
    assert!(rounds.iter().all(|report| of(report)), "{reports:?}");
}

#[test]
fn parties_are_not_blamed_for_a_server_that_takes_no_uploads() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.takes_no_uploads = Some(ServerRole::Third);
    let reason = play_to_abort(&mut job);
    assert!(reason.contains("only 0 of the 3 uploads"), "{reason}");
    assert!(reason.contains("one of these may not answer"), "{reason}");
    let reports = job.reports();
    let stages = reports.iter().flat_map(|report| &report.stages);
    assert!(
        stages
            .map(|stage| stage.dropped.len())
            .all(|dropped| dropped == 0)
    );
    job.takes_no_uploads = None;
    job.play();
}

#[test]
fn a_round_that_is_offered_waits_for_a_server_that_has_gone() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    let is_offered = |job: &Ensemble| {
        let round = job.status().round.clone();
        round.is_some_and(|round| round.number == 2 && round.state == RoundState::Joining)
    };
    while !is_offered(&job) {
        job.advance();
    }
    job.lose(5);
    (0..200).for_each(|_| job.advance());
    assert!(is_offered(&job), "{:?}", job.status());
    let warning = job.status().warning.clone();
    assert!(warning.contains("without the third server"), "{warning}");
    job.hosts[5].lost = false;
    job.start_again(5);
    job.play();
    assert_eq!(counted(&job), [(1, 4), (2, 4)]);
    assert_eq!(job.reports().len(), 2, "no round is lost");
}

#[test]
fn killed_hosts_come_back_and_every_sum_is_right() {
    let mut kills = 0;
    for seed in 0..20 {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 5, 4), seed);
        (job.kill_one_in, job.stop_one_in) = (80, 400);
        job.play();
        assert_eq!(counted(&job).len(), 4, "{seed}");
        kills += job.hosts.iter().map(|host| host.lives - 1).sum::<u64>();
    }
    assert!(kills > 40, "{kills} hosts were killed");
}

/// Abuse case 48: a server is killed in a round and comes back with the records from before it. It is in that round no more,
/// and says nothing in it again.
#[test]
fn case_48_a_server_with_old_records_answers_nothing_twice() {
    for steps in 0..40 {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
        job.play_to_round();
        let old = job.hosts[4].records.snapshot();
        (0..steps).for_each(|_| job.advance());
        job.kill(4);
        job.hosts[4].records = Arc::new(MemoryRecords::of(old));
        job.play();
        assert_eq!(counted(&job).len(), 2, "{steps}");
        // There are three letters to each other server in a round.
        let again = job.lines.letters.iter().find(|(_, letters)| **letters > 3);
        assert_eq!(again, None, "{steps}");
        // And it tells each of every party's upload.
        let again = job.lines.notices.iter().find(|(_, notices)| **notices > 4);
        assert_eq!(again, None, "{steps}");
    }
}

/// The first party hears all sums that it is in.
fn assert_nothing_lost(job: &Ensemble, when: &str) {
    let host = &job.hosts[0];
    let counts = |report: &RoundReport| report.survivors.contains(&host.name);
    let lacks = |report: &RoundReport| !host.results.contains_key(&report.number);
    let reports = job.reports();
    let lost = reports
        .iter()
        .find(|report| counts(report) && lacks(report));
    assert_eq!(lost, None, "{when}: {:?}", job.failures);
}

/// Abuse case 54: a party that is killed at any step, also just after the round was done, hears the sum that it is in.
#[test]
fn case_54_a_party_that_is_killed_at_any_step_hears_its_sums() {
    for adversary in BOTH {
        let new = || Ensemble::new(mpc3(adversary, 4, 2), 1);
        for step in 1..new().play() {
            let mut job = new();
            (0..step).for_each(|_| job.advance());
            job.kill(0);
            job.play();
            assert_nothing_lost(&job, &format!("{adversary}: step {step}"));
        }
        // It has its result, and its caller has not taken that.
        let mut job = new();
        job.hosts[0].trouble.dies_telling = true;
        job.play();
        assert!(!job.hosts[0].trouble.dies_telling && job.hosts[0].lives == 2);
        assert_nothing_lost(&job, &format!("{adversary}: telling"));
    }
}
