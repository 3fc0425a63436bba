//! Servers that compute together do not open two results that tell the vector of one party, whatever server ends rounds
//! after it has learned the result.

use std::collections::BTreeSet;
use std::time::Duration;

use blindsum_job::records::Records;
use blindsum_job::released::Release;
use blindsum_job::report::{JobState, RoundReport, RoundState};
use blindsum_protocol::{Adversary, JobSpec, ModelUpdate, Quantised, RoundingName, ServerIndex};

use crate::ensemble::Ensemble;
use crate::hosts::mpc3;

/// The record in which a server has whose results it has opened.
const RELEASED: &str = "released";

const COORDINATOR: ServerIndex = ServerIndex::ALL[0];
const SECOND: ServerIndex = ServerIndex::ALL[1];
const THIRD: ServerIndex = ServerIndex::ALL[2];

/// How many things may happen until something does.
const STEPS: usize = 20_000;

/// What a server has recorded.
fn released(job: &Ensemble, host: usize) -> Vec<Release> {
    let record = job.hosts[host].records.read(RELEASED).unwrap();
    record.map_or_else(Vec::new, |bytes| serde_json::from_slice(&bytes).unwrap())
}

fn names(parties: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    let names = parties.into_iter().map(|party| format!("party-{party}"));
    names.collect()
}

fn ended(job: &Ensemble, state: RoundState) -> Vec<RoundReport> {
    let reports = job.reports().into_iter().rev();
    reports.filter(|report| report.state == state).collect()
}

/// Lets things happen until this holds.
fn play_until(job: &mut Ensemble, what: &str, holds: impl Fn(&Ensemble) -> bool) {
    for _ in 0..STEPS {
        if holds(job) {
            return;
        }
        job.advance();
    }
    panic!("{what} does not come: {:?}", job.status());
}

/// This server sends its part of a result, and the third server is gone. Gives the number of the round.
fn crash_after_opening(job: &mut Ensemble, by: ServerIndex, after: u64) -> u64 {
    let opens = |job: &Ensemble| {
        let letters = job.lines.letters.iter();
        let opened = letters.filter(|((from, to, round), said)| {
            (*from, *to) == (by, SECOND) && **said == 3 && *round > after
        });
        opened.map(|((_, _, round), _)| *round).max()
    };
    play_until(job, "a result", |job| opens(job).is_some());
    let round = opens(job).unwrap();
    let host = job.hosts.len() - 1;
    job.kill(host);
    round
}

/// Abuse case 67: the third server ends rounds once it has the result, and parties are lost meanwhile. The servers open no
/// two results that differ by one party or two, and the job goes on: with the same parties, or without some more.
#[test]
fn case_67_a_server_that_crashes_after_each_result_gets_no_vector() {
    for adversary in [Adversary::Active, Adversary::SemiHonest] {
        let mut job = Ensemble::new(mpc3(adversary, 8, 2), 1);
        let mut round = crash_after_opening(&mut job, THIRD, 0);
        job.lose(3);
        for _ in 0..3 {
            round = crash_after_opening(&mut job, THIRD, round);
        }
        let opened = released(&job, 8);
        assert_eq!(opened[0].survivors, names(0..8), "{adversary}");
        assert!(opened.len() > 1, "{adversary}: {opened:?}");
        for (place, one) in opened.iter().enumerate() {
            for other in &opened[..place] {
                let differ = one.survivors.symmetric_difference(&other.survivors).count();
                assert!(differ == 0 || differ >= 3, "{adversary}: {one:?} {other:?}");
            }
        }
        assert!(ended(&job, RoundState::Done).is_empty());
        job.play();
        let done = ended(&job, RoundState::Done);
        assert_eq!(done.len(), 2, "{adversary}");
        // Once a round counts, everybody who is there is in the next one.
        assert_eq!(done[1].survivors.len(), 7, "{adversary}");
    }
}

/// Abuse case 67: rounds that are lost with a server alone do not count as failed, however many there are and whatever the
/// server was doing.
#[test]
fn case_67_a_server_that_crashes_again_and_again_ends_nothing() {
    for opens in [false, true] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 5, 1), 1);
        let mut round = 0;
        for _ in 0..12 {
            if opens {
                round = crash_after_opening(&mut job, THIRD, round);
                continue;
            }
            let uploads = |job: &Ensemble| job.vectors.iter().map(|(_, round)| *round).max();
            play_until(&mut job, "an upload", |job| uploads(job) > Some(round));
            round = uploads(&job).unwrap();
            job.kill(6);
        }
        job.play();
        assert_eq!(ended(&job, RoundState::Aborted).len(), 12, "{opens}");
        assert_eq!(ended(&job, RoundState::Done).len(), 1, "{opens}");
    }
}

