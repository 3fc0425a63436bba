//! FLASHE: parties hold one key, the server adds ciphertexts and learns neither updates nor sums.
//!
//! Two kinds of rounds. A *key set-up* ([`setup`]) gives every party that lacks it the key K of the job: one
//! that holds it, the leader, seals it to the others' certified fresh keys. A round of the job itself
//! ([`rounds`]) is one message up, the encrypted vector with its check, and one down, the encrypted sum. Where
//! parties send some of their coordinates only ([`sparse_rounds`]), they say first which ones.
//!
//! Source: FLASHE §3 (the scheme, in `blindsum-he`); key set-up, storage and checks are ours.

mod held;
mod options;
mod rounds;
mod setup;
mod sparse_rounds;
#[cfg(test)]
mod tests;

pub use options::{DivisorName, Flashe, Masking};

use blindsum_he::flashe::FlasheError;
use blindsum_he::flashe::{Scheme, Shape, Survivors, expected_masks};

use std::sync::Arc;

use rounds::Dense;

use crate::core::noise_rule::NoiseRule;
use crate::core::protocol::{KeySetup, ProtocolInfo, ProtocolTable};
use crate::kit::restore::Stateless;
use crate::{Adversary, FaultKind, Job, PartySet, Plan, SpecError};

impl ProtocolTable for Flashe {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

/// How the parties of a job come to a key that no server has.
pub(super) static KEY_SETUP: KeySetup = KeySetup {
    plan: |job, _| setup::plan(job),
    machines: |_| {
        Ok(Arc::new(Stateless {
            start: setup::client::start,
            restore: setup::client::restore,
            serve: setup::server::serve,
        }))
    },
    held: held::key_id,
    storage_key: held::storage_key,
};

static INFO: ProtocolInfo = ProtocolInfo {
    protects: true,
    // The check of a sum holds for whole numbers.
    wraps: false,
    // A coordinator that lies can name other survivors to some parties, and the noise in both sums is the same.
    noise: |spec| match spec.adversary {
        Adversary::SemiHonest => NoiseRule::OfAll,
        // guard: a-sum-of-other-survivors-has-the-same-noise
        Adversary::Active => NoiseRule::OfOne,
    },
    sparsity: |spec| Flashe::of(spec).sparsity(),
    parameters: |job, parties| {
        if let Some(schedule) = job.density() {
            let tensors = job.encoding().tensors();
            let kept = tensors.map(|(run, _)| schedule.kept(u64::MAX, run.len()));
            return Ok(vec![("coordinates", kept.sum())]);
        }
        let masks = scheme(job, parties).masks_to_encrypt() as usize;
        Ok(vec![("masks", masks)])
    },
    check,
    key_setup: |_| Some(&KEY_SETUP),
    ..ProtocolInfo::of(plan, |round| match round.job().spec().is_sparse() {
        true => Ok(Arc::new(Stateless {
            start: sparse_rounds::client::start,
            restore: sparse_rounds::client::restore,
            serve: sparse_rounds::server::serve,
        })),
        false => Ok(Arc::new(Dense)),
    })
};

fn plan(job: &Job, _parties: usize) -> Plan {
    match job.spec().is_sparse() {
        true => sparse_rounds::plan(job),
        false => rounds::plan(job),
    }
}

fn check(job: &Job) -> Result<(), SpecError> {
    let spec = job.spec();
    Flashe::of(spec).check(spec)?;
    if spec.parties < 2 {
        let rule = format!("2 <= parties = {} for flashe", spec.parties);
        return Err(SpecError::new("parties", rule));
    }
    if job.min_parties() < 2 {
        let rule = "2 <= min_parties = 1 for flashe: the sum of one update is the update";
        return Err(SpecError::new("min_parties", rule));
    }
    shape(job, spec.parties as usize).map_err(|e| SpecError::new("dim", e.to_string()))?;
    Ok(())
}

/// Scheme, width and lanes of the vectors of a round of `parties` parties.
fn shape(job: &Job, parties: usize) -> Result<Shape, FlasheError> {
    Shape::new(scheme(job, parties), job.width(), job.lanes())
}

/// The masking of a round: the job's, or the one that is expected to cost a survivor fewer masks where the
/// dropouts of the job happen (FLASHE Theorem 2).
fn scheme(job: &Job, parties: usize) -> Scheme {
    match Flashe::of(job.spec()).masking {
        Masking::Double => Scheme::Double,
        Masking::Single => Scheme::Single,
        Masking::Cheaper => {
            let survivors = parties - job.spec().losses_among(parties);
            match expected_masks(parties as u32, survivors as u32) {
                Ok(masks) if masks.single < masks.double => Scheme::Single,
                _ => Scheme::Double,
            }
        }
    }
}

/// A set of parties as ranks.
fn ranks(set: &PartySet, parties: usize) -> Result<Survivors, FlasheError> {
    let ranks: Vec<u32> = set.iter().map(|party| party.0).collect();
    Survivors::new(parties as u32, &ranks)
}

impl From<FlasheError> for FaultKind {
    fn from(error: FlasheError) -> Self {
        match error {
            FlasheError::Check => FaultKind::WrongSum,
            FlasheError::CounterReuse { round, next } => FaultKind::RoundUsed { round, next },
            FlasheError::State => FaultKind::Vault(error.to_string()),
            FlasheError::Math(_) | FlasheError::CiphertextLength { .. } => {
                FaultKind::malformed("sum", error.to_string())
            }
            FlasheError::MaskEncoding { .. }
            | FlasheError::Coordinate { .. }
            | FlasheError::Coordinates { .. } => FaultKind::malformed("mask", error.to_string()),
            other => FaultKind::Parameters(other.to_string()),
        }
    }
}
