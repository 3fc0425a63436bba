//! Jobs of three servers over real connections: parties upload to all of them, they talk with each other, and what is lost
//! on the way ends a round and not the job.

use blindsum_net::party::Party;
use blindsum_net::report::{JobState, RoundState};
use blindsum_net::{JobError, NetError};
use blindsum_protocol::JobSpec;

use crate::common::proxy::{Proxy, Way};
use crate::common::three::*;
use crate::common::*;

/// What every party that stays is told of the last round.
fn all_have_heard(parties: Vec<Played>, expected: &[f64]) {
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        let last = rounds.last().unwrap().as_ref().unwrap();
        assert_eq!(last.mean, expected);
    }
}

/// Whether a round came to nothing, for all or for this party; a server may hear of it before the party does.
fn is_lost(error: &NetError) -> bool {
    let NetError::Job(error) = error else {
        return false;
    };
    matches!(
        error,
        JobError::RoundAborted { .. } | JobError::Dropped { .. }
    )
}

#[test]
fn three_servers_open_exact_sums() {
    let mut three = Three::new(mpc3(3));
    let parties = three.parties(5);
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.len(), 3);
        for round in rounds {
            assert_eq!(round.unwrap().mean, mean(5));
        }
    }
    let status = three.coordinator.wait_done("test");
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 3));
    for server in &mut three.others {
        server.take().unwrap().finish().unwrap();
    }
}

#[test]
fn a_party_that_leaves_before_its_first_upload_is_in_no_sum() {
    let three = Three::new(mpc3(1));
    let staying = three.parties(4);
    let leaving = three.party_config(three.pki.party("e"));
    let leaver = std::thread::spawn(move || {
        let mut party = Party::join(leaving).unwrap();
        drop(party.next_round().unwrap());
    });
    all_have_heard(staying, &mean(4));
    leaver.join().unwrap();
}

#[test]
fn a_party_that_vanishes_between_its_uploads_is_in_no_sum() {
    let three = Three::new(mpc3(1));
    let staying = three.parties(4);
    // It reaches the second server, never the third.
    let away = Proxy::at(HOSTS[1], 0);
    away.lead(Way::Held);
    let mut config = three.party_config(three.pki.party("e"));
    config.servers[2] = format!("https://{}:{}", HOSTS[1], away.port);
    let mut party = Party::join(config).unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    round.submit(vec![VALUES[4]; 5], 1).unwrap();
    // Both uploads are under way once this one has come here.
    away.wait_taken(1);
    three
        .coordinator
        .wait("test", |status| status.waiting_for == ["e"]);
    drop((round, party));
    all_have_heard(staying, &mean(4));
}

#[test]
fn a_server_that_is_started_again_between_rounds_goes_on() {
    let mut three = Three::new(mpc3(2));
    let parties = three.parties(4);
    let mut party = Party::join(three.party_config(three.pki.party("e"))).unwrap();
    let (mut sums, mut was_stopped) = (0, false);
    while let Some(mut round) = party.next_round().unwrap() {
        round.submit(vec![VALUES[4]; 5], 1).unwrap();
        match round.result() {
            Ok(result) => {
                assert_eq!(result.mean, mean(5));
                sums += 1;
            }
            // A round that began before the server was back.
            Err(error) => assert!(is_lost(&error), "{error}"),
        }
        if sums == 1 && !was_stopped {
            was_stopped = true;
            // The others are ready for the next round, and wait for this one.
            three.stop(1);
            three.start(1);
        }
    }
    assert_eq!(sums, 2);
    drop(party);
    all_have_heard(parties, &mean(5));
    let status = three.coordinator.wait_done("test");
    assert_eq!((status.state, status.rounds_done), (JobState::Done, 2));
}

#[test]
fn a_server_that_stops_amid_a_round_ends_it_clearly() {
    let mut three = Three::new(mpc3(1));
    let mut parties = three.parties(4);
    let (held, rounds, goes_on) = three.held_party(4);
    let first = rounds.recv_timeout(PATIENCE).unwrap();
    three.stop(2);
    let status = three.coordinator.wait("test", |status| {
        let round = status.round.as_ref();
        round.is_some_and(|round| round.state == RoundState::Aborted)
    });
    let round = status.round.unwrap();
    assert_eq!(round.number, first);
    assert!(round.reason.contains("third server"), "{}", round.reason);
    three.start(2);
    drop(goes_on);
    parties.push(held);
    for party in parties {
        let mut rounds = party.join().unwrap().unwrap();
        let last = rounds.pop().unwrap().unwrap();
        assert_eq!(last.mean, mean(5));
        // Whoever had heard of the round that came to nothing was told so.
        for round in rounds {
            let error = round.unwrap_err();
            assert!(is_lost(&error), "{error}");
        }
    }
}

#[test]
fn a_line_that_is_cut_while_the_servers_compute_ends_the_round_clearly() {
    let three = Three::new(mpc3(1));
    let mut parties = three.parties(4);
    let (held, rounds, goes_on) = three.held_party(4);
    rounds.recv_timeout(PATIENCE).unwrap();
    // The third server does not reach the second one: the servers begin to compute and come to no end.
    three.of_third[1].lead(Way::Held);
    three.of_third[1].cut();
    drop(goes_on);
    three.coordinator.wait("test", |status| {
        let round = status.round.as_ref();
        round.is_some_and(|round| round.stages.len() == 2)
    });
    three.of_third[0].cut();
    let status = three.coordinator.wait("test", |status| {
        let round = status.round.as_ref();
        round.is_some_and(|round| round.state == RoundState::Aborted)
    });
    let reason = status.round.unwrap().reason;
    assert!(
        reason.contains("server 2 was lost") || reason.contains("third server"),
        "{reason}"
    );
    three.lead_third();
    parties.push(held);
    all_have_heard(parties, &mean(5));
}

/// Letters and uploads of several pieces: a component of the vector has 1.6 MB.
#[test]
fn large_uploads_and_letters_go_in_pieces() {
    let dim = 200_000;
    let three = Three::new(JobSpec { dim, ..mpc3(1) });
    let value = |party: usize, d: usize| VALUES[party] * (d % 7) as f32;
    let parties = NAMES.iter().enumerate().map(|(i, name)| {
        let config = three.party_config(three.pki.party(name));
        run_party(config, move |_| -> Vec<f32> {
            (0..dim as usize).map(|d| value(i, d)).collect()
        })
    });
    let expected: Vec<f32> = (0..dim as usize)
        .map(|d| (0..5).map(|i| value(i, d)).sum::<f32>() / 5.0)
        .collect();
    for party in parties.collect::<Vec<_>>() {
        let rounds = party.join().unwrap().unwrap();
        let mean = &rounds.last().unwrap().as_ref().unwrap().mean;
        let wrong = mean
            .iter()
            .zip(&expected)
            .position(|(a, b)| (a - f64::from(*b)).abs() > 1e-4);
        assert_eq!(wrong, None);
    }
}

/// A server that cannot write its record takes part in no round, says which file it is, and goes on once it can.
#[test]
fn a_server_whose_disk_is_full_is_in_no_round() {
    let mut three = Three::new(mpc3(1));
    let record = three.state_dir(1).join("test");
    std::os::unix::fs::symlink("/dev/full", record.join("last-round.new")).unwrap();
    let parties = three.parties(5);
    let ended = three.others[0].take().unwrap().finish();
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("last-round") && error.contains("No space"),
        "{error}"
    );
    std::fs::remove_file(record.join("last-round.new")).unwrap();
    three.start(1);
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().mean, mean(5));
    }
}
