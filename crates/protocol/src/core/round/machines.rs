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

    /// A client from its snapshot in the stage of this name, which it has answered.
    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        stage: &str,
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

/// What a server other than the coordinator needs before a round.
pub struct FollowerSetup {
    /// The round.
    pub round: Arc<Round>,
    /// The role of the server.
    pub role: ServerRole,
    /// State that it keeps between rounds of the job.
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
pub(crate) type StartFollower = fn(&FollowerSetup) -> Result<Box<dyn FollowerStage>, Fault>;
