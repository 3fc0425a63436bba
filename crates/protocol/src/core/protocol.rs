//! What a protocol tells the rest of the house of itself.

use std::sync::Arc;

use blindsum_crypto::seal::StorageKey;
use blindsum_encode::DensitySchedule;
use rand_core::CryptoRng;

use crate::core::plan::Plan;
use crate::kit::prepared::Ahead;
use crate::kit::vault::{KeyName, Vault};
use crate::machine::{ClientSetup, ClientStage, ClientStep, FollowerStage, InputRef, ServerStage};
use crate::{Fault, FaultKind, Job, JobSpec, Round, ServerRole, SpecError};

/// What the rest of the house needs to know of a protocol.
pub(crate) struct ProtocolInfo {
    /// Whether anything is hidden from the server.
    pub protects: bool,
    /// Whether parties may work with the server and learn no more than the sum. Each party has a say in whose sum
    /// that is then ([`SurvivorGuard`](crate::SurvivorGuard)), and the job says how many may (`corrupt`).
    pub tolerates_corrupt: bool,
    /// What may happen in a round of a job with so many parties.
    pub plan: fn(&Job, usize) -> Plan,
    /// Smallest number of survivors where the job names none.
    pub min_parties: fn(&JobSpec) -> usize,
    /// What rounds in which parties send some of their coordinates only need to know; `None` where they send all.
    pub sparsity: fn(&JobSpec) -> Option<Sparsity>,
    /// What the protocol chooses for a roster of so many parties where the job leaves it open, by name.
    pub parameters: fn(&Job, usize) -> Result<Parameters, SpecError>,
    /// The protocol's own rules for a job.
    pub check: fn(&Job) -> Result<(), SpecError>,
    /// The machines of a round.
    pub machines: MakeMachines,
    /// How parties come by the key that they share, where the protocol needs one.
    pub key_setup: Option<KeySetup>,
    /// The servers that it needs beside the coordinator.
    pub servers: &'static [OtherServer],
}

/// A server that is not the coordinator.
pub(crate) struct OtherServer {
    /// What it is for.
    pub role: ServerRole,
    /// Its machine in one round.
    pub follow: StartFollower,
}

impl std::fmt::Debug for ProtocolInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProtocolInfo").finish_non_exhaustive()
    }
}

/// A protocol's table of options, asked for what the protocol is.
pub(crate) trait ProtocolTable {
    /// What it is.
    fn info(&self) -> &'static ProtocolInfo;
}

/// What rounds need to know in which parties send some of their coordinates only.
#[derive(Clone, Debug)]
pub struct Sparsity {
    /// The part of the coordinates that a party sends, by round.
    pub schedule: DensitySchedule,
    /// How many parties must have sent a coordinate for its sum to be opened.
    pub least_contributors: u32,
}

/// The rounds in which a key of the job is made and delivered, between parties that know each other by
/// certificate only. Their messages are small.
pub(crate) struct KeySetup {
    /// What may happen in such a round, with so many parties.
    pub plan: fn(&Job, usize) -> Plan,
    /// The machines of such a round.
    pub machines: MakeMachines,
    /// The name of the key in a vault that can be used in a round, if there is one.
    pub held: HeldKeyName,
    /// What seals data of the job for whoever holds the key in a vault.
    pub storage_key: fn(&dyn Vault) -> Result<Option<StorageKey>, FaultKind>,
}

/// The machines of one round, with what they all derive from it: many of them may be in one process.
pub(crate) trait Machines: Send + Sync {
    /// A client and its first message body.
    fn start(
        &self,
        setup: &Arc<ClientSetup>,
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault>;

    /// A client from its snapshot after its answer of a stage.
    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        stage: u8,
        state: &[u8],
    ) -> Result<Box<dyn ClientStage>, FaultKind>;

    /// The coordinator before the first message.
    fn serve(&self, round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;

    /// Computes ahead what the start of a client will need, in so many bytes at most; nothing where there is nothing
    /// to compute.
    fn prepare(&self, _: &ClientSetup, _bytes: usize) -> Result<Option<Ahead>, FaultKind> {
        Ok(None)
    }
}

/// The machines of a protocol that derives nothing from a round.
pub(crate) struct Stateless {
    /// As [`Machines::start`].
    pub start: StartClient,
    /// As [`Machines::restore`].
    pub restore: RestoreClient,
    /// As [`Machines::serve`].
    pub serve: StartServer,
}

impl Machines for Stateless {
    fn start(
        &self,
        setup: &Arc<ClientSetup>,
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        (self.start)(setup, input, rng)
    }

    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        stage: u8,
        state: &[u8],
    ) -> Result<Box<dyn ClientStage>, FaultKind> {
        (self.restore)(setup, stage, state)
    }

    fn serve(&self, round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
        (self.serve)(round)
    }
}

pub(crate) type Parameters = Vec<(&'static str, usize)>;
pub(crate) type MakeMachines = fn(&Round) -> Result<Arc<dyn Machines>, Fault>;
pub(crate) type StartClient =
    fn(&Arc<ClientSetup>, InputRef<'_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
pub(crate) type StartServer = fn(&Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;
pub(crate) type StartFollower = fn(&Arc<Round>) -> Result<Box<dyn FollowerStage>, Fault>;
pub(crate) type HeldKeyName = fn(&Job, &dyn Vault, u64) -> Result<Option<KeyName>, FaultKind>;
pub(crate) type RestoreClient =
    fn(&Arc<ClientSetup>, u8, &[u8]) -> Result<Box<dyn ClientStage>, FaultKind>;
