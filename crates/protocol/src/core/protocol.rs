//! What a protocol tells the rest of the house of itself.

use std::sync::Arc;

use blindsum_crypto::seal::StorageKey;
use rand_core::CryptoRng;

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
    /// Names of the stages, the n-th is what clients answer n-th.
    pub(crate) stages: fn(&JobSpec) -> &'static [&'static str],
    /// The stage whose answer carries the vector.
    pub(crate) input_stage: u8,
    /// Smallest number of survivors where the job names none.
    pub(crate) min_parties: fn(&JobSpec) -> usize,
    /// What the protocol chooses for a roster of so many parties where the job leaves it open, by name.
    pub(crate) parameters: fn(&Job, usize) -> Result<Parameters, SpecError>,
    /// Bytes of the largest message of a stage.
    pub(crate) largest_message: fn(&Job, u8, Direction) -> u64,
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
    /// Names of the stages.
    pub stages: &'static [&'static str],
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

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A client's answer in a stage.
    Up,
    /// The server's message at its end.
    Down,
}

pub(crate) type Parameters = Vec<(&'static str, usize)>;
pub(crate) type Prepare = fn(&ClientSetup, usize) -> Result<usize, FaultKind>;
pub(crate) type StartClient =
    fn(&Arc<ClientSetup>, InputRef<'_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
pub(crate) type StartServer = fn(&Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;
pub(crate) type HeldKeyName = fn(&Job, &dyn Vault, u64) -> Result<Option<KeyName>, FaultKind>;
pub(crate) type RestoreClient =
    fn(&Arc<ClientSetup>, u8, &[u8]) -> Result<Box<dyn ClientStage>, FaultKind>;

/// [`ProtocolInfo::largest_message`] of protocols that send one vector up, in the input stage, and one
/// down: beside it 1 KiB a party for keys, shares, signatures and lists.
pub(crate) fn one_vector(job: &Job, stage: u8, direction: Direction) -> u64 {
    let vector = match direction {
        Direction::Up if stage != job.input_stage() => 0,
        Direction::Up | Direction::Down => job.packed_len() as u64,
    };
    4096 + vector + 1024 * u64::from(job.spec().parties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adversary;

    #[test]
    fn vectors_come_up_in_the_input_stage_only() {
        let spec = JobSpec {
            protocol: ProtocolName::SecAgg,
            adversary: Adversary::Active,
            parties: 10,
            dim: 100_000,
            ..JobSpec::default()
        };
        let job = spec.validate().unwrap();
        let sizes = |direction| [0, 1, 2, 3, 4].map(|stage| job.largest_message(stage, direction));
        let (small, large) = (4096 + 10 * 1024, 4096 + 10 * 1024 + job.packed_len() as u64);
        assert_eq!(sizes(Direction::Up), [small, small, large, small, small]);
        assert_eq!(sizes(Direction::Down), [large; 5]);
    }
}
