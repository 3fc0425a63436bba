//! Words of strangers: what the other side explains or calls itself is shown, and acts on no terminal and no log.

use crate::common::fake::{Fake, job};
use crate::common::logs::acting;
use crate::common::raw::{Raw, hello};
use crate::common::*;
use blindsum_net::party::Party;
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_protocol::ProtocolName;

/// A forged line, an order to clear the screen, and what follows turned round.
const ACTS: &str = "\n2026-01-01 ERROR forged\u{1b}[2J\u{202e}txet";

fn words(mark: &str) -> String {
    format!("{mark}{ACTS}")
}

/// Case 53: a party's program, its refusal of a round, and the job that it asks for.
#[test]
fn case_53_words_of_a_party_act_on_nothing() {
    let pki = Pki::new(53);
    let coordinator = Running::start(&pki, vec![spec(ProtocolName::Plain, 2)], None);
    let url = coordinator.url();
    let program = words("a-program");
    let says = pb::Hello {
        program: program.clone(),
        ..hello("test", "m")
    };
    let mut raw = Raw::open(&url, pki.party("m"), says);
    raw.until(|frame| matches!(frame, Frame::Welcome(_)).then_some(()));
    let _other = Raw::join(&url, pki.party("b"), "b");
    let round = raw.until(|frame| match frame {
        Frame::RoundOffer(offer) => Some(offer.round),
        _ => None,
    });
    raw.send(pb::RoundRefused {
        round,
        reason: words("a-refusal"),
        ..pb::RoundRefused::default()
    });
    // Its answer comes after the refusal was read.
    raw.send(pb::ModelChunk::default());
    raw.refusal();
    let mut stranger = Raw::open(&url, pki.party("s"), hello(&words("a-job"), "s"));
    let (code, _) = stranger.refusal();
    assert_eq!(code, RefusalCode::RefusalUnknownJob);
    for mark in ["a-program", "a-refusal", "a-job"] {
        assert_eq!(acting(mark), [""; 0]);
    }
    let status = coordinator.wait("test", |_| true);
    assert!(!format!("{status:?}").contains('\u{202e}'), "{status:?}");
}

/// Case 53: a coordinator's program, and its refusal.
#[test]
fn case_53_words_of_a_coordinator_act_on_nothing() {
    let pki = Pki::new(53);
    let (fake, job) = (Fake::start(&pki), job());
    let config = party_config(&fake.url(), pki.party("a"));
    let party = std::thread::spawn(move || {
        let mut party = Party::join(config).unwrap();
        party.next_round().map(|_| ()).unwrap_err().to_string()
    });
    let (line, _) = fake.accept();
    line.send(pb::Welcome {
        program: words("its-program"),
        ..crate::common::fake::welcome(&job)
    });
    line.send(pb::Refused {
        code: RefusalCode::RefusalUnknownJob.into(),
        reason: words("its-refusal"),
        ..pb::Refused::default()
    });
    let error = party.join().unwrap();
    assert!(error.contains("its-refusal"), "{error}");
    assert!(!error.chars().any(char::is_control), "{error:?}");
    assert!(!error.contains('\u{202e}'), "{error:?}");
    for mark in ["its-program", "its-refusal"] {
        assert_eq!(acting(mark), [""; 0]);
    }
}
