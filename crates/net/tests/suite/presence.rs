//! Who speaks for a name: connections of one process that overtake each other, processes that are started again, and
//! two that live at the same time.

use crate::common::fake::{Fake, job, welcome};
use crate::common::logs::lines;
use crate::common::proxy::Proxy;
use crate::common::raw::{Raw, hello};
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_net::{Credentials, JobError, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};

/// What a process says in its n-th connection.
fn says(process: u8, connection: u64) -> pb::Hello {
    pb::Hello {
        process: vec![process; 16],
        connection,
        ..hello("test", "a")
    }
}

/// A connection that is let in.
fn let_in(url: &str, credentials: &Credentials, hello: pb::Hello) -> Raw {
    let mut raw = Raw::open(url, credentials.clone(), hello);
    assert!(matches!(raw.next(), Some(Frame::Welcome(_))));
    raw
}

/// The refusal of a connection that is not.
fn kept_out(url: &str, credentials: &Credentials, hello: pb::Hello) -> pb::Refused {
    let mut raw = Raw::open(url, credentials.clone(), hello);
    match raw.next() {
        Some(Frame::Refused(refused)) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

/// The token that another process must bring.
fn token(url: &str, credentials: &Credentials, hello: pb::Hello) -> Vec<u8> {
    let refused = kept_out(url, credentials, hello);
    assert_eq!(refused.code(), RefusalCode::RefusalComeAgain);
    assert_eq!(refused.token.len(), 16);
    refused.token
}

/// A party whose connection is `raw` is in a round to its end.
fn does_a_round(pki: &Pki, coordinator: &Running, mut raw: Raw) {
    let url = coordinator.url();
    raw.learn(coordinator_job());
    let other = run_party(party_config(&url, pki.party("b")), constant(1.0));
    raw.ready();
    let start = raw.started();
    assert_eq!(raw.play(&start, 3.0, u8::MAX), None);
    let rounds = other.join().unwrap().unwrap();
    assert_eq!(rounds[0].as_ref().unwrap().mean, [2.0; 5]);
}

fn coordinator_job() -> JobSpec {
    JobSpec {
        join_deadline: 10.0,
        ..spec(ProtocolName::Plain, 2)
    }
}

fn two(pki: &Pki) -> Running {
    Running::start(pki, vec![coordinator_job()], None)
}

#[test]
fn case_55_a_hello_that_comes_late_replaces_nothing() {
    let pki = Pki::new(1);
    let coordinator = two(&pki);
    let (url, a) = (coordinator.url(), pki.party("a"));
    let live = let_in(&url, &a, says(1, 2));
    // Of a connection that the process has given up, and of a process that has ended.
    let late = kept_out(&url, &a, says(1, 1));
    assert_eq!(late.code(), RefusalCode::RefusalReplaced);
    token(&url, &a, says(2, 7));
    does_a_round(&pki, &coordinator, live);
}

#[test]
fn case_55_a_hello_that_comes_late_costs_no_place_in_a_round() {
    let pki = Pki::new(2);
    let coordinator = two(&pki);
    let (url, a) = (coordinator.url(), pki.party("a"));
    let other = run_party(party_config(&url, pki.party("b")), constant(1.0));
    let mut live = let_in(&url, &a, says(1, 2));
    live.learn(coordinator_job());
    live.ready();
    let start = live.started();
    let answer = live.play(&start, 3.0, 0).unwrap();
    let again = pb::Hello {
        round: live.round,
        ..says(1, 3)
    };
    // The link is lost, and what comes over it late was said before the round.
    live.leave();
    coordinator.wait("test", |status| status.connected == ["b"]);
    for late in [says(1, 1), says(2, 7)] {
        kept_out(&url, &a, late);
    }
    let mut live = live.resume(&url, again);
    live.started();
    live.send_message(0, &answer);
    assert!(live.message().is_some(), "it lost its place");
    let rounds = other.join().unwrap().unwrap();
    assert_eq!(rounds[0].as_ref().unwrap().mean, [2.0; 5]);
}

#[test]
fn case_55_the_newer_connection_of_a_process_replaces_its_older_one_also_with_a_renewed_certificate()
 {
    let pki = Pki::new(3);
    let coordinator = two(&pki);
    let url = coordinator.url();
    let mut older = let_in(&url, &pki.party("a"), says(1, 1));
    let newer = let_in(&url, &pki.party("a"), says(1, 2));
    assert_eq!(older.refusal().0, RefusalCode::RefusalReplaced);
    does_a_round(&pki, &coordinator, newer);
}

/// The process that began later goes on, once it has shown that it lives; the other one is told.
#[test]
fn case_55_another_process_replaces_the_one_before_it_once_it_has_shown_that_it_lives() {
    let pki = Pki::new(4);
    let coordinator = two(&pki);
    let (url, a) = (coordinator.url(), pki.party("a"));
    let mut older = let_in(&url, &a, says(1, 1));
    let stale = token(&url, &a, says(2, 1));
    let fresh = token(&url, &a, says(2, 2));
    let brings = |process, connection, token: &[u8]| pb::Hello {
        token: token.to_vec(),
        ..says(process, connection)
    };
    // Of another conversation, and of another process.
    let fresh = {
        token(&url, &a, brings(3, 1, &fresh));
        token(&url, &a, brings(2, 3, &stale))
    };
    let newer = let_in(&url, &a, brings(2, 4, &fresh));
    let (code, reason) = older.refusal();
    assert_eq!(code, RefusalCode::RefusalReplaced);
    assert!(reason.contains("another process"), "{reason}");
    does_a_round(&pki, &coordinator, newer);
}

#[test]
fn two_living_processes_with_one_certificate_end_with_one_of_them() {
    let pki = Pki::new(5);
    let coordinator = two(&pki);
    let (url, a) = (coordinator.url(), pki.party("a"));
    let mut first = Party::join(party_config(&url, a.clone())).unwrap();
    let mut second = Party::join(party_config(&url, a)).unwrap();
    let Err(error) = first.next_round() else {
        panic!("both of them go on");
    };
    assert!(error.to_string().contains("another process"), "{error}");
    let other = run_party(party_config(&url, pki.party("b")), constant(1.0));
    let mut round = second.next_round().unwrap().unwrap();
    round.submit(vec![1.0f32; 5], 1).unwrap();
    round.result().unwrap();
    other.join().unwrap().unwrap();
}

/// Case 55: the older process was cut off, and never heard that another one has taken its place. It does not take it back.
#[test]
fn case_55_a_process_that_was_replaced_while_it_was_cut_off_does_not_come_back() {
    let pki = Pki::new(9);
    let coordinator = two(&pki);
    let (url, proxy) = (coordinator.url(), Proxy::to(coordinator.port));
    let patient = |url: &str| PartyConfig {
        give_up_after: 600.0,
        ..party_config(url, pki.party("a"))
    };
    let mut older = Party::join(patient(&proxy.url())).unwrap();
    proxy.interrupt();
    coordinator.wait("test", |status| status.connected.is_empty());
    let mut newer = Party::join(patient(&url)).unwrap();
    proxy.mend();
    let Err(error) = older.next_round() else {
        panic!("the older process goes on");
    };
    assert!(error.to_string().contains("another process"), "{error}");
    let other = run_party(party_config(&url, pki.party("b")), constant(1.0));
    let mut round = newer.next_round().unwrap().unwrap();
    round.submit(vec![1.0f32; 5], 1).unwrap();
    round.result().unwrap();
    other.join().unwrap().unwrap();
}

/// Case 55: what was replaced is remembered, and not for ever: 16 processes of a name.
#[test]
fn case_55_the_latest_processes_that_were_replaced_are_remembered() {
    let pki = Pki::new(9);
    let coordinator = two(&pki);
    let (url, a) = (coordinator.url(), pki.party("a"));
    drop(let_in(&url, &a, says(1, 1)));
    for process in 2..=18 {
        let token = token(&url, &a, says(process, 1));
        drop(let_in(
            &url,
            &a,
            pb::Hello {
                token,
                ..says(process, 2)
            },
        ));
    }
    for process in [2, 17] {
        let refused = kept_out(&url, &a, says(process, 3));
        assert_eq!(refused.code(), RefusalCode::RefusalReplaced, "{process}");
    }
    token(&url, &a, says(1, 3));
}

/// A party that is started again is asked to show that it lives: nobody needs to hear of that.
#[test]
fn a_party_that_is_started_again_warns_of_nothing() {
    let pki = Pki::new(10);
    let coordinator = two(&pki);
    let (url, own) = (coordinator.url(), pki.party("started-again"));
    drop(Party::join(party_config(&url, own.clone())).unwrap());
    coordinator.wait("test", |status| status.connected.is_empty());
    drop(Party::join(party_config(&url, own)).unwrap());
    let lines = |message| lines("started-again", message);
    assert_eq!(lines("connected"), 2);
    assert_eq!(lines("no connection; trying again"), 0);
}

/// The party is started again with a new key, and the coordinator has not noticed that its link is lost.
#[test]
fn case_55_a_party_with_a_new_key_waits_until_its_lost_link_is_noticed() {
    let pki = Pki::new(6);
    let coordinator = two(&pki);
    let (url, proxy) = (coordinator.url(), Proxy::to(coordinator.port));
    let patient = |url: &str| PartyConfig {
        give_up_after: 600.0,
        ..party_config(url, pki.party("a"))
    };
    let before = Party::join(patient(&proxy.url())).unwrap();
    proxy.lose();
    drop(before);
    assert_eq!(coordinator.wait("test", |_| true).connected, ["a"]);
    let mut again = Party::join(patient(&url)).unwrap();
    let other = run_party(party_config(&url, pki.party("b")), constant(1.0));
    let mut round = again.next_round().unwrap().unwrap();
    round.submit(vec![1.0f32; 5], 1).unwrap();
    round.result().unwrap();
    other.join().unwrap().unwrap();
}

/// The party is started again with a new key, and what the process before had said is still coming in.
#[test]
fn case_55_what_was_on_its_way_does_not_keep_a_new_key_out() {
    let pki = Pki::new(6);
    let mut config = config(&pki, vec![coordinator_job()], None);
    config.limits.reconnect_grace = 60.0;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let mut before = let_in(&url, &pki.party("a"), says(1, 1));
    let new = pki.party("a");
    let token = token(&url, &new, says(2, 1));
    let again = |connection| pb::Hello {
        token: token.clone(),
        ..says(2, connection)
    };
    let waits = |connection| {
        let refused = kept_out(&url, &new, again(connection));
        let reason = &refused.reason;
        assert_eq!(refused.code(), RefusalCode::RefusalComeAgain, "{reason}");
    };
    waits(2);
    before.send(pb::ModelRequest { version: 0 });
    before.until(|frame| matches!(frame, Frame::ModelChunk(_)).then_some(()));
    waits(3);
    before.leave();
    coordinator.wait("test", |status| status.connected.is_empty());
    let_in(&url, &new, again(4));
}

/// What a party tells of itself, and what it makes of the answers.
#[test]
fn case_55_a_party_counts_its_connections_and_brings_the_token() {
    let pki = Pki::new(7);
    let (fake, job) = (Fake::start(&pki), job());
    let party = std::thread::spawn({
        let config = PartyConfig {
            give_up_after: 600.0,
            ..party_config(&fake.url(), pki.party("a"))
        };
        move || Party::join(config).unwrap().next_round().map(drop)
    });
    let refused = |code: RefusalCode, token: u8| pb::Refused {
        code: code.into(),
        reason: "so".into(),
        token: vec![token; 16],
    };
    let (line, first) = fake.accept();
    assert_eq!((first.process.len(), first.connection), (16, 1));
    line.send(refused(RefusalCode::RefusalComeAgain, 9));
    let (line, second) = fake.accept();
    assert_eq!((&second.process, second.connection), (&first.process, 2));
    assert_eq!(second.token, [9; 16]);
    line.send(welcome(&job));
    // Whoever was welcomed before outwaits another one with its name.
    line.send(refused(RefusalCode::RefusalNameTaken, 0));
    let (line, third) = fake.accept();
    assert_eq!((&third.process, third.connection), (&first.process, 3));
    line.send(welcome(&job));
    line.send(refused(RefusalCode::RefusalReplaced, 0));
    let error = party.join().unwrap().unwrap_err();
    let replaced = matches!(
        error,
        NetError::Job(JobError::Refused {
            code: RefusalCode::RefusalReplaced,
            ..
        })
    );
    assert!(replaced, "{error}");
}

/// What says who somebody is has its length.
#[test]
fn case_27_ids_and_tokens_of_another_length_are_refused() {
    let pki = Pki::new(8);
    let coordinator = two(&pki);
    for (process, token) in [(15, 0), (17, 0), (1 << 17, 0), (16, 1), (16, 17)] {
        let odd = pb::Hello {
            process: vec![1; process],
            token: vec![1; token],
            ..says(1, 1)
        };
        let refused = kept_out(&coordinator.url(), &pki.party("a"), odd);
        assert_eq!(refused.code(), RefusalCode::RefusalBadFrame);
    }
}
