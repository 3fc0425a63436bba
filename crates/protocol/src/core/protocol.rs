//! What a protocol tells the rest of the house of itself.

use std::sync::Arc;

use blindsum_crypto::seal::StorageKey;
use rand_core::CryptoRng;

use crate::core::plan::Plan;
use crate::kit::vault::{KeyName, Vault};
use crate::machine::{ClientSetup, ClientStage, ClientStep, InputRef, ServerStage};
use crate::{Fault, FaultKind, Job, JobSpec, ProtocolName, Round, SpecError};

/// What the rest of the house needs to know of a protocol.
pub struct ProtocolInfo {
    /// Its name.
    pub name: ProtocolName,
    /// Whether parties may work with the server and learn no more than the sum. Each party has a say in whose sum
    /// that is then ([`SurvivorGuard`](crate::SurvivorGuard)), and the job says how many may (`corrupt`).
    pub(crate) tolerates_corrupt: bool,
    /// What may happen in a round of a job.
    pub(crate) plan: fn(&Job) -> Plan,
    /// Smallest number of survivors where the job names none.
    pub(crate) min_parties: fn(&JobSpec) -> usize,
    /// What the protocol chooses for a roster of so many parties where the job leaves it open, by name.
    pub(crate) parameters: fn(&Job, usize) -> Result<Parameters, SpecError>,
    /// The protocol's own rules for a job.
    pub(crate) check: fn(&Job) -> Result<(), SpecError>,
    /// A client and its first message body.
    pub(crate) start: StartClient,
    /// A client from its snapshot.
    pub(crate) restore: RestoreClient,
    /// A server.
    pub(crate) serve: StartServer,
    /// Computes ahead what the start of a round will need, in so many bytes at most; gives the bytes filled.
    pub(crate) prepare: Prepare,
    /// How parties come by the key that they share, where the protocol needs one.
    pub(crate) key_setup: Option<KeySetup>,
}

/// The rounds in which a key of the job is made and delivered, between parties that know each other by
/// certificate only. Their messages are small.
pub(crate) struct KeySetup {
    /// What may happen in such a round.
    pub plan: fn(&Job) -> Plan,
    /// A client and its first message body.
    pub start: StartClient,
    /// A client from its snapshot.
    pub restore: RestoreClient,
    /// A server.
    pub serve: StartServer,
    /// The name of the key in a vault that can be used in a round, if there is one.
    pub held: HeldKeyName,
    /// What seals data of the job for whoever holds the key in a vault.
    pub storage_key: fn(&dyn Vault) -> Result<Option<StorageKey>, FaultKind>,
}

pub(crate) type Parameters = Vec<(&'static str, usize)>;
pub(crate) type Prepare = fn(&ClientSetup, usize) -> Result<usize, FaultKind>;
pub(crate) type StartClient =
    fn(&Arc<ClientSetup>, InputRef<'_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
pub(crate) type StartServer = fn(&Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;
pub(crate) type HeldKeyName = fn(&Job, &dyn Vault, u64) -> Result<Option<KeyName>, FaultKind>;
pub(crate) type RestoreClient =
    fn(&Arc<ClientSetup>, u8, &[u8]) -> Result<Box<dyn ClientStage>, FaultKind>;