/// Updates that are rounded to 0: no value of the model changes.
fn unmoving(parties: u32, rounds: u32) -> JobSpec {
    JobSpec {
        model_update: ModelUpdate::Add,
        // Updates are less than half of a step of this.
        encoding: Quantised {
            bits: 8,
            clip: 1000.0,
            rounding: RoundingName::Nearest,
            ..Quantised::default()
        }
        .into(),
        ..mpc3(Adversary::Active, parties, rounds)
    }
}

/// Abuse case 67: rounds that count with the same parties go on without end, also where no value of the model changes.
#[test]
fn case_67_a_model_that_stays_as_it_is_stops_nobody() {
    let mut job = Ensemble::new(unmoving(5, 20), 1);
    let hash = job.status().model_hash.clone();
    job.play();
    assert_eq!(job.status().model_hash, hash);
    let done = ended(&job, RoundState::Done);
    assert_eq!((done.len(), released(&job, 5).len()), (20, 1));
    // Parties sign the values and not the version: without one of them there is no other result of the same values.
    let mut job = Ensemble::new(unmoving(5, 3), 1);
    play_until(&mut job, "a result", |job| {
        !ended(job, RoundState::Done).is_empty()
    });
    job.lose(2);
    play_until(&mut job, "a warning", |job| {
        job.status().warning.contains("party-2")
    });
    assert_eq!(ended(&job, RoundState::Done).len(), 1);
}

/// Abuse case 67: a coordinator that has the result of a round ends it for all others, forgets it, and says another version of
/// the model to the servers, or the right one. They open nothing that differs by one party.
#[test]
fn case_67_a_version_that_the_coordinator_says_opens_nothing() {
    for spec in [mpc3(Adversary::Active, 5, 1), unmoving(5, 1)] {
        for lies in [true, false] {
            let mut job = Ensemble::new(spec.clone(), 1);
            job.lies_of_version = lies;
            play_until(&mut job, "a result", |job| {
                [5, 6].iter().all(|host| !released(job, *host).is_empty())
            });
            let first = released(&job, 5);
            job.forget_released();
            job.restart_server();
            job.lose(1);
            play_until(&mut job, "an end", |job| {
                job.status().state != JobState::Running
            });
            for host in [5, 6] {
                assert_eq!(released(&job, host), first, "{lies}");
            }
        }
    }
}

/// Abuse case 67: a round that ends before its result is opened may be repeated with any survivors.
#[test]
fn case_67_before_a_result_is_opened_any_parties_may_come() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.play_to_round();
    job.kill(5);
    job.lose(0);
    job.play();
    let done = ended(&job, RoundState::Done);
    assert_eq!(done[0].survivors, ["party-1", "party-2", "party-3"]);
}

/// A job whose first result was opened and did not count, and that has lost a party without which no other may be.
/// This server has sent its part of that result.
fn standing_still(opened_by: ServerIndex) -> Ensemble {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    crash_after_opening(&mut job, opened_by, 0);
    job.lose(0);
    job
}

/// Where no result of the parties that are there may be opened the job waits, says for whom, and does not fail; it goes on
/// when they come.
#[test]
fn case_67_the_job_waits_for_the_parties_that_it_needs() {
    let mut job = standing_still(THIRD);
    // While the third server is away there is another warning.
    play_until(&mut job, "a warning", |job| {
        job.status().warning.contains("may have a result")
    });
    let warning = job.status().warning.clone();
    assert!(
        warning.contains("party-0") && warning.contains("round 1"),
        "{warning}"
    );
    play_until(&mut job, "another round", |job| {
        ended(job, RoundState::Aborted).len() > 14
    });
    job.hosts[0].lost = false;
    job.start_again(0);
    job.play();
    let done = ended(&job, RoundState::Done);
    assert_eq!(
        done.iter()
            .map(|report| report.survivors.len())
            .collect::<Vec<_>>(),
        [4, 4]
    );
    assert_eq!(job.status().warning, "");
}

