//! The key set-up before a round, if a party lacks the key that the protocol needs.

use std::sync::Arc;

use blindsum_protocol::{MemoryVault, PartySet, Round};

use crate::costs::costs;
use crate::report::KeySetupReport;
use crate::simulation::Environment;
use crate::{SimError, Simulation};

impl Simulation {
    /// Runs a key set-up if a party cannot take part in the round with this index without one. Whoever is
    /// lost in it lacks the key in the round, and tries again before the next one.
    ///
    /// Its number is that of the round before: the two kinds of rounds have different contexts.
    pub(crate) fn set_up_keys(
        &self,
        index: u32,
        around: &mut Environment<'_, '_>,
    ) -> Result<Option<KeySetupReport>, SimError> {
        let number = self.scenario().first_round + u64::from(index);
        if !self.scenario().job.hides_sum()
            || self.all_hold_a_key(around.memories.vaults, number)?
        {
            return Ok(None);
        }
        let before = number.checked_sub(1).ok_or_else(|| {
            SimError::scenario(
                "first_round",
                "1 <= first_round, for a key set-up before it",
            )
        })?;
        let roster = self.cohort().roster(number)?;
        let round = Round::key_setup(self.scenario().job.clone(), before, roster);
        let round = Arc::new(round.map_err(SimError::Round)?);
        let script = self
            .scenario()
            .script(round.kind(), index, self.cohort().len())?;
        let finished = self.drive(script, round.clone(), around)?;
        Ok(Some(KeySetupReport {
            holders: finished.survivors().map_or(0, PartySet::len),
            fault: finished.fault(),
            costs: costs(&round, &finished),
        }))
    }

    fn all_hold_a_key(&self, vaults: &[Arc<MemoryVault>], number: u64) -> Result<bool, SimError> {
        let job = &self.scenario().job;
        for vault in vaults {
            let held = job.held_key(&**vault, number);
            if held.map_err(SimError::Vault)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
