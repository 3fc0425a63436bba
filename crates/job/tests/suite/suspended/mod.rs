//! Parties whose process ends after every message: what they are is sealed in between, and the job goes on.

mod nonces;
mod process;
mod world;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_job::JobError;
use blindsum_job::coordinator::{
    self, CoordinatorMachine, Effect, LinkId, MemoryShelves, Parts, Peer, Settings,
};
use blindsum_job::frames::{of_coordinator, of_party};
use blindsum_job::machine::{Now, Time};
use blindsum_job::party::{
    self, Identity, LinkId as PartyLink, Over, PartyMachine, Policy, RoundResult, Told, Update,
};
use blindsum_job::pb::coordinator_frame::Frame as Down;
use blindsum_job::pb::party_frame::Frame;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_job::records::MemoryRecords;
use blindsum_job::session::{Count, Session};
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{Integers, Job, JobSpec, ModelUpdate, ProtocolName, Quantised};
use bytes::Bytes;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rustls_pki_types::{CertificateDer, pem::PemObject};

/// When the tests take place, in seconds since 1970-01-01 UTC.
const BEGIN: u64 = 1_800_000_000;
/// More messages than any job of the tests has.
const MOST: usize = 5000;

use process::Process;
use world::{Host, Trouble, World};

fn spec(protocol: ProtocolName) -> JobSpec {
    // Whoever lies must be outvoted where vectors are proved.
    let (parties, corrupt, dropout) = match protocol {
        ProtocolName::PssMalicious => (7, 0.14, 0.0),
        _ => (4, 0.25, 0.25),
    };
    JobSpec {
        protocol: protocol.into(),
        parties,
        min_parties: if protocol.tolerates_corrupt() { 0 } else { 3 },
        dropout,
        corrupt: if protocol.tolerates_corrupt() {
            corrupt
        } else {
            0.0
        },
        dim: 3,
        rounds: 2,
        encoding: Integers {
            bits: 16,
            ..Integers::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..JobSpec::default()
    }
}

/// The protocols that need no server but the coordinator. To others a suspended party could not upload.
fn of_one_server() -> impl Iterator<Item = ProtocolName> {
    let all = ProtocolName::ALL.iter().copied();
    all.filter(|protocol| {
        let job = spec(*protocol).validate().unwrap();
        job.servers().next().is_none()
    })
}

/// A job of one round.
fn short(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        rounds: 1,
        ..spec(protocol)
    }
}

/// A job of real numbers, in which messages and the model come in pieces.
fn long(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        dim: 140_000,
        encoding: Quantised::default().into(),
        model_update: ModelUpdate::Add,
        ..spec(protocol)
    }
}

/// What a party adds in a round of integers.
fn integers(party: usize, round: u64) -> Vec<u32> {
    (0..3)
        .map(|d| 1000 * round as u32 + 10 * party as u32 + d)
        .collect()
}

/// What a party adds.
fn update(job: &Job, party: usize, round: u64) -> Update {
    match job.spec().encoding.integer_bits() {
        Some(_) => Update::U32(integers(party, round)),
        None => Update::F32(vec![0.125 * party as f32; job.spec().dim as usize]),
    }
}

/// What takes every protocol.
fn policy() -> Policy {
    Policy {
        allowed_protocols: ProtocolName::ALL.to_vec(),
        require_adversary: None,
        min_corrupt: 0.0,
        min_honest: 1,
        min_cohort: 2,
        ..Policy::default()
    }
}

/// The same results for everybody, in every round.
fn check_everybody(world: &World, rounds: usize) {
    assert_eq!(world.check_sums(), rounds);
    for host in &world.hosts {
        assert_eq!(host.results.len(), rounds, "{}: {:?}", host.name, host.lost);
        assert!(
            host.results
                .values()
                .all(|result| result.survivors.len() == world.hosts.len())
        );
    }
}

