//! Jobs of three servers to which parties upload, and which compute together.

use blindsum_job::report::RoundState;
use blindsum_protocol::{Adversary, ServerRole};

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

#[test]
fn a_server_that_is_missing_is_named() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.lose(5);
    (0..100).for_each(|_| job.advance());
    let warning = job.status().warning.clone();
    assert!(warning.contains("without the third server"), "{warning}");
    assert!(job.reports().is_empty());
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
