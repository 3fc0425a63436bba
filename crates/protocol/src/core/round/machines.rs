//! How the machines of a round are started, for each who takes part.

use std::sync::Arc;

use rand_core::CryptoRng;

use super::setup::Ahead;
use super::{ClientSetup, ClientStage, ClientStep, FollowerStage, InputRef, Round, ServerStage};
use crate::core::memory::JobMemory;
use crate::{Fault, FaultKind, ServerIdentity, ServerRole};

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

/// The machines of a protocol that derives something from a round, which all machines of a process share.
pub(crate) struct Derived<T> {
    /// What is derived.
    pub derived: Arc<T>,
    /// As [`Machines::start`]: a client that says something before it has a vector.
    pub start: StartWith<T>,
    /// As [`Machines::restore`].
    pub restore: RestoreWith<T>,
    /// As [`Machines::serve`].
    pub serve: fn(&Arc<Round>, Arc<T>) -> Box<dyn ServerStage>,
}

impl<T: Send + Sync> Machines for Derived<T> {
    fn start(
        &self,
        setup: &Arc<ClientSetup>,
        _input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        (self.start)(setup, self.derived.clone(), rng)
    }

    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        stage: u8,
        state: &[u8],
    ) -> Result<Box<dyn ClientStage>, FaultKind> {
        (self.restore)(setup, &self.derived, stage, state)
    }

    fn serve(&self, round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
        Ok((self.serve)(round, self.derived.clone()))
    }
}

/// What a server that is not the coordinator needs before a round.
pub struct FollowerSetup {
    /// The round.
    pub round: Arc<Round>,
    /// What the server is for.
    pub role: ServerRole,
    /// What it keeps of the job between rounds.
    pub memory: Arc<JobMemory>,
    /// Who it is: none in the coordinator's process.
    pub identity: Option<Arc<ServerIdentity>>,
    /// The time, in seconds since 1970: keys are replaced by it.
    pub now: u64,
}

/// A server that is not the coordinator.
pub(crate) struct OtherServer {
    /// What it is for.
    pub role: ServerRole,
    /// Its machine in one round.
    pub follow: StartFollower,
}

pub(crate) type MakeMachines = fn(&Round) -> Result<Arc<dyn Machines>, Fault>;
pub(crate) type StartClient =
    fn(&Arc<ClientSetup>, InputRef<'_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
pub(crate) type StartWith<T> =
    fn(&Arc<ClientSetup>, Arc<T>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
pub(crate) type StartServer = fn(&Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;
pub(crate) type StartFollower = fn(&FollowerSetup) -> Result<Box<dyn FollowerStage>, Fault>;
pub(crate) type RestoreClient =
    fn(&Arc<ClientSetup>, u8, &[u8]) -> Result<Box<dyn ClientStage>, FaultKind>;
pub(crate) type RestoreWith<T> =
    fn(&Arc<ClientSetup>, &Arc<T>, u8, &[u8]) -> Result<Box<dyn ClientStage>, FaultKind>;
