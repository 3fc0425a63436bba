//! What machines say, as frames: whole messages are cut into chunks. And back, where a coordinator hears them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::chunks::{Assembly, Pushed, pieces};
use crate::pb::party_frame::Frame;
use crate::pb::{self, CoordinatorFrame, PartyFrame, RefusalCode, Refused};
use crate::server::{Gate, Hold, Input, LinkId, Peer, ShelfError, Traffic};
use crate::{party, server};

/// Times that a party may send its answer to one stage: more than it is asked for it over one connection.
pub const MOST_REPEATS: u32 = 8;

/// What a party says.
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

/// What a coordinator says; nothing where nobody needs it any more. May wait for a disk.
///
/// # Errors
/// What it passes on cannot be read.
pub fn of_coordinator(say: server::Say) -> Result<Vec<CoordinatorFrame>, ShelfError> {
    Ok(match say {
        server::Say::Frame(frame) => vec![frame],
        server::Say::Message {
            round,
            stage,
            content,
        } => match content.whole()? {
            Some(message) => chunks(round, stage, message),
            None => Vec::new(),
        },
        server::Say::Model { version, values } => model_chunks(version, values),
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

/// The coordinator's side of one connection: what comes over it becomes inputs of the job.
pub struct Session {
    link: LinkId,
    peer: Peer,
    count: Arc<Count>,
    greeted: bool,
    /// A message that is being put together, of this round and stage.
    message: Option<((u64, u32), Assembly)>,
    /// The place of the latest whole message, and how often one came for it.
    answered: ((u64, u32), u32),
}

/// Counts the bytes of frames.
#[derive(Default)]
pub struct Count {
    read: AtomicU64,
    written: AtomicU64,
}

impl Count {
    /// A frame of so many bytes has come.
    pub fn came(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A frame of so many bytes is sent.
    pub fn sent(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Traffic for Count {
    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Session {
    /// A connection over which nothing has come, of the peer whose certificate was verified.
    pub fn new(link: LinkId, peer: Peer, count: Arc<Count>) -> Self {
        Self {
            link,
            peer,
            count,
            greeted: false,
            message: None,
            answered: Default::default(),
        }
    }

    /// Whether the job has heard of it.
    pub fn is_known(&self) -> bool {
        self.greeted
    }

    /// The bytes that went over it.
    pub fn count(&self) -> &Count {
        &self.count
    }

    /// Takes a frame, within what the job lets in now; gives what the job is to be told, where that is anything.
    ///
    /// # Errors
    /// What no party may send: the last word on the connection.
    pub fn take(&mut self, gate: &Gate, frame: PartyFrame) -> Result<Option<Input>, Refused> {
        let link = self.link;
        match (frame.frame, self.greeted) {
            (None, _) => Err(bad_frame("a frame that is empty or unknown here")),
            (Some(Frame::Hello(hello)), false) => {
                self.greeted = true;
                let peer = self.peer.clone();
                Ok(Some(Input::Connected { link, peer, hello }))
            }
            (Some(_), false) => Err(bad_frame("the first frame must be a Hello")),
            (Some(Frame::Hello(_)), true) => Err(bad_frame("a second Hello")),
            (Some(Frame::Chunk(chunk)), true) => self.chunk(gate, chunk),
            (Some(frame), true) => Ok(Some(Input::Frame { link, frame })),
        }
    }

    fn chunk(&mut self, gate: &Gate, chunk: pb::Chunk) -> Result<Option<Input>, Refused> {
        let place = (chunk.round, chunk.stage);
        let limit = gate.judge(&self.peer.name, place).map_err(bad_frame)?;
        let Some(limit) = limit else {
            self.message = None;
            return Ok(None);
        };
        if self.answered == (place, MOST_REPEATS) {
            let (round, stage) = place;
            return Err(bad_frame(format!(
                "the answer to round {round}, stage {stage} came {MOST_REPEATS} times already"
            )));
        }
        let wrong = |error| bad_frame(format!("chunk: {error}"));
        let assembly = match self.message.take() {
            Some((of, assembly)) if of == place => assembly,
            _ => Assembly::begin(chunk.total, limit).map_err(wrong)?,
        };
        let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
        match pushed.map_err(wrong)? {
            Pushed::Part(assembly) => {
                self.message = Some((place, assembly));
                Ok(None)
            }
            Pushed::Whole(message) => {
                let times = match self.answered {
                    (known, times) if known == place => times + 1,
                    _ => 1,
                };
                self.answered = (place, times);
                Ok(Some(Input::Answer {
                    link: self.link,
                    round: place.0,
                    message,
                    hold: Hold::default(),
                }))
            }
        }
    }
}

fn bad_frame(reason: impl Into<String>) -> Refused {
    Refused::new(RefusalCode::RefusalBadFrame, reason)
}