#[test]
fn a_party_may_end_after_every_message() {
    for protocol in of_one_server() {
        let mut world = World::new(spec(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        check_everybody(&world, 2);
    }
}

#[test]
fn pieces_of_messages_and_of_models_are_kept() {
    for protocol in [ProtocolName::SecAggPlus, ProtocolName::Flashe] {
        // A party that is back from an older state gets the model anew.
        for trouble in [Trouble::KilledAlways, Trouble::GoesBack(60)] {
            let mut world = World::new(long(protocol), Algorithm::Ed25519);
            world.run(trouble);
            let all = |host: &Host| host.results.clone();
            let all: Vec<_> = world.hosts.iter().flat_map(all).collect();
            let models: BTreeMap<u64, _> = all.iter().cloned().collect();
            assert_eq!(models.len(), 2);
            for (version, (number, first)) in (1..).zip(&models) {
                assert_eq!(first.model.version(), version);
                let mut results = all.iter().filter(|(of, _)| of == number);
                assert!(results.all(|(_, result)| result.model == first.model));
                let least = if first.survivors.len() == 4 {
                    0.1875
                } else {
                    0.125
                };
                assert!(
                    first
                        .mean
                        .iter()
                        .all(|mean| (least - 1e-3..0.26).contains(&mean))
                );
            }
        }
    }
}

#[test]
fn a_party_may_be_killed_at_every_message_before_its_state_is_kept() {
    for protocol in of_one_server() {
        for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
            let mut world = World::new(spec(protocol), algorithm);
            world.run(Trouble::KilledAlways);
            check_everybody(&world, 2);
        }
    }
}

#[test]
fn an_older_state_costs_its_party_the_round_and_nobody_else() {
    for protocol in of_one_server() {
        let mut world = World::new(short(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        for message in 1..=world.delivered {
            let mut world = World::new(short(protocol), Algorithm::Ed25519);
            world.run(Trouble::GoesBack(message));
            assert_eq!(world.check_sums(), 1, "{protocol}, message {message}");
        }
    }
}

#[test]
fn a_lost_message_and_its_connection_cost_no_round() {
    for protocol in of_one_server() {
        let mut world = World::new(short(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        for message in 1..=world.delivered {
            let mut world = World::new(short(protocol), Algorithm::Ed25519);
            world.run(Trouble::LosesOne(message));
            check_everybody(&world, 1);
        }
    }
}

/// Abuse case 56: a certificate that ends while a round is under way counts to its end, also where the party had no process
/// when it ended.
#[test]
fn case_56_a_certificate_that_ends_amid_a_round_counts_for_who_is_suspended() {
    for protocol in of_one_server() {
        let mut world = World::new(short(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        for message in world.begun.unwrap() + 1..=world.delivered {
            let mut world = World::new(short(protocol), Algorithm::Ed25519);
            world.ahead_from = message;
            world.run(Trouble::None);
            check_everybody(&world, 1);
        }
    }
}

/// Abuse case 54: a party that cannot go on in a round is not told that its update does not count, once it is out.
#[test]
fn case_54_who_cannot_be_resumed_is_not_told_that_its_update_does_not_count() {
    let (mut unknown, mut dropped) = (0, 0);
    for protocol in [ProtocolName::Plain, ProtocolName::SecAgg, ProtocolName::Pss] {
        let mut world = World::new(short(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        for message in world.begun.unwrap() + 1..=world.delivered {
            let mut world = World::new(short(protocol), Algorithm::Ed25519);
            world.estranged_from = message;
            world.run_until(Trouble::None, |world| {
                world.hosts[1..].iter().all(|host| host.over)
            });
            let mut results = world.hosts.iter().filter_map(|host| host.results.get(&1));
            let counts = results.any(|it| it.survivors.iter().any(|name| name == "party-0"));
            match (world.hosts[0].lost.first(), counts) {
                (Some(JobError::Unknown { .. }), true) => unknown += 1,
                (Some(JobError::Dropped { .. }), false) => dropped += 1,
                (Some(JobError::Dropped { .. }), true) => {
                    panic!("{protocol}, message {message}: {:?}", world.hosts[0].lost)
                }
                _ => {}
            }
        }
    }
    assert!(unknown > 0 && dropped > 0, "{unknown} {dropped}");
}
