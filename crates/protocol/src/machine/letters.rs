//! What servers that compute together say to each other, in its frame: that of a message of the stage in which they compute,
//! which is the last one.

use crate::core::round::stages::Letters;
use crate::kit::wire::{self, Message};
use crate::{Fault, FaultKind, Round, ServerIndex, ServerRole};

/// The letters with their frames.
pub(super) fn framed(round: &Round, letters: Letters) -> Vec<(ServerIndex, Message)> {
    let frame = |body| wire::frame_in_place(round.context(), stage(round), body);
    letters
        .into_iter()
        .map(|(to, body)| (to, frame(body)))
        .collect()
}

/// What a letter says.
pub(super) fn open<'a>(
    round: &Round,
    from: ServerIndex,
    letter: &'a [u8],
) -> Result<&'a [u8], Fault> {
    let blame = |kind| match ServerRole::at(from) {
        Some(role) => Fault::of(role.into(), kind),
        None => Fault::server(kind),
    };
    let (got, body) = wire::unframe(round, letter).map_err(blame)?;
    let expected = stage(round);
    match got == expected {
        true => Ok(body),
        false => Err(blame(FaultKind::OtherStage { got, expected })),
    }
}

/// The stage in which they compute.
fn stage(round: &Round) -> u8 {
    let last = round.plan().answers().last();
    last.map_or(0, |step| step.stage)
}
