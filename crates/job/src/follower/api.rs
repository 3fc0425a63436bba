//! The interface of a server that is not the coordinator to the program that drives it.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_protocol::{Job, ServerIdentity, ServerIndex, ServerRole};
use bytes::Bytes;

use super::Server;
use crate::JobError;
use crate::connection::{LinkId, Say};
use crate::coordinator::Hold;
use crate::machine::{Machine, Now};
use crate::pb::CoordinatorFrame;
use crate::records::Records;
use crate::results::Results;

/// Gives the newest certificate of a server, with its key.
pub type CurrentIdentity = Arc<dyn Fn() -> Arc<ServerIdentity> + Send + Sync>;

/// What such a server needs.
#[derive(Clone)]
pub struct Parts {
    /// The job.
    pub job: Arc<Job>,
    /// The server's role.
    pub role: ServerRole,
    /// Its name, as in its certificate.
    pub name: String,
    /// Its certificate and key, the newest ones; none in the coordinator's process.
    pub identity: Option<CurrentIdentity>,
    /// The CA of the job's parties.
    pub anchor: Arc<TrustAnchor>,
    /// Where it keeps what it must not forget.
    pub records: Arc<dyn Records>,
    /// Where the results go that it learns, for its operator; nowhere if there is none.
    pub results: Option<Arc<dyn Results>>,
}

/// An input.
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
    /// Nobody waits any more for what becomes of an upload. It is dropped, unless it was taken.
    UploadGone(UploadId),
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

/// An effect, to be carried out in the order in which they are given.
pub enum Effect {
    /// Send this over a connection. If the connection has ended, it is lost.
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
    /// The server has ended; this is its last effect. An error says why it could not go on.
    Over(Result<(), JobError>),
}

/// A server of a job that is not its coordinator, as a machine.
pub type ServerMachine = Machine<Input, Effect>;

impl ServerMachine {
    /// Starts a server, or goes on with one from its records. All its randomness comes from `entropy`: 32 bytes that
    /// nobody else knows and that are used once.
    pub fn open(parts: Parts, now: Now, entropy: [u8; 32]) -> Self {
        Self::start(entropy, now, (), |hand| Server::new(parts, hand).run())
    }
}
