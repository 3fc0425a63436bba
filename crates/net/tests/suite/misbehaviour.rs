//! What becomes of parties that misbehave, and that nobody else notices.

use std::io::Read;
use std::net::TcpStream;

use crate::common::raw::{Raw, hello};
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, PartyFrame, RefusalCode};
use blindsum_net::report::JobState;
use blindsum_net::store::StoreReader;
use blindsum_net::{CHUNK, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};

#[test]
fn case_27_frames_that_no_party_sends_end_the_connection_and_nothing_else() {
    let pki = Pki::new(16);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.join_deadline = 20.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let chunk = |round, stage, offset, total, bytes: usize| pb::Chunk {
        round,
        stage,
        offset,
        total,
        data: vec![0; bytes].into(),
    };
    let wrong: [(&str, PartyFrame, &str); 8] = [
        (
            "a length prefix of 1 GB",
            chunk(1, 0, 0, 1 << 30, 8).into(),
            "must be at most",
        ),
        (
            "a message of no bytes",
            chunk(1, 0, 0, 0, 0).into(),
            "at least 1 byte",
        ),
        (
            "a chunk from the middle",
            chunk(1, 0, 9, 100, 91).into(),
            "offset = 9 must be 0",
        ),
        (
            "a chunk of another length",
            chunk(1, 0, 0, 100, 99).into(),
            "must have 100",
        ),
        (
            "a stage to come",
            chunk(1, 1, 0, 100, 100).into(),
            "round 1, stage 0 is under way",
        ),
        (
            "a round to come",
            chunk(2, 0, 0, 100, 100).into(),
            "round 1, stage 0 is under way",
        ),
        (
            "a second Hello",
            hello("test", "c").into(),
            "a second Hello",
        ),
        (
            "an empty frame",
            PartyFrame { frame: None },
            "empty or unknown",
        ),
    ];
    // The round is held open by two honest parties, one of which answers last.
    let honest = run_party(party_config(&url, pki.party("a")), constant(1.0));
    let mut last = Raw::join(&url, pki.party("b"), "b");
    last.ready();
    let mut bad = Raw::join(&url, pki.party("c"), "c");
    bad.ready();
    let start = last.started();
    bad.started();
    for (what, frame, says) in wrong {
        bad.send(frame);
        let (code, reason) = bad.refusal();
        assert_eq!(code, RefusalCode::RefusalBadFrame, "{what}");
        assert!(reason.contains(says), "{what}: {reason}");
        bad = Raw::open(
            &url,
            pki.party("c"),
            pb::Hello {
                round: 1,
                ..hello("test", "c")
            },
        );
        bad.until(|frame| matches!(frame, pb::coordinator_frame::Frame::Welcome(_)).then_some(()));
    }
    drop(bad);
    last.play(&start, 2.0, 9);
    let rounds = honest.join().unwrap().unwrap();
    let round = rounds[0].as_ref().unwrap();
    assert_eq!(
        (round.survivors.len(), round.mean.to_doubles()[0]),
        (2, 1.5)
    );
}

#[test]
fn case_27_a_frame_larger_than_a_chunk_is_refused() {
    let pki = Pki::new(17);
    let coordinator = coordinator(&pki);
    let mut raw = Raw::join(&coordinator.url(), pki.party("a"), "a");
    let data = vec![0; 2 * CHUNK].into();
    raw.send(pb::Chunk {
        round: 1,
        stage: 0,
        offset: 0,
        total: 2 * CHUNK as u64,
        data,
    });
    assert_eq!(raw.refusal().0, RefusalCode::RefusalBadFrame);
}

