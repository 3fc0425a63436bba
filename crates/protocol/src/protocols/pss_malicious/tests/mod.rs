//! The protocol driven by hand: rounds with liars and dropouts, and the abuse cases (docs/security/cases.md).

mod campaign;
mod coordinator;
#[path = "../../../../../sim/src/deviation.rs"]
mod deviation;
mod liars;
mod rounds;

use std::sync::Arc;

use blindsum_math::words::Words;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use deviation::Deviation;

use crate::Bound;
use crate::testing::{Cohort, Rig, assert_ended, body, parties, restart, with_body};
use crate::{
    Adversary, Culprit, Fault, FaultKind, JobMemory, JobSpec, Outcome, PartyId, PssMalicious,
    Quantised,
};

const SHARE: u8 = 1;

/// 12 parties, of which 2 may lie and 1 may be lost: rows of 2 words and 4 coefficients.
fn spec(adversary: Adversary, max_norm: f64) -> JobSpec {
    JobSpec {
        protocol: PssMalicious::default().into(),
        encoding: Quantised {
            bits: 8,
            max_norm,
            ..Quantised::default()
        }
        .into(),
        adversary,
        parties: 12,
        dim: 7,
        corrupt: 0.16,
        dropout: 0.1,
        ..JobSpec::default()
    }
}

/// Bounds of coordinates and of the norm, and of the norm alone.
fn specs(adversary: Adversary) -> [JobSpec; 2] {
    [Bound::Entries, Bound::L2].map(|bound| JobSpec {
        protocol: PssMalicious {
            bound,
            ..PssMalicious::default()
        }
        .into(),
        ..spec(adversary, 0.5)
    })
}

/// The words of a party: around zero, so that their norm is small.
fn small_words(cohort: &Cohort, rng: &mut ChaCha20Rng) -> Words {
    let mut words = cohort.round.job().zeros();
    let values: Vec<u64> = (0..words.len())
        .map(|_| 128 - 20 + rng.next_u64() % 40)
        .collect();
    words = Words::from_values(words.width(), &values).unwrap();
    words
}

/// A cohort in which these parties lie.
fn cohort(spec: JobSpec, seed: u64, lies: &[(u32, Deviation)]) -> Cohort {
    let mut cohort = Cohort::new(spec, seed);
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    cohort.inputs = (0..cohort.inputs.len())
        .map(|_| small_words(&cohort, &mut rng))
        .collect();
    for (liar, lie) in lies {
        cohort.memories[*liar as usize] = Arc::new(JobMemory::misbehaving(Box::new(lie.clone())));
    }
    cohort
}

fn rig(spec: JobSpec, seed: u64, lies: &[(u32, Deviation)]) -> Rig {
    let cohort = cohort(spec, seed, lies);
    let everybody: Vec<u32> = cohort.round.everyone().map(|party| party.0).collect();
    Rig::of_parties(cohort, ChaCha20Rng::seed_from_u64(seed + 1), &everybody)
}

/// A cohort where everything has happened up to the answers of stage `stage`, which are on their way.
fn rig_at(spec: JobSpec, lies: &[(u32, Deviation)], stage: u8) -> Rig {
    let mut rig = rig(spec, 7, lies);
    for _ in 0..stage {
        rig.serve().unwrap();
        rig.answer_all().unwrap();
    }
    rig
}

/// The sum is that of its survivors, who are all but these.
fn assert_sum(rig: &Rig, outcome: &Outcome, without: &[u32]) {
    let all = rig.cohort.round.everyone();
    let expected: Vec<PartyId> = all.filter(|party| !without.contains(&party.0)).collect();
    assert_eq!(outcome.survivors.iter().collect::<Vec<_>>(), expected);
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(expected)));
}

/// Who was found to lie, and how.
fn found(outcome: &Outcome) -> Vec<(u32, &'static str)> {
    let lies = outcome
        .faults
        .iter()
        .filter_map(|fault| match fault.culprit {
            Culprit::Party(party) => Some((party.0, fault.kind.lie()?)),
            _ => None,
        });
    let mut found: Vec<_> = lies.collect();
    found.sort_unstable();
    found
}
