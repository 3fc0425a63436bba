//! The sum that must be the result, computed in the clear and without the machines.

use std::collections::BTreeMap;

use blindsum_encode::{
    Divisor, EncodeError, EncodeReport, Encoder, MetricLevels, Seeds, Selection, Values,
};
use blindsum_job::report::MetricReport;
use blindsum_math::words::{TileMut, Words};
use blindsum_protocol::{InTheClear, Job, PartyId, PartySet, Round};

use crate::inputs::vector_seeds;
use crate::metrics::MetricTotals;
use crate::report::PartyClipping;
use crate::weighted::{Weighted, each_clipped};
use crate::words::words_of;
use crate::{Inputs, Scratch, SimError};

/// Lanes that are encoded at a time.
const TILE: usize = 4096;

/// The sum and the weighted mean of some parties' vectors.
pub(crate) struct Reference {
    /// Sum of the words, modulo 2^64; the width of a job is so large that it does not wrap.
    sum: Vec<u64>,
    /// How many sent each word; none where rounds are dense, and all send all.
    senders: Option<Senders>,
    weighted: Weighted,
    /// What clipping cut off, times the weights; none where it cut off nothing.
    cut: Option<Vec<f64>>,
    /// Whose vectors it changed; in a sparse round, before what was left of earlier ones was added.
    pub(crate) clipping: Vec<PartyClipping>,
    total_weight: u64,
    metrics: MetricTotals,
    /// What the job's rule makes of the vectors, where that is not their sum.
    by_rule: Option<InTheClear>,
}

/// How many parties sent each word of a sparse round.
struct Senders {
    counts: Vec<u32>,
    /// As many must have sent a word for it to be opened.
    least: u32,
    divisor: Divisor,
}

