//! A server that is not the coordinator as who drives it sees it: what goes in, what comes out.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_protocol::{Job, ServerIndex, ServerRole};
use bytes::Bytes;

use super::Server;
use crate::JobError;
use crate::actor::{Actor, Now, Task, Ticket, Time};
use crate::party::{LinkId, Say};
use crate::pb::CoordinatorFrame;
use crate::records::Records;
use crate::server::Hold;

/// What such a server is made of.
#[derive(Clone)]
pub struct Parts {
    /// What is agreed on.
    pub job: Arc<Job>,
    /// What it is for.
    pub role: ServerRole,
    /// Its name, as in its certificate.
    pub name: String,
    /// The CA of the job's parties.
    pub anchor: Arc<TrustAnchor>,
    /// What it must not forget.
    pub records: Arc<dyn Records>,
}

/// What comes to it.
pub enum Input {
    /// There is a connection to the coordinator.
    Linked(LinkId),
    /// A connection has ended, for this reason.
    Lost(LinkId, String),
    /// A frame came over a connection.
    Frame(LinkId, CoordinatorFrame),
    /// A party gives this server its part of an answer. What becomes of it is told by [`Effect::Uploaded`].
    Upload {
        /// The upload, numbered by who drives the machine.
        id: UploadId,
        /// The party's name, as in its certificate.
        name: String,
        /// The round.
        round: u64,
        /// The part.
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
}

/// An upload of a party. No two of one process have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadId(pub u64);

/// What became of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uploaded {
    /// It is here.
    Taken,
    /// It will never be taken, for this reason.
    Refused(String),
}

/// What it wants done, in this order.
pub enum Effect {
    /// Compute, and say that it is done by [`JobFollower::worked`].
    Work(Task),
    /// Send over a connection; it is lost where that one has ended.
    Send(LinkId, Say),
    /// Tell a party what became of its upload.
    Uploaded(UploadId, Uploaded),
    /// Something to say to a server that computes with this one, in this order.
    Letter {
        /// Which server.
        to: ServerIndex,
        /// The round.
        round: u64,
        /// What to say.
        letter: Bytes,
    },
    /// End the connection, for this reason, and make another one.
    Reconnect(LinkId, String),
    /// It has come to its end: its last effect. An error says why it could not go on.
    Over(Result<(), JobError>),
}

impl From<Task> for Effect {
    fn from(task: Task) -> Self {
        Self::Work(task)
    }
}

/// A server of a job that is not its coordinator, as a machine.
pub struct JobFollower(Actor<Input, Effect>);

impl JobFollower {
    /// One that begins, or goes on from its records. All randomness comes from `entropy`, 32 bytes that nobody else
    /// knows and that are used once.
    pub fn open(parts: Parts, now: Now, entropy: [u8; 32]) -> Self {
        Self(Actor::start(entropy, now, |hand| {
            Server::new(parts, hand).run()
        }))
    }

    /// Something has come.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.0.handle(now, input);
    }

    /// A task is done.
    pub fn worked(&mut self, now: Now, ticket: Ticket) {
        self.0.worked(now, ticket);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.0.tick(now);
    }

    /// What is to be done next; none where nothing is.
    pub fn poll(&mut self) -> Option<Effect> {
        self.0.poll()
    }

    /// When to [`tick`](Self::tick), unless something comes before.
    pub fn wake(&self) -> Option<Time> {
        self.0.wake()
    }

    /// Whether a task is under way.
    pub fn is_busy(&self) -> bool {
        self.0.is_busy()
    }
}
