//! A party as who drives it sees it: what goes in, what comes out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::sign::IdentityKey;
use blindsum_protocol::Job;
use bytes::Bytes;

use super::member::Member;
use super::resume::Marks;
use super::{Policy, RoundResult, Update};
use crate::actor::{Actor, Now, Task, Ticket, Time};
use crate::pb::{CoordinatorFrame, PartyFrame};
use crate::records::Records;
use crate::{JobError, Model};

/// Who a party is.
#[derive(Clone)]
pub struct Identity {
    /// Its name, as in its certificate.
    pub name: String,
    /// Its key.
    pub key: Arc<IdentityKey>,
    /// The CA of the job's parties.
    pub anchor: Arc<TrustAnchor>,
    /// SHA-256 of the CA's certificate: what is remembered of sums is remembered under one CA.
    pub ca: [u8; 32],
}

/// How a party takes part in a job.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The job's name.
    pub job: String,
    /// What it agrees to.
    pub policy: Policy,
    /// Bytes of masks that it computes ahead while it waits.
    pub mask_memory: usize,
}

/// A connection to the coordinator. A later one has a higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// What comes to a party.
pub enum Input {
    /// There is a connection.
    Linked(LinkId),
    /// A connection has ended, for this reason.
    Lost(LinkId, String),
    /// A frame came over a connection.
    Frame(LinkId, CoordinatorFrame),
    /// The party's certificate was renewed: it is shown over a new connection.
    Renewed,
    /// The caller waits for a round.
    WantRound,
    /// The caller gives its update.
    Submit {
        /// The round.
        round: u64,
        /// The update.
        update: Update,
        /// Its weight.
        weight: u32,
    },
    /// The caller has taken the result of a round that it was told, or does not want it. Before that no other round
    /// begins for it.
    Took(u64),
    /// The caller gives none.
    Abandon(u64),
    /// The process will end, and another one goes on: what is in memory goes into a record. Only a party that was made
    /// by [`JobParty::resume`] can do that; [`JobParty::mark`] tells that it is done.
    Suspend,
    /// The caller leaves the job.
    Leave,
    /// The coordinator will not be reached again, for this reason: what is under way is over.
    GiveUp(String),
}

/// What a party wants done, in this order.
pub enum Effect {
    /// Compute, and say that it is done by [`JobParty::worked`].
    Work(Task),
    /// Send over a connection; it is lost where that one has ended.
    Send(LinkId, Say),
    /// End the connection, for this reason, and make another one.
    Reconnect(LinkId, String),
    /// Tell the caller.
    Tell(Told),
}

impl From<Task> for Effect {
    fn from(task: Task) -> Self {
        Self::Work(task)
    }
}

/// What a party says to the coordinator.
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

/// What the caller is told.
pub enum Told {
    /// The job, which the policy allows. It is told once.
    Joined(Arc<Job>),
    /// A round begins, for which the caller waited.
    Round(Begun),
    /// The round for which the caller waited begins without this party, or counts an update that an earlier process
    /// sent; the next one may be better.
    Refused(JobError),
    /// What became of a round that began.
    Ended(u64, Result<Box<RoundResult>, JobError>),
    /// Nothing more will come.
    Over(Over),
}

/// How it all ended.
pub enum Over {
    /// The job is done, with its last model where that is known here.
    JobDone(Option<Model>),
    /// The caller has left.
    Left,
    /// The party cannot go on.
    Failed(JobError),
}

/// A round that begins.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Its number.
    pub number: u64,
    /// The model that it starts from.
    pub model: Model,
    /// Its certified parties.
    pub parties: Vec<String>,
    /// Whether an update must be given: not where it was sent before the process was started again.
    pub needs_update: bool,
}

/// A party of a job as a machine.
pub struct JobParty {
    actor: Actor<Input, Effect>,
    mark: Arc<AtomicU64>,
}

impl JobParty {
    /// A party that begins, or goes on from its records. Without records it remembers nothing beyond itself. All
    /// randomness comes from `entropy`, 32 bytes that nobody else knows and that are used once.
    pub fn open(
        settings: Settings,
        identity: Identity,
        records: Option<Arc<dyn Records>>,
        now: Now,
        entropy: [u8; 32],
    ) -> Self {
        Self {
            actor: Actor::start(entropy, now, |hand| {
                Member::new(settings, identity, records, None, hand).run()
            }),
            mark: Arc::default(),
        }
    }

    /// A party that goes on where another process [suspended](Input::Suspend) it, also in the middle of a round; with
    /// records in which none did, one that begins, or goes on as after a kill. The caller is told once more what it
    /// may not have heard: the job, the round that is under way, a result that it has not taken. A connection that
    /// there was has the number 0 now.
    ///
    /// `mark` is the latest [`mark`](Self::mark) that the host knows of; 0 where there is none yet. It must be kept where
    /// no backup brings an earlier one back: a suspended state with a lower one is an old copy, and the round that it
    /// was in is given up. Nothing that the party says after this may leave before a suspended state that has it behind
    /// it is durable, and after that its mark; and no two processes may go on from one state at once. Otherwise one key
    /// could be used for two things.
    pub fn resume(
        settings: Settings,
        identity: Identity,
        records: Arc<dyn Records>,
        mark: u64,
        now: Now,
        entropy: [u8; 32],
    ) -> Self {
        let shown = Arc::new(AtomicU64::new(mark));
        let marks = Marks::new(mark, shown.clone());
        let actor = Actor::start(entropy, now, |hand| {
            Member::new(settings, identity, Some(records), Some(marks), hand).run()
        });
        let mark = shown;
        Self { actor, mark }
    }

    /// The mark of the state that was suspended last.
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Something has come.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.actor.handle(now, input);
    }

    /// A task is done.
    pub fn worked(&mut self, now: Now, ticket: Ticket) {
        self.actor.worked(now, ticket);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.actor.tick(now);
    }

    /// What is to be done next; none where nothing is.
    pub fn poll(&mut self) -> Option<Effect> {
        self.actor.poll()
    }

    /// When to [`tick`](Self::tick), unless something comes before.
    pub fn wake(&self) -> Option<Time> {
        self.actor.wake()
    }

    /// Whether a task is under way. What comes meanwhile waits, so that it is best left with its sender.
    pub fn is_busy(&self) -> bool {
        self.actor.is_busy()
    }

    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        self.actor.is_over()
    }
}