#[test]
fn case_28_a_message_from_a_non_member_costs_its_connection_only() {
    let pki = Pki::new(18);
    let coordinator = coordinator(&pki);
    let url = coordinator.url();
    let mut members = ["a", "b", "c"].map(|name| Raw::join(&url, pki.party(name), name));
    members.iter_mut().for_each(Raw::ready);
    let starts = members.each_mut().map(Raw::started);
    let mut stranger = Raw::join(&url, pki.party("z"), "z");
    stranger.round = 1;
    stranger.send_message(0, &[1; 100]);
    let (code, reason) = stranger.refusal();
    assert_eq!(code, RefusalCode::RefusalBadFrame);
    assert!(reason.contains("no member"), "{reason}");
    for (member, start) in members.iter_mut().zip(&starts) {
        let answer = member.play(start, 1.0, 0).unwrap();
        member.send_message(0, &answer);
    }
    assert_eq!(
        coordinator.wait_done("test").round.unwrap().survivors.len(),
        3
    );
}

#[test]
fn case_28_a_second_different_answer_costs_its_connection_and_the_first_one_counts() {
    let pki = Pki::new(23);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.input_deadline = 20.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let mut members = ["a", "b", "c"].map(|name| Raw::join(&url, pki.party(name), name));
    members.iter_mut().for_each(Raw::ready);
    let starts = members.each_mut().map(Raw::started);
    let mut answer = members[0].play(&starts[0], 1.0, 0).unwrap();
    members[0].send_message(0, &answer);
    answer[40] ^= 1;
    members[0].send_message(0, &answer);
    let (code, reason) = members[0].refusal();
    assert_eq!(code, RefusalCode::RefusalBadFrame);
    assert!(
        reason.contains("a second answer, other than the first, in round 1"),
        "{reason}"
    );
    for (member, start) in members.iter_mut().zip(&starts).skip(1) {
        let answer = member.play(start, 1.0, 0).unwrap();
        member.send_message(0, &answer);
    }
    let report = coordinator.wait_done("test").round.unwrap();
    assert_eq!((report.survivors.len(), report.total_weight), (3, Some(3)));
}

#[test]
fn case_28_an_answer_that_comes_without_end_costs_its_connection_and_counts_once() {
    let pki = Pki::new(32);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.input_deadline = 20.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let mut members = ["a", "b", "c"].map(|name| Raw::join(&url, pki.party(name), name));
    members.iter_mut().for_each(Raw::ready);
    let starts = members.each_mut().map(Raw::started);
    let answer = members[0].play(&starts[0], 1.0, 0).unwrap();
    (0..9).for_each(|_| members[0].send_message(0, &answer));
    let (code, reason) = members[0].refusal();
    assert_eq!(code, RefusalCode::RefusalBadFrame);
    assert!(reason.contains("came 8 times already"), "{reason}");
    for (member, start) in members.iter_mut().zip(&starts).skip(1) {
        let answer = member.play(start, 1.0, 0).unwrap();
        member.send_message(0, &answer);
    }
    let report = coordinator.wait_done("test").round.unwrap();
    assert_eq!((report.survivors.len(), report.total_weight), (3, Some(3)));
}

#[test]
fn case_28_garbage_costs_its_sender_its_place_only() {
    let pki = Pki::new(19);
    let coordinator = coordinator(&pki);
    let url = coordinator.url();
    let honest =
        ["a", "b"].map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)));
    let mut bad = Raw::join(&url, pki.party("c"), "c");
    bad.begin();
    bad.send_message(0, &[7; 50]);
    let (only_me, reason) = bad.aborted();
    assert!(
        only_me && reason.contains("unsupported message version 7"),
        "{reason}"
    );
    for party in honest {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().survivors, ["a", "b"]);
    }
    let report = coordinator.wait_done("test").round.unwrap();
    assert_eq!(report.faults.len(), 1, "{report:?}");
}

