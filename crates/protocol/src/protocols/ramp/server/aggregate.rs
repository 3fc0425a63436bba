//! Stage 3 (2 if semi-honest): collects the sums of columns, and rebuilds the sum of the vectors from k of them.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_sharing::SharingError;
use blindsum_sharing::ramp::ColumnSum;
use rand_core::CryptoRng;

use super::Common;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::result::result_body;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectSums {
    common: Common,
    expected: BTreeSet<PartyId>,
    survivors: PartySet,
    columns: BTreeMap<PartyId, ColumnSum>,
}

impl CollectSums {
    pub fn new(common: Common, expected: BTreeSet<PartyId>, survivors: PartySet) -> Self {
        Self {
            common,
            expected,
            survivors,
            columns: BTreeMap::new(),
        }
    }

    /// Takes away the columns that do not fit the others, as far as more than k tell. Whether such a
    /// holder lied or was dealt a column off the polynomial cannot be told here.
    fn leave_out_misfits(&mut self, rng: &mut dyn CryptoRng) -> Result<Vec<Fault>, Fault> {
        let sharing = &self.common.sharing;
        if self.columns.len() <= sharing.parameters().threshold() {
            return Ok(Vec::new());
        }
        let holders: Vec<usize> = self.columns.keys().map(|party| party.rank()).collect();
        let columns: Vec<&ColumnSum> = self.columns.values().collect();
        let misfits = sharing
            .misfits(&holders, &columns, rng)
            .map_err(|error| match error {
                SharingError::Undecodable { got, threshold, .. } => {
                    Fault::nobody(FaultKind::Undecodable { got, threshold })
                }
                other => Fault::nobody(other.into()),
            })?;
        let wrong: Vec<PartyId> = self
            .columns
            .keys()
            .enumerate()
            .filter(|(position, _)| misfits.contains(position))
            .map(|(_, &party)| party)
            .collect();
        wrong
            .iter()
            .for_each(|party| drop(self.columns.remove(party)));
        let fault = |holder| Fault::nobody(FaultKind::WrongColumn { holder });
        Ok(wrong.into_iter().map(fault).collect())
    }
}

impl ServerStage for CollectSums {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.common.sharing.parameters().threshold()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let mut column = self.common.sharing.zero_column();
        self.common
            .sharing
            .add(&mut column, body)
            .map_err(|e| FaultKind::malformed("column", e.to_string()))?;
        self.columns.insert(from, column);
        Ok(())
    }

    fn close(mut self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        // guard: ramp-misfits-are-left-out
        let faults = self.leave_out_misfits(rng)?;
        let threshold = self.common.sharing.parameters().threshold();
        let used: Vec<(&PartyId, &ColumnSum)> = self.columns.iter().take(threshold).collect();
        let holders: Vec<usize> = used.iter().map(|(party, _)| party.rank()).collect();
        let columns: Vec<&ColumnSum> = used.into_iter().map(|(_, column)| column).collect();
        let mut sum = self.common.round.job().zeros();
        self.common
            .sharing
            .reconstructor(&holders)
            .and_then(|reconstructor| reconstructor.reconstruct(&columns, &mut sum))
            .map_err(|error| Fault::nobody(error.into()))?;
        let body = result_body(&self.survivors, &sum);
        Ok(ServerStep::Done {
            bodies: Bodies::Same(self.survivors.iter().collect(), body),
            survivors: self.survivors,
            sum: Some(sum),
            faults,
        })
    }
}
