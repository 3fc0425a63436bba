//! What goes into a job's coordinator and what comes out of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::sign::VerifyingKey;
use blindsum_protocol::{Job, Outgoing, ServerIndex, ServerRole};
use bytes::Bytes;

use super::shelf::{Shelf, ShelfError, Shelves};
use crate::actor::Task;
use crate::pb::party_frame::Frame;
use crate::pb::{CoordinatorFrame, Hello, Refused};
use crate::store::Store;
use crate::{JobError, Model};

/// What the coordinator of a job is made of.
pub struct Parts {
    /// What is agreed on.
    pub job: Arc<Job>,
    /// The model that round 1 starts from; none is that of [`Model::initial`]. A job that the store has already goes
    /// on from its own.
    pub initial: Option<Model>,
    /// What must not be forgotten. It is called in tasks.
    pub store: Arc<dyn Store>,
    /// Who certifies parties.
    pub anchor: Arc<TrustAnchor>,
    /// Where answers are kept that are passed on.
    pub shelves: Arc<dyn Shelves>,
    /// How long to wait for whom.
    pub settings: Settings,
}

/// How long the coordinator of a job waits, and for what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long the job waits for enough parties to be ready before it ends.
    pub patience: Duration,
    /// How long a lost party of a round may take to come back before the stage goes on without it.
    pub reconnect_grace: Duration,
    /// Time for one piece of a model that a party seals for others.
    pub chunk_timeout: Duration,
    /// Rounds that may fail in a row before the job ends.
    pub failed_rounds: u32,
}

/// A connection. Whoever drives the job numbers them; no number comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// Who is at the other end of a connection, as whoever drives the job has verified it.
#[derive(Clone)]
pub struct Peer {
    /// Its name, which its certificate is for.
    pub name: Arc<str>,
    /// What it is for, if it is another server of the job; none for a party.
    pub role: Option<ServerRole>,
    /// Where it connects from, for people.
    pub address: String,
    /// The party's certificate in DER.
    pub certificate: Arc<[u8]>,
    /// The key in it.
    pub key: VerifyingKey,
    /// What goes over the connection.
    pub traffic: Arc<dyn Traffic>,
}

/// Counts the bytes of a connection.
pub trait Traffic: Send + Sync {
    /// Bytes that came from the party.
    fn read(&self) -> u64;
    /// Bytes that were sent to it.
    fn written(&self) -> u64;
}

/// What an answer holds while it waits for its turn, such as its share of the memory for all: freed when the answer
/// was taken, or is not wanted.
#[derive(Default)]
pub struct Hold {
    _held: Option<Box<dyn Send>>,
}

impl Hold {
    /// Keeps this until then.
    pub fn of(held: impl Send + 'static) -> Self {
        let _held = Some(Box::new(held) as Box<dyn Send>);
        Self { _held }
    }
}

/// What has happened.
pub enum Input {
    /// A party asks to be let in; the answer is [`Effect::Admit`] or [`Effect::Refuse`].
    Connected {
        /// The new connection.
        link: LinkId,
        /// Who it is.
        peer: Peer,
        /// Its first frame.
        hello: Hello,
    },
    /// A connection has ended. Nothing comes over it after this.
    Lost {
        /// Which one.
        link: LinkId,
        /// Why, for people.
        reason: String,
        /// Whether the party may not know that, or was told to come back.
        returns: bool,
    },
    /// A frame other than a Hello and a chunk has come.
    Frame {
        /// Over which connection.
        link: LinkId,
        /// The frame.
        frame: Frame,
    },
    /// A whole answer to a stage has come, which the [`Gate`] let in.
    Answer {
        /// Over which connection.
        link: LinkId,
        /// The round that its chunks named.
        round: u64,
        /// The answer.
        message: Bytes,
        /// What it holds until it is taken.
        hold: Hold,
    },
    /// Another server that computes with this one says something.
    Letter {
        /// Which server.
        from: ServerIndex,
        /// The round.
        round: u64,
        /// What it says.
        letter: Bytes,
    },
    /// The line to a server that computes with this one was lost, and with it perhaps letters.
    LineLost {
        /// Which server.
        to: ServerIndex,
        /// Why, for people.
        reason: String,
    },
    /// What a round passes on cannot be read.
    Unreadable {
        /// The round.
        round: u64,
        /// Why, for people.
        reason: String,
    },
    /// The coordinator stops: everybody is told, and the job comes to its end.
    Stop,
}

