//! Stage `aggregate`: collects the sums of columns, corrects those that are wrong, and rebuilds the sum of the vectors.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_sharing::SharingError;
use blindsum_sharing::ramp::ColumnSum;
use rand_core::CryptoRng;

use super::Common;
use crate::core::round::{Bodies, Excuse, ServerStage, ServerStep};
use crate::kit::result::result_body;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectSums {
    common: Common,
    survivors: PartySet,
    expected: BTreeSet<PartyId>,
    skipped: u8,
    excuses: Vec<Excuse>,
    columns: BTreeMap<PartyId, (ColumnSum, Vec<u8>)>,
}

impl CollectSums {
    /// The sum of the vectors of U2, after so many stages that were skipped, without these.
    pub fn new(
        common: Common,
        survivors: PartySet,
        expected: BTreeSet<PartyId>,
        (skipped, excuses): (u8, Vec<Excuse>),
    ) -> Self {
        Self {
            common,
            survivors,
            expected,
            skipped,
            excuses,
            columns: BTreeMap::new(),
        }
    }

    /// Sums of columns with which c wrong ones are corrected: k + 2c.
    pub fn required_of(common: &Common) -> usize {
        let parameters = common.sharing.parameters();
        parameters.threshold() + 2 * parameters.corrupt()
    }

    /// Takes away the sums that do not fit the others. All columns were proved, so that their holders have lied.
    fn leave_out_liars(&mut self, rng: &mut dyn CryptoRng) -> Result<Vec<Fault>, Fault> {
        let holders: Vec<PartyId> = self.columns.keys().copied().collect();
        let ranks: Vec<usize> = holders.iter().map(|party| party.rank()).collect();
        let columns: Vec<&ColumnSum> = self.columns.values().map(|(column, _)| column).collect();
        let misfits = self.common.sharing.words().misfits(&ranks, &columns, rng);
        let undecodable = |error| match error {
            SharingError::Undecodable { got, threshold, .. } => {
                Fault::nobody(FaultKind::Undecodable { got, threshold })
            }
            other => Fault::nobody(other.into()),
        };
        let mut faults = Vec::new();
        for position in misfits.map_err(undecodable)? {
            let Some(&holder) = holders.get(position) else {
                continue;
            };
            // guard: sums-are-corrected
            if let Some((_, body)) = self.columns.remove(&holder) {
                faults.push(Fault::party(holder, FaultKind::WrongAggregate).shown_by(&body));
            }
        }
        Ok(faults)
    }
}

impl ServerStage for CollectSums {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        Self::required_of(&self.common)
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let words = self.common.sharing.words();
        let mut column = words.zero_column();
        words
            .add(&mut column, body)
            .map_err(|error| FaultKind::malformed("column", error.to_string()))?;
        self.columns.insert(from, (column, body.to_vec()));
        Ok(())
    }

    fn skipped(&self) -> u8 {
        self.skipped
    }

    fn excuses(&self) -> Vec<Excuse> {
        self.excuses.clone()
    }

    fn close(mut self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let faults = self.leave_out_liars(rng)?;
        let threshold = self.common.sharing.parameters().threshold();
        let used: Vec<(&PartyId, &ColumnSum)> = self
            .columns
            .iter()
            .map(|(party, (column, _))| (party, column))
            .take(threshold)
            .collect();
        let holders: Vec<usize> = used.iter().map(|(party, _)| party.rank()).collect();
        let columns: Vec<&ColumnSum> = used.into_iter().map(|(_, column)| column).collect();
        let mut sum = self.common.round.job().zeros();
        let words = self.common.sharing.words();
        words
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
