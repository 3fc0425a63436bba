//! Models that the coordinator does not know: a party that joins late gets one that another party sealed, and tells the
//! coordinator where that is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::raw::Raw;
use crate::common::*;
use blindsum_net::party::{NextRound, Party, PartyConfig};
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_net::report::JobState;
use blindsum_net::{CHUNK, JobError, NetError};
use blindsum_protocol::JobSpec;

/// Rounds for up to four parties, more of them than a test waits for.
fn job() -> JobSpec {
    JobSpec {
        parties: 4,
        ..flashe(99)
    }
}

/// A party that plays honestly, and sends rubbish of so many bytes when it is asked for the model, of which only the
/// first piece ever comes.
struct Liar {
    done: Arc<AtomicBool>,
    playing: JoinHandle<()>,
}

impl Liar {
    fn begin(pki: &Pki, url: &str, name: &str, bytes: usize) -> Self {
        let mut raw = Raw::join(url, pki.party(name), name);
        raw.sealed = Some(vec![7; bytes]);
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let playing = std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let start = raw.begin();
                raw.play(&start, 1.0, u8::MAX);
            }
        });
        Self { done, playing }
    }

    /// With the coordinator, which it may wait for.
    fn end(self, coordinator: Running) {
        self.done.store(true, Ordering::SeqCst);
        coordinator.stop().unwrap();
        drop(self.playing.join());
    }
}

/// A party that plays honestly, and comes to each round later than others: these are asked for the model first.
fn late_riser(config: PartyConfig, dim: usize) {
    std::thread::spawn(move || {
        let mut party = Party::join(config).unwrap();
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let Ok(Some(mut round)) = party.next_round() else {
                return;
            };
            round.submit(vec![1.0f32; dim], 1).unwrap();
            drop(round.result());
        }
    });
}

/// Case 27: rubbish in place of the model costs whoever sent it its turn; the model comes from another party.
#[test]
fn case_27_rubbish_in_place_of_the_model() {
    let pki = Pki::new(33);
    let coordinator = Running::start(&pki, vec![job()], None);
    let url = coordinator.url();
    let liar = Liar::begin(&pki, &url, "a", 48);
    late_riser(party_config(&url, pki.party("b")), 5);
    coordinator.wait("test", |status| status.rounds_done > 0);
    // The second one is not given what the first one could not open.
    for name in ["c", "d"] {
        let mut late = Party::join(party_config(&url, pki.party(name))).unwrap();
        let mut round = late.next_round().unwrap().unwrap();
        round.submit(vec![1.0f32; 5], 1).unwrap();
        assert_eq!(round.result().unwrap().survivors, ["a", "b", name]);
    }
    liar.end(coordinator);
}

/// Case 27: a party that sends a part of the model and no more keeps others out for a round, and not for the next ones.
#[test]
fn case_27_a_part_of_the_model() {
    let pki = Pki::new(33);
    let job = JobSpec {
        dim: 100_000,
        ..job()
    };
    let mut config = config(&pki, vec![job], None);
    config.limits.chunk_timeout = 60.0;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let liar = Liar::begin(&pki, &url, "a", CHUNK + 48);
    late_riser(party_config(&url, pki.party("b")), 100_000);
    coordinator.wait("test", |status| status.rounds_done > 0);
    let mut late = Party::join(party_config(&url, pki.party("c"))).unwrap();
    let NextRound::Round(mut round) = late.wait_round(PATIENCE).unwrap() else {
        panic!("no round");
    };
    round.submit(vec![1.0f32; 100_000], 1).unwrap();
    assert_eq!(round.result().unwrap().survivors, ["a", "b", "c"]);
    liar.end(coordinator);
}

