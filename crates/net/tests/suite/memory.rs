//! Memory for answers that are being received: nobody keeps it from those who wait for it.

use std::time::Duration;

use crate::common::raw::Raw;
use crate::common::*;
use blindsum_net::CHUNK;
use blindsum_net::coordinator::Config;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_protocol::{JobSpec, ProtocolName};

/// A job of three parties with long answers, and a coordinator with room for one of them at a time: what becomes of two
/// honest parties, and the third one in the middle of its answer.
fn in_the_middle_of_an_answer(
    pki: &Pki,
    change: impl FnOnce(&mut Config),
) -> (Running, [Played; 2], Raw) {
    let job = JobSpec {
        dim: 100_000,
        ..spec(ProtocolName::Plain, 3)
    };
    let mut config = config(pki, vec![job], None);
    config.limits.message_memory = 1 << 20;
    change(&mut config);
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let honest = ["a", "b"]
        .map(|name| run_party(party_config(&url, pki.party(name)), |_| vec![1.0; 100_000]));
    let mut third = Raw::join(&url, pki.party("c"), "c");
    third.ready();
    third.started();
    third.send(pb::Chunk {
        round: third.round,
        stage: 0,
        offset: 0,
        total: 800_000,
        data: vec![1; CHUNK].into(),
    });
    (coordinator, honest, third)
}

/// Case 31: whoever says small things without end in the middle of its answer is too slow with the answer all the same.
#[test]
fn case_31_small_talk_does_not_hold_memory() {
    let pki = Pki::new(31);
    let (_coordinator, honest, mut chatterer) = in_the_middle_of_an_answer(&pki, |config| {
        config.jobs[0].spec.input_deadline = 60.0;
    });
    chatterer.chatter();
    assert_eq!(chatterer.refusal().0, RefusalCode::RefusalTooSlow);
    for party in honest {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().survivors, ["a", "b"]);
    }
}

/// Case 31: the memory of an answer goes to others when its stage is over, however much time its next piece has.
#[test]
fn case_31_memory_goes_back_with_the_stage() {
    let pki = Pki::new(31);
    let (coordinator, honest, _silent) = in_the_middle_of_an_answer(&pki, |config| {
        config.limits.chunk_timeout = 60.0;
        let job = &mut config.jobs[0].spec;
        (job.rounds, job.join_deadline, job.input_deadline) = (2, 0.5, 1.0);
    });
    for party in honest {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(
            rounds.last().unwrap().as_ref().unwrap().survivors,
            ["a", "b"]
        );
    }
    assert_eq!(coordinator.wait_done("test").rounds_done, 2);
}

/// Case 50: each piece comes when it is due, and the whole answer only long after everybody else's time is over. There is
/// room for one answer at a time.
#[test]
fn case_50_uploads_that_drip_give_way_to_who_waits() {
    const DIM: usize = 1_000_000;
    let pki = Pki::new(50);
    let mut job = spec(ProtocolName::Plain, 4);
    (job.dim, job.join_deadline, job.input_deadline) = (DIM as u64, 5.0, 16.0);
    let mut config = config(&pki, vec![job], None);
    config.limits.message_memory = 8 * DIM as u64;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let mut drippers = ["c", "d"].map(|name| Raw::join(&url, pki.party(name), name));
    let honest = ["a", "b"].map(|name| {
        // The others begin before it.
        run_party(party_config(&url, pki.party(name)), |_| {
            std::thread::sleep(Duration::from_millis(500));
            vec![1.0; DIM]
        })
    });
    drippers.iter_mut().for_each(Raw::ready);
    for dripper in &mut drippers {
        dripper.started();
        dripper.drip(Duration::from_millis(400));
    }
    for party in honest {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().survivors, ["a", "b"]);
    }
    for mut dripper in drippers {
        assert_eq!(dripper.refusal().0, RefusalCode::RefusalTooSlow);
    }
    let report = coordinator.wait_done("test").round.unwrap();
    let dropped = &report.stages[0].dropped;
    assert_eq!(dropped.keys().collect::<Vec<_>>(), ["c", "d"]);
}
