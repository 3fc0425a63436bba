//! What servers that compute together say to each other, in its frame: letters in that of a message of the stage in which they
//! compute, which is the last one; notices of uploads in that of the stage of the uploads.

use crate::core::round::stages::Letters;
use crate::kit::wire::{self, Message};
use crate::{Fault, FaultKind, Round, ServerIndex, ServerRole};

/// What one server says to another.
pub(super) enum Said<'a> {
    /// That it took an upload.
    Notice(&'a [u8]),
    /// A step of the computation.
    Letter(&'a [u8]),
}

/// Letters with their frames.
pub(super) fn framed(round: &Round, letters: Letters) -> Vec<(ServerIndex, Message)> {
    in_frames(round, computing_stage(round), letters)
}

/// Notices with their frames.
pub(super) fn framed_notices(round: &Round, notices: Letters) -> Vec<(ServerIndex, Message)> {
    in_frames(round, upload_stage(round), notices)
}

fn in_frames(round: &Round, stage: u8, letters: Letters) -> Vec<(ServerIndex, Message)> {
    let frame = |body| wire::frame_in_place(round.context(), stage, body);
    letters
        .into_iter()
        .map(|(to, body)| (to, frame(body)))
        .collect()
}

/// What a message of another server says.
pub(super) fn open<'a>(
    round: &Round,
    from: ServerIndex,
    message: &'a [u8],
) -> Result<Said<'a>, Fault> {
    let blame = |kind| match ServerRole::at(from) {
        Some(role) => Fault::of(role.into(), kind),
        None => Fault::server(kind),
    };
    let (got, body) = wire::unframe(round, message).map_err(blame)?;
    let expected = computing_stage(round);
    if got == expected {
        return Ok(Said::Letter(body));
    }
    match got == upload_stage(round) {
        true => Ok(Said::Notice(body)),
        false => Err(blame(FaultKind::OtherStage { got, expected })),
    }
}

/// Whether a message of another server has the frame of a letter.
pub(super) fn is_letter(round: &Round, message: &[u8]) -> bool {
    let stage = wire::unframe(round, message).map(|(stage, _)| stage);
    stage == Ok(computing_stage(round))
}

/// The stage in which they compute.
fn computing_stage(round: &Round) -> u8 {
    let last = round.plan().answers().last();
    last.map_or(0, |step| step.stage)
}

/// The stage in which parties upload.
fn upload_stage(round: &Round) -> u8 {
    let upload = round.plan().answers().find(|step| step.input);
    upload.map_or(0, |step| step.stage)
}
