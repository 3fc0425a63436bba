//! Ways in which a simulated party of `pss-malicious` deviates from the protocol. The unit tests of `blindsum-protocol`
//! take this file as well, so that they and the simulator have the same corrupt parties.

use blindsum_math::field::Field;
use blindsum_math::prime_field::Field47;
use blindsum_protocol::{FaultKind, Misbehaviour, PartyId};
use blindsum_sharing::validity::{ValiditySharing, Witness};

type F = Field47;

/// One way in which a corrupt party of `pss-malicious` deviates, in every round of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// A row is no polynomial of degree below k.
    BadDegree,
    /// A bit of a word is 2; of a projection, where these have bits.
    NonBit,
    /// A square is that of another word.
    WrongSquare,
    /// A word is one above its bound. Where words have no bits, some are so large that the sum of squares wraps around in the
    /// field and seems to be small.
    OutOfBound,
    /// Two words of a row err in opposite directions.
    CancellingPair,
    /// The bits of the norm say another one.
    WrongNorm,
    /// The columns of these parties do not fit those of the others.
    WrongShare(Vec<PartyId>),
    /// The columns of these parties have other words than were committed to before the projections.
    OtherWords(Vec<PartyId>),
    /// The columns of these parties have something in them that is no element of the field.
    NoColumn(Vec<PartyId>),
    /// What is sealed for these parties is not what was committed to.
    Rubbish(Vec<PartyId>),
    /// As [`Deviation::WrongShare`], and an accused party shows nothing.
    SilentDiscloser(Vec<PartyId>),
    /// Answers about all others are wrong.
    LyingVerifier,
    /// The columns of all others are said to be unusable.
    MassAccuser,
    /// The columns of these parties are said to be unusable.
    FalseAccuser(Vec<PartyId>),
    /// The sum of columns is wrong.
    LyingAggregator,
}

impl Misbehaviour for Deviation {
    fn edit_witness(&self, witness: &mut Witness) {
        let layout = *witness.layout();
        let (blocks, bits) = (layout.blocks(), layout.bits());
        let of = |value: u64| F::from_canonical(value).unwrap_or(F::ZERO);
        match self {
            Self::NonBit if !bits.is_empty() => {
                // The word is still the sum of its bits.
                set_word(witness, 0, 0, of(2));
                for bit in 0..bits.len() / blocks {
                    *witness.at(bits.start + bit * blocks, 0) = if bit == 0 { 2 } else { 0 };
                }
            }
            Self::WrongSquare => {
                let square = witness.at(layout.squares().start, 0);
                *square = square.checked_sub(1).unwrap_or(1);
            }
            Self::OutOfBound if bits.is_empty() => wrap_around(witness),
            Self::OutOfBound => {
                let largest = layout.statement().largest;
                set_word(witness, 0, 0, of(largest + 1));
            }
            Self::CancellingPair => cancelling_pair(witness),
            Self::WrongNorm => {
                for row in layout.norm_bits() {
                    let bit = witness.at(row, 0);
                    *bit = 1 - *bit;
                }
            }
            _ => {}
        }
    }

    fn edit_words(
        &self,
        me: PartyId,
        sharing: &ValiditySharing,
        columns: &mut [Option<&mut [u8]>],
    ) {
        for (rank, column) in columns.iter_mut().enumerate() {
            let (Some(column), verifier) = (column.as_mut(), PartyId(rank as u32)) else {
                continue;
            };
            match self {
                Self::BadDegree => {
                    let point = sharing.share_point(rank).unwrap_or(F::ZERO);
                    let top = point.power(sharing.parameters().threshold() as u64);
                    add(column, top);
                }
                Self::WrongShare(victims) | Self::SilentDiscloser(victims)
                    if victims.contains(&verifier) =>
                {
                    add(column, F::ONE);
                }
                // It could not go on with such a column itself.
                Self::NoColumn(victims) if victims.contains(&verifier) && verifier != me => {
                    column
                        .iter_mut()
                        .take(F::ENCODED_LEN)
                        .for_each(|byte| *byte = 0xff);
                }
                _ => {}
            }
        }
    }

    /// Goes on with bits of other projections where they are too large.
    fn edit_projections(
        &self,
        witness: &mut Witness,
        written: Result<(), FaultKind>,
    ) -> Result<(), FaultKind> {
        if *self != Self::NonBit {
            return Ok(());
        }
        let layout = *witness.layout();
        if let Some(row) = layout.projection_bits().next() {
            *witness.at(row, 0) = 2;
        }
        written
    }

    fn edit_columns(&self, columns: &mut [Option<&mut [u8]>]) {
        let Self::OtherWords(victims) = self else {
            return;
        };
        for victim in victims {
            if let Some(column) = columns.get_mut(victim.rank()).and_then(Option::as_mut) {
                add(column, F::ONE);
            }
        }
    }

    fn seals_what_it_committed_to(&self, verifier: PartyId) -> bool {
        !matches!(self, Self::Rubbish(victims) if victims.contains(&verifier))
    }

    fn edit_answer(
        &self,
        me: PartyId,
        prover: PartyId,
        answer: Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        match self {
            _ if prover == me => answer,
            Self::LyingVerifier => {
                let mut answer = answer?;
                answer
                    .chunks_exact_mut(F::ENCODED_LEN)
                    .for_each(|element| add(element, F::ONE));
                Some(answer)
            }
            Self::MassAccuser => None,
            Self::FalseAccuser(victims) if victims.contains(&prover) => None,
            _ => answer,
        }
    }

    fn protects_honest_verifiers(&self) -> bool {
        !matches!(
            self,
            Self::WrongShare(_) | Self::SilentDiscloser(_) | Self::NoColumn(_)
        )
    }

    fn shows_columns(&self) -> bool {
        !matches!(self, Self::SilentDiscloser(_))
    }

    fn edit_sum(&self, sum: &mut [u8]) {
        if *self == Self::LyingAggregator {
            add(sum, F::ONE);
        }
    }
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

/// Shifts two words of a row in opposite directions.
fn cancelling_pair(witness: &mut Witness) {
    let layout = *witness.layout();
    let of = |value: u64| F::from_canonical(value).unwrap_or(F::ZERO);
    // Where a row has one word, two blocks err.
    let second = match layout.packing() {
        1 => (layout.blocks() - 1, 0),
        _ => (0, 1),
    };
    let shift = of(1 << 24);
    let (one, other) = (of(*witness.at(0, 0)), of(*witness.at(second.0, second.1)));
    set_word(witness, 0, 0, one + shift);
    set_word(witness, second.0, second.1, other - shift);
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

/// Adds to the first element.
fn add(column: &mut [u8], more: F) {
    let Some(first) = column.get_mut(..F::ENCODED_LEN) else {
        return;
    };
    let element = F::read_from(first).unwrap_or(F::ZERO);
    (element + more).write_to(first);
}
