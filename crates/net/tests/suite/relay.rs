//! Messages that the coordinator passes on from parties to parties: kept in memory and in a file, sent
//! again, damaged, and what happens where there is no room for them.

use std::path::Path;
use std::thread::JoinHandle;

use crate::common::raw::Raw;
use crate::common::*;
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_net::report::{JobState, RoundState};
use blindsum_net::{CHUNK, JobError, NetError};
use blindsum_protocol::{Fssa, JobSpec, ProtocolChoice, ProtocolName, Pss};

/// A column has two chunks, and what is passed on to a party eight.
const DIM: usize = 40_000;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Columns of several chunks.
fn one_word_a_polynomial(protocol: ProtocolName) -> ProtocolChoice {
    let (threshold, packing) = (0, 1);
    match protocol {
        ProtocolName::Fssa => Fssa { threshold, packing }.into(),
        _ => Pss { threshold, packing }.into(),
    }
}

/// 5 parties of which one may be lost.
fn ramp(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        min_parties: 0,
        dim: DIM as u64,
        protocol: one_word_a_polynomial(protocol),
        corrupt: 0.2,
        dropout: 0.2,
        stage_deadline: 20.0,
        input_deadline: 20.0,
        ..spec(protocol, 5)
    }
}

fn start(pki: &Pki, spec: JobSpec, relay_memory: u64, store: Option<&Path>) -> Running {
    let mut config = config(pki, vec![spec], store);
    config.limits.relay_memory = relay_memory;
    config.limits.chunk_timeout = 10.0;
    Running::with(config).unwrap()
}

type Honest = Vec<JoinHandle<Result<Rounds, NetError>>>;

fn honest(pki: &Pki, coordinator: &Running, names: &[&str], value: f32) -> Honest {
    let run = |name: &&str| {
        let config = party_config(&coordinator.url(), pki.party(name));
        run_party(config, move |_| vec![value; DIM])
    };
    names.iter().map(run).collect()
}

/// The last round of everybody has this mean, over so many.
fn check(parties: Honest, mean: f32, survivors: usize) {
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        let round = rounds.last().unwrap().as_ref().unwrap();
        assert_eq!(round.survivors.len(), survivors);
        assert!(round.mean.iter().all(|value| value == f64::from(mean)));
    }
}

/// Room for no answer, for some of them and for all: the same sum.
fn rounds_through_a_file(protocol: ProtocolName) {
    for relay_memory in [0, 4 << 20, 256 << 20] {
        let pki = Pki::new(31);
        let folder = tempfile::tempdir().unwrap();
        let mut spec = ramp(protocol);
        spec.rounds = 2;
        let store = folder.path().join("store.db");
        let coordinator = start(&pki, spec, relay_memory, Some(&store));
        let mut parties = honest(&pki, &coordinator, &NAMES[..4], 1.5);
        parties.extend(honest(&pki, &coordinator, &NAMES[4..], 4.0));
        check(parties, 2.0, 5);
        let report = coordinator.wait_done("test").round.unwrap();
        // What is passed on counts: four columns up and four down.
        let shared = &report.stages[1].bytes["a"];
        assert!(shared.up > 4 * CHUNK as u64 && shared.down.abs_diff(shared.up) < 64);
        coordinator.stop().unwrap();
        let mut left = folder.path().read_dir().unwrap();
        let left = left.find(|file| {
            let name = file.as_ref().unwrap().file_name();
            !name.to_string_lossy().starts_with("store.db")
        });
        assert!(left.is_none(), "{left:?}");
    }
}

#[test]
fn rounds_of_fssa_through_a_file() {
    rounds_through_a_file(ProtocolName::Fssa);
}

#[test]
fn rounds_of_pss_through_a_file() {
    rounds_through_a_file(ProtocolName::Pss);
}

