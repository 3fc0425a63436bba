//! Where a party could lie: these functions do nothing. Where the simulator is in the same program, `lying.rs` stands in
//! their place. It lies for parties whose memory says so, which the simulator makes and nobody else.

use blindsum_sharing::validity::{Answer, ValiditySharing, Witness};

use super::places::Places;
use crate::core::round::ClientSetup;
use crate::{FaultKind, PartyId};

/// Before the rows of a proof are shared.
pub(super) fn rows(_: &ClientSetup, _: &mut Witness) {}

/// Before the shares of words, each column behind its salt, are committed to.
pub(super) fn words(_: &ClientSetup, _: &ValiditySharing, _: &mut Places<'_>) {}

/// Before the bits of projections are shared, and what came of writing them.
pub(super) fn projected(
    _: &ClientSetup,
    _: &mut Witness,
    found: Result<(), FaultKind>,
) -> Result<(), FaultKind> {
    found
}

/// Before the whole columns, each behind its salt, are committed to.
pub(super) fn proof(_: &ClientSetup, _: &mut Places<'_>) {}

/// Whether what is sealed for a verifier is what was committed to.
pub(super) fn seals(_: &ClientSetup, _: PartyId) -> bool {
    true
}

/// Before a verifier answers about a prover; none where its column is unusable.
pub(super) fn answer(_: &ClientSetup, _: PartyId, answer: Option<Answer>) -> Option<Answer> {
    answer
}

/// Whether a prover shows columns of provable liars only.
pub(super) fn is_careful(_: &ClientSetup) -> bool {
    true
}

/// Whether an accused prover shows columns.
pub(super) fn shows(_: &ClientSetup) -> bool {
    true
}

/// Before the sum of columns is sent.
pub(super) fn sum(_: &ClientSetup, _: &mut [u8]) {}
