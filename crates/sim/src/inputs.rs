//! The source of the parties' vectors.

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{Encoding, NoiseSeed, Seeds, Values};
use blindsum_protocol::{Job, JobSpec, PartyId};
use rand_core::Rng;

use crate::SimError;
use crate::metrics::drawn;
use crate::seeds::{below, seed_bytes, stream};

/// Buffers in which a vector may be built. Their contents are left from earlier uses.
#[derive(Default)]
pub struct Scratch {
    /// For real numbers.
    pub reals: Vec<f32>,
    /// For integers.
    pub integers: Vec<u64>,
}

/// The source of the parties' vectors. A vector is asked for whenever it is needed, more than once, and must be the
/// same every time. So the vectors need not all be in memory.
pub trait Inputs: Sync {
    /// The vector of a party in a round, `[dim]`. It may be built in `scratch`.
    fn values<'a>(&'a self, round: u64, party: PartyId, scratch: &'a mut Scratch) -> Values<'a>;

    /// The weight of the vector, 1 to `max_weight`.
    fn weight(&self, _round: u64, _party: PartyId) -> u32 {
        1
    }

    /// The metrics that the party reports: one value for each metric of the job, or none where it is missing.
    fn metrics(&self, round: u64, party: PartyId, job: &Job) -> Vec<Option<f64>>;

    /// Checks that there is a fitting vector and weight for each of `parties` parties.
    ///
    /// # Errors
    /// The first vector or weight that is missing or does not fit.
    fn check(&self, _job: &Job, _parties: usize) -> Result<(), SimError> {
        Ok(())
    }
}

/// Vectors that the caller has in memory, by rank; the same in every round.
pub struct Given<'a> {
    vectors: Vec<Values<'a>>,
    weights: Vec<u32>,
    /// By rank; none where all metrics are missing.
    metrics: Vec<Vec<Option<f64>>>,
}

impl<'a> Given<'a> {
    /// One vector for each party, with its weight. If `weights` is empty, all have weight 1.
    pub fn new<V: Into<Values<'a>>>(
        vectors: impl IntoIterator<Item = V>,
        weights: Vec<u32>,
    ) -> Self {
        Self {
            vectors: vectors.into_iter().map(Into::into).collect(),
            weights,
            metrics: Vec::new(),
        }
    }

    /// The same with the metrics of each party, by rank, each in the order of the job.
    pub fn with_metrics(self, metrics: Vec<Vec<Option<f64>>>) -> Self {
        Self { metrics, ..self }
    }
}

impl Inputs for Given<'_> {
    fn values<'a>(&'a self, _round: u64, party: PartyId, _scratch: &'a mut Scratch) -> Values<'a> {
        self.vectors
            .get(party.rank())
            .copied()
            .unwrap_or(Values::F32(&[]))
    }

    fn weight(&self, _round: u64, party: PartyId) -> u32 {
        self.weights.get(party.rank()).copied().unwrap_or(1)
    }

    fn metrics(&self, _round: u64, party: PartyId, job: &Job) -> Vec<Option<f64>> {
        let given = self.metrics.get(party.rank()).cloned();
        given.unwrap_or_else(|| vec![None; job.encoding().metrics().len()])
    }

    fn check(&self, job: &Job, parties: usize) -> Result<(), SimError> {
        if self.vectors.len() != parties {
            let rule = format!("vectors = {} = parties = {parties}", self.vectors.len());
            return Err(SimError::scenario("inputs", rule));
        }
        if !self.weights.is_empty() && self.weights.len() != parties {
            let rule = format!("weights = {} = parties = {parties}", self.weights.len());
            return Err(SimError::scenario("weights", rule));
        }
        if !self.metrics.is_empty() && self.metrics.len() != parties {
            let rule = format!("metrics = {} = parties = {parties}", self.metrics.len());
            return Err(SimError::scenario("metrics", rule));
        }
        let dim = job.spec().dim;
        for (party, values) in (0..).map(PartyId).zip(&self.vectors) {
            if values.len() as u64 != dim {
                let rule = format!("coordinates = {} = dim = {dim}", values.len());
                return Err(SimError::Inputs {
                    party,
                    field: "values",
                    rule,
                });
            }
            let (weight, most) = (self.weight(0, party), job.spec().encoding.max_weight());
            if !(1..=most).contains(&weight) {
                let rule = format!("1 <= weight = {weight} <= max_weight = {most}");
                return Err(SimError::Inputs {
                    party,
                    field: "weight",
                    rule,
                });
            }
        }
        Ok(())
    }
}

