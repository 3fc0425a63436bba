//! What liars do, in the places where `conduct.rs` does nothing. A party without a lie in its memory is honest.

use std::sync::{Mutex, PoisonError};

use blindsum_math::field::Field;
use blindsum_math::prime_field::Field47;
use blindsum_sharing::validity::{Answer, ValiditySharing, Witness};

use super::places::Places;
use crate::core::round::ClientSetup;
use crate::protocols::pss_malicious::lies::Lie;
use crate::protocols::pss_malicious::messages::SALT;
use crate::{FaultKind, JobMemory, PartyId};

type F = Field47;

/// The lie of a party, if it has one.
#[derive(Default)]
struct Conduct(Mutex<Option<Lie>>);

impl JobMemory {
    /// What a party keeps that lies in all rounds of a job of `pss-malicious`.
    pub fn lying(lie: Lie) -> Self {
        let memory = Self::default();
        let conduct = memory.kept::<Conduct>();
        *conduct.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lie);
        memory
    }
}

fn lie(setup: &ClientSetup) -> Option<Lie> {
    let conduct = setup.memory.kept::<Conduct>();
    conduct
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Sets a word with its square, its bits as they were.
fn set_word(witness: &mut Witness, block: usize, slot: usize, word: F) {
    let layout = *witness.layout();
    *witness.at(block, slot) = word.to_canonical();
    if let Some(norm) = layout.statement().norm {
        let of = |value| F::from_canonical(value).unwrap_or(F::ZERO);
        let v = word - of(norm.offset);
        let square = v * (v + of(norm.slope));
        *witness.at(layout.squares().start + block, slot) = square.to_canonical();
    }
}

pub(super) fn rows(setup: &ClientSetup, witness: &mut Witness) {
    let layout = *witness.layout();
    let (blocks, bits) = (layout.blocks(), layout.bits());
    let of = |value: u64| F::from_canonical(value).unwrap_or(F::ZERO);
    match lie(setup) {
        Some(Lie::NonBit) if !bits.is_empty() => {
            // The word is still the sum of its bits.
            set_word(witness, 0, 0, of(2));
            for bit in 0..bits.len() / blocks {
                *witness.at(bits.start + bit * blocks, 0) = if bit == 0 { 2 } else { 0 };
            }
        }
        Some(Lie::WrongSquare) => {
            let square = witness.at(layout.squares().start, 0);
            *square = square.checked_sub(1).unwrap_or(1);
        }
        Some(Lie::OutOfBound) if bits.is_empty() => wrap_around(witness),
        Some(Lie::OutOfBound) => {
            let largest = (1 << layout.statement().bits) - 1;
            set_word(witness, 0, 0, of(largest + 1));
        }
        Some(Lie::CancellingPair) => {
            // Where a row has one word, two blocks err.
            let second = if layout.packing() > 1 {
                (0, 1)
            } else {
                (blocks - 1, 0)
            };
            let shift = of(1 << 24);
            let (one, other) = (of(*witness.at(0, 0)), of(*witness.at(second.0, second.1)));
            set_word(witness, 0, 0, one + shift);
            set_word(witness, second.0, second.1, other - shift);
        }
        Some(Lie::WrongNorm) => {
            for row in layout.norm_bits() {
                let bit = witness.at(row, 0);
                *bit = 1 - *bit;
            }
        }
        _ => {}
    }
}

/// Sets words whose squares add up to the modulus and to no more above it than the norm may be.
fn wrap_around(witness: &mut Witness) {
    let layout = *witness.layout();
    let Some(norm) = layout.statement().norm else {
        return;
    };
    let square = |v: u64| v * (v + norm.slope);
    let mut left = F::MODULUS;
    let numbers =
        (0..layout.packing()).flat_map(|slot| (0..layout.blocks()).map(move |block| (block, slot)));
    for (block, slot) in numbers {
        let (root, fits) = (left.isqrt(), |above: u64| above <= norm.most);
        let first_beyond = (root.saturating_sub(1)..)
            .find(|v| square(*v) >= left)
            .unwrap_or(root);
        let is_last = left > 0 && fits(square(first_beyond) - left);
        let v = if is_last {
            first_beyond
        } else {
            first_beyond.saturating_sub(1)
        };
        let of = |value| F::from_canonical(value).unwrap_or(F::ZERO);
        set_word(witness, block, slot, of(norm.offset) + of(v));
        if is_last {
            let _ = witness.write_norm(u128::from(square(v) - left));
            left = 0;
        } else {
            left -= square(v);
        }
    }
}

pub(super) fn projected(
    setup: &ClientSetup,
    witness: &mut Witness,
    found: Result<(), FaultKind>,
) -> Result<(), FaultKind> {
    match lie(setup) {
        Some(Lie::NonBit) => {
            let layout = *witness.layout();
            if let Some(row) = layout.projection_bits().next() {
                *witness.at(row, 0) = 2;
            }
            found
        }
        // Goes on with bits of other projections.
        Some(_) => Ok(()),
        None => found,
    }
}

pub(super) fn proof(setup: &ClientSetup, places: &mut Places<'_>) {
    let Some(Lie::OtherWords(victims)) = lie(setup) else {
        return;
    };
    for victim in victims {
        let place = places.get_mut(victim.rank()).and_then(Option::as_mut);
        if let Some(column) = place.and_then(|salted| salted.get_mut(SALT..)) {
            add(column, F::ONE);
        }
    }
}

pub(super) fn words(setup: &ClientSetup, sharing: &ValiditySharing, places: &mut Places<'_>) {
    let lie = lie(setup);
    for (rank, column) in places.iter_mut().enumerate() {
        let Some(column) = column.as_mut().and_then(|salted| salted.get_mut(SALT..)) else {
            continue;
        };
        let victim = PartyId(rank as u32);
        match &lie {
            Some(Lie::BadDegree) => {
                let point = sharing.share_point(rank).unwrap_or(F::ZERO);
                let top = point.power(sharing.parameters().threshold() as u64);
                add(column, top);
            }
            Some(Lie::WrongShare(victims) | Lie::SilentDiscloser(victims))
                if victims.contains(&victim) =>
            {
                add(column, F::ONE);
            }
            // It could not go on with such a column itself.
            Some(Lie::NoColumn(victims)) if victims.contains(&victim) && victim != setup.me => {
                column
                    .iter_mut()
                    .take(F::ENCODED_LEN)
                    .for_each(|byte| *byte = 0xff);
            }
            _ => {}
        }
    }
}

/// Adds to the first element.
fn add(column: &mut [u8], more: F) {
    let Some(first) = column.get_mut(..F::ENCODED_LEN) else {
        return;
    };
    let element = F::read_from(first).unwrap_or(F::ZERO);
    (element + more).write_to(first);
}

pub(super) fn seals(setup: &ClientSetup, to: PartyId) -> bool {
    !matches!(lie(setup), Some(Lie::Rubbish(victims)) if victims.contains(&to))
}

pub(super) fn answer(
    setup: &ClientSetup,
    prover: PartyId,
    answer: Option<Answer>,
) -> Option<Answer> {
    match lie(setup) {
        Some(Lie::LyingVerifier) if prover != setup.me => Some(answer?.moved()),
        Some(Lie::MassAccuser) if prover != setup.me => None,
        Some(Lie::FalseAccuser(victims)) if prover != setup.me && victims.contains(&prover) => None,
        _ => answer,
    }
}

pub(super) fn is_careful(setup: &ClientSetup) -> bool {
    !matches!(
        lie(setup),
        Some(Lie::WrongShare(_) | Lie::SilentDiscloser(_) | Lie::NoColumn(_))
    )
}

pub(super) fn shows(setup: &ClientSetup) -> bool {
    !matches!(lie(setup), Some(Lie::SilentDiscloser(_)))
}

pub(super) fn sum(setup: &ClientSetup, sum: &mut [u8]) {
    if matches!(lie(setup), Some(Lie::LyingAggregator)) {
        add(sum, F::ONE);
    }
}
