//! The sum that must be the result, computed in the clear and without the machines.

use std::collections::BTreeMap;

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{EncodeReport, Encoder, Integers, Values};
use blindsum_job::report::MetricReport;
use blindsum_math::words::{TileMut, Words};
use blindsum_protocol::{InTheClear, Job, PartySet, Round};

use crate::inputs::rounding_seed;
use crate::metrics::MetricTotals;
use crate::report::PartyClipping;
use crate::{Inputs, Scratch, SimError};

/// Lanes that are encoded at a time.
const TILE: usize = 4096;

/// The sum and the weighted mean of some parties' vectors.
pub(crate) struct Reference {
    /// Sum of the words, modulo 2^64; the width of a job is so large that it does not wrap.
    sum: Vec<u64>,
    weighted: Weighted,
    /// What clipping cut off, times the weights; none where it cut off nothing.
    cut: Option<Vec<f64>>,
    /// Whose vectors it changed.
    pub(crate) clipping: Vec<PartyClipping>,
    total_weight: u64,
    metrics: MetricTotals,
    /// What the job's rule makes of the vectors, where that is not their sum.
    by_rule: Option<InTheClear>,
}

/// Sum of the vectors times their weights.
#[derive(Debug, PartialEq)]
enum Weighted {
    /// Of real vectors, clipped.
    Reals(Vec<f64>),
    Integers(Vec<u128>),
}

impl Reference {
    /// Adds up the vectors of the survivors of a round.
    pub(crate) fn of(
        round: &Round,
        inputs: &dyn Inputs,
        seed: u64,
        survivors: &PartySet,
    ) -> Result<Self, SimError> {
        let (job, number) = (round.job(), round.number());
        let dim = job.spec().dim as usize;
        let mut reference = Self {
            sum: vec![0; job.lanes()],
            weighted: match job.spec().encoding.integer_bits() {
                Some(_) => Weighted::Integers(vec![0; dim]),
                None => Weighted::Reals(vec![0.0; dim]),
            },
            cut: None,
            clipping: Vec::new(),
            total_weight: 0,
            metrics: MetricTotals::default(),
            by_rule: None,
        };
        let (mut scratch, mut tile) = (Scratch::default(), Tile::of(job));
        let mut encoded = (!round.is_sum()).then(Vec::new);
        for party in survivors.iter() {
            let values = inputs.values(number, party, &mut scratch);
            let weight = inputs.weight(number, party);
            let seed = MaskSeed::from(Secret::from(rounding_seed(seed, number, party)));
            let mut words = encoded.is_some().then(|| job.zeros());
            let metrics = inputs.metrics(number, party, job);
            let totals = MetricTotals::of(job, &metrics, weight.into());
            reference.metrics.add(&totals);
            let report = reference
                .add(
                    round,
                    (values, weight, &metrics),
                    seed,
                    (&mut tile, words.as_mut()),
                )
                .map_err(|rule| SimError::Inputs {
                    party,
                    field: "values",
                    rule,
                })?;
            if let (Some(encoded), Some(words)) = (&mut encoded, words) {
                encoded.push((party, words));
            }
            reference.clipping.extend(PartyClipping::of(party, &report));
        }
        reference.by_rule = encoded.and_then(|encoded| round.in_the_clear(&encoded));
        Ok(reference)
    }