/// Case 27: a party that begins to send the model and does not go on is not waited for to the end of the round.
#[test]
fn case_27_a_part_of_the_model_in_a_round_that_waits() {
    let pki = Pki::new(33);
    let job = JobSpec {
        dim: 100_000,
        parties: 3,
        join_deadline: 60.0,
        ..job()
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let url = coordinator.url();
    let liar = Liar::begin(&pki, &url, "a", CHUNK + 48);
    late_riser(party_config(&url, pki.party("b")), 100_000);
    for name in ["d", "c"] {
        let mut third = Party::join(party_config(&url, pki.party(name))).unwrap();
        let NextRound::Round(mut round) = third.wait_round(PATIENCE).unwrap() else {
            panic!("no round");
        };
        round.submit(vec![1.0f32; 100_000], 1).unwrap();
        assert_eq!(round.result().unwrap().survivors.len(), 3);
    }
    liar.end(coordinator);
}

/// Case 27: neither a part of the model, again and again, nor a vector that is withheld keeps a job from going on that
/// has enough parties without whoever does that.
#[test]
fn case_27_a_part_of_the_model_from_a_party_that_fails_the_rounds() {
    let pki = Pki::new(33);
    let job = JobSpec {
        min_parties: 3,
        dim: 100_000,
        input_deadline: 1.5,
        ..job()
    };
    let mut config = config(&pki, vec![job], None);
    config.limits.chunk_timeout = 60.0;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let mut raw = Raw::join(&url, pki.party("a"), "a");
    raw.sealed = Some(vec![7; CHUNK + 48]);
    let withholds = Arc::new(AtomicBool::new(false));
    let now = withholds.clone();
    std::thread::spawn(move || {
        loop {
            let start = raw.begin();
            if !now.load(Ordering::SeqCst) {
                raw.play(&start, 1.0, u8::MAX);
            }
        }
    });
    for name in ["b", "d"] {
        late_riser(party_config(&url, pki.party(name)), 100_000);
    }
    let before = coordinator.wait("test", |status| status.rounds_done > 0);
    withholds.store(true, Ordering::SeqCst);
    late_riser(party_config(&url, pki.party("c")), 100_000);
    let after = coordinator.wait("test", |status| {
        status.state == JobState::Failed || status.rounds_done > before.rounds_done + 2
    });
    assert_eq!(after.state, JobState::Running, "{}", after.reason);
}

/// Case 27: a party that nobody sends a model to that opens ends by name, and says whose were none.
#[test]
fn case_27_nothing_but_rubbish_in_place_of_the_model() {
    let pki = Pki::new(33);
    let coordinator = Running::start(&pki, vec![job()], None);
    let url = coordinator.url();
    let liars = ["a", "b"].map(|name| Liar::begin(&pki, &url, name, 48));
    coordinator.wait("test", |status| status.rounds_done > 0);
    let mut late = Party::join(party_config(&url, pki.party("d"))).unwrap();
    match late.next_round().map(drop) {
        Err(NetError::Job(JobError::Refused { code, reason })) => {
            assert_eq!(code, RefusalCode::RefusalNoModel, "{reason}");
            assert!(reason.contains("sealed by a, b"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let [a, b] = liars;
    a.done.store(true, Ordering::SeqCst);
    b.end(coordinator);
    drop(a.playing.join());
}

/// Asks for the model again and again, and says of each that it does not open; how many came before the end.
fn refuse_all(raw: &mut Raw) -> usize {
    let version = raw.until(|frame| match frame {
        Frame::RoundOffer(offer) => offer.model.map(|model| model.version).filter(|v| *v > 0),
        _ => None,
    });
    raw.send(pb::ModelRequest { version });
    let mut came = 0;
    loop {
        match raw.next() {
            Some(Frame::ModelChunk(chunk)) => {
                came += 1;
                let version = chunk.version;
                raw.send(pb::ModelRefused { version });
            }
            Some(Frame::RoundOffer(offer)) => {
                let version = offer.model.unwrap().version;
                raw.send(pb::ModelRequest { version });
            }
            Some(Frame::Refused(refused)) => {
                assert_eq!(
                    refused.code(),
                    RefusalCode::RefusalNoModel,
                    "{}",
                    refused.reason
                );
                return came;
            }
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    }
}

/// Case 27: a party that lies about the models of all others is sent each of theirs once, whatever version it is and
/// however often it comes; another one is not kept out by that.
#[test]
fn case_27_a_party_that_refuses_every_model() {
    let pki = Pki::new(33);
    let coordinator = Running::start(&pki, vec![job()], None);
    let url = coordinator.url();
    let _honest =
        ["a", "b"].map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)));
    coordinator.wait("test", |status| status.rounds_done > 0);
    let credentials = pki.party("c");
    for expected in [2, 0] {
        let mut raw = Raw::join(&url, credentials.clone(), "c");
        assert_eq!(refuse_all(&mut raw), expected);
    }
    let mut late = Party::join(party_config(&url, pki.party("d"))).unwrap();
    let mut round = late.next_round().unwrap().unwrap();
    round.submit(vec![1.0f32; 5], 1).unwrap();
    assert_eq!(round.result().unwrap().survivors, ["a", "b", "d"]);
    coordinator.stop().unwrap();
}

/// Case 27: nobody refuses a model that it was not sent.
#[test]
fn case_27_a_model_is_refused_that_was_not_sent() {
    let pki = Pki::new(33);
    let coordinator = Running::start(&pki, vec![job()], None);
    let mut raw = Raw::join(&coordinator.url(), pki.party("c"), "c");
    raw.send(pb::ModelRefused { version: 0 });
    let (code, reason) = raw.refusal();
    assert_eq!(code, RefusalCode::RefusalBadFrame);
    assert!(reason.contains("was not sent"), "{reason}");
}

/// A party that has refused the model of everybody who is ready is ready without it next: the round waits for that word,
/// and is a key set-up.
#[test]
fn case_52_who_has_refused_every_model_gets_a_new_key() {
    let pki = Pki::new(9);
    let spec = JobSpec {
        join_deadline: 8.0,
        ..job()
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let others = [("a", 300), ("d", 2500)].map(|(name, pause)| {
        let config = party_config(&url, pki.party(name));
        std::thread::spawn(move || {
            let mut party = Party::join(config).unwrap();
            while let Ok(Some(mut round)) = party.next_round() {
                std::thread::sleep(Duration::from_millis(pause));
                if round.submit(vec![1.0f32; 5], 1).is_ok() {
                    drop(round.result());
                }
            }
        })
    });
    coordinator.wait("test", |status| status.rounds_done > 0);
    let own = pki.party("c");
    let mut refused = 0;
    let mut raw = Raw::join(&url, own.clone(), "c");
    let (mut round, mut version) = (0, 0);
    let kind = loop {
        match raw.next().expect("the connection holds") {
            Frame::RoundOffer(offer) => {
                (round, version) = (offer.round, offer.model.unwrap().version);
                raw.send(pb::ModelRequest { version });
            }
            Frame::ModelChunk(_) => {
                raw.send(pb::ModelRefused { version });
                refused += 1;
                if refused == 1 {
                    // What it says next is lost with its connection.
                    std::thread::sleep(Duration::from_millis(200));
                    raw = Raw::join(&url, own.clone(), "c");
                } else {
                    let (nonce, key_id) = (vec![3; 32], vec![9; 16]);
                    raw.send(pb::Ready {
                        round,
                        nonce,
                        key_id,
                        lacks_model: true,
                        ..pb::Ready::default()
                    });
                }
            }
            Frame::RoundStart(start) => break start.kind(),
            Frame::Refused(refused) => panic!("{}", refused.reason),
            _ => {}
        }
    };
    assert_eq!(kind, pb::RoundKind::KeySetup);
    drop(raw);
    coordinator.kill();
    for other in others {
        other.join().unwrap();
    }
}
