//! The updates that callers of an episode give.

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_job::party::{Metrics, Update};
use blindsum_protocol::Job;
use rand_chacha::ChaCha20Rng;
use rand_core::Rng;

use crate::metrics::drawn;
use crate::seeds::below;

/// Real numbers are multiples of this part of their bound.
const STEPS: f64 = 64.0;
/// The largest of them is so many steps: it is clipped.
const MOST: u64 = 80;

/// An update with its weight and its metrics.
pub(super) struct Gift {
    pub update: Update,
    pub weight: u32,
    pub metrics: Vec<Option<f64>>,
}

/// A seed that no party has: where rounding is random the random bits are others than those of the party.
pub(super) fn other_seed() -> MaskSeed {
    MaskSeed::from(Secret::from([0; 32]))
}

impl Gift {
    /// One that fits the job: integers, or numbers of which some are outside their bound.
    pub fn drawn(job: &Job, rng: &mut ChaCha20Rng) -> Self {
        let spec = job.spec();
        let update = match spec.encoding.integer_bits() {
            Some(bits @ 0..32) => {
                let number = |_| rng.next_u32() % (1 << bits);
                Update::U32((0..spec.dim).map(number).collect())
            }
            Some(bits) => {
                let number = |_| rng.next_u64() >> (64 - bits);
                Update::U64((0..spec.dim).map(number).collect())
            }
            None => reals(job, rng),
        };
        let weight = match spec.encoding.max_weight() {
            1 => 1,
            most => 1 + below(rng, most.into()) as u32,
        };
        let metrics = drawn(job, rng);
        Self {
            update,
            weight,
            metrics,
        }
    }

    /// The metrics by their names, as a caller gives them.
    pub fn named_metrics(&self, job: &Job) -> Metrics {
        let names = job.spec().metrics.iter().zip(&self.metrics);
        let given = names.filter_map(|(metric, value)| Some((metric.name.clone(), (*value)?)));
        given.collect()
    }

    /// The numbers in double precision; none of integers.
    pub fn doubles(&self) -> Vec<f64> {
        match &self.update {
            Update::F32(numbers) => numbers.iter().map(|number| (*number).into()).collect(),
            Update::F64(numbers) => numbers.clone(),
            Update::U32(_) | Update::U64(_) => Vec::new(),
        }
    }
}

/// Real numbers, of which some are outside their bound.
fn reals(job: &Job, rng: &mut ChaCha20Rng) -> Update {
    // Of a norm that is bounded half of the vectors are inside; where bounds are found from the means, most are so
    // small that these narrow.
    let learns = job.new_history().is_some();
    let part = match job.encoding().norm_bound() {
        Some(_) if below(rng, 2) == 0 => 8.0,
        None if learns && below(rng, 8) != 0 => 16.0,
        _ => 1.0,
    };
    let mut numbers = Vec::new();
    for (run, clip) in job.encoding().tensors() {
        for _ in run {
            let steps = below(rng, 2 * MOST + 1) as f64 - MOST as f64;
            numbers.push(clip * steps / STEPS / part);
        }
    }
    match below(rng, 2) {
        0 => Update::F64(numbers),
        _ => Update::F32(numbers.iter().map(|number| *number as f32).collect()),
    }
}
