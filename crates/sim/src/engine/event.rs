//! What can happen to the machines of a job.

use blindsum_job::follower::Uploaded;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_protocol::{ServerIndex, ServerRole};
use bytes::Bytes;

use crate::agenda::Time;

/// Microseconds since the beginning.
pub(crate) type Micros = Time;

/// Whose machine something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// The coordinator.
    Server,
    Party(usize),
    /// A server that is not the coordinator.
    Follower(ServerRole),
}

impl Who {
    /// The server in a place.
    pub fn at(place: ServerIndex) -> Self {
        ServerRole::at(place).map_or(Self::Server, Self::Follower)
    }
}

/// What the caller of a party is about to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand {
    /// It begins to wait for rounds.
    Wants,
    /// It has taken the result of a round.
    Took(u64),
    /// It has made its update of a round.
    Trained(u64),
}

/// One thing that happens. `life` counts how often a machine was started: what was meant for an earlier life of it is
/// not for this one.
pub(super) enum Event {
    /// A frame of a party, or of another server, reaches the coordinator.
    AtServer { link: u64, frame: PartyFrame },
    /// A frame of the coordinator reaches who is at the other end.
    AtHost { link: u64, frame: CoordinatorFrame },
    /// One side learns that a connection has ended.
    Ends { link: u64, at: Who, reason: String },
    /// A party, or another server, without a connection to the coordinator tries to make one.
    Connect(Who),
    /// A task ends.
    TaskEnds { who: Who, life: u32 },
    /// A machine asked to be woken.
    Wake { who: Who, life: u32 },
    /// A machine is started, for the first time or again.
    Start(Who),
    /// The caller of a party does something.
    Errand {
        party: usize,
        life: u32,
        errand: Errand,
    },
    /// A letter of one server reaches another one.
    Letter {
        from: ServerIndex,
        to: ServerIndex,
        /// Which line between them it is on.
        line: u32,
        round: u64,
        letter: Bytes,
    },
    /// A server learns that its line to another one has broken.
    LineEnds {
        at: ServerIndex,
        to: ServerIndex,
        line: u32,
    },
    /// A server tries to make a line to another one.
    Dial { from: ServerIndex, to: ServerIndex },
    /// A party's upload reaches its server.
    Upload { attempt: u64 },
    /// Nobody waits any more for what becomes of an upload.
    UploadGone { attempt: u64 },
    /// A party hears what became of its upload; nothing where the connection broke, or it took too long.
    Uploaded {
        attempt: u64,
        what: Option<Uploaded>,
    },
}