/// Random vectors over the whole range of the job's encoding, made when they are asked for. Coordinates are uniform
/// between the clipping bounds. If the norm is bounded, the expected squared norm is at most that of the bound: about
/// half of the vectors are scaled down where the bounds of coordinates leave room for it. Integers are uniform over all with the job's bits, weights over all that are
/// allowed. Where vectors are compared with that of a root, half of each is the same for all: long vectors that are drawn
/// apart have hardly a direction in common.
pub struct Synthetic {
    seed: u64,
    /// Whether vectors have a common part.
    has_common: bool,
    /// Bounds of runs of coordinates, with where each run ends.
    runs: Vec<(usize, f32)>,
    /// Where the vectors are integers: how many, and of how many bits.
    integers: Option<(usize, u32)>,
    max_weight: u32,
}

/// Generators that run side by side, so that the compiler can use vector instructions.
const STRIPES: usize = 16;

impl Synthetic {
    /// Vectors for this job.
    pub fn new(job: &Job, seed: u64) -> Self {
        let spec = job.spec();
        // Uniform in [-a, a] has variance a^2 / 3.
        let by_norm = job.encoding().norm_bound();
        let by_norm = by_norm.map(|bound| bound * (3.0 / spec.dim as f64).sqrt());
        let runs = clipping_runs(spec)
            .map(|(end, clip)| (end, by_norm.unwrap_or(clip).min(clip) as f32))
            .collect();
        Self {
            seed,
            has_common: spec.root().is_some(),
            runs,
            integers: spec
                .encoding
                .integer_bits()
                .map(|bits| (spec.dim as usize, bits)),
            max_weight: spec.encoding.max_weight(),
        }
    }
}

impl Synthetic {
    /// Adds a random vector, of which every coordinate is within this part of its bound.
    fn add(&self, mut rng: impl Rng, part: f32, vector: &mut [f32]) {
        let mut states = [0u32; STRIPES];
        states
            .iter_mut()
            .for_each(|state| *state = rng.next_u32() | 1);
        let mut first = 0;
        for &(end, bound) in &self.runs {
            if let Some(run) = vector.get_mut(first..end) {
                add(&mut states, part * bound, run);
            }
            first = end;
        }
    }
}

/// Where each run of coordinates with one clipping bound ends, and the bound.
pub(crate) fn clipping_runs(spec: &JobSpec) -> impl Iterator<Item = (usize, f64)> {
    let tensors = spec.encoding.tensors();
    let bound = spec.encoding.clip().filter(|_| tensors.is_empty());
    let whole = bound.map(|clip| (spec.dim as usize, clip));
    let mut end = 0;
    let tensors = tensors.iter().map(move |tensor| {
        end += tensor.len as usize;
        (end, tensor.clip)
    });
    whole.into_iter().chain(tensors)
}

impl Inputs for Synthetic {
    fn values<'a>(&'a self, round: u64, party: PartyId, scratch: &'a mut Scratch) -> Values<'a> {
        if let Some((dim, bits)) = self.integers {
            scratch.integers.resize(dim, 0);
            let mut rng = stream("vector", &[self.seed, round, party.0.into()]);
            fill_integers(&mut rng, bits, &mut scratch.integers);
            return Values::from(&scratch.integers[..]);
        }
        let scratch = &mut scratch.reals;
        let dim = self.runs.last().map_or(0, |(end, _)| *end);
        scratch.clear();
        scratch.resize(dim, 0.0);
        let part = if self.has_common { 0.5 } else { 1.0 };
        let own = [self.seed, round, party.0.into()];
        self.add(stream("vector", &own), part, scratch);
        if self.has_common {
            self.add(stream("common", &[self.seed, round]), part, scratch);
        }
        Values::F32(scratch)
    }