#[test]
fn case_03_a_connection_lost_in_the_middle_of_a_relayed_message() {
    for relay_memory in [0, 256 << 20] {
        let pki = Pki::new(32);
        let mut config = config(&pki, vec![ramp(ProtocolName::Fssa)], None);
        config.limits.relay_memory = relay_memory;
        config.limits.reconnect_grace = 10.0;
        let coordinator = Running::with(config).unwrap();
        let url = coordinator.url();
        let others = honest(&pki, &coordinator, &NAMES[..4], 1.5);
        let mut raw = Raw::join(&url, pki.party("e"), "e");
        let begun = raw.begin();
        let columns = raw.play(&begun, 4.0, 1).unwrap();
        raw.send_message(1, &columns);
        let first = raw.until(|frame| match frame {
            Frame::Chunk(chunk) if chunk.stage == 1 => Some(chunk),
            _ => None,
        });
        assert!(first.offset == 0 && first.total > 4 * CHUNK as u64);
        let mut raw = raw.again(&url, "e", 1);
        let message = raw.message().unwrap();
        assert_eq!(message.len() as u64, first.total);
        assert_eq!(message[..CHUNK], first.data[..]);
        // The signature over who shared, then the sum of the columns, then the result.
        let mut message = message;
        for stage in [2, 3] {
            let answer = raw.answer(&message, 4.0).unwrap();
            raw.send_message(stage, &answer);
            message = raw.message().unwrap();
        }
        assert!(raw.answer(&message, 4.0).is_none());
        check(others, 2.0, 5);
        assert_eq!(coordinator.wait_done("test").round.unwrap().number, 1);
    }
}

#[test]
fn a_party_lost_while_a_message_is_passed_on_to_it_does_not_stop_the_others() {
    let pki = Pki::new(33);
    let coordinator = start(&pki, ramp(ProtocolName::Pss), 0, None);
    let others = honest(&pki, &coordinator, &NAMES[..4], 1.5);
    let mut raw = Raw::join(&coordinator.url(), pki.party("e"), "e");
    let begun = raw.begin();
    let columns = raw.play(&begun, 4.0, 1).unwrap();
    raw.send_message(1, &columns);
    raw.until(|frame| matches!(frame, Frame::Chunk(chunk) if chunk.stage == 1).then_some(()));
    drop(raw);
    // Its vector is in the sum: the others hold enough shares of it.
    check(others, 2.0, 5);
    let report = coordinator.wait_done("test").round.unwrap();
    assert!(report.stages[2].dropped.contains_key("e"), "{report:?}");
}

#[test]
fn no_room_on_the_disk_aborts_the_round_with_the_reason() {
    let pki = Pki::new(34);
    let folder = tempfile::tempdir().unwrap();
    let (here, gone) = (folder.path().join("here"), folder.path().join("gone"));
    std::fs::create_dir(&here).unwrap();
    let mut config = config(
        &pki,
        vec![ramp(ProtocolName::Fssa)],
        Some(&here.join("store.db")),
    );
    config.limits.relay_memory = 0;
    config.limits.failed_rounds = 1;
    let coordinator = Running::with(config).unwrap();
    // The store is open and goes on; new files have no place.
    std::fs::rename(&here, &gone).unwrap();
    for party in honest(&pki, &coordinator, &NAMES, 1.0) {
        let error = party.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("answers to pass on"), "{error}");
    }
    let status = coordinator.wait_done("test");
    assert_eq!(status.state, JobState::Failed);
    let report = status.round.unwrap();
    assert_eq!(report.state, RoundState::Aborted);
    let folder = here.display().to_string();
    assert!(report.reason.contains(&folder), "{}", report.reason);
}

/// What a party does with its columns, and where it gets thus.
fn spoiled(seed: u64, spoils: impl FnOnce(&mut Raw, Vec<u8>)) -> (Honest, Running) {
    let pki = Pki::new(seed);
    let coordinator = start(&pki, ramp(ProtocolName::Fssa), 0, None);
    let others = honest(&pki, &coordinator, &NAMES[..4], 1.5);
    let mut raw = Raw::join(&coordinator.url(), pki.party("e"), "e");
    let begun = raw.begin();
    let columns = raw.play(&begun, 4.0, 1).unwrap();
    spoils(&mut raw, columns);
    (others, coordinator)
}

