//! What a party has in every state: who it is, its connection, the job with its model, and what it must not forget.

use std::sync::Arc;

use blindsum_protocol::{
    ClientSetup, Fault, FaultKind, Job, JobMemory, KnownServers, MemoryVault, PartyId, Prepared,
    Round, Vault,
};
use rand_core::Rng;
use tracing::debug;

use super::exchange::{Effect, Identity, Input, Settings, Told};
use super::guard::Guard;
use super::measured::Measured;
use super::records::{JobFolder, Memory};
use super::sparse::Sparse;
use super::store::Store;
use super::sums::Sums;
use crate::chunks::Assembly;
use crate::connection::{Connection, Say};
use crate::error::wrong;
use crate::falling::Falling;
use crate::machine::Hand;
use crate::pb::{self, PartyFrame, RoundRefusalCode};
use crate::{JobError, Model};

/// Random bytes that name a process.
pub(super) const PROCESS_LEN: usize = 16;

/// What a party has in every state.
pub(super) struct Context {
    pub hand: Hand<Input, Effect>,
    pub settings: Settings,
    pub identity: Identity,
    /// What it says of itself when it connects.
    pub introduction: Introduction,
    pub connection: Connection<Conversation>,
    /// The first Welcome, which told the job.
    pub welcome: Option<pb::Welcome>,
    pub job: Option<Arc<Job>>,
    pub model: Option<Model>,
    /// The version of a model that came sealed and could not be opened with the key that the party has.
    pub unopened: Option<u64>,
    pub memory: Memory,
    pub store: Store,
    /// The parties of earlier sums.
    pub sums: Sums,
    /// What the party keeps of the job between rounds.
    pub vault: Arc<dyn Vault>,
    /// What machines keep of the job between rounds, while this process lives.
    pub job_memory: Arc<JobMemory>,
    pub given: Given,
}

/// By what a coordinator tells a late Hello from a new one, and this process from another one of the same party.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Introduction {
    /// [`PROCESS_LEN`] random bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub process: Vec<u8>,
    /// Connections that were begun.
    #[prost(uint64, tag = "2")]
    pub connections: u64,
    /// What the coordinator told this process to bring, to see that it lives.
    #[prost(bytes = "vec", tag = "3")]
    pub token: Vec<u8>,
}

/// What a party has of one connection. It ends with the connection.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Conversation {
    /// Whether a newer certificate waits to be shown.
    #[prost(bool, tag = "1")]
    pub newer: bool,
    #[prost(message, optional, tag = "2")]
    pub offer: Option<pb::RoundOffer>,
    /// The round that it has begun: nothing is answered in it before both know what came.
    #[prost(uint64, optional, tag = "3")]
    pub begun: Option<u64>,
    #[prost(message, optional, tag = "4")]
    pub requested: Option<Requested>,
    /// Whether the party was asked for its first model.
    #[prost(bool, tag = "5")]
    pub gave: bool,
    /// The version of the model that the party has sealed for others, and how often.
    #[prost(uint64, tag = "6")]
    pub sealed: u64,
    #[prost(uint32, tag = "7")]
    pub sealed_times: u32,
}

/// A model that was asked for, and what has come of it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Requested {
    #[prost(message, required, tag = "1")]
    pub name: pb::ModelName,
    #[prost(message, optional, tag = "2")]
    pub came: Option<Assembly>,
}

/// What a party remembers of what it has given: of its updates, of their metrics, and of first models.
#[derive(Default)]
pub(super) struct Given {
    /// The hashes of the first models that it has given.
    pub models: Vec<[u8; 32]>,
    /// The models of which it has reported metrics.
    pub measured: Measured,
    /// What it has not sent yet, where rounds are sparse.
    pub sparse: Option<Sparse>,
    /// Whether the log has said already that updates are clipped, and what to do.
    pub clipping_told: bool,
    /// The clipping bounds of rounds, where they follow from earlier ones.
    pub falling: Falling,
}

