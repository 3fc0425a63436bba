//! What a protocol tells the rest of the house of itself.

use blindsum_crypto::seal::StorageKey;

use crate::core::numbers::NumberRules;
use crate::core::plan::Plan;
use crate::core::round::{MakeMachines, OtherServer};
use crate::core::sparsity::Sparsity;
use crate::core::vault::{KeyName, Vault};
use crate::{FaultKind, Job, JobSpec, SpecError};

/// What the rest of the house needs to know of a protocol.
pub(crate) struct ProtocolInfo {
    /// Whether anything is hidden from the server.
    pub protects: bool,
    /// Whether parties may work with the server and learn no more than the sum. The job says how many may (`corrupt`).
    pub tolerates_corrupt: bool,
    /// Whether each party is asked about the survivors before their sum is opened.
    pub asks_parties: bool,
    /// What may happen in a round of a job with so many parties.
    pub plan: fn(&Job, usize) -> Plan,
    /// Smallest number of survivors where the job names none.
    pub min_parties: fn(&JobSpec) -> usize,
    /// What rounds in which parties send some of their coordinates only need to know; `None` where they send all.
    pub sparsity: fn(&JobSpec) -> Option<Sparsity>,
    /// What the protocol chooses for a roster of so many parties where the job leaves it open, by name.
    pub parameters: fn(&Job, usize) -> Result<Parameters, SpecError>,
    /// The numbers that a coordinator says of a round, where the protocol has any.
    pub numbers: Option<NumberRules>,
    /// Whether something is drawn from the context of a round that nobody may choose: parties commit to their nonces
    /// before the roster is fixed then.
    pub commits: fn(&JobSpec) -> bool,
    /// The protocol's own rules for a job.
    pub check: fn(&Job) -> Result<(), SpecError>,
    /// The machines of a round.
    pub machines: MakeMachines,
    /// How parties come by the key that they share, where the protocol needs one.
    pub key_setup: Option<KeySetup>,
    /// The servers that it needs beside the coordinator.
    pub servers: &'static [OtherServer],
}

/// A protocol's table of options, asked for what the protocol is.
pub(crate) trait ProtocolTable {
    /// What it is.
    fn info(&self) -> &'static ProtocolInfo;
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

pub(crate) type Parameters = Vec<(&'static str, usize)>;
pub(crate) type HeldKeyName = fn(&Job, &dyn Vault, u64) -> Result<Option<KeyName>, FaultKind>;
