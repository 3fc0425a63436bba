//! Jobs that need more than parties and a coordinator: a ring of hops that a decryptor opens, and three servers that
//! compute together.

use blindsum_job::report::RoundState;

use crate::ensemble::Ensemble;
use crate::hosts::toy;

/// The rounds that count, and whose sums they are.
fn counted(job: &Ensemble) -> Vec<(u64, Vec<String>)> {
    let mut done = job.reports();
    done.retain(|report| report.state == RoundState::Done);
    done.reverse();
    let counted = done
        .into_iter()
        .map(|report| (report.number, report.survivors));
    counted.collect()
}

fn names(parties: &[usize]) -> Vec<String> {
    parties.iter().map(|i| format!("party-{i}")).collect()
}

#[test]
fn jobs_with_other_servers_come_to_their_end() {
    for name in ["toy-ring", "toy-three"] {
        let mut job = Ensemble::new(toy(name, 4, 3), 1);
        job.play();
        let everybody = names(&[0, 1, 2, 3]);
        let expected: Vec<_> = (1..=3).map(|round| (round, everybody.clone())).collect();
        assert_eq!(counted(&job), expected, "{name}");
        for host in &job.hosts[..4] {
            assert_eq!(host.results.len(), 3, "{name}: {}", host.name);
        }
    }
}

#[test]
fn a_round_of_a_ring_reports_a_stage_for_each_hop() {
    let mut job = Ensemble::new(toy("toy-ring", 3, 1), 1);
    job.play();
    let report = job.reports().remove(0);
    let stages: Vec<(&str, usize)> = report
        .stages
        .iter()
        .map(|s| (&*s.name, s.required))
        .collect();
    assert_eq!(stages, [("hop", 1), ("hop", 1), ("hop", 1), ("open", 1)]);
    let spoke = |stage: usize| {
        let bytes = report.stages[stage].bytes.iter();
        let spoke = bytes
            .filter(|(_, count)| count.up > 0)
            .map(|(name, _)| name.as_str());
        spoke.collect::<Vec<_>>()
    };
    assert_eq!(spoke(1), ["party-1"]);
    assert_eq!(spoke(3), ["decryptor"]);
}

#[test]
fn a_party_lost_at_any_hop_costs_a_ring_one_round() {
    for hop in 0..4 {
        let mut job = Ensemble::new(toy("toy-ring", 4, 2), 1);
        job.play_to_round();
        job.lose(hop);
        job.play();
        let counted = counted(&job);
        let others: Vec<usize> = (0..4).filter(|party| *party != hop).collect();
        assert_eq!(counted.len(), 2, "{hop}: {counted:?}");
        assert!(
            counted
                .iter()
                .all(|(_, survivors)| *survivors == names(&others)),
            "{hop}"
        );
    }
}

#[test]
fn three_servers_leave_out_who_does_not_share() {
    let mut job = Ensemble::new(toy("toy-three", 4, 2), 1);
    job.play_to_round();
    job.lose(2);
    job.play();
    let others = names(&[0, 1, 3]);
    assert_eq!(counted(&job), [(1, others.clone()), (2, others)]);
}

#[test]
fn killed_hosts_come_back_and_every_sum_is_right() {
    for name in ["toy-ring", "toy-three"] {
        let mut kills = 0;
        for seed in 0..20 {
            let mut job = Ensemble::new(toy(name, 4, 4), seed);
            job.kill_one_in = 40;
            job.play();
            assert_eq!(counted(&job).len(), 4, "{name} {seed}");
            kills += job.hosts.iter().map(|host| host.lives - 1).sum::<u64>();
        }
        assert!(kills > 40, "{name}: {kills} hosts were killed");
    }
}

#[test]
fn a_host_that_is_killed_at_any_step_comes_back() {
    for name in ["toy-ring", "toy-three"] {
        let undisturbed = {
            let mut job = Ensemble::new(toy(name, 3, 2), 1);
            job.play()
        };
        let hosts = Ensemble::new(toy(name, 3, 2), 1).hosts.len();
        for (host, step) in (0..hosts).flat_map(|host| (1..undisturbed).map(move |at| (host, at))) {
            let mut job = Ensemble::new(toy(name, 3, 2), 1);
            (0..step).for_each(|_| job.advance());
            job.kill(host);
            job.play();
            assert_eq!(counted(&job).len(), 2, "{name}: {host} at step {step}");
        }
    }
}

#[test]
fn a_killed_coordinator_comes_back_and_every_sum_is_right() {
    for name in ["toy-ring", "toy-three"] {
        for seed in 0..20 {
            let mut job = Ensemble::new(toy(name, 4, 4), seed);
            (job.kill_one_in, job.stop_one_in) = (150, 150);
            job.play();
            assert_eq!(counted(&job).len(), 4, "{name} {seed}");
        }
    }
}

#[test]
fn case_03_a_server_that_is_killed_is_in_no_round_twice() {
    for (name, server) in [("toy-ring", 4), ("toy-three", 4), ("toy-three", 5)] {
        let mut job = Ensemble::new(toy(name, 4, 2), 1);
        job.play_to_round();
        for _ in 0..6 {
            job.advance();
        }
        job.kill(server);
        job.play();
        let counted = counted(&job);
        // The round that it was in ends without a sum.
        assert_eq!(
            counted.iter().map(|(round, _)| *round).collect::<Vec<_>>(),
            [2, 3],
            "{name}"
        );
    }
}
