//! The updates that callers of an episode give.

use blindsum_encode::{Encoding, MetricLevels, Values};
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
#[derive(Clone)]
pub(super) struct Gift {
    numbers: Numbers,
    pub weight: u32,
    pub metrics: Vec<Option<f64>>,
}

#[derive(Clone)]
enum Numbers {
    Small(Vec<u32>),
    Large(Vec<u64>),
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Gift {
    /// One that fits the job: integers, or numbers of which some are outside their bound.
    pub fn drawn(job: &Job, rng: &mut ChaCha20Rng) -> Self {
        let spec = job.spec();
        let numbers = match spec.encoding.integer_bits() {
            Some(bits @ 0..32) => {
                let number = |_| rng.next_u32() % (1 << bits);
                Numbers::Small((0..spec.dim).map(number).collect())
            }
            Some(bits) => {
                let number = |_| rng.next_u64() >> (64 - bits);
                Numbers::Large((0..spec.dim).map(number).collect())
            }
            None => Numbers::reals(job, rng),
        };
        let weight = match spec.encoding.max_weight() {
            1 => 1,
            most => 1 + below(rng, most.into()) as u32,
        };
        let metrics = drawn(job, rng);
        Self {
            numbers,
            weight,
            metrics,
        }
    }

    /// The same update without metrics.
    pub fn without_metrics(mut self) -> Self {
        self.metrics.fill(None);
        self
    }

    /// The metrics by their names, as a caller gives them.
    pub fn named_metrics(&self, job: &Job) -> Metrics {
        let names = job.spec().metrics.iter().zip(&self.metrics);
        let given = names.filter_map(|(metric, value)| Some((metric.name.clone(), (*value)?)));
        given.collect()
    }

    /// Their levels.
    pub fn levels(&self, encoding: &Encoding) -> Result<MetricLevels, String> {
        let levels = encoding.metric_levels(&self.metrics);
        levels.map_err(|e| e.to_string())
    }

    pub fn update(&self) -> Update {
        match &self.numbers {
            Numbers::Small(numbers) => Update::U32(numbers.clone()),
            Numbers::Large(numbers) => Update::U64(numbers.clone()),
            Numbers::Single(numbers) => Update::F32(numbers.clone()),
            Numbers::Double(numbers) => Update::F64(numbers.clone()),
        }
    }

    pub fn values(&self) -> Values<'_> {
        match &self.numbers {
            Numbers::Small(numbers) => Values::from(&numbers[..]),
            Numbers::Large(numbers) => Values::from(&numbers[..]),
            Numbers::Single(numbers) => Values::F32(numbers),
            Numbers::Double(numbers) => Values::F64(numbers),
        }
    }

    /// The numbers as they are, where they are integers; otherwise none.
    pub fn integers(&self) -> Vec<u128> {
        match &self.numbers {
            Numbers::Small(numbers) => numbers.iter().map(|number| (*number).into()).collect(),
            Numbers::Large(numbers) => numbers.iter().map(|number| (*number).into()).collect(),
            Numbers::Single(_) | Numbers::Double(_) => Vec::new(),
        }
    }

    /// The numbers in double precision; none of integers.
    pub fn doubles(&self) -> Vec<f64> {
        match &self.numbers {
            Numbers::Single(numbers) => numbers.iter().map(|number| (*number).into()).collect(),
            Numbers::Double(numbers) => numbers.clone(),
            Numbers::Small(_) | Numbers::Large(_) => Vec::new(),
        }
    }
}

impl Numbers {
    fn reals(job: &Job, rng: &mut ChaCha20Rng) -> Self {
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
            0 => Self::Double(numbers),
            _ => Self::Single(numbers.iter().map(|number| *number as f32).collect()),
        }
    }
}
