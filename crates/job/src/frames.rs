//! The frames of what machines say: whole messages are cut into chunks.

use bytes::Bytes;

use crate::chunks::pieces;
use crate::coordinator::ShelfError;
use crate::pb::{self, CoordinatorFrame, PartyFrame};
use crate::{coordinator, party};

/// The frames of what a party says.
pub fn of_party(say: party::Say) -> Vec<PartyFrame> {
    match say {
        party::Say::Frame(frame) => vec![frame],
        party::Say::Message {
            round,
            stage,
            message,
        } => chunks(round, stage, message),
        party::Say::Model { version, values } => model_chunks(version, values),
    }
}

/// The frames of what a coordinator says; none if nobody needs it any more. May wait for a disk.
///
/// # Errors
/// What the coordinator passes on cannot be read.
pub fn of_coordinator(say: coordinator::Say) -> Result<Vec<CoordinatorFrame>, ShelfError> {
    Ok(match say {
        coordinator::Say::Frame(frame) => vec![frame],
        coordinator::Say::Shared(frame) => vec![frame.frame().clone()],
        coordinator::Say::Message {
            round,
            stage,
            content,
        } => match content.whole()? {
            Some(message) => chunks(round, stage, message),
            None => Vec::new(),
        },
        coordinator::Say::Model { version, values } => model_chunks(version, values),
    })
}

fn chunks<F: From<pb::Chunk>>(round: u64, stage: u8, message: Bytes) -> Vec<F> {
    let (stage, total) = (stage.into(), message.len() as u64);
    let chunk = |(offset, data)| pb::Chunk {
        round,
        stage,
        offset,
        total,
        data,
    };
    pieces(message).map(|piece| chunk(piece).into()).collect()
}

fn model_chunks<F: From<pb::ModelChunk>>(version: u64, values: Bytes) -> Vec<F> {
    let total = values.len() as u64;
    let chunk = |(offset, data)| pb::ModelChunk {
        version,
        offset,
        total,
        data,
    };
    pieces(values).map(|piece| chunk(piece).into()).collect()
}
