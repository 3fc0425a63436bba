//! All that a party knows and keeps. Its code begins in `course.rs`.

use std::sync::Arc;

use blindsum_encode::Sent;
use blindsum_protocol::{
    ClientSetup, Job, JobMemory, KnownServers, MemoryVault, PartyId, Round, Tag, Vault,
};
use rand_core::Rng;

use super::active::Active;
use super::exchange::{Departure, Effect, Identity, Input, Over, Settings, Told};
use super::guard::Guard;
use super::held::Held;
use super::introduction::Introduction;
use super::leftover::Leftover;
use super::marks::Marks;
use super::measured::Measured;
use super::passed::Passed;
use super::pledge::Pledge;
use super::state::{JobFolder, JobState, Memory};
use super::sums::Sums;
use super::suspended::RoundUnderWay;
use super::untaken::Untaken;
use crate::chunks::Assembly;
use crate::connection::{Connection, Say};
use crate::falling::Falling;
use crate::machine::{Hand, Time};
use crate::pb::{self, PartyFrame};
use crate::records::Records;
use crate::{JobError, Model};

/// Why a connection, or everything, ends.
pub(super) enum Ended {
    /// The connection. It may be made again.
    Lost(String),
    Over(Over),
    Failed(JobError),
}

impl From<JobError> for Ended {
    fn from(error: JobError) -> Self {
        Ended::Failed(error)
    }
}

/// A round from before the process was started, whose result does not come.
pub(super) struct Untold {
    pub round: u64,
    pub reason: String,
    pub verdict: Verdict,
}

/// What the coordinator says of an update whose result does not come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The round counts it.
    Counts,
    /// The coordinator does not know.
    Unknown,
    /// The round has no sum.
    Aborted,
    /// The round went on without it.
    Dropped,
}

impl Untold {
    /// The error for the caller.
    pub fn error(self) -> JobError {
        let Self {
            round,
            reason,
            verdict,
        } = self;
        match verdict {
            Verdict::Counts => JobError::Missed { round, reason },
            Verdict::Unknown => JobError::unknown(round, reason),
            Verdict::Aborted => JobError::RoundAborted { round, reason },
            Verdict::Dropped => JobError::Dropped { round, reason },
        }
    }
}

/// Everything that a party has.
pub(super) struct Member {
    pub hand: Hand<Input, Effect>,
    pub settings: Settings,
    pub identity: Identity,
    /// What it says of itself when it connects.
    pub introduction: Introduction,
    /// The first Welcome, which told the job.
    pub welcome: Option<pb::Welcome>,
    pub job: Option<Arc<Job>>,
    pub model: Option<Model>,
    /// The model that the records have.
    pub kept: Option<pb::ModelName>,
    pub connection: Connection<Conversation>,
    pub active: Option<Active>,
    /// Whether the caller waits for a round.
    pub wanted: bool,
    /// The tag of the round that it waits for; none if it waits for any.
    pub wanted_tag: Option<Tag>,
    /// The latest round with a tag that goes on without this party, until the caller has heard of it.
    pub passed: Option<Passed>,
    /// The version of a model that came sealed and could not be opened with the key that the party has.
    pub unopened: Option<u64>,
    /// The job is done, and its last model is this.
    pub done: Option<pb::ModelName>,
    /// Why the job was done before its rounds were, as the coordinator says; empty where it was not.
    pub done_early: String,
    /// Why operators let no round begin.
    pub held: Held,
    /// Until when that model is asked for over further connections, once one has broken.
    pub farewell: Option<Time>,
    pub memory: Memory,
    /// A round from before the process was started, in which its update was out, and whose result does not come. The
    /// caller has not been told.
    pub missed: Option<Untold>,
    /// The latest round of which the caller was told the result.
    pub told: Option<u64>,
    /// That result, until the caller has taken it.
    pub untaken: Option<Untaken>,
    /// What this process said it is ready with, until the round begins.
    pub ready: Option<Pledge>,
    /// The parties of earlier sums.
    pub sums: Sums,
    pub folder: Option<Arc<JobFolder>>,
    pub records: Option<Arc<dyn Records>>,
    /// Where the party may be suspended.
    pub marks: Option<Marks>,
    /// The records of this job, once it is known.
    pub state: Option<Arc<JobState>>,
    /// The snapshot that the records had when the process began.
    pub snapshot: Vec<u8>,
    /// What the party keeps of the job between rounds.
    pub vault: Arc<dyn Vault>,
    /// What machines keep of the job between rounds, while this process lives.
    pub job_memory: Arc<JobMemory>,
    /// What it has not sent yet, where rounds are sparse.
    pub leftover: Option<Leftover>,
    /// The hashes of the first models that it has given.
    pub given: Vec<[u8; 32]>,
    /// The models of which it has reported metrics.
    pub measured: Measured,
    /// What was sent of an update in a sparse round, until its result is taken.
    pub sent: Option<(u64, Sent)>,
    /// Whether the log has said already that updates are clipped, and what to do.
    pub clipping_told: bool,
    /// The clipping bounds of rounds, where they follow from earlier ones.
    pub falling: Falling,
    /// The latest round for which the caller gave no update.
    pub sits_out: Option<u64>,
    /// Why the caller leaves, once it does.
    pub departure: Departure,
}

