//! The inputs of a party, and its effects.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::sign::IdentityKey;
use blindsum_encode::{Judged, Reals};
use blindsum_protocol::{Job, JobMemory, ServerRole, Tag};
use bytes::Bytes;

use super::policy::Policy;
use super::result::RoundResult;
use crate::connection::{LinkId, Say};
use crate::ledger::LedgerFile;
use crate::pb::CoordinatorFrame;
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
    /// SHA-256 of the CA's certificate. The party remembers sums separately for each CA.
    pub ca: [u8; 32],
}

/// How a party takes part in a job.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The job's name.
    pub job: String,
    /// The rules by which it accepts jobs and rounds.
    pub policy: Policy,
    /// Bytes of masks that it may compute ahead of time while it waits.
    pub mask_memory: usize,
    /// Where it is, in the words of its owner; empty to say nothing.
    pub location: String,
    /// What its machines keep of the job between rounds, while this process lives: empty, but for parties that the simulator
    /// lets lie.
    pub job_memory: Arc<JobMemory>,
    /// Where the ledger of its data is, for jobs with noise; `None` keeps it in memory, as long as the party lives.
    pub ledger: Option<Arc<dyn LedgerFile>>,
    /// The values of a model that the party gives where the job takes its first model from a party and the coordinator asks
    /// this one; `None` if it gives none. The coordinator and all parties learn it.
    pub initial: Option<Arc<Reals>>,
}

/// An input of a party.
pub enum Input {
    /// There is a new connection.
    Linked(LinkId),
    /// A connection has ended, for this reason.
    Lost(LinkId, String),
    /// A frame came over a connection.
    Frame(LinkId, CoordinatorFrame),
    /// The party's certificate was renewed. The party shows it over a new connection.
    Renewed,
    /// The caller waits for a round, whatever its tag.
    WantRound,
    /// The caller waits for a round with this tag, and for no other one.
    WantTag(Tag),
    /// The caller gives its update.
    Submit {
        /// The round.
        round: u64,
        /// The update with its weight, as [`check_update`](super::check_update) gives it.
        update: Judged,
    },
    /// The caller has taken the result of a round that it was told, or does not want it. No other round begins for it
    /// before.
    Took(u64),
    /// The caller gives no update for a round.
    Abandon {
        /// The round.
        round: u64,
        /// Why, for the coordinator.
        why: Absence,
    },
    /// Another server has taken its part of an answer.
    Uploaded {
        /// The round.
        round: u64,
        /// Which server.
        role: ServerRole,
    },
    /// Another server will not take its part of an answer, however often it is tried.
    UploadRefused {
        /// The round.
        round: u64,
        /// Which server.
        role: ServerRole,
        /// Why, for people.
        reason: String,
    },
    /// The process will end and another one will go on: write down what is in memory. Only a party that was made by
    /// [`PartyMachine::resume`](super::PartyMachine::resume) can do that; [`PartyMachine::mark`](super::PartyMachine::mark) shows when
    /// it is done.
    Suspend,
    /// The caller leaves the job. The coordinator is told why.
    Leave(Departure),
    /// The coordinator will not be reached again, for this reason. What is under way ends.
    GiveUp(String),
}

/// Why a caller gives no update in a round. The coordinator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The caller has no update for this round.
    SitsOut,
    /// The caller's update was not accepted, for this reason. The text goes to the coordinator: it must not contain
    /// values of the update.
    Unusable(String),
}

/// Why a caller leaves the job. The coordinator is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Departure {
    /// The caller does not want to take part any more.
    #[default]
    Closed,
    /// The caller is stopped from outside, as by a signal.
    Stopped,
    /// The caller cannot go on, for this reason. The text goes to the coordinator: it must not contain secrets.
    Failed(String),
}

/// An effect of a party. Effects are carried out in the order in which they are given.
pub enum Effect {
    /// Send this over a connection. If the connection has ended, it is lost.
    Send(LinkId, Say),
    /// Give another server its part of an answer, and say that it has taken it by [`Input::Uploaded`]. It is tried as
    /// long as the round goes on: until the next one begins or the caller is told that it has ended.
    Upload {
        /// The round.
        round: u64,
        /// Which server.
        role: ServerRole,
        /// The part.
        message: Bytes,
    },
    /// End the connection, for this reason, and make another one.
    Reconnect(LinkId, String),
    /// Tell the caller.
    Tell(Told),
}

/// What the caller is told.
pub enum Told {
    /// The job, which the policy allows. It is told only once.
    Joined(Arc<Job>),
    /// A round begins; the caller waited for it.
    Round(Begun),
    /// The round for which the caller waited begins without this party, or counts an update that an earlier process
    /// sent. The caller may wait for the next round.
    Refused(JobError),
    /// The end of a round that had begun, with its result or the reason why there is none.
    Ended(u64, Result<Box<RoundResult>, JobError>),
    /// The update that the caller gave last was dropped: [`JobError::Submission`] says why.
    Dropped(JobError),
    /// Operators of the coordinator let no round begin, for this reason in their words; empty where they let the job go
    /// on. It is told once, and again where it is another one.
    Held(String),
    /// The party has ended.
    Over(Over),
}

/// How a party ended.
pub enum Over {
    /// The job is done.
    JobDone {
        /// The last model, if it is known here.
        model: Option<Model>,
        /// Why, as the coordinator says, where the job was done before its rounds were; empty otherwise.
        reason: String,
    },
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
    /// Its tag, where a host called it with one.
    pub tag: Option<Tag>,
    /// Whether the caller must give an update. It must not if the update was sent before the process was restarted.
    pub needs_update: bool,
}
