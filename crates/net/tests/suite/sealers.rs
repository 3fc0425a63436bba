//! Models that the coordinator does not know, where processes are killed, connections replaced and disks full.

use std::time::Duration;

use crate::common::raw::{Raw, hello};
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_protocol::JobSpec;

/// Rounds for up to four parties, more of them than a test waits for.
fn rounds() -> JobSpec {
    JobSpec {
        parties: 4,
        ..flashe(99)
    }
}

/// A party that takes part in all rounds, and comes to each a little later than others.
fn steady(config: PartyConfig) {
    std::thread::spawn(move || {
        let mut party = Party::join(config).unwrap();
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let Ok(Some(mut round)) = party.next_round() else {
                return;
            };
            drop(
                round
                    .submit(vec![1.0f32; 5], 1)
                    .and_then(|()| round.result()),
            );
        }
    });
}

/// Connects as this process, which shows that it lives where it must.
fn process(url: &str, credentials: &blindsum_net::Credentials, id: u8) -> Raw {
    let mut first = hello("test", "c");
    (first.process, first.connection) = (vec![id; 16], 1);
    loop {
        let mut raw = Raw::open(url, credentials.clone(), first.clone());
        match raw.next() {
            Some(Frame::Welcome(_)) => return raw,
            Some(Frame::Refused(refused)) => {
                assert_eq!(refused.code(), RefusalCode::RefusalComeAgain);
                (first.token, first.connection) = (refused.token, first.connection + 1);
            }
            other => panic!("no Welcome: {other:?}"),
        }
    }
}

/// Reads on until a sealed model comes, which is asked for whenever a round is offered; its version.
fn model_of(raw: &mut Raw) -> u64 {
    let mut version = 0;
    loop {
        match raw.next().expect("the connection holds") {
            Frame::RoundOffer(offer) => {
                version = offer.model.unwrap().version;
                raw.send(pb::ModelRequest { version });
            }
            Frame::ModelChunk(_) => return version,
            Frame::Refused(refused) => panic!("{}", refused.reason),
            _ => {}
        }
    }
}

/// What one process of a party could not open is no matter to the next one: it is sent the model.
#[test]
fn case_52_a_process_that_is_started_again_gets_the_model() {
    let pki = Pki::new(9);
    let coordinator = Running::start(&pki, vec![rounds()], None);
    let url = coordinator.url();
    for name in ["a", "b"] {
        steady(party_config(&url, pki.party(name)));
    }
    coordinator.wait("test", |status| status.rounds_done > 0);
    let own = pki.party("c");
    for id in 1..=3 {
        let mut raw = process(&url, &own, id);
        // The models of both others.
        for _ in 0..2 {
            let version = model_of(&mut raw);
            raw.send(pb::ModelRefused { version });
        }
    }
    coordinator.kill();
}

/// Who was asked for the model comes over a newer connection, before it is known that the older one has broken. What it
/// was asked is lost with that one; the others do not wait for it.
#[test]
fn case_54_who_comes_over_a_newer_connection_is_not_waited_for_with_the_model() {
    let pki = Pki::new(33);
    let spec = JobSpec {
        join_deadline: 8.0,
        ..rounds()
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let mut raw = Raw::join(&url, pki.party("a"), "a");
    steady(party_config(&url, pki.party("b")));
    let start = raw.begin();
    raw.play(&start, 1.0, u8::MAX);
    let mut late = Raw::join(&url, pki.party("c"), "c");
    raw.ready();
    let version = late.until(|frame| match frame {
        Frame::RoundOffer(offer) => Some(offer.model.unwrap().version),
        _ => None,
    });
    coordinator.wait("test", |status| status.waiting_for == ["c"]);
    late.send(pb::ModelRequest { version });
    raw.until(|frame| matches!(frame, Frame::ModelWanted(_)).then_some(()));
    let _newer = raw.resume(&url, hello("test", "a"));
    late.until(|frame| matches!(frame, Frame::ModelChunk(_)).then_some(()));
    coordinator.kill();
}