impl Context {
    pub fn new(settings: Settings, identity: Identity, store: Store) -> Self {
        let hand = store.hand.clone();
        let mut process = vec![0; PROCESS_LEN];
        hand.random().fill_bytes(&mut process);
        Self {
            hand,
            job_memory: settings.job_memory.clone(),
            settings,
            identity,
            introduction: Introduction {
                process,
                ..Introduction::default()
            },
            connection: Connection::default(),
            welcome: None,
            job: None,
            model: None,
            unopened: None,
            memory: Memory::default(),
            store,
            sums: Sums::default(),
            vault: Arc::new(MemoryVault::default()),
            given: Given::default(),
        }
    }

    /// What was remembered before anything of the job is known.
    pub async fn recall(&mut self) -> Result<(), JobError> {
        let Some(records) = self.store.records.clone() else {
            return Ok(());
        };
        let (key, ca) = (self.identity.key.clone(), self.identity.ca);
        let read = move || {
            let folder = JobFolder::new(records.clone(), &key)?;
            let memory = folder.last()?;
            let sums = Sums::open(records, &ca)?;
            Ok::<_, JobError>((folder, memory, sums))
        };
        let (folder, memory, sums) = self.hand.work(read).await??;
        // guard: survivors-are-remembered-after-a-restart
        (self.store.folder, self.memory, self.sums) = (Some(folder), memory, sums);
        Ok(())
    }

    /// Sends a frame, if there is a connection.
    pub fn send(&self, frame: impl Into<PartyFrame>) {
        self.say(Say::Frame(frame.into()));
    }

    pub fn say(&self, say: Say) {
        if let Some(link) = self.connection.welcomed() {
            // guard: campaign-links-have-numbers
            self.hand.say(Effect::Send(link, say));
        }
    }

    pub fn tell(&self, told: Told) {
        self.hand.say(Effect::Tell(told));
    }

    /// The caller hears why there is no result of a round that this party has left.
    pub fn tell_end(&mut self, round: u64, error: JobError) {
        // What had come of its next message is of no use.
        self.connection.receiving = None;
        self.tell(Told::Ended(round, Err(error)));
    }

    /// The job.
    ///
    /// # Errors
    /// No Welcome has told it.
    pub fn job(&self) -> Result<&Arc<Job>, JobError> {
        self.job.as_ref().ok_or_else(|| wrong("no Welcome"))
    }

    /// Whether only the parties learn the sums of the job.
    pub fn hides_sum(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.hides_sum())
    }

    /// Whether the model comes from another party: the coordinator has the one that the job began with.
    pub fn comes_sealed(&self, name: &pb::ModelName) -> bool {
        self.hides_sum() && name.version > 0
    }

    /// What a machine of a round starts from.
    pub fn setup(
        &self,
        round: &Arc<Round>,
        me: PartyId,
        guard: &Arc<Guard>,
        prepared: Arc<Prepared>,
    ) -> ClientSetup {
        let (anchor, now) = (self.identity.anchor.clone(), self.hand.unix_seconds());
        ClientSetup {
            round: round.clone(),
            me,
            identity: self.identity.key.clone(),
            vault: self.vault.clone(),
            servers: KnownServers::certified_by(anchor, now),
            memory: self.job_memory.clone(),
            guard: guard.clone(),
            prepared,
        }
    }

    /// What a machine has found in a round: somebody has done wrong, or this party's records cannot be used.
    pub fn found_wrong(&self, round: u64, fault: Fault) -> JobError {
        match fault.kind {
            FaultKind::Vault(reason) => self.store.unusable(reason),
            _ => JobError::Fault { round, fault },
        }
    }

    /// Tells the coordinator that it need not wait for this party in a round.
    pub fn unable(&self, round: u64, reason: &str) {
        debug!(party = %self.identity.name, round, %reason, "takes no part in a round");
        self.send(pb::RoundRefused {
            round,
            code: RoundRefusalCode::RoundRefusalUnable.into(),
            reason: reason.into(),
            ..pb::RoundRefused::default()
        });
    }

    /// Whether the process before this one left an update out, in the round that it was in.
    pub fn left_update(&self) -> bool {
        let live = self.memory.live.as_ref();
        // guard: a-key-set-up-counts-no-update
        !self.store.snapshot.is_empty() && live.is_some_and(|live| !live.key_setup)
    }
}