#[test]
fn case_31_slow_and_silent_peers_do_not_hold_up_a_round() {
    let pki = Pki::new(20);
    let mut spec = spec(ProtocolName::Plain, 4);
    spec.dim = 100_000;
    spec.input_deadline = 60.0;
    let mut config = config(&pki, vec![spec], None);
    // Room for one message at a time: whoever holds it must move.
    config.limits.message_memory = 1 << 20;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    // Slowloris: connections that never shake hands.
    let idle: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", coordinator.port)).unwrap())
        .collect();
    let honest = ["a", "b"]
        .map(|name| run_party(party_config(&url, pki.party(name)), |_| vec![1.0; 100_000]));
    // One begins its message and stops; one says nothing after the handshake.
    let mut slow = Raw::join(&url, pki.party("c"), "c");
    slow.ready();
    let mut silent = Raw::join(&url, pki.party("d"), "d");
    silent.ready();
    slow.started();
    let (round, total) = (slow.round, 800_000);
    let data = vec![1; CHUNK].into();
    slow.send(pb::Chunk {
        round,
        stage: 0,
        offset: 0,
        total,
        data,
    });
    silent.started();
    assert_eq!(slow.refusal().0, RefusalCode::RefusalTooSlow);
    silent.leave();
    for party in honest {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().survivors, ["a", "b"]);
    }
    drop(idle);
}

#[test]
fn case_31_handshakes_that_never_finish_keep_nobody_out() {
    let pki = Pki::new(21);
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 2)], None);
    config.limits.handshakes = 4;
    config.limits.handshake_timeout = 1000.0;
    let coordinator = Running::with(config).unwrap();
    let mut idle: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(("127.0.0.1", coordinator.port)).unwrap())
        .collect();
    honest_round_works(&pki, &coordinator);
    // The oldest had to go.
    idle[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
}

#[test]
fn case_31_parties_beyond_the_limit_come_in_when_others_leave() {
    let pki = Pki::new(22);
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 2)], None);
    config.limits.connections = 2;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let mut first = ["a", "b"].map(|name| Raw::join(&url, pki.party(name), name));
    let mut config = party_config(&url, pki.party("c"));
    config.give_up_after = 0.5;
    let Err(error) = Party::join(config) else {
        panic!("a third connection was taken");
    };
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    first[0].leave();
    drop(first);
    coordinator.wait("test", |status| status.connected.is_empty());
    honest_round_works(&pki, &coordinator);
}

#[test]
fn a_job_whose_rounds_keep_failing_ends_with_the_reason() {
    let pki = Pki::new(10);
    let mut spec = spec(ProtocolName::Plain, 2);
    spec.input_deadline = 10.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let party = run_party(party_config(&url, pki.party("a")), constant(1.0));
    let mut bad = Raw::join(&url, pki.party("b"), "b");
    for _ in 0..3 {
        bad.begin();
        bad.send_message(0, b"nonsense");
        assert!(bad.aborted().0);
    }
    let error = party.join().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("3 rounds in a row gave no result"),
        "{error}"
    );
    assert!(
        error.contains("too few parties are left") && error.contains("2 are needed"),
        "{error}"
    );
    assert_eq!(coordinator.wait_done("test").state, JobState::Failed);
    let error = Party::join(party_config(&url, pki.party("c")))
        .err()
        .unwrap();
    assert!(error.to_string().contains("the job has failed"), "{error}");
    let error = coordinator.stop().unwrap_err().to_string();
    assert!(error.contains("job test"), "{error}");
}

