//! Clocks that are wrong for a while: at the coordinator, at a party, at a server that computes with the coordinator. The
//! job waits and goes on, and whoever could be blamed is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::common::three::*;
use crate::common::*;
use blindsum_crypto::pki::{Kind, Validity};
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::report::{JobState, JobStatus};
use blindsum_net::{Credentials, JobError, NetError, WallClock};
use blindsum_protocol::{JobSpec, ProtocolName};

const DAY: i64 = 86_400;

/// A clock that is off by so many seconds.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn is_off_by(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    /// These credentials are checked by this clock.
    fn of(&self, credentials: Credentials) -> Credentials {
        let off = self.0.clone();
        credentials.with_clock(WallClock::new(move || {
            (now() as i64 + off.load(Ordering::Relaxed)) as u64 * 1000
        }))
    }
}

/// A job without an end that needs all of its parties.
fn endless(protocol: ProtocolName, parties: u32) -> JobSpec {
    JobSpec {
        rounds: 0,
        min_parties: parties,
        input_deadline: 20.0,
        ..spec(protocol, parties)
    }
}

fn patient(url: &str, credentials: Credentials) -> PartyConfig {
    PartyConfig {
        give_up_after: 600.0,
        ..party_config(url, credentials)
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("never came: {what}");
}

/// The coordinator's clock is off by so much for a while. A certificate of a party ends in ten days, that of the
/// coordinator on the day of the test.
fn coordinator_is_off_by(seconds: i64, says: &str) {
    for (protocol, parties) in [(ProtocolName::Plain, 3), (ProtocolName::SecAggPlus, 5)] {
        let (pki, clock) = (Pki::new(60), Clock::default());
        let mut config = config(&pki, vec![endless(protocol, parties)], None);
        config.credentials = clock.of(config.credentials);
        let coordinator = Running::with(config).unwrap();
        let url = coordinator.url();
        let party = |i: u32| patient(&url, pki.party(&format!("p{i}")));
        let played: Vec<Played> = (1..parties)
            .map(|i| run_party(party(i), constant(1.0)))
            .chain([run_party(party(0), constant(1.0))])
            .collect();
        coordinator.wait("test", |status| status.rounds_done > 0);
        clock.is_off_by(seconds);
        let warned = |status: &JobStatus| status.warning.contains("check the clocks");
        let status = coordinator.wait("test", warned);
        assert!(status.warning.contains(says), "{}", status.warning);
        assert!(status.warning.contains("by the clock of this machine"));
        // Somebody who was lost and comes back meanwhile is not let in by TLS, and tries again. That it does so is seen in
        // the end: it is one of the job's parties.
        let late = run_party(patient(&url, pki.party("late")), constant(1.0));
        // Longer than three rounds could fail in, and than two looks at the clock.
        sleep(Duration::from_secs(5));
        let then = coordinator.wait("test", |_| true);
        assert_eq!((then.state, &*then.reason), (JobState::Running, ""));
        assert!(!late.is_finished());
        clock.is_off_by(0);
        let more = |status: &JobStatus| status.rounds_done > then.rounds_done + 3;
        let status = coordinator.wait("test", more);
        assert_eq!((status.state, &*status.warning), (JobState::Running, ""));
        coordinator.wait("test", |status| {
            status.connected.iter().any(|name| name == "late")
        });
        for party in &played {
            assert!(!party.is_finished(), "a party has left the job");
        }
    }
}

#[test]
fn case_56_a_coordinator_s_clock_that_is_behind_for_a_while_ends_no_job() {
    coordinator_is_off_by(-2 * DAY, "is not valid before");
}

#[test]
fn case_56_a_coordinator_s_clock_that_is_ahead_for_a_while_ends_no_job() {
    coordinator_is_off_by(2000 * DAY, "expired");
}

/// The other servers of the job are cut off, too, and come back by themselves.
#[test]
fn case_56_a_coordinator_s_clock_that_is_wrong_ends_no_job_of_three_servers() {
    for seconds in [-2 * DAY, 2000 * DAY] {
        let clock = Clock::default();
        let three = Three::with(mpc3(0), |pki, place| match place {
            0 => clock.of(pki.coordinator()),
            place => pki.server(HOSTS[place - 1]),
        });
        let parties = three.parties(5);
        let job = &three.coordinator;
        job.wait("test", |status| status.rounds_done > 0);
        clock.is_off_by(seconds);
        job.wait("test", |status| status.warning.contains("check the clocks"));
        // Two looks at the certificates of servers.
        sleep(Duration::from_secs(5));
        let then = job.wait("test", |_| true);
        assert_eq!((then.state, &*then.reason), (JobState::Running, ""));
        clock.is_off_by(0);
        let more = |status: &JobStatus| status.rounds_done > then.rounds_done + 2;
        assert_eq!(job.wait("test", more).state, JobState::Running);
        for party in &parties {
            assert!(!party.is_finished(), "a party has left the job");
        }
    }
}

/// The coordinator's own certificate is in its time, and nobody else's is.
#[test]
fn case_56_parties_that_a_wrong_clock_expels_come_back() {
    let (pki, clock) = (Pki::new(61), Clock::default());
    let mut config = config(&pki, vec![endless(ProtocolName::Plain, 3)], None);
    let hosts = vec!["localhost".to_owned()];
    let kind = Kind::Coordinator { hosts };
    let own = pki.issue("coordinator", &kind, Validity::days(now() - 60, 9));
    config.credentials = clock.of(own);
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    // One of them is valid for longer: the others are not all that there is.
    let longer = pki.issue("p0", &Kind::Party, Validity::days(now() - 60, 9));
    let mut played = vec![run_party(patient(&url, longer), constant(1.0))];
    for name in ["p1", "p2"] {
        let config = patient(&url, pki.party(name));
        played.push(run_party(config, constant(1.0)));
    }
    coordinator.wait("test", |status| status.rounds_done > 0);
    clock.is_off_by(3 * DAY);
    // They are told that their certificates have expired, by the coordinator's clock. By theirs they have not.
    let then = coordinator.wait("test", |status| status.connected == ["p0"]);
    for party in &played {
        assert!(!party.is_finished(), "a party has left the job");
    }
    clock.is_off_by(0);
    let more = |status: &JobStatus| status.rounds_done > then.rounds_done + 3;
    assert_eq!(coordinator.wait("test", more).state, JobState::Running);
}

/// What a party says to its caller whose own clock is wrong.
#[test]
fn case_56_a_party_whose_own_clock_is_wrong_says_so_and_comes_back_when_it_is_right() {
    for (seconds, says) in [(2000 * DAY, "expired"), (-2 * DAY, "is not valid before")] {
        let (pki, clock) = (Pki::new(62), Clock::default());
        let job = JobSpec {
            min_parties: 3,
            ..endless(ProtocolName::SecAggPlus, 5)
        };
        let mut config = config(&pki, vec![job], None);
        config.limits.failed_rounds = 1000;
        let coordinator = Running::with(config).unwrap();
        let url = coordinator.url();
        let _others: Vec<Played> = (1..5)
            .map(|i| run_party(patient(&url, pki.party(&format!("p{i}"))), constant(1.0)))
            .collect();
        let config = patient(&url, clock.of(pki.party("p0")));
        let own = clock.clone();
        let heard = spawn(move || {
            let mut party = Party::join(config).unwrap();
            let mut take = move || -> Result<u64, NetError> {
                let mut round = party.next_round()?.unwrap();
                round.submit(vec![1.0f32; 5], 1)?;
                round.result().map(|_| round.number())
            };
            let first = take().unwrap();
            own.is_off_by(seconds);
            let error = loop {
                // A round that was under way may still end, well or not.
                match take() {
                    Err(error @ NetError::Job(JobError::OutOfTime { .. })) => break error,
                    Err(error @ NetError::Ended { .. }) => panic!("{error}"),
                    _ => {}
                }
            };
            own.is_off_by(0);
            let last = loop {
                // Refused rounds that were under way already.
                match take() {
                    Ok(round) => break round,
                    Err(error @ NetError::Ended { .. }) => panic!("{error}"),
                    Err(_) => {}
                }
            };
            (first, error, last)
        });
        let (first, error, last) = heard.join().unwrap();
        assert!(last > first);
        let NetError::Job(JobError::OutOfTime { reason, .. }) = &error else {
            panic!("{error:?}");
        };
        assert!(reason.contains("by this machine's clock"), "{reason}");
        assert!(
            reason.contains(says) && reason.contains("check the clocks"),
            "{reason}"
        );
        assert!(!error.to_string().contains("something wrong"), "{error}");
        assert_eq!(coordinator.wait("test", |_| true).state, JobState::Running);
    }
}

/// A party that begins with a wrong clock is told which certificate, both dates, and what to do.
#[test]
fn a_party_that_does_not_trust_the_coordinator_s_dates_says_both() {
    let (pki, clock) = (Pki::new(63), Clock::default());
    let coordinator = coordinator(&pki);
    // Its own certificate is valid for longer than the coordinator's.
    let own = pki.issue("a", &Kind::Party, Validity::days(now() - 60, 9));
    clock.is_off_by(3 * DAY);
    let error = Party::join(party_config(&coordinator.url(), clock.of(own)));
    let said = error.err().unwrap().to_string();
    assert!(
        said.contains("the coordinator's certificate expired"),
        "{said}"
    );
    assert!(said.contains("by this machine's clock it is"), "{said}");
    assert!(said.contains("check the clocks"), "{said}");
}

/// A server that computes with the coordinator refuses rounds because of its clock, and says so; the job goes on when it is
/// right again.
#[test]
fn case_56_a_server_whose_own_clock_is_wrong_says_so_and_computes_again_when_it_is_right() {
    let clock = Clock::default();
    let three = Three::with(mpc3(0), |pki, place| match place {
        0 => pki.coordinator(),
        1 => clock.of(pki.server(HOSTS[0])),
        place => pki.server(HOSTS[place - 1]),
    });
    let _parties = three.parties(5);
    three
        .coordinator
        .wait("test", |status| status.rounds_done > 0);
    clock.is_off_by(-2 * DAY);
    let said = |status: &JobStatus| {
        let round = status.round.as_ref();
        let dropped = round.into_iter().flat_map(|round| &round.stages);
        let mut reasons = dropped.flat_map(|stage| stage.dropped.values());
        let says = |reason: &String| reason.contains("by this machine's clock");
        round.is_some_and(|round| says(&round.reason)) || reasons.any(says)
    };
    three.coordinator.wait("test", said);
    clock.is_off_by(0);
    let then = three.coordinator.wait("test", |_| true).rounds_done;
    let more = |status: &JobStatus| status.rounds_done > then + 2;
    let status = three.coordinator.wait("test", more);
    assert_eq!(status.state, JobState::Running);
}

/// Status names how the keys of each connection were agreed on.
#[test]
fn connections_have_keys_of_a_post_quantum_exchange() {
    let three = Three::new(mpc3(0));
    let _parties = three.parties(5);
    let all = |status: &JobStatus| status.key_exchange.len() == 7;
    let status = three.coordinator.wait("test", all);
    assert!(status.key_exchange.contains_key("a"), "{status:?}");
    for (name, group) in &status.key_exchange {
        assert_eq!(group, "X25519MLKEM768", "{name}");
    }
}

/// A party whose certificate is revoked and that goes on trying is named in the log.
#[test]
fn a_revoked_party_that_knocks_is_named_in_the_log() {
    let pki = Pki::new(64);
    let revoked = pki.party("revoked-one");
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    config.credentials = config.credentials.with_revoked(pki.revoke(&[&revoked]));
    let coordinator = Running::with(config).unwrap();
    for _ in 0..3 {
        let refused = Party::join(party_config(&coordinator.url(), revoked.clone()));
        assert!(refused.is_err());
    }
    let lines = || logs::lines_about("revoked-one", "TLS handshake refused; it is revoked");
    wait_for("a line with its name", || lines() > 0);
    assert_eq!(lines(), 1);
}
