//! A coordinator that ends rounds once it knows their graph, and begins others: it runs out of graphs before it has seen
//! many, whatever it does with them, and however often processes end.

use blindsum_job::report::RoundState;
use blindsum_job::{JobError, PolicyError};
use blindsum_protocol::{JobSpec, ProtocolName};

use super::ensemble::Ensemble;
use super::hosts::toy;

/// Parties of the jobs, all of which are needed.
const PARTIES: usize = 3;
/// How many graphs a party draws beyond two for each vector that it has sent.
const SPARE: usize = 1000;

fn job(rounds: u32) -> Ensemble {
    let spec = JobSpec {
        protocol: ProtocolName::SecAggPlus.into(),
        min_parties: PARTIES as u32,
        ..toy("draws", PARTIES as u32, rounds)
    };
    Ensemble::new(spec, 1)
}

/// How many graphs a party has drawn: it opens one nonce for each.
fn drawn(job: &Ensemble, party: usize) -> usize {
    let nonces = job.opened.keys();
    nonces.filter(|(host, _)| *host == party).count()
}

/// Lets things happen until every party that is still there has opened its nonce once more; false once none is.
fn draw(job: &mut Ensemble) -> bool {
    let before = [0, 1, 2].map(|party| drawn(job, party));
    assert!(before[0] < 2 * SPARE, "there is no end to it");
    loop {
        let there = |party: &usize| !job.hosts[*party].over;
        let mut there = (0..PARTIES).filter(there).peekable();
        if there.peek().is_none() {
            return false;
        }
        if there.all(|party| drawn(job, party) > before[party]) {
            return true;
        }
        job.advance();
    }
}

/// Lets a round begin that all have opened their nonces for, and ends it before anybody has sent a vector.
fn begin(job: &mut Ensemble) {
    let is_running = |job: &Ensemble| {
        let round = job.status().round.clone();
        round.is_some_and(|round| round.state == RoundState::Running)
    };
    while !is_running(job) {
        job.advance();
    }
    // All hear of it and say their keys.
    (0..3 * PARTIES).for_each(|_| job.advance());
}

/// Ends all rounds, some of them right after the nonces were opened and some a little later, until no party goes on; in
/// between so many rounds have a sum.
fn ends_rounds(job: &mut Ensemble, sums: u64) {
    let mut ended = 0;
    while draw(job) {
        ended += 1;
        if ended % 400 == 0 && job.status().rounds_done < sums {
            let done = job.status().rounds_done;
            while job.status().rounds_done == done {
                job.advance();
            }
            continue;
        }
        if ended % 10 == 0 && job.hosts.iter().all(|host| !host.over) {
            begin(job);
        }
        if ended % 7 == 0 {
            job.kill(ended % PARTIES);
        }
        job.restart_server();
    }
}

/// Abuse case 46: whoever ends rounds until a graph suits it has few graphs to choose from.
#[test]
fn case_46_a_party_draws_no_graphs_without_end() {
    let mut job = job(9);
    ends_rounds(&mut job, 2);
    assert_eq!(job.status().rounds_done, 2);
    for party in 0..PARTIES {
        assert_eq!(drawn(&job, party), SPARE + 2 * 2, "party {party}");
    }
    let refusals: Vec<_> = job.failures.iter().collect();
    let refused = |error: &JobError| {
        matches!(
            error,
            JobError::Policy(PolicyError::Graphs {
                unused: 1002,
                sent: 2,
                allowed: 1002
            })
        )
    };
    let refused: Vec<&str> = refusals
        .iter()
        .filter(|(_, error)| refused(error))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(refused.len(), PARTIES, "{refused:?}");
}

/// Abuse case 46: what is counted is written down before a nonce is opened.
#[test]
fn case_46_a_party_that_is_killed_when_it_has_opened_its_nonce_has_counted_it() {
    let mut job = job(1);
    job.hosts[0].trouble.dies_opening = true;
    while draw(&mut job) {
        job.restart_server();
    }
    assert_eq!(drawn(&job, 0), SPARE);
    // It is refused again, however often it is started.
    job.hosts[0].over = false;
    let before = job.failures.len();
    job.start_again(0);
    while job.failures.len() == before {
        job.advance();
    }
    assert!(job.failures[before].1.to_string().contains("1000 graphs"));
    assert_eq!(drawn(&job, 0), SPARE);
}

/// Members are lost at most openings, and the job comes to its end.
#[test]
fn a_job_whose_members_often_fail_to_open_goes_on() {
    let spec = JobSpec {
        protocol: ProtocolName::SecAggPlus.into(),
        min_parties: 3,
        dropout: 0.2,
        ..toy("draws", 5, 12)
    };
    let mut job = Ensemble::new(spec, 2);
    let mut opened = 0;
    while job.hosts.iter().any(|host| !host.over) {
        job.advance();
        let now: usize = (0..5).map(|party| drawn(&job, party)).sum();
        if now / 11 > opened / 11 {
            job.kill(now % 5);
        }
        opened = now;
    }
    assert_eq!(job.status().rounds_done, 12);
    assert!(opened > 5 * 12 + 10, "{opened}");
}

/// Abuse case 46: the coordinator is gone when the caller gives its update, and has ended the round when it is back. The
/// vector was made, and went nowhere.
#[test]
fn case_46_a_vector_that_was_not_sent_gives_no_graph() {
    let mut job = job(9);
    for host in &mut job.hosts {
        host.trouble.waits = true;
    }
    while draw(&mut job) {
        let owes = |job: &Ensemble| job.hosts.iter().all(|host| host.trouble.owes.is_some());
        while !owes(&job) {
            job.advance();
        }
        // The message that the update answers comes.
        while job.step() {}
        for party in 0..PARTIES {
            job.disconnect(party);
            job.submit(party);
        }
        job.restart_server();
    }
    assert!(job.vectors.is_empty());
    assert_eq!([0, 1, 2].map(|party| drawn(&job, party)), [SPARE; 3]);
}

/// Abuse case 46: neither does one of a process that is killed when it has written its vector down.
#[test]
fn case_46_a_party_that_is_killed_before_its_vector_is_sent_has_sent_none() {
    let mut job = job(9);
    for host in &mut job.hosts {
        host.trouble.dies_sending = true;
    }
    while draw(&mut job) {
        // It is started again within this round.
        let lives = job.hosts[0].lives;
        for _ in 0..1000 {
            if job.hosts[0].lives == lives && !job.hosts[0].over {
                job.advance();
            }
        }
        job.restart_server();
    }
    assert!(job.vectors.is_empty());
    assert_eq!(drawn(&job, 0), SPARE);
}
