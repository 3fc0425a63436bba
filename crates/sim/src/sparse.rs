//! Sparse rounds: what each party keeps between them, and the sum that must be the result.

use std::collections::BTreeMap;

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{Divisor, LeftoverSize, Selection, Sparsifier, Values};
use blindsum_job::report::MetricReport;
use blindsum_math::words::Words;
use blindsum_protocol::{Job, PartyId, PartySet, Round};

use crate::inputs::rounding_seed;
use crate::metrics::MetricTotals;
use crate::report::{Leftover, PartyClipping};
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
        let refused =
            |error: blindsum_encode::EncodeError| SimError::scenario("density", error.to_string());
        Ok(Self(all.map_err(refused)?))
    }

    /// What every party keeps, as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<Vec<u8>> {
        let bytes = |sparsifier: &Sparsifier| sparsifier.to_bytes().to_vec();
        self.0.iter().map(bytes).collect()
    }

    /// Takes what every party kept, from [`Sparsifiers::to_bytes`].
    pub(crate) fn restore(
        &mut self,
        job: &Job,
        bytes: &[Vec<u8>],
    ) -> Result<(), blindsum_encode::EncodeError> {
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
    ) -> Result<Option<Selection>, blindsum_encode::EncodeError> {
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
            let selection = selection.map_err(|error| refused(party, &error))?;
            if let (Some(sparsifier), Some(selection)) = (self.0.get_mut(party.rank()), selection) {
                let count = |d: u32| contributors.get(d as usize).copied().unwrap_or(0);
                sparsifier.commit(selection.into_sent(), |d| count(d) >= least);
            }
        }
        Ok(())
    }
}

fn refused(party: PartyId, error: &blindsum_encode::EncodeError) -> SimError {
    SimError::Inputs {
        party,
        field: "values",
        rule: error.to_string(),
    }
}

/// The sum of a sparse round, computed in the clear and without the machines.
pub(crate) struct SparseReference {
    least: u32,
    /// What sums are divided by; none where the senders of a coordinate are counted.
    parties: Option<u32>,
    /// Of the words, by place.
    sum: Vec<u64>,
    /// Of the clipped values.
    values: Vec<f64>,
    contributors: Vec<u32>,
    metrics: MetricTotals,
    /// Whose updates clipping changed, before what was left of earlier ones was added.
    pub(crate) clipping: Vec<PartyClipping>,
}

impl SparseReference {
    /// Adds up what the survivors of a round sent.
    pub(crate) fn of(
        round: &Round,
        inputs: &dyn Inputs,
        sparsifiers: &Sparsifiers,
        seed: u64,
        survivors: &PartySet,
    ) -> Result<Self, SimError> {
        let spec = round.job().spec();
        let (dim, lanes) = (spec.dim as usize, round.encoding().lanes());
        let mut reference = Self {
            least: spec.least_contributors(),
            parties: match spec.divisor(survivors.len()) {
                Divisor::Parties(parties) => Some(parties),
                Divisor::Senders => None,
            },
            sum: vec![0; lanes],
            values: vec![0.0; dim],
            contributors: vec![0; lanes],
            metrics: MetricTotals::default(),
            clipping: Vec::new(),
        };
        let mut scratch = Scratch::default();
        for party in survivors.iter() {
            let values = inputs.values(round.number(), party, &mut scratch);
            let selection = sparsifiers.select(round, party, values);
            let selection = selection.map_err(|error| refused(party, &error))?;
            let seed = MaskSeed::from(Secret::from(rounding_seed(seed, round.number(), party)));
            if let Some(selection) = selection {
                let clipping = PartyClipping::of(party, &selection.report());
                reference.clipping.extend(clipping);
                let metrics = inputs.metrics(round.number(), party, round.job());
                let totals = MetricTotals::of(round.job(), &metrics, 1);
                reference.metrics.add(&totals);
                let added = reference.add(&selection, &metrics, seed);
                added.map_err(|error| refused(party, &error))?;
            }
        }
        Ok(reference)
    }

    fn add(
        &mut self,
        selection: &Selection,
        metrics: &[Option<f64>],
        seed: MaskSeed,
    ) -> Result<(), blindsum_encode::EncodeError> {
        let (encoding, values) = (selection.encoding(), selection.values());
        let encoder = selection.encoder(seed)?;
        let encoder = encoder.with_metrics(&encoding.metric_levels(metrics)?);
        let mut words = Words::zeros(encoding.width(), encoder.lanes());
        encoder.encode_tile(0, words.tile_mut(0..encoder.lanes()))?;
        for (&d, word) in selection.places().iter().zip(words.iter()) {
            self.sum[d as usize] += word;
            self.contributors[d as usize] += 1;
        }
        let squares = values.iter().map(|x| x * x);
        let bound = encoding.norm_bound();
        let factor = bound.map_or(1.0, |bound| (bound / squares.sum::<f64>().sqrt()).min(1.0));
        for (run, clip) in encoding.tensors() {
            for (&d, &value) in selection.indices()[run.clone()].iter().zip(&values[run]) {
                self.values[d as usize] += (value * factor).clamp(-clip, clip);
            }
        }
        Ok(())
    }

    /// What is told of the metrics of so many survivors.
    pub(crate) fn metrics(
        &self,
        round: &Round,
        survivors: usize,
    ) -> BTreeMap<String, MetricReport> {
        let metrics = match survivors < self.least as usize {
            true => self.metrics.closed(),
            false => self.metrics.clone(),
        };
        metrics.told(round.job(), survivors as u64)
    }

    /// Whether these are the sum and the numbers of contributors, with the words 0 that stay closed.
    pub(crate) fn equals(&self, sum: &Words, contributors: &[u32]) -> bool {
        let expected = self.sum.iter().zip(&self.contributors);
        let mut expected = expected.map(|(&word, &count)| match count < self.least {
            true => 0,
            false => word,
        });
        contributors == self.contributors
            && sum.len() == self.sum.len()
            && sum.iter().all(|word| expected.next() == Some(word))
    }

    /// Largest difference between `mean` and the mean of all, or of those who sent a coordinate, at all that were opened.
    pub(crate) fn max_abs_error(&self, mean: &[f64]) -> f64 {
        let sums = self.values.iter().zip(&self.contributors).zip(mean);
        let opened = sums.filter(|((_, count), _)| **count >= self.least);
        opened
            .map(|((sum, &count), mean)| {
                (sum / f64::from(self.parties.unwrap_or(count)) - mean).abs()
            })
            .fold(0.0, f64::max)
    }
}
