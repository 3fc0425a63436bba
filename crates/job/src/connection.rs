//! One connection to the coordinator, of a party or of a server that is not the coordinator.
//!
//! A connection that breaks is dropped with everything that came over it. The next one begins with nothing.

mod certificates;

use blindsum_protocol::{Message, Plan};
use bytes::Bytes;

use crate::JobError;
use crate::chunks::{Assembly, Pushed};
use crate::error::wrong;
use crate::pb::{self, PartyFrame};

pub(crate) use certificates::Certificates;

/// A connection to the coordinator. A later one has a higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// What a party, or a server, sends to the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// One frame.
    Frame(PartyFrame),
    /// A protocol message, to be cut into chunks.
    Message {
        /// The round.
        round: u64,
        /// The stage that it answers.
        stage: u8,
        /// The message.
        message: Bytes,
    },
    /// The model, sealed for another party, to be cut into chunks.
    Model {
        /// Its version.
        version: u64,
        /// The sealed bytes.
        values: Bytes,
    },
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Standing {
    /// There is none, or it was lost.
    Lost = 0,
    /// Its Hello was sent.
    Greeting = 1,
    /// Its Welcome has come.
    Welcomed = 2,
}

/// A message of the coordinator of which some chunks have come.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Receiving {
    #[prost(uint64, tag = "1")]
    round: u64,
    #[prost(uint32, tag = "2")]
    stage: u32,
    #[prost(message, required, tag = "3")]
    assembly: Assembly,
}

/// The latest connection, with what came over it; `Own` is what only one kind of machine has of it.
pub(crate) struct Connection<Own> {
    id: LinkId,
    standing: Standing,
    /// Certificates of members, which come once over a connection.
    pub certificates: Certificates,
    pub receiving: Option<Receiving>,
    pub own: Own,
}

impl<Own: Default> Default for Connection<Own> {
    fn default() -> Self {
        Self::of(LinkId::default(), Standing::Lost)
    }
}

impl<Own: Default> Connection<Own> {
    fn of(id: LinkId, standing: Standing) -> Self {
        Self {
            id,
            standing,
            certificates: Certificates::default(),
            receiving: None,
            own: Own::default(),
        }
    }

    /// A connection that an earlier process had. The program that drives this one gives it the number 0.
    pub fn resumed(standing: Standing) -> Self {
        Self::of(LinkId::default(), standing)
    }

    /// Replaces an earlier connection by a new one; false where the new one is not the later of the two.
    pub fn begin(&mut self, id: LinkId) -> bool {
        let is_later = id > self.id;
        if is_later {
            self.lose();
            (self.id, self.standing) = (id, Standing::Greeting);
        }
        is_later
    }

    /// Drops the connection with everything that came over it.
    pub fn lose(&mut self) {
        // guard: every-connection-begins-the-round
        *self = Self::of(self.id, Standing::Lost);
    }

    /// The Welcome has come.
    pub fn welcome(&mut self) {
        self.standing = Standing::Welcomed;
    }

    pub fn id(&self) -> LinkId {
        self.id
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether this is the connection, and it holds.
    pub fn is_over(&self, id: LinkId) -> bool {
        self.id == id && self.standing != Standing::Lost
    }

    pub fn is_welcomed(&self) -> bool {
        self.standing == Standing::Welcomed
    }

    /// The connection over which something may be sent in the job; none before its Welcome.
    pub fn welcomed(&self) -> Option<LinkId> {
        self.is_welcomed().then_some(self.id)
    }

    /// Whether some chunks of a message of this round have come, and not all.
    pub fn is_receiving(&self, round: u64) -> bool {
        let receiving = self.receiving.as_ref();
        receiving.is_some_and(|receiving| receiving.round == round)
    }

    /// Takes the next chunk of a message of the round with this plan. Gives the message once it is whole. A chunk at
    /// the beginning, or of another stage or round than the one before, begins a message.
    ///
    /// # Errors
    /// A chunk that is out of place, or of a message larger than the plan says.
    pub fn receive(&mut self, plan: &Plan, chunk: pb::Chunk) -> Result<Option<Message>, JobError> {
        let (round, stage) = (chunk.round, chunk.stage);
        let goes_on = |before: &Receiving| (before.round, before.stage) == (round, stage);
        let before = self.receiving.take();
        let before = before.filter(|before| goes_on(before) && chunk.offset > 0);
        let came = before.map(|before| before.assembly);
        let reply = plan.reply(u8::try_from(stage).unwrap_or(u8::MAX));
        let limit = reply.map_or(0, |step| step.largest);
        let piece = (chunk.offset, chunk.total, chunk.data);
        match Assembly::next(came, limit, piece).map_err(|e| wrong(format!("chunk: {e}")))? {
            Pushed::Part(assembly) => {
                self.receiving = Some(Receiving {
                    round,
                    stage,
                    assembly,
                });
                Ok(None)
            }
            Pushed::Whole(message) => Ok(Some(message)),
        }
    }
}

/// What every Hello says: the versions that are spoken here, the job, and who speaks.
pub(crate) fn hello(job: &str, name: &str) -> pb::Hello {
    let (first_version, last_version) = pb::WIRE_VERSIONS.into_inner();
    pb::Hello {
        first_version,
        last_version,
        program: pb::PROGRAM.into(),
        job: job.into(),
        name: name.into(),
        ..pb::Hello::default()
    }
}

/// Why a Welcome is of a coordinator with which this program cannot speak.
pub(crate) fn unspoken(welcome: &pb::Welcome) -> Option<String> {
    let version = welcome.version;
    let is_spoken = pb::WIRE_VERSIONS.contains(&version);
    (!is_spoken).then(|| format!("wire version {version} is not spoken here"))
}