/// What must be done.
pub enum Effect {
    /// Work, on a thread that may wait.
    Work(Task),
    /// The party is let in.
    Admit(LinkId),
    /// The party is not let in; that is the last word on its connection.
    Refuse(LinkId, Refused),
    /// Something to say to a party.
    Send(LinkId, Say),
    /// Something to say to a server that computes with this one, in this order.
    Letter {
        /// Which server.
        to: ServerIndex,
        /// The round.
        round: u64,
        /// What to say.
        letter: Bytes,
    },
    /// The last word on a connection, after all that was said before.
    Close(LinkId, Refused),
    /// The last word on a connection, at once: what was said before and is not sent yet is dropped.
    Cut(LinkId, Refused),
    /// The job has come to its end: its last effect. An error says why it could not go on.
    Over(Result<(), JobError>),
}

impl From<Task> for Effect {
    fn from(task: Task) -> Self {
        Self::Work(task)
    }
}

/// Something to say to a party.
#[derive(Clone)]
pub enum Say {
    /// A frame.
    Frame(CoordinatorFrame),
    /// A protocol message, in chunks.
    Message {
        /// Its round.
        round: u64,
        /// The stage that it ends.
        stage: u8,
        /// Its bytes.
        content: Content,
    },
    /// A model, in chunks.
    Model {
        /// Its version.
        version: u64,
        /// Its bytes.
        values: Bytes,
    },
}

/// Where the bytes of a protocol message are.
#[derive(Clone)]
pub enum Content {
    /// Here.
    Here(Bytes),
    /// On a shelf, from which they are read when they are sent.
    Kept {
        /// The message's own bytes, and which bytes of the shelf follow.
        outgoing: Arc<Outgoing>,
        /// The round keeps the shelf, and it alone: once it has gone nobody needs the rest.
        shelf: Weak<dyn Shelf>,
    },
}

impl Content {
    /// All bytes in one piece; none where nobody needs them any more. May wait for a disk.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn whole(&self) -> Result<Option<Bytes>, ShelfError> {
        let (outgoing, shelf) = match self {
            Self::Here(bytes) => return Ok(Some(bytes.clone())),
            Self::Kept { outgoing, shelf } => (outgoing, shelf.upgrade()),
        };
        let Some(shelf) = shelf else {
            return Ok(None);
        };
        let mut whole = Vec::with_capacity(outgoing.len());
        whole.extend_from_slice(&outgoing.head);
        for piece in &outgoing.pieces {
            shelf.read(piece.from, piece.range.clone(), &mut whole)?;
        }
        Ok(Some(whole.into()))
    }
}

/// Which answers may come now; everything else is dropped or refused before it takes memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// The round under way, or the latest one.
    pub round: u64,
    /// Its stage; whatever comes for an earlier one comes too late.
    pub stage: u32,
    /// Bytes of the largest answer.
    pub limit: u64,
    /// How long the stage takes at most.
    pub time: Duration,
    /// Everybody in the round, and who still has a place in it.
    pub members: Arc<BTreeMap<Arc<str>, bool>>,
}

impl Gate {
    /// How long an answer of this party to this round and stage may be; none where it comes too late, or its sender has
    /// lost its place and may not have heard of it.
    ///
    /// # Errors
    /// It must not come at all; in words for its sender.
    pub fn judge(&self, name: &str, place: (u64, u32)) -> Result<Option<u64>, String> {
        let (round, stage) = place;
        if place < (self.round, self.stage) {
            return Ok(None);
        }
        if place != (self.round, self.stage) {
            return Err(format!(
                "a chunk of round {round}, stage {stage}, while round {}, stage {} is under way",
                self.round, self.stage
            ));
        }
        match self.members.get(name) {
            Some(true) => Ok(Some(self.limit)),
            Some(false) => Ok(None),
            None => Err(format!(
                "a chunk of round {round}, of which it is no member"
            )),
        }
    }

    /// Whatever comes for this round, or for one before it, comes too late.
    pub(super) fn closed(round: u64) -> Self {
        Self {
            round,
            stage: u32::MAX,
            ..Self::default()
        }
    }
}