/// What a party has of a connection.
#[derive(Default)]
pub(super) struct Conversation {
    /// Whether a newer certificate waits to be shown.
    pub newer: bool,
    pub offer: Option<pb::RoundOffer>,
    /// The round that it has begun: nothing is answered in it before both know what came.
    pub begun: Option<u64>,
    /// The model that was asked for, and what has come of it.
    pub requested: Option<(pb::ModelName, Option<Assembly>)>,
    /// Whether the party was asked for its first model.
    pub gave: bool,
    /// The version of the model that the party has sealed for others, and how often.
    pub sealed: (u64, u32),
}

impl Member {
    pub fn new(
        settings: Settings,
        identity: Identity,
        records: Option<Arc<dyn Records>>,
        marks: Option<Marks>,
        hand: Hand<Input, Effect>,
    ) -> Self {
        let mut process = [0; 16];
        hand.random().fill_bytes(&mut process);
        Self {
            hand,
            job_memory: settings.job_memory.clone(),
            settings,
            identity,
            introduction: Introduction::of(process),
            welcome: None,
            job: None,
            model: None,
            kept: None,
            connection: Connection::default(),
            active: None,
            wanted: false,
            wanted_tag: None,
            passed: None,
            unopened: None,
            done: None,
            done_early: String::new(),
            held: Held::default(),
            farewell: None,
            memory: Memory::default(),
            missed: None,
            told: None,
            untaken: None,
            ready: None,
            sums: Sums::default(),
            folder: None,
            records,
            marks,
            state: None,
            snapshot: Vec::new(),
            vault: Arc::new(MemoryVault::default()),
            leftover: None,
            measured: Measured::default(),
            given: Vec::new(),
            sent: None,
            clipping_told: false,
            falling: Falling::default(),
            sits_out: None,
            departure: Departure::default(),
        }
    }

    /// Says a frame, where there is somebody to hear it.
    pub fn send(&self, frame: impl Into<PartyFrame>) {
        self.say(Say::Frame(frame.into()));
    }

    pub fn say(&self, say: Say) {
        if let Some(link) = self.connection.welcomed() {
            // guard: campaign-links-have-numbers
            self.hand.say(Effect::Send(link, say));
        }
    }

    pub fn tell(&self, told: Told) {
        self.hand.say(Effect::Tell(told));
    }

    /// Whether the caller was told the result of this round: nothing more that is said of it matters.
    pub fn is_told(&self, round: u64) -> bool {
        self.told == Some(round)
    }

    /// The round under way, as it is written down.
    pub fn under_way(&self) -> Option<RoundUnderWay> {
        let (now, unix_millis) = (self.hand.now(), self.hand.unix_millis());
        let active = self.active.as_ref()?;
        let receiving = self.connection.receiving(active.number);
        RoundUnderWay::of(active, receiving, now, unix_millis)
    }

    /// What a machine of a round starts from.
    pub fn setup(&self, round: &Arc<Round>, me: PartyId, guard: &Arc<Guard>) -> ClientSetup {
        let (anchor, now) = (self.identity.anchor.clone(), self.hand.unix_seconds());
        ClientSetup {
            round: round.clone(),
            me,
            identity: self.identity.key.clone(),
            vault: self.vault.clone(),
            servers: KnownServers::certified_by(anchor, now),
            memory: self.job_memory.clone(),
            guard: guard.clone(),
            prepared: match &self.active {
                Some(active) if active.number == round.number() => active.prepared.clone(),
                _ => Arc::default(),
            },
        }
    }
}
