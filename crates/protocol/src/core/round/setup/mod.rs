//! What a client needs before it starts.

mod prepared;

pub use prepared::Prepared;
pub(crate) use prepared::{Ahead, Starter};

use std::sync::Arc;

use blindsum_crypto::sign::IdentityKey;

use super::Round;
use crate::{Fault, FaultKind, JobMemory, KnownServers, PartyId, PartySet, SurvivorGuard, Vault};

/// The identity of a client in a round.
pub struct ClientSetup {
    /// The round.
    pub round: Arc<Round>,
    /// The party's rank in the roster.
    pub me: PartyId,
    /// The party's long-term key, the one in its certificate.
    pub identity: Arc<IdentityKey>,
    /// By what the party knows servers to which it has no connection.
    pub servers: KnownServers,
    /// Where the party stores its secrets of the job between rounds.
    pub vault: Arc<dyn Vault>,
    /// The party's in-memory state between rounds of the job.
    pub memory: Arc<JobMemory>,
    /// What was computed ahead of time for the round; the same for all set-ups of one party in it.
    pub prepared: Arc<Prepared>,
    /// The party's own rules about survivors, which are asked before the party answers for them.
    pub guard: Arc<dyn SurvivorGuard>,
}

impl ClientSetup {
    /// Asks the party's guard.
    pub(crate) fn allow(&self, survivors: &PartySet) -> Result<(), Fault> {
        let refused = |reason| Fault::caller(FaultKind::Refused { reason });
        self.guard.allow(survivors).map_err(refused)
    }
}
