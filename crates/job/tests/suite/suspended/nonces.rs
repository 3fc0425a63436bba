//! A party that is suspended while nonces are opened knows in its next process for which roster it has opened its own.

use blindsum_job::pb::coordinator_frame::Frame as DownFrame;
use blindsum_job::pb::{RosterFixed, RoundRefusalCode};

use super::world::Message;
use super::*;

/// A job up to where the first party is told that the roster is fixed; and how it was welcomed.
fn world() -> (World, CoordinatorFrame, RosterFixed) {
    let mut world = World::new(short(ProtocolName::SecAggPlus), Algorithm::Ed25519);
    world.serve();
    let mut welcome = None;
    loop {
        world.pass(Duration::from_millis(1));
        let Some((party, link, message)) = world.down.pop_front() else {
            let until = world.server.wake().unwrap();
            world.pass(until - world.now.time);
            world.server.tick(world.now);
            world.serve();
            continue;
        };
        if let (0, Message::Heard(frame)) = (party, &message) {
            match &frame.frame {
                Some(DownFrame::Welcome(_)) => welcome = Some(frame.clone()),
                Some(DownFrame::RosterFixed(fixed)) => {
                    return (world, welcome.unwrap(), fixed.clone());
                }
                _ => {}
            }
        }
        if link.is_none() {
            world.hosts[party].link = None;
        }
        world.deliver(party, message, Trouble::None);
    }
}

/// What the next process of the first party says of a roster.
fn says(world: &mut World, fixed: &RosterFixed) -> Vec<Frame> {
    let said = world.process(0, Message::Heard(fixed.clone().into()), true);
    said.into_iter().filter_map(|frame| frame.frame).collect()
}

fn opened(said: &[Frame]) -> Option<Vec<u8>> {
    said.iter().find_map(|frame| match frame {
        Frame::NonceOpening(opening) => Some(opening.nonce.clone()),
        _ => None,
    })
}

/// The same roster but for a number.
fn other(fixed: &RosterFixed) -> RosterFixed {
    let mut other = fixed.clone();
    other.certificates.clear();
    other.numbers.as_mut().unwrap().threshold += 1;
    other
}

/// Abuse case 46: a party has one roster for its nonce, however many processes it has.
#[test]
fn case_46_a_nonce_is_opened_for_one_roster_across_processes() {
    let (mut world, _, fixed) = world();
    let nonce = opened(&says(&mut world, &fixed)).unwrap();
    let again = RosterFixed {
        certificates: Vec::new(),
        ..fixed.clone()
    };
    assert_eq!(opened(&says(&mut world, &again)), Some(nonce));
    // It is one graph.
    let graphs = counted(&world, 0);
    assert!(graphs.contains(r#""unused":1,"#), "{graphs}");
    let said = says(&mut world, &other(&fixed));
    assert_eq!(opened(&said), None);
    let [Frame::RoundRefused(refused)] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(refused.code(), RoundRefusalCode::RoundRefusalFault);
    assert!(refused.reason.contains("a second time"), "{refused:?}");
    // Nor for the first one after that.
    assert_eq!(opened(&says(&mut world, &again)), None);
}

/// Abuse case 46: a state from before a party has opened its nonce has no nonce for anybody.
#[test]
fn case_46_an_older_state_opens_no_nonce() {
    let (mut world, welcome, fixed) = world();
    assert!(opened(&says(&mut world, &fixed)).is_some());
    world.hosts[0].states.pop();
    assert_eq!(opened(&says(&mut world, &other(&fixed))), None);
    // Nor over a connection of its own.
    let said = world.process(0, Message::Connect, true);
    let hello = said.into_iter().find_map(|frame| match frame.frame {
        Some(Frame::Hello(hello)) => Some(hello),
        _ => None,
    });
    assert_eq!(hello.unwrap().round, 0);
    let said = world.process(0, Message::Heard(welcome), true);
    assert!(said.is_empty(), "{said:?}");
    assert_eq!(opened(&says(&mut world, &other(&fixed))), None);
}

/// What is sent is counted, and no round of an honest coordinator stays without use, however many processes there are.
#[test]
fn vectors_of_a_party_that_is_suspended_after_every_message_are_counted() {
    let mut world = World::new(spec(ProtocolName::SecAggPlus), Algorithm::Ed25519);
    world.run(Trouble::None);
    for party in 0..world.hosts.len() {
        let counted = counted(&world, party);
        assert!(counted.contains(r#""unused":0,"sent":2"#), "{counted}");
    }
}

/// What the record of a party says of its rounds.
fn counted(world: &World, party: usize) -> String {
    let host = &world.hosts[party];
    let state = host.states.last().unwrap();
    let records = MemoryRecords::unseal(&host.identity.key, state).unwrap();
    let records = records.snapshot();
    let state = records.iter().find(|(name, _)| name.ends_with("/state"));
    let (length, rest) = state.unwrap().1.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    String::from_utf8_lossy(&rest[..length]).into()
}