impl Reference {
    /// Adds up what the survivors of a round sent; `select` gives what a party sends of a vector in a sparse round.
    pub(crate) fn of(
        round: &Round,
        inputs: &dyn Inputs,
        select: impl Fn(PartyId, Values<'_>) -> Result<Option<Selection>, EncodeError>,
        seed: u64,
        survivors: &PartySet,
    ) -> Result<Self, SimError> {
        let (job, number) = (round.job(), round.number());
        let spec = job.spec();
        let mut reference = Self {
            sum: vec![0; job.lanes()],
            senders: job.density().map(|_| Senders {
                counts: vec![0; job.lanes()],
                least: spec.least_contributors(),
                divisor: spec.divisor(survivors.len()),
            }),
            weighted: Weighted::nothing(spec),
            cut: None,
            clipping: Vec::new(),
            total_weight: 0,
            metrics: MetricTotals::default(),
            by_rule: None,
        };
        let (mut scratch, mut tile) = (Scratch::default(), Tile::of(job));
        let mut encoded = (!round.is_sum()).then(Vec::new);
        for party in survivors.iter() {
            let refused = |error: EncodeError| SimError::values(party, &error);
            let values = inputs.values(number, party, &mut scratch);
            let weight = inputs.weight(number, party);
            let seeds = vector_seeds(round.encoding(), seed, number, party);
            let metrics = inputs.metrics(number, party, job);
            let totals = MetricTotals::of(job, &metrics, weight.into());
            reference.metrics.add(&totals);
            let levels = round.encoding().metric_levels(&metrics).map_err(refused)?;
            let selection = select(party, values).map_err(refused)?;
            let report = match &selection {
                Some(selection) => reference.add_selected(selection, &levels, seeds),
                None => {
                    let vector = Encoder::new(round.encoding(), values, weight, seeds);
                    let vector = vector.map_err(refused)?.with_metrics(&levels);
                    if let Some(encoded) = &mut encoded {
                        let mut words = job.zeros();
                        let whole = vector.encode_tile(0, words.tile_mut(0..vector.lanes()));
                        whole.map_err(refused)?;
                        encoded.push((party, words));
                    }
                    reference.add(round, (values, weight, &vector), &mut tile)
                }
            };
            let report = report.map_err(refused)?;
            reference.total_weight += u64::from(weight);
            reference.clipping.extend(PartyClipping::of(party, &report));
        }
        reference.by_rule = encoded.and_then(|encoded| round.in_the_clear(&encoded));
        Ok(reference)
    }

    /// Adds a whole vector.
    fn add(
        &mut self,
        round: &Round,
        (values, weight, encoder): (Values<'_>, u32, &Encoder<'_>),
        tile: &mut Tile,
    ) -> Result<EncodeReport, EncodeError> {
        let report = encoder.report();
        for (first, sums) in (0..).step_by(TILE).zip(self.sum.chunks_mut(TILE)) {
            encoder.encode_tile(first, tile.lanes(sums.len()))?;
            tile.add_to(sums);
        }
        let cut = match report.is_whole() {
            true => None,
            false => Some(self.cut.get_or_insert_with(|| vec![0.0; values.len()])),
        };
        self.weighted.add(round.encoding(), values, weight, cut);
        Ok(report)
    }

    /// Adds what was selected of a vector.
    fn add_selected(
        &mut self,
        selection: &Selection,
        levels: &MetricLevels,
        seeds: Seeds,
    ) -> Result<EncodeReport, EncodeError> {
        let encoder = selection.encoder(seeds)?.with_metrics(levels);
        let words = words_of(selection.encoding(), &encoder)?;
        for (&place, word) in selection.places().iter().zip(words) {
            self.sum[place as usize] += word;
            if let Some(senders) = &mut self.senders {
                senders.counts[place as usize] += 1;
            }
        }
        if let Weighted::Reals(sums) = &mut self.weighted {
            each_clipped(
                selection.encoding(),
                selection.values(),
                |at, _, clipped| {
                    sums[selection.indices()[at] as usize] += clipped;
                },
            );
        }
        Ok(selection.report())
    }

    /// What is told of the metrics.
    pub(crate) fn metrics(
        &self,
        round: &Round,
        survivors: usize,
    ) -> BTreeMap<String, MetricReport> {
        let least = round.job().spec().least_contributors() as usize;
        let metrics = match survivors < least {
            true => &self.metrics.closed(),
            false => &self.metrics,
        };
        metrics.told(round.job(), self.total_weight)
    }

    /// By how much a result of servers that compute may be off; none where it is a sum, which is exact.
    pub(crate) fn error_bound(&self) -> Option<f64> {
        self.by_rule.as_ref().map(|it| it.error)
    }

    /// Whether these words, with this mean and these numbers of senders, are the result.
    pub(crate) fn allows(&self, sum: &Words, mean: &[f64], senders: Option<&[u32]>) -> bool {
        match &self.by_rule {
            None => self.equals(sum, senders),
            Some(it) => self.max_abs_error(mean) <= it.error,
        }
    }

    /// Whether these are the sum and the numbers of senders, with the words 0 that stay closed.
    pub(crate) fn equals(&self, sum: &Words, senders: Option<&[u32]>) -> bool {
        let mask = sum.width().mask();
        let expected = (0..)
            .zip(&self.sum)
            .map(|(place, word)| match &self.senders {
                Some(it) if it.divisor(place).is_none() => 0,
                _ => word & mask,
            });
        sum.iter().eq(expected) && senders == self.senders.as_ref().map(|it| &it.counts[..])
    }

    /// Largest difference between `mean` and the weighted mean of the vectors before they were clipped; none in sparse rounds.
    pub(crate) fn max_abs_error_unclipped(&self, mean: &[f64]) -> Option<f64> {
        if self.senders.is_some() {
            return None;
        }
        let (Weighted::Reals(sums), Some(cut), None) = (&self.weighted, &self.cut, &self.by_rule)
        else {
            return Some(self.max_abs_error(mean));
        };
        let meant = sums.iter().zip(cut).map(|(sum, cut)| sum + cut);
        Some(self.largest_error(meant, mean))
    }

    /// Largest difference between `mean` and the weighted mean of the clipped vectors, at all coordinates that were opened; or,
    /// where the job has a rule that is no sum, what the rule makes of them as they were encoded.
    pub(crate) fn max_abs_error(&self, mean: &[f64]) -> f64 {
        if let Some(expected) = &self.by_rule {
            let pairs = mean.iter().zip(&expected.mean);
            return pairs.fold(0.0, |most, (mean, expected)| {
                most.max((mean - expected).abs())
            });
        }
        match &self.weighted {
            Weighted::Reals(sums) => self.largest_error(sums.iter().copied(), mean),
            Weighted::Integers(sums) => {
                let weights = u128::from(self.total_weight);
                let error = |(sum, mean): (&u128, &f64)| {
                    let (whole, rest) = (sum / weights, sum % weights);
                    (mean - whole as f64 - rest as f64 / self.total_weight as f64).abs()
                };
                sums.iter().zip(mean).map(error).fold(0.0, f64::max)
            }
        }
    }

    fn largest_error(&self, sums: impl Iterator<Item = f64>, mean: &[f64]) -> f64 {
        let total_weight = self.total_weight as f64;
        let pairs = sums.zip(mean).enumerate();
        let errors = pairs.filter_map(|(d, (sum, mean))| {
            let divisor = match &self.senders {
                None => total_weight,
                Some(senders) => senders.divisor(d)?,
            };
            Some((sum / divisor - mean).abs())
        });
        errors.fold(0.0, f64::max)
    }

    /// Whether these are the sums of the integers.
    pub(crate) fn has_sums(&self, decoded: &[u128]) -> bool {
        matches!(&self.weighted, Weighted::Integers(sums) if sums == decoded)
    }
}

impl Senders {
    /// What the sum at this place is divided by; none where it stays closed.
    fn divisor(&self, place: usize) -> Option<f64> {
        let count = self.counts.get(place).copied().unwrap_or(0);
        (count >= self.least).then_some(match self.divisor {
            Divisor::Parties(parties) => parties.into(),
            Divisor::Senders => count.into(),
        })
    }
}

/// Room for some lanes of the kind that the job's words have.
enum Tile {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Tile {
    fn of(job: &Job) -> Self {
        match job.width().fits_u32() {
            true => Tile::Narrow(vec![0; TILE]),
            false => Tile::Wide(vec![0; TILE]),
        }
    }

