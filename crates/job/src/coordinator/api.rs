//! The inputs of a job's coordinator, and its effects.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use blindsum_crypto::certificate::{TrustAnchor, UnixSeconds};
use blindsum_crypto::sign::VerifyingKey;
use blindsum_protocol::{Job, Outgoing, ServerIndex, ServerRole};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::shared::Shared;
use super::shelf::{Shelf, ShelfError, Shelves};
use crate::calls::{Call, CallEnd, CallError, CallId};
use crate::membership::Lease;
use crate::orders::{Order, OrderError, OrderId, Outcome};
use crate::pb::party_frame::Frame;
use crate::pb::{CoordinatorFrame, Hello, Refused};
use crate::results::Results;
use crate::store::Store;
use crate::traffic::Traffic;
use crate::{JobError, Model};

/// Gives the first and the last second in which the coordinator's own certificate is valid, the newest one.
pub type CurrentTimes = Arc<dyn Fn() -> (UnixSeconds, UnixSeconds) + Send + Sync>;

/// What the coordinator of a job needs.
pub struct Parts {
    /// The job.
    pub job: Arc<Job>,
    /// The model from which round 1 starts; `None` means [`Model::initial`]. A job that is in the store already goes on
    /// from its own model.
    pub initial: Option<Model>,
    /// Where the coordinator keeps what it must not forget. It is called in tasks.
    pub store: Arc<dyn Store>,
    /// The CA that certifies parties.
    pub anchor: Arc<TrustAnchor>,
    /// When the coordinator's own certificate is valid. While it is not by the clock that is handed in, no round begins.
    /// `None` if it has none, as where messages go over another transport.
    pub own: Option<CurrentTimes>,
    /// Where the results go that the coordinator learns, for its operator; nowhere if there is none.
    pub results: Option<Arc<dyn Results>>,
    /// Where answers are kept that are passed on.
    pub shelves: Arc<dyn Shelves>,
    /// How long to wait for parties.
    pub settings: Settings,
    /// Whether a host begins the rounds ([`Input::Call`]) and the coordinator none by itself.
    pub hosted: bool,
}

/// How long the coordinator of a job waits for what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long the job waits for enough parties to be ready. After that it ends.
    pub patience: Duration,
    /// How long a party of a round whose connection was lost may stay away. After that the stage goes on without it.
    pub reconnect_grace: Duration,
    /// The time that a party has for each piece of a model that it seals for others.
    pub chunk_timeout: Duration,
    /// Rounds that may fail in a row before the job ends.
    pub failed_rounds: u32,
    /// Which parties take part where more are ready than a round takes.
    pub choice: Choice,
    /// How many parties a choice other than [`Choice::First`] changes at once, at least; fewer than 2 leave it free.
    pub change: u32,
}

/// How parties are chosen where more are ready than a round takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// Those that are ready first; the round begins as soon as they are.
    #[default]
    First,
    /// Those that have waited longest. The round waits for all that are connected.
    Turns,
    /// Some of all that are connected and ready, drawn for each round.
    Random,
}

/// A connection, by a number that the program that drives the job gives it. No number comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// The other end of a connection, as the program that drives the job has verified it.
#[derive(Clone)]
pub struct Peer {
    /// Its name, as in its certificate.
    pub name: Arc<str>,
    /// Its role, if it is another server of the job; `None` for a party.
    pub role: Option<ServerRole>,
    /// The address from which it connects, for people.
    pub address: String,
    /// Its certificate in DER.
    pub certificate: Arc<[u8]>,
    /// The key in the certificate.
    pub key: VerifyingKey,
    /// The bytes that go over the connection.
    pub traffic: Arc<dyn Traffic>,
}

impl Peer {
    /// By what it is counted.
    pub fn who(&self) -> Who {
        Who::of(&self.name, self.role)
    }
}

/// By what somebody is counted: a party by its name, a server by its role. The CA may well give a party the name that is
/// the host of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A party of this name.
    Party(Arc<str>),
    /// Another server of the job.
    Server(ServerRole),
}

impl Who {
    /// Somebody with this name and role in a certificate; parties have no role.
    pub fn of(name: &Arc<str>, role: Option<ServerRole>) -> Self {
        // guard: servers-are-counted-by-their-role
        role.map_or_else(|| Self::Party(name.clone()), Self::Server)
    }
}

/// Something that an answer holds while it waits for its turn, such as its share of a common memory. It is freed when
/// the answer was taken, or is not wanted any more.
#[derive(Default)]
pub struct Hold {
    _held: Option<Box<dyn Send>>,
}

impl Hold {
    /// Holds this value until then.
    pub fn of(held: impl Send + 'static) -> Self {
        let _held = Some(Box::new(held) as Box<dyn Send>);
        Self { _held }
    }
}