    fn weight(&self, round: u64, party: PartyId) -> u32 {
        let mut rng = stream("weight", &[self.seed, round, party.0.into()]);
        1 + below(&mut rng, self.max_weight.into()) as u32
    }

    fn metrics(&self, round: u64, party: PartyId, job: &Job) -> Vec<Option<f64>> {
        let mut rng = stream("metrics", &[self.seed, round, party.0.into()]);
        drawn(job, &mut rng)
    }
}

/// Adds numbers in `[-bound, bound)` to `run`. The generators are xorshift32 (Marsaglia 2003): three
/// shifts, so that making a vector costs less than one pass of a protocol over it.
fn add(states: &mut [u32; STRIPES], bound: f32, run: &mut [f32]) {
    let scale = bound * (1.0 / (1u32 << 31) as f32);
    for piece in run.chunks_mut(STRIPES) {
        for state in states.iter_mut() {
            *state ^= *state << 13;
            *state ^= *state >> 17;
            *state ^= *state << 5;
        }
        for (value, state) in piece.iter_mut().zip(states.iter()) {
            *value += *state as i32 as f32 * scale;
        }
    }
}

/// Fills `values` with numbers below 2^bits: xorshift64 (Marsaglia 2003), of which the upper bits are taken.
fn fill_integers(rng: &mut impl Rng, bits: u32, values: &mut [u64]) {
    let mut states = [0u64; STRIPES];
    states
        .iter_mut()
        .for_each(|state| *state = rng.next_u64() | 1);
    for piece in values.chunks_mut(STRIPES) {
        for (value, state) in piece.iter_mut().zip(states.iter_mut()) {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            *value = *state >> (64 - bits);
        }
    }
}

/// The seeds of a party's vector in a round.
pub(crate) fn vector_seeds(encoding: &Encoding, seed: u64, round: u64, party: PartyId) -> Seeds {
    let secret = |label| Secret::from(seed_bytes(label, &[seed, round, party.0.into()]));
    let rounding = MaskSeed::from(secret("rounding"));
    match encoding.noise() {
        None => rounding.into(),
        Some(_) => Seeds::with_noise(rounding, NoiseSeed::from(secret("noise"))),
    }
}

#[cfg(test)]
mod tests {
    use blindsum_encode::Integers;
    use blindsum_protocol::{Clipping, ModelUpdate, ProtocolName, Quantised, TensorLayout};

    use super::*;

    fn job(spec: JobSpec) -> Job {
        JobSpec {
            protocol: ProtocolName::Plain.into(),
            ..spec
        }
        .validate()
        .unwrap()
    }

    fn vector(synthetic: &Synthetic, round: u64, party: u32) -> Vec<f32> {
        let mut scratch = Scratch {
            reals: vec![9.0; 3],
            ..Scratch::default()
        };
        match synthetic.values(round, PartyId(party), &mut scratch) {
            Values::F32(values) => values.to_vec(),
            _ => unreachable!("synthetic real vectors are of single precision"),
        }
    }

    #[test]
    fn synthetic_vectors_are_repeatable_and_differ() {
        let synthetic = Synthetic::new(
            &job(JobSpec {
                dim: 1000,
                ..JobSpec::default()
            }),
            7,
        );
        let first = vector(&synthetic, 1, 0);
        assert_eq!(first, vector(&synthetic, 1, 0));
        for other in [vector(&synthetic, 1, 1), vector(&synthetic, 2, 0)] {
            assert!(first.iter().zip(&other).filter(|(a, b)| a == b).count() < 5);
        }
    }

