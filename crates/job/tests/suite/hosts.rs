//! Who is in a job of the tests: a coordinator, parties, other servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::Validity;
use blindsum_crypto::sign::IdentityKey;
use blindsum_job::chunks::pieces;
use blindsum_job::coordinator::{self, CoordinatorMachine, MemoryShelves, Peer, Traffic};
use blindsum_job::follower::{self, ServerMachine};
use blindsum_job::ledger::{Ledger, MemoryLedger};
use blindsum_job::machine::Now;
use blindsum_job::party::{PartyMachine, Policy, RoundResult};
use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_job::records::MemoryRecords;
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{
    Adversary, Integers, Job, JobSpec, ModelUpdate, ProtocolName, RuleName, ServerRole,
};

use crate::kept::Kept;

/// When the tests take place, in seconds since 1970-01-01 UTC.
pub const BEGIN: u64 = 1_800_000_000;
pub const DIM: u64 = 3;

/// A job of a toy.
pub fn toy(name: &str, parties: u32, rounds: u32) -> JobSpec {
    assert!(
        ProtocolName::ALL
            .iter()
            .all(|known| known.to_string() != name)
    );
    JobSpec {
        job: name.into(),
        protocol: ProtocolName::Plain.into(),
        parties,
        min_parties: 2,
        rounds,
        dim: DIM,
        encoding: Integers {
            bits: 8,
            ..Integers::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        join_deadline: 6.0,
        stage_deadline: 3.0,
        input_deadline: 4.0,
        ..JobSpec::default()
    }
}

/// A job of three servers.
pub fn mpc3(adversary: Adversary, parties: u32, rounds: u32) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Mpc3.into(),
        adversary,
        min_parties: 3,
        ..toy("three-servers", parties, rounds)
    }
}

/// What a party gives in a round.
pub fn update(party: usize, round: u64) -> Vec<u32> {
    let value = |d: u64| (party as u64 * 31 + round * 7 + d) % 256;
    (0..DIM).map(|d| value(d) as u32).collect()
}

/// The time in which a certificate counts. That of the last party of a job ends before all others.
pub fn validity_of(is_last: bool) -> Validity {
    let days = if is_last { 1 } else { 10 };
    Validity {
        not_before: BEGIN - 86_400,
        not_after: BEGIN + days * 86_400,
    }
}

pub enum Machine {
    Party(PartyMachine),
    Server(ServerMachine),
}

/// A party, or a server that is not the coordinator.
pub struct Host {
    pub name: String,
    pub role: Option<ServerRole>,
    pub key: Arc<IdentityKey>,
    pub certificate: Arc<[u8]>,
    pub records: Arc<MemoryRecords>,
    /// The ledger of its data, if it is a party.
    pub ledger: Arc<MemoryLedger>,
    pub machine: Option<Machine>,
    pub lives: u64,
    pub link: Option<u64>,
    /// Whether it is gone for good.
    pub lost: bool,
    /// Whether it has heard that the job is done.
    pub over: bool,
    pub trouble: Trouble,
    /// What it was told, by round.
    pub results: BTreeMap<u64, RoundResult>,
    /// What it keeps, if it is a server.
    pub kept: Arc<Kept>,
}

impl Host {
    /// Whom the coordinator sees.
    pub fn peer(&self) -> Peer {
        Peer {
            name: self.name.as_str().into(),
            role: self.role,
            address: "in memory".into(),
            certificate: self.certificate.clone(),
            key: self.key.verifying_key().clone(),
            traffic: Arc::new(Quiet),
        }
    }

    /// How many releases its data was charged for.
    pub fn charged(&self) -> u64 {
        let ledger = Ledger::open("data", self.ledger.clone()).unwrap();
        ledger.balance().unwrap().releases
    }

    /// The machine of a server, from its records.
    pub fn follow(
        &self,
        role: ServerRole,
        job: Arc<Job>,
        anchor: Arc<TrustAnchor>,
        now: Now,
        entropy: [u8; 32],
    ) -> Machine {
        let parts = follower::Parts {
            job,
            role,
            name: self.name.clone(),
            identity: None,
            anchor,
            records: self.records.clone(),
            results: Some(self.kept.clone()),
        };
        Machine::Server(ServerMachine::open(parts, now, entropy))
    }
}

/// What happens to a party again and again.
#[derive(Default)]
pub struct Trouble {
    /// Whether it is killed each time it has opened its nonce.
    pub dies_opening: bool,
    /// Whether it is killed each time its vector is written down, before it is sent.
    pub dies_sending: bool,
    /// Whether it is killed each time a release is charged, before its machine is written down.
    pub dies_charged: bool,
    /// Whether it is killed when it tells its caller the next result, before that takes it.
    pub dies_telling: bool,
    /// Whether its caller gives an update only when it is told to.
    pub waits: bool,
    /// Whether its caller asks for a round only when it is told to.
    pub asks_late: bool,
    /// How many tasks are done before one that ends without a result.
    pub breaks_task: Option<usize>,
    /// The round that such an update is for.
    pub owes: Option<u64>,
}

pub struct Quiet;

impl Traffic for Quiet {
    fn read(&self) -> u64 {
        0
    }

    fn written(&self) -> u64 {
        0
    }
}

pub fn open(
    job: &Arc<Job>,
    anchor: &Arc<TrustAnchor>,
    store: &Arc<MemoryStore>,
    kept: &Arc<Kept>,
    now: Now,
    lives: u8,
) -> CoordinatorMachine {
    let parts = coordinator::Parts {
        job: job.clone(),
        initial: None,
        store: store.clone(),
        anchor: anchor.clone(),
        own: None,
        results: Some(kept.clone()),
        shelves: Arc::new(MemoryShelves),
        settings: coordinator::Settings {
            patience: Duration::from_secs(3600),
            reconnect_grace: Duration::from_secs(2),
            chunk_timeout: Duration::from_secs(5),
            failed_rounds: 3,
            choice: coordinator::Choice::First,
            change: 1,
        },
        hosted: false,
    };
    CoordinatorMachine::open(parts, now, [lives; 32]).unwrap()
}

pub fn policy() -> Policy {
    Policy {
        allowed_protocols: ProtocolName::ALL.to_vec(),
        allowed_rules: RuleName::ALL.to_vec(),
        require_adversary: None,
        min_corrupt: 0.0,
        min_honest: 1,
        min_cohort: 2,
        ..Policy::default()
    }
}

/// What the coordinator says, as frames.
pub fn frames(say: coordinator::Say) -> Vec<CoordinatorFrame> {
    match say {
        coordinator::Say::Frame(frame) => vec![frame],
        coordinator::Say::Shared(frame) => vec![frame.frame().clone()],
        coordinator::Say::Model { .. } => panic!("no toy keeps a model"),
        coordinator::Say::Message {
            round,
            stage,
            content,
        } => {
            let message = content.whole().unwrap().unwrap_or_default();
            let (stage, total) = (stage.into(), message.len() as u64);
            let chunk = |(offset, data)| pb::Chunk {
                round,
                stage,
                offset,
                total,
                data,
            };
            pieces(message).map(|piece| chunk(piece).into()).collect()
        }
    }
}
