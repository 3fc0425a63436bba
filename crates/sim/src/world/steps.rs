//! The model after a round, coordinate by coordinate, from the options of the job's step: nothing of the library's
//! arithmetic has a part in it.

use blindsum_encode::Precision;
use blindsum_job::Model;
use blindsum_protocol::{Job, ModelUpdate, StepChoice};

/// A number as it is after it was stored in the precision of the job.
fn stored(job: &Job, number: f64) -> f64 {
    match job.encoding().precision() {
        Precision::Single => f64::from(number as f32),
        Precision::Double => number,
    }
}

/// Little-endian numbers of the precision of the job.
fn read(job: &Job, bytes: &[u8]) -> Vec<f64> {
    match job.encoding().precision() {
        Precision::Single => {
            let (numbers, _) = bytes.as_chunks::<4>();
            let numbers = numbers.iter();
            numbers.map(|it| f32::from_le_bytes(*it).into()).collect()
        }
        Precision::Double => {
            let (numbers, _) = bytes.as_chunks::<8>();
            numbers.iter().map(|it| f64::from_le_bytes(*it)).collect()
        }
    }
}

/// The next momentum, second moment and change of a coordinate with this mean. What a step does not have is 0.
fn next(job: &Job, (m, v): (f64, f64), mean: f64) -> (f64, f64, f64) {
    let round = |number| stored(job, number);
    let adapted = |m: f64, v: f64, rate: f64, tau: f64| {
        let (m, v) = (round(m), round(v));
        (m, v, rate * m / (v.sqrt() + tau))
    };
    let mixed = |old: f64, part: f64, new: f64| part * old + (1.0 - part) * new;
    let square = mean * mean;
    match &job.spec().step {
        StepChoice::FedAvg(of) => (0.0, 0.0, of.learning_rate * mean),
        StepChoice::FedAvgM(of) => {
            let m = round(of.momentum * m + mean);
            (m, 0.0, of.learning_rate * m)
        }
        StepChoice::FedAdam(of) => {
            let v = mixed(v, of.beta2, square);
            adapted(mixed(m, of.beta1, mean), v, of.learning_rate, of.tau)
        }
        StepChoice::FedYogi(of) => {
            let change = (1.0 - of.beta2) * square;
            let v = match v.total_cmp(&square) {
                std::cmp::Ordering::Less => v + change,
                std::cmp::Ordering::Equal => v,
                std::cmp::Ordering::Greater => v - change,
            };
            adapted(mixed(m, of.beta1, mean), v, of.learning_rate, of.tau)
        }
        StepChoice::FedAdagrad(of) => {
            let v = v + square;
            adapted(mixed(m, of.beta1, mean), v, of.learning_rate, of.tau)
        }
    }
}

/// The values, and the state of the step after them, of the model after a round that started from another one.
pub(super) fn numbers_after(job: &Job, start: &Model, mean: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let values = start.values().to_doubles();
    match job.spec().model_update {
        ModelUpdate::Nothing => return (values, Vec::new()),
        ModelUpdate::Replace => return (mean.to_vec(), Vec::new()),
        ModelUpdate::Add => {}
    }
    let (dim, vectors) = (values.len(), job.server_step().vectors());
    let state = state_of(job, start);
    let at = |vector: usize, d: usize| match vector < vectors {
        true => state[vector * dim + d],
        false => 0.0,
    };
    let (mut after, mut kept) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (d, (x, mean)) in values.iter().zip(mean).enumerate() {
        let (m, v, change) = next(job, (at(0, d), at(1, d)), *mean);
        after.push(stored(job, x + change));
        kept[0].push(m);
        kept[1].push(v);
    }
    let state = kept.into_iter().take(vectors).flatten().collect();
    (after, state)
}

/// The state of the step at the end of the bytes of a model.
pub(super) fn state_of(job: &Job, model: &Model) -> Vec<f64> {
    let bytes = model.to_bytes();
    let of_one = model.values().len() * job.encoding().precision().bytes();
    let at = bytes.len() - job.server_step().vectors() * of_one;
    read(job, &bytes[at..])
}