/// Case 31: a party that says more in a second than a round asks for waits, and keeps its place; its round is only
/// later.
#[test]
fn case_31_a_party_that_says_much_is_read_slowly() {
    let pki = Pki::new(31);
    let spec = JobSpec {
        parties: 2,
        ..spec(ProtocolName::Plain, 2)
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let mut raw = Raw::join(&url, pki.party("b"), "b");
    // Of a version that is not the current one: nothing is sent.
    (0..2500).for_each(|_| raw.send(pb::ModelRequest { version: 7 }));
    let honest = run_party(party_config(&url, pki.party("a")), constant(1.0));
    let start = raw.begin();
    raw.play(&start, 3.0, u8::MAX);
    let rounds = honest.join().unwrap().unwrap();
    assert_eq!(rounds[0].as_ref().unwrap().mean, [2.0; 5]);
}

/// Case 31: whoever breaks the rules has gone at once, although it has not read what it asked for before: nothing more
/// is queued for it, however often it goes on. It hears why it has gone, next.
#[test]
fn case_31_whoever_breaks_the_rules_and_reads_nothing_has_gone_at_once() {
    let pki = Pki::new(31);
    let dim = 1 << 22;
    let job = JobSpec {
        dim,
        join_deadline: 60.0,
        ..spec(ProtocolName::Plain, 3)
    };
    let mut config = config(&pki, vec![job], None);
    config.limits.chunk_timeout = 60.0;
    let coordinator = Running::with(config).unwrap();
    let mut raw = Raw::join(&coordinator.url(), pki.party("m"), "m");
    coordinator.wait("test", |status| status.connected == ["m"]);
    (0..3).for_each(|_| raw.send(pb::ModelRequest { version: 0 }));
    coordinator.wait("test", |status| status.connected.is_empty());
    let mut came = 0;
    let refused = raw.until(|frame| match frame {
        Frame::Refused(refused) => Some(refused),
        Frame::ModelChunk(_) => {
            came += 1;
            None
        }
        _ => None,
    });
    assert_eq!(refused.code(), RefusalCode::RefusalBadFrame);
    assert!(refused.reason.contains("was sent over this connection"));
    assert!(
        came < dim as usize * 4 / CHUNK,
        "it was sent all of the model"
    );
}

/// Case 31: whoever takes nothing of what it asked for loses its connection, not only its stream, and its place goes to
/// others.
#[test]
fn case_31_a_connection_over_which_nothing_is_taken_is_cut() {
    let pki = Pki::new(31);
    let job = JobSpec {
        dim: 1 << 22,
        ..spec(ProtocolName::Plain, 2)
    };
    let mut config = config(&pki, vec![job], None);
    config.limits.connections = 1;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let raw = Raw::join(&url, pki.party("m"), "m");
    raw.send(pb::ModelRequest { version: 0 });
    coordinator.wait("test", |status| status.connected.is_empty());
    // It comes in once the only place is free.
    let joining = PartyConfig {
        give_up_after: 15.0,
        ..party_config(&url, pki.party("a"))
    };
    Party::join(joining).unwrap();
}

/// Case 57: a message that nobody honest sends, and another member's word on one, stay in the store with what shows them.
#[test]
fn case_57_what_shows_a_fault_is_kept() {
    let pki = Pki::new(57);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let job = JobSpec {
        min_parties: 1,
        ..spec(ProtocolName::Plain, 3)
    };
    let coordinator = Running::start(&pki, vec![job], Some(&store));
    let url = coordinator.url();
    let honest = run_party(party_config(&url, pki.party("a")), constant(1.0));
    let mut accuser = Raw::join(&url, pki.party("b"), "b");
    let mut liar = Raw::join(&url, pki.party("c"), "c");
    accuser.ready();
    liar.ready();
    accuser.started();
    liar.started();
    liar.send_message(0, &[7; 50]);
    liar.aborted();
    accuser.send(pb::RoundRefused {
        round: accuser.round,
        reason: "does not open".into(),
        accused: "c".into(),
        evidence: vec![9; 70],
        ..pb::RoundRefused::default()
    });
    honest.join().unwrap().unwrap();
    let faults = StoreReader::open(&store).unwrap().faults("test").unwrap();
    let shown = faults.iter().map(|fault| {
        assert_eq!((fault.round, &*fault.culprit), (1, "c"));
        (fault.accuser.as_deref(), fault.evidence.bytes().to_vec())
    });
    let expected = [(None, vec![7; 50]), (Some("b"), vec![9; 70])];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert!(
        faults[0].what.contains("unsupported message version 7"),
        "{faults:?}"
    );
}