/// An input of the coordinator.
pub enum Input {
    /// A party asks to be let in; the answer is [`Effect::Admit`] or [`Effect::Refuse`].
    Connected {
        /// The number of the new connection.
        link: LinkId,
        /// The party at the other end.
        peer: Peer,
        /// Its first frame.
        hello: Hello,
    },
    /// A connection has ended. Nothing comes over it after this.
    Lost {
        /// The connection.
        link: LinkId,
        /// Why, for people.
        reason: String,
        /// Whether the party may come back, because it does not know that the connection ended or was told to come
        /// again.
        returns: bool,
    },
    /// A frame other than a Hello and a chunk has come.
    Frame {
        /// The connection.
        link: LinkId,
        /// The frame.
        frame: Frame,
    },
    /// A whole answer to a stage has come, and the [`Gate`] let it in.
    Answer {
        /// The connection.
        link: LinkId,
        /// The round that its chunks named.
        round: u64,
        /// The answer.
        message: Bytes,
        /// What the answer holds until it is taken.
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
    /// Answers that a round passes on cannot be read.
    Unreadable {
        /// The round.
        round: u64,
        /// Why, for people.
        reason: String,
    },
    /// The lease of a party has run out: it has given no sign of life for so long that it counts as failed.
    LeaseLost {
        /// The party.
        name: Arc<str>,
    },
    /// An operator orders something; the answer is [`Effect::Ordered`].
    Order {
        /// Its number, which no other order has.
        id: OrderId,
        /// The order.
        order: Order,
    },
    /// A host begins a round; the answers are [`Effect::Called`], and later [`Effect::CallEnded`] if it was taken.
    Call {
        /// Its number, which no other call has.
        id: CallId,
        /// The round.
        call: Call,
    },
    /// The host knows that a party of its call has failed: nobody waits for it any more. Nothing happens if it is in no call.
    PartyFailed {
        /// The party.
        name: Arc<str>,
        /// Why, in the host's words; empty to say nothing.
        reason: String,
    },
    /// The host wants no result of a call any more. Nothing happens once that has ended.
    CallOff {
        /// The call.
        id: CallId,
        /// Why, in the host's words. The parties are told.
        reason: String,
    },
    /// Other times to wait than those that the job began with.
    Settings(Settings),
    /// The coordinator stops: it tells everybody, and the job ends.
    Stop,
}

/// An effect of the coordinator.
pub enum Effect {
    /// The party is let in.
    Admit(LinkId),
    /// The party is not let in. This is the last message on its connection.
    Refuse(LinkId, Refused),
    /// Send this to a party.
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
    /// Send this last message and end the connection, after all that was to be sent before.
    Close(LinkId, Refused),
    /// Send this last message and end the connection at once. What was to be sent before is dropped.
    Cut(LinkId, Refused),
    /// What becomes of a party's lease, where there are leases.
    Lease(Lease),
    /// What became of an order.
    Ordered {
        /// The number of the order.
        id: OrderId,
        /// What was done, or why nothing was.
        outcome: Result<Outcome, OrderError>,
    },
    /// Whether a round begins that a host has called.
    Called {
        /// The number of the call.
        id: CallId,
        /// Nothing; or why none begins. No other effect follows then.
        taken: Result<(), CallError>,
    },
    /// What came of a call.
    CallEnded {
        /// The number of the call.
        id: CallId,
        /// Its result, or why there is none.
        end: CallEnd,
    },
    /// The job's machine has ended; this is its last effect. An error says why it could not go on.
    Over(Result<(), JobError>),
}

/// Something to send to a party.
#[derive(Clone)]
pub enum Say {
    /// A frame.
    Frame(CoordinatorFrame),
    /// A frame that goes to many.
    Shared(Arc<Shared>),
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
        /// The message's own bytes, and which bytes on the shelf follow them.
        outgoing: Arc<Outgoing>,
        /// The shelf. Only the round owns it: once it is gone nobody needs the message.
        shelf: Weak<dyn Shelf>,
    },
}

impl Content {
    /// All bytes in one piece; `None` if nobody needs them any more. May wait for a disk.
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

/// Which answers may come now. Every other one is dropped or refused before it takes memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// The round under way, or the latest one.
    pub round: u64,
    /// The stage of the round. Answers to an earlier stage are too late.
    pub stage: u32,
    /// Bytes of the largest answer.
    pub limit: u64,
    /// The longest time that the stage takes.
    pub time: Duration,
    /// Everybody in the round, and whether they still have a place in it.
    pub members: Arc<BTreeMap<Who, bool>>,
}

impl Gate {
    /// The largest length, in bytes, of somebody's answer to this round and stage. `None` if the answer is to be
    /// dropped: it is too late, or its sender has lost its place and may not know that yet.
    ///
    /// # Errors
    /// The answer is not allowed at all; the text is for its sender.
    pub fn judge(&self, who: &Who, place: (u64, u32)) -> Result<Option<u64>, String> {
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
        match self.members.get(who) {
            Some(true) => Ok(Some(self.limit)),
            Some(false) => Ok(None),
            // guard: answers-of-members
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
