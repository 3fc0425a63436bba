//! The ways in which a party can lie. For tests and the simulator.

use crate::PartyId;

/// What a party does instead of what it should, in every round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lie {
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
    /// As [`Lie::WrongShare`], and an accused party shows nothing.
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
