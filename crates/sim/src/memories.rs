//! What is kept of a job between its rounds, as a round of some of its parties finds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_encode::{EncodeError, Selection, Values};
use blindsum_protocol::{JobMemory, MemoryVault, PartyId, Round};

use crate::sparse::Sparsifiers;

/// What parties and servers keep of a job.
#[derive(Clone, Copy)]
pub(crate) struct Memories<'a> {
    /// The parties of the round, by their ranks among all. All else is by the ranks among all.
    pub(crate) ranks: &'a [usize],
    pub(crate) vaults: &'a [Arc<MemoryVault>],
    /// What parties keep of updates that they did not send.
    pub(crate) sparsifiers: &'a Sparsifiers,
    /// What the servers beside the coordinator keep.
    pub(crate) servers: &'a Arc<JobMemory>,
    /// What makes parties lie.
    pub(crate) liars: &'a BTreeMap<PartyId, Arc<JobMemory>>,
}

impl Memories<'_> {
    /// The rank among all of a party of the round.
    pub(crate) fn rank(&self, party: PartyId) -> Option<PartyId> {
        let rank = self.ranks.get(party.rank());
        rank.map(|rank| PartyId(*rank as u32))
    }

    /// The keys of a party of the round.
    pub(crate) fn vault(&self, party: PartyId) -> Option<&Arc<MemoryVault>> {
        self.vaults.get(self.rank(party)?.rank())
    }

    /// What makes a party of the round lie, or an empty memory.
    pub(crate) fn of_liar(&self, party: PartyId) -> Arc<JobMemory> {
        let memory = self.rank(party).and_then(|party| self.liars.get(&party));
        memory.cloned().unwrap_or_default()
    }

    /// What a party of the round sends of its vector; `None` if rounds are dense.
    pub(crate) fn select(
        &self,
        round: &Round,
        party: PartyId,
        values: Values<'_>,
    ) -> Result<Option<Selection>, EncodeError> {
        match self.rank(party) {
            Some(party) => self.sparsifiers.select(round, party, values),
            None => Ok(None),
        }
    }
}