/// Such rounds do not count as failed, however many they are. The job ends when its patience is over, and says why.
#[test]
fn case_67_a_job_that_can_open_nothing_ends_when_its_patience_does() {
    let mut job = standing_still(THIRD);
    play_until(&mut job, "the end", |job| {
        job.status().state == JobState::Failed
    });
    let reason = job.status().reason.clone();
    assert!(
        reason.contains("no result could be opened for 3600 s"),
        "{reason}"
    );
    assert!(reason.contains("party-0"), "{reason}");
}

/// The patience is that of one wait: where a round began in between, and ended for another reason, it is counted anew.
#[test]
fn case_67_patience_is_counted_anew_once_a_round_has_begun() {
    let mut job = standing_still(THIRD);
    let began = job.now.time;
    let until = |job: &mut Ensemble, seconds| {
        let end = began + Duration::from_secs(seconds);
        play_until(job, "its time", |job| job.now.time >= end);
    };
    until(&mut job, 2000);
    job.hosts[0].lost = false;
    job.start_again(0);
    job.play_to_round();
    job.kill(5);
    job.lose(0);
    until(&mut job, 5000);
    assert_eq!(job.status().state, JobState::Running);
    assert!(
        job.status().warning.contains("may have a result"),
        "{}",
        job.status().warning
    );
    play_until(&mut job, "the end", |job| {
        job.status().state == JobState::Failed
    });
}

/// The coordinator that is started again has not forgotten, and a server neither.
#[test]
fn case_67_what_was_opened_is_remembered_by_those_that_start_again() {
    let mut job = standing_still(THIRD);
    job.restart_server();
    job.kill(4);
    job.kill(5);
    // While the third server is away there is another warning.
    play_until(&mut job, "a warning", |job| {
        job.status().warning.contains("may have a result")
    });
    let warning = job.status().warning.clone();
    assert!(warning.contains("party-0"), "{warning}");
    job.hosts[0].lost = false;
    job.start_again(0);
    job.play();
}

/// The same where the other two servers have lost their memory: one that remembers is enough.
#[test]
fn case_67_the_coordinator_recalls_what_was_opened() {
    let mut job = standing_still(COORDINATOR);
    for server in [4, 5] {
        job.hosts[server].records.remove(RELEASED).unwrap();
    }
    job.restart_server();
    job.kill(4);
    job.kill(5);
    // While the third server is away there is another warning.
    play_until(&mut job, "a warning", |job| {
        job.status().warning.contains("may have a result")
    });
    let warning = job.status().warning.clone();
    assert!(warning.contains("party-0"), "{warning}");
}

/// A server remembers a result that the coordinator knows nothing of: it tells the coordinator whose result that was, and
/// the coordinator chooses other parties.
#[test]
fn case_67_a_server_tells_the_coordinator_what_is_in_the_way() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 8, 1), 1);
    let release = Release {
        round: 1,
        model: format!("0 {}", job.status().model_hash),
        survivors: names(0..8),
    };
    // Of a round that the coordinator's store has lost.
    let record = serde_json::to_vec(&[release]).unwrap();
    job.hosts[8].records.replace(RELEASED, &[&record]).unwrap();
    job.lose(2);
    job.play();
    let aborted = ended(&job, RoundState::Aborted);
    assert_eq!(aborted.len(), 1, "{aborted:?}");
    assert!(
        aborted[0].reason.contains("party-2"),
        "{}",
        aborted[0].reason
    );
    assert!(aborted[0].faults.is_empty(), "nobody is blamed");
    assert_eq!(ended(&job, RoundState::Done)[0].survivors.len(), 5);
}

/// What a server says binds until it begins anew: one that lied and was mended costs nobody its place.
#[test]
fn case_67_what_a_server_said_goes_with_its_process() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 8, 1), 1);
    let release = Release {
        round: 1,
        model: format!("0 {}", job.status().model_hash),
        survivors: names(0..7),
    };
    let record = serde_json::to_vec(&[release]).unwrap();
    job.hosts[8].records.replace(RELEASED, &[&record]).unwrap();
    play_until(&mut job, "a refusal", |job| {
        !ended(job, RoundState::Aborted).is_empty()
    });
    job.hosts[8].records.remove(RELEASED).unwrap();
    job.kill(8);
    job.play();
    assert_eq!(ended(&job, RoundState::Done)[0].survivors.len(), 8);
}
