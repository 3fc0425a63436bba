//! Sparse rounds: what each party keeps between them.

use blindsum_encode::{EncodeError, LeftoverSize, Selection, Sparsifier, Values};
use blindsum_protocol::{Job, PartyId, PartySet, Round};

use crate::report::Leftover;
use crate::{Inputs, Scratch, SimError};

/// What every party keeps of the updates that it did not send, by rank; nothing where rounds are dense.
#[derive(Default)]
pub(crate) struct Sparsifiers(Vec<Sparsifier>);

impl Sparsifiers {
    /// Those of parties that have sent nothing yet.
    pub(crate) fn new(job: &Job, parties: usize) -> Result<Self, SimError> {
        let Some(schedule) = job.density() else {
            return Ok(Self::default());
        };
        let new = |_| Sparsifier::new(job.encoding(), schedule);
        let all: Result<Vec<_>, _> = (0..parties).map(new).collect();
        let refused = |error: EncodeError| SimError::scenario("density", error.to_string());
        Ok(Self(all.map_err(refused)?))
    }

    /// What every party keeps, as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<Vec<u8>> {
        let bytes = |sparsifier: &Sparsifier| sparsifier.to_bytes().to_vec();
        self.0.iter().map(bytes).collect()
    }

    /// Takes what every party kept, from [`Sparsifiers::to_bytes`].
    pub(crate) fn restore(&mut self, job: &Job, bytes: &[Vec<u8>]) -> Result<(), EncodeError> {
        let Some(schedule) = job.density() else {
            return Ok(());
        };
        let whole = self.0.iter_mut().zip(bytes);
        for (sparsifier, bytes) in whole {
            *sparsifier = Sparsifier::from_bytes(job.encoding(), schedule, bytes)?;
        }
        Ok(())
    }

    /// What a party sends of its vector in a round; `None` where rounds are dense, and all of it is sent.
    pub(crate) fn select(
        &self,
        round: &Round,
        party: PartyId,
        values: Values<'_>,
    ) -> Result<Option<Selection>, EncodeError> {
        let Some(sparsifier) = self.0.get(party.rank()) else {
            return Ok(None);
        };
        let done = round.sums_before();
        let selection = sparsifier.select(round.encoding(), done, values)?;
        Ok(Some(selection))
    }

    /// The sizes of what every party keeps, by rank; none where rounds are dense.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        let size = |sparsifier: &Sparsifier| {
            let LeftoverSize { norm, coordinates } = sparsifier.leftover();
            Leftover { norm, coordinates }
        };
        self.0.iter().map(size).collect()
    }

    /// The round is over: the survivors forget what was opened of what they sent.
    pub(crate) fn commit(
        &mut self,
        round: &Round,
        inputs: &dyn Inputs,
        survivors: &PartySet,
        contributors: &[u32],
    ) -> Result<(), SimError> {
        let least = round.job().spec().least_contributors();
        let mut scratch = Scratch::default();
        for party in survivors.iter() {
            let values = inputs.values(round.number(), party, &mut scratch);
            let selection = self.select(round, party, values);
            let selection = selection.map_err(|error| SimError::values(party, &error))?;
            if let (Some(sparsifier), Some(selection)) = (self.0.get_mut(party.rank()), selection) {
                let count = |d: u32| contributors.get(d as usize).copied().unwrap_or(0);
                sparsifier.commit(selection.into_sent(), |d| count(d) >= least);
            }
        }
        Ok(())
    }
}