    #[test]
    fn synthetic_vectors_fill_the_clipping_range() {
        let tensor = |len, clip| TensorLayout {
            name: String::new(),
            len,
            clip,
        };
        let spec = JobSpec {
            dim: 50_000,
            encoding: Quantised {
                tensors: vec![tensor(10_000, 2.0), tensor(40_000, 0.5)],
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let values = vector(&Synthetic::new(&job(spec), 1), 1, 0);
        let (wide, narrow) = values.split_at(10_000);
        for (run, clip) in [(wide, 2.0), (narrow, 0.5)] {
            let largest = run.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            assert!(
                (0.99 * clip..=clip).contains(&largest),
                "{largest} of {clip}"
            );
            let mean = run.iter().sum::<f32>() / run.len() as f32;
            assert!(mean.abs() < 0.05 * clip, "mean {mean}");
        }
        let spec = JobSpec {
            dim: 10_000,
            encoding: Quantised {
                clip: 3.0,
                clipping: Clipping::L2,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        let values = vector(&Synthetic::new(&job(spec), 1), 1, 0);
        let norm = values
            .iter()
            .map(|x| f64::from(*x).powi(2))
            .sum::<f64>()
            .sqrt();
        assert!((2.9..3.1).contains(&norm), "{norm}");
        for (max_norm, least, most) in [(20.0, 19.0, 19.5), (1e30, 57.0, 59.0)] {
            let encoding = Quantised {
                max_norm,
                bits: 8,
                ..Default::default()
            };
            let spec = JobSpec {
                dim: 10_000,
                encoding: encoding.into(),
                ..JobSpec::default()
            };
            let values = vector(&Synthetic::new(&job(spec), 1), 1, 0);
            let squares = values.iter().map(|x| f64::from(*x).powi(2));
            let norm = squares.sum::<f64>().sqrt();
            // Rounding may add 0.78. A bound that cannot be reached changes nothing.
            assert!((least..most).contains(&norm), "{norm}");
        }
    }

    #[test]
    fn synthetic_integers_fill_their_bits() {
        for bits in [1, 7, 33, 64] {
            let synthetic = Synthetic::new(
                &job(JobSpec {
                    dim: 1000,
                    encoding: blindsum_protocol::Integers {
                        bits,
                        ..Default::default()
                    }
                    .into(),
                    model_update: ModelUpdate::Nothing,
                    ..JobSpec::default()
                }),
                7,
            );
            let vector = |party| {
                let mut scratch = Scratch::default();
                match synthetic.values(1, PartyId(party), &mut scratch) {
                    Values::Integers(Integers::U64(values)) => values.to_vec(),
                    _ => unreachable!("synthetic integers have 64 bits"),
                }
            };
            let values = vector(0);
            assert_eq!(values, vector(0));
            assert_ne!(values, vector(1));
            let largest = u64::MAX >> (64 - bits);
            assert!(values.iter().all(|&value| value <= largest));
            let share = |bit: u32| values.iter().filter(|&value| value >> bit & 1 == 1).count();
            for bit in 0..bits {
                assert!((400..600).contains(&share(bit)), "bit {bit} of {bits}");
            }
        }
    }

    #[test]
    fn given_vectors_are_checked() {
        let job = job(JobSpec {
            dim: 2,
            parties: 2,
            encoding: Quantised {
                max_weight: 5,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        });
        let (a, b) = ([1.0f32, 2.0], [0.5f32, 0.25]);
        let check =
            |vectors: Vec<&[f32]>, weights: Vec<u32>| Given::new(vectors, weights).check(&job, 2);
        assert!(check(vec![&a, &b], vec![]).is_ok());
        assert!(check(vec![&a, &b], vec![5, 1]).is_ok());
        let rule = |result: Result<(), SimError>| result.unwrap_err().to_string();
        assert_eq!(
            rule(check(vec![&a], vec![])),
            "scenario: inputs: vectors = 1 = parties = 2"
        );
        assert_eq!(
            rule(check(vec![&a, &b[..1]], vec![])),
            "inputs: values of party 1: coordinates = 1 = dim = 2"
        );
        assert_eq!(
            rule(check(vec![&a, &b], vec![6, 1])),
            "inputs: weight of party 0: 1 <= weight = 6 <= max_weight = 5"
        );
        assert_eq!(
            rule(check(vec![&a, &b], vec![1])),
            "scenario: weights: weights = 1 = parties = 2"
        );
    }
}