    /// The first `count` of at most [`TILE`] lanes.
    fn lanes(&mut self, count: usize) -> TileMut<'_> {
        match self {
            Tile::Narrow(lanes) => TileMut::W32(&mut lanes[..count]),
            Tile::Wide(lanes) => TileMut::W64(&mut lanes[..count]),
        }
    }

    fn add_to(&self, sums: &mut [u64]) {
        match self {
            Tile::Narrow(lanes) => sums
                .iter_mut()
                .zip(lanes)
                .for_each(|(sum, lane)| *sum = sum.wrapping_add(u64::from(*lane))),
            Tile::Wide(lanes) => sums
                .iter_mut()
                .zip(lanes)
                .for_each(|(sum, lane)| *sum = sum.wrapping_add(*lane)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use blindsum_protocol::{
        Clipping, JobSpec, ModelUpdate, ProtocolName, Quantised, RoundingName, TensorLayout,
    };

    use super::*;
    use crate::{Cohort, Given};

    /// The first round of a job with as many parties as it may have.
    fn round(job: Job) -> Round {
        let cohort = Cohort::new(job.spec().parties as usize, 0).unwrap();
        Round::new(Arc::new(job), 1, cohort.roster(1).unwrap(), &[0; 32]).unwrap()
    }

    fn dense(round: &Round, inputs: &dyn Inputs, survivors: &PartySet) -> Reference {
        Reference::of(round, inputs, |_, _| Ok(None), 0, survivors).unwrap()
    }

    fn reference(spec: JobSpec, vectors: &[Vec<f64>], weights: Vec<u32>) -> Reference {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            parties: vectors.len() as u32,
            dim: vectors[0].len() as u64,
            ..spec
        };
        let job = spec.validate().unwrap();
        let inputs = Given::new(vectors.iter().map(Vec::as_slice), weights);
        let everyone = PartySet::of(vectors.len(), (0..job.spec().parties).map(PartyId));
        dense(&round(job), &inputs, &everyone)
    }

    #[test]
    fn levels_of_a_small_example() {
        // Two bits, rounded to nearest: -1, 0 and 1 are the levels 0, 1 and 2.
        let spec = JobSpec {
            encoding: Quantised {
                bits: 2,
                rounding: RoundingName::Nearest,
                max_weight: 4,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let vectors = [vec![-1.0, 1.0, 5.0], vec![1.0, 1.0 / 3.0, -1.0]];
        let reference = reference(spec, &vectors, vec![1, 3]);
        assert_eq!(reference.sum, [6, 6, 2, 4]);
        assert_eq!(reference.weighted, Weighted::Reals(vec![2.0, 2.0, -2.0]));
        assert_eq!(reference.max_abs_error(&[0.5, 0.75, -0.5]), 0.25);
    }

    #[test]
    fn a_norm_is_bounded_before_coordinates_are() {
        let spec = JobSpec {
            encoding: Quantised {
                max_norm: 2.5,
                bits: 32,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let of = |vector: &[f64], expected: [f64; 2]| {
            let reference = reference(spec.clone(), &[vector.to_vec()], vec![]);
            let off = reference.max_abs_error(&expected);
            assert!(off < 1e-9, "{off}");
            reference.clipping.first().copied()
        };
        assert_eq!(of(&[0.5, 1.0], [0.5, 1.0]), None);
        let clipping = of(&[1.5, -1.75], [1.0, -1.0]).unwrap();
        assert_eq!((clipping.clipped, clipping.scaled_by), (2, None));
        // Half as long it is 0.7 and 2.4.
        let clipping = of(&[1.4, 4.8], [0.7, 1.0]).unwrap();
        assert_eq!(clipping.clipped, 1);
        assert!((clipping.scaled_by.unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn clipping_is_per_tensor_or_by_norm() {
        let tensor = |len, clip| TensorLayout {
            name: String::new(),
            len,
            clip,
        };
        let spec = JobSpec {
            encoding: Quantised {
                tensors: vec![tensor(1, 0.5), tensor(2, 2.0)],
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        assert_eq!(
            reference(spec, &[vec![3.0, 3.0, -1.0]], vec![]).weighted,
            Weighted::Reals(vec![0.5, 2.0, -1.0])
        );
        let spec = JobSpec {
            encoding: Quantised {
                clip: 2.5,
                clipping: Clipping::L2,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        assert_eq!(
            reference(spec.clone(), &[vec![3.0, 4.0]], vec![]).weighted,
            Weighted::Reals(vec![1.5, 2.0])
        );
        assert_eq!(
            reference(spec, &[vec![0.5, 1.0]], vec![]).weighted,
            Weighted::Reals(vec![0.5, 1.0])
        );
    }

    #[test]
    fn what_clipping_cuts_off_is_told_by_party() {
        let vectors = [vec![1.5, 0.0], vec![0.5, -3.0], vec![0.5, 0.0]];
        let spec = JobSpec {
            encoding: Quantised {
                max_weight: 3,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let reference = reference(spec, &vectors, vec![1, 2, 1]);
        let clipping = |party| PartyClipping {
            party,
            clipped: 1,
            scaled_by: None,
        };
        assert_eq!(reference.clipping, [clipping(0), clipping(1)]);
        assert_eq!(reference.max_abs_error(&[0.625, -0.5]), 0.0);
        assert_eq!(reference.max_abs_error_unclipped(&[0.625, -0.5]), Some(1.0));
        assert_eq!(reference.max_abs_error_unclipped(&[0.75, -1.5]), Some(0.0));
    }

    #[test]
    fn sums_of_integers_are_exact() {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 2,
            encoding: blindsum_protocol::Integers {
                bits: 64,
                max_weight: 3,
            }
            .into(),
            model_update: ModelUpdate::Nothing,
            ..JobSpec::default()
        };
        let job = spec.validate().unwrap();
        let (a, b) = ([u64::MAX, 0], [1, 7]);
        let inputs = Given::new([&a[..], &b[..]], vec![3, 1]);
        let everyone = PartySet::of(2, (0..2).map(PartyId));
        let reference = dense(&round(job), &inputs, &everyone);
        let low = 0xffff_ffff;
        assert_eq!(reference.sum, [3 * low + 1, 7, 3 * low, 0, 4]);
        let first = 3 * u128::from(u64::MAX) + 1;
        assert!(reference.has_sums(&[first, 7]));
        assert!(!reference.has_sums(&[first + 1, 7]) && !reference.has_sums(&[first]));
        assert_eq!(reference.max_abs_error(&[first as f64 / 4.0, 3.75]), 2.0);
    }

    #[test]
    fn one_wrong_word_is_found() {
        let reference = reference(JobSpec::default(), &[vec![0.1; 9], vec![-0.7; 9]], vec![]);
        let job = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 9,
            ..JobSpec::default()
        }
        .validate()
        .unwrap();
        let mut sum = job.zeros();
        let fill = |sum: &mut Words| match sum.tile_mut(0..9) {
            TileMut::W32(lanes) => lanes
                .iter_mut()
                .zip(&reference.sum)
                .for_each(|(lane, word)| *lane = *word as u32),
            TileMut::W64(lanes) => lanes.copy_from_slice(&reference.sum),
        };
        fill(&mut sum);
        assert!(reference.equals(&sum, None));
        if let TileMut::W32(lanes) = sum.tile_mut(8..9) {
            lanes[0] ^= 1;
        }
        assert!(!reference.equals(&sum, None));
    }
}