#[test]
fn case_27_columns_longer_than_any_are_refused_before_anything_is_kept() {
    let (others, coordinator) = spoiled(35, |raw, _| {
        let plan = raw.job.as_ref().unwrap().plan();
        let largest = plan.answer(1).unwrap().largest;
        raw.send(pb::Chunk {
            round: raw.round,
            stage: 1,
            offset: 0,
            total: largest + 1,
            data: vec![0; CHUNK].into(),
        });
        let (code, reason) = raw.refusal();
        assert_eq!(code, RefusalCode::RefusalBadFrame);
        assert!(
            reason.contains(&format!("must be at most {largest}")),
            "{reason}"
        );
    });
    check(others, 1.5, 4);
    let report = coordinator.wait_done("test").round.unwrap();
    assert!(report.stages[1].dropped.contains_key("e"), "{report:?}");
}

#[test]
fn case_27_columns_cut_short_cost_their_sender_its_place_and_are_not_passed_on() {
    let (others, coordinator) = spoiled(36, |raw, columns| {
        raw.send_message(1, &columns[..columns.len() - 1]);
        let (only_me, reason) = raw.aborted();
        assert!(only_me && reason.contains("columns"), "{reason}");
    });
    check(others, 1.5, 4);
    let report = coordinator.wait_done("test").round.unwrap();
    assert!(report.faults[0].contains("columns"), "{report:?}");
}

#[test]
fn case_28_other_columns_cost_the_connection_and_the_first_are_passed_on() {
    let pki = Pki::new(37);
    let coordinator = start(&pki, ramp(ProtocolName::Fssa), 0, None);
    let others = honest(&pki, &coordinator, &NAMES[..3], 1.0);
    let mut both =
        [NAMES[3], NAMES[4]].map(|name| Raw::join(&coordinator.url(), pki.party(name), name));
    let columns: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let play = |raw: &'_ mut Raw, value| {
            let begun = raw.begin();
            raw.play(&begun, value, 1).unwrap()
        };
        let [last, raw] = both.each_mut();
        let playing = [
            scope.spawn(move || play(last, 3.0)),
            scope.spawn(move || play(raw, 4.0)),
        ];
        playing.map(|columns| columns.join().unwrap()).into()
    });
    let [mut last, mut raw] = both;
    raw.send_message(1, &columns[1]);
    let mut changed = columns[1].clone();
    changed[40] ^= 1;
    raw.send_message(1, &changed);
    let (code, reason) = raw.refusal();
    assert_eq!(code, RefusalCode::RefusalBadFrame);
    assert!(reason.contains("a second answer"), "{reason}");
    let mut answer = columns[0].clone();
    for stage in 1..=3 {
        last.send_message(stage, &answer);
        let message = last.message().unwrap();
        answer = last.answer(&message, 3.0).unwrap_or_default();
    }
    check(others, 2.0, 5);
    let report = coordinator.wait_done("test").round.unwrap();
    assert!(report.faults[0].starts_with("e: "), "{report:?}");
}

#[test]
fn case_28_columns_of_garbage_end_the_round_and_name_their_sender() {
    let (others, coordinator) = spoiled(38, |raw, mut columns| {
        // The frame is right, so it is passed on.
        columns[34..].fill(7);
        raw.send_message(1, &columns);
        let message = raw.message().unwrap();
        let sum = raw.answer(&message, 4.0).unwrap();
        raw.send_message(2, &sum);
        raw.aborted();
    });
    let mut accusers = 0;
    for party in others {
        let rounds = party.join().unwrap().unwrap();
        let error = rounds[0].as_ref().unwrap_err();
        match error {
            NetError::Job(JobError::Fault { .. }) => {
                assert!(error.to_string().contains("party 4"), "{error}");
                accusers += 1;
            }
            // Who is slow to read hears of the end that the first accusers brought about.
            NetError::Job(JobError::RoundAborted { .. }) => {}
            other => panic!("{other}"),
        }
        // The next round is without it.
        assert_eq!(rounds[1].as_ref().unwrap().survivors, NAMES[..4]);
    }
    assert!(accusers > 0);
    assert_eq!(coordinator.wait_done("test").round.unwrap().number, 2);
}