    fn add(
        &mut self,
        round: &Round,
        (values, weight, metrics): (Values<'_>, u32, &[Option<f64>]),
        seed: MaskSeed,
        (tile, mut words): (&mut Tile, Option<&mut Words>),
    ) -> Result<EncodeReport, String> {
        let encoder =
            Encoder::new(round.encoding(), values, weight, seed).map_err(|e| e.to_string())?;
        let levels = round.encoding().metric_levels(metrics);
        let encoder = encoder.with_metrics(&levels.map_err(|e| e.to_string())?);
        let report = encoder.report();
        if !report.is_whole() && self.cut.is_none() {
            self.cut = Some(vec![0.0; values.len()]);
        }
        let cut = self.cut.as_mut().filter(|_| !report.is_whole());
        for (first, sums) in (0..).step_by(TILE).zip(self.sum.chunks_mut(TILE)) {
            encoder
                .encode_tile(first, tile.lanes(sums.len()))
                .map_err(|e| e.to_string())?;
            tile.add_to(sums);
            if let Some(words) = &mut words {
                let lanes = words.tile_mut(first..first + sums.len());
                encoder
                    .encode_tile(first, lanes)
                    .map_err(|e| e.to_string())?;
            }
        }
        match (values, &mut self.weighted) {
            (Values::F32(values), Weighted::Reals(sums)) => {
                add_clipped(round, values, weight, sums, cut)
            }
            (Values::F64(values), Weighted::Reals(sums)) => {
                add_clipped(round, values, weight, sums, cut)
            }
            (Values::Integers(values), Weighted::Integers(sums)) => add(values, weight, sums),
            _ => unreachable!("the encoder refused the other kind of numbers"),
        }
        self.total_weight += u64::from(weight);
        Ok(report)
    }

    /// What is told of the metrics.
    pub(crate) fn metrics(&self, round: &Round) -> BTreeMap<String, MetricReport> {
        self.metrics.told(round.job(), self.total_weight)
    }

    /// By how much a result of servers that compute may be off; none where it is a sum, which is exact.
    pub(crate) fn error_bound(&self) -> Option<f64> {
        self.by_rule.as_ref().map(|it| it.error)
    }

    /// Whether these words, with this mean, are the result.
    pub(crate) fn allows(&self, sum: &Words, mean: &[f64]) -> bool {
        match &self.by_rule {
            None => self.equals(sum),
            Some(it) => self.max_abs_error(mean) <= it.error,
        }
    }

    /// Whether these words are the sum.
    pub(crate) fn equals(&self, sum: &Words) -> bool {
        let mask = sum.width().mask();
        sum.len() == self.sum.len()
            && sum
                .iter()
                .zip(&self.sum)
                .all(|(word, expected)| word == expected & mask)
    }

    /// Largest difference between `mean` and the weighted mean of the vectors before they were clipped.
    pub(crate) fn max_abs_error_unclipped(&self, mean: &[f64]) -> f64 {
        let (Weighted::Reals(sums), Some(cut), None) = (&self.weighted, &self.cut, &self.by_rule)
        else {
            return self.max_abs_error(mean);
        };
        let total_weight = self.total_weight as f64;
        let meant = sums.iter().zip(cut).map(|(sum, cut)| sum + cut);
        meant
            .zip(mean)
            .map(|(sum, mean)| (sum / total_weight - mean).abs())
            .fold(0.0, f64::max)
    }

    /// Largest difference between `mean` and the weighted mean of the clipped vectors; or, where the job has a rule that is
    /// no sum, what the rule makes of them as they were encoded.
    pub(crate) fn max_abs_error(&self, mean: &[f64]) -> f64 {
        let largest = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, f64::max);
        if let Some(expected) = &self.by_rule {
            let pairs = mean.iter().zip(&expected.mean);
            return largest(&mut pairs.map(|(mean, expected)| (mean - expected).abs()));
        }
        let total_weight = self.total_weight as f64;
        match &self.weighted {
            Weighted::Reals(sums) => largest(
                &mut sums
                    .iter()
                    .zip(mean)
                    .map(|(sum, mean)| (sum / total_weight - mean).abs()),
            ),
            Weighted::Integers(sums) => largest(&mut sums.iter().zip(mean).map(|(sum, mean)| {
                let weights = u128::from(self.total_weight);
                let (whole, rest) = (sum / weights, sum % weights);
                (mean - whole as f64 - rest as f64 / total_weight).abs()
            })),
        }
    }

    /// Whether these are the sums of the integers.
    pub(crate) fn has_sums(&self, decoded: &[u128]) -> bool {
        matches!(&self.weighted, Weighted::Integers(sums) if sums == decoded)
    }
}

/// Adds integers times their weight.
fn add(values: Integers<'_>, weight: u32, sums: &mut [u128]) {
    let weight = u128::from(weight);
    match values {
        Integers::U32(values) => sums
            .iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += u128::from(*value) * weight),
        Integers::U64(values) => sums
            .iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += u128::from(*value) * weight),
    }
}

/// Adds a vector, clipped as the round says, times its weight; to `cut` what clipping takes off it.
fn add_clipped<R: Copy + Into<f64>>(
    round: &Round,
    values: &[R],
    weight: u32,
    weighted: &mut [f64],
    cut: Option<&mut Vec<f64>>,
) {
    let weight = f64::from(weight);
    each_clipped(round, values, |d, _, clipped| {
        weighted[d] += clipped * weight
    });
    if let Some(cut) = cut {
        each_clipped(round, values, |d, value, clipped| {
            cut[d] += (value - clipped) * weight;
        });
    }
}

/// Calls `visit` with the place of every coordinate, its value, and the value clipped as the round says.
fn each_clipped<R: Copy + Into<f64>>(
    round: &Round,
    values: &[R],
    mut visit: impl FnMut(usize, f64, f64),
) {
    let encoding = round.encoding();
    let factor = encoding.norm_bound().map_or(1.0, |bound| {
        let squares = values.iter().map(|value| (*value).into().powi(2));
        (bound / squares.sum::<f64>().sqrt()).min(1.0)
    });
    for (tensor, clip) in encoding.tensors() {
        for (d, value) in tensor.clone().zip(&values[tensor]) {
            let value = (*value).into();
            visit(d, value, (value * factor).clamp(-clip, clip));
        }
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
        Clipping, JobSpec, ModelUpdate, PartyId, ProtocolName, Quantised, RoundingName,
        TensorLayout,
    };

    use super::*;
    use crate::{Cohort, Given};

    /// The first round of a job with as many parties as it may have.
    fn round(job: Job) -> Round {
        let cohort = Cohort::new(job.spec().parties as usize, 0).unwrap();
        Round::new(Arc::new(job), 1, cohort.roster(1).unwrap(), &[0; 32]).unwrap()
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
        Reference::of(&round(job), &inputs, 0, &everyone).unwrap()
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
        assert_eq!(reference.max_abs_error_unclipped(&[0.625, -0.5]), 1.0);
        assert_eq!(reference.max_abs_error_unclipped(&[0.75, -1.5]), 0.0);
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
        let reference = Reference::of(&round(job), &inputs, 0, &everyone).unwrap();
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
        assert!(reference.equals(&sum));
        if let TileMut::W32(lanes) = sum.tile_mut(8..9) {
            lanes[0] ^= 1;
        }
        assert!(!reference.equals(&sum));
    }
}
