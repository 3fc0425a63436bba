//! The coordinator of a job: it lets parties in, runs rounds, keeps the model, and tells everybody the results.
//!
//! [`CoordinatorMachine`] is its interface: the program that drives it hands in what has come ([`Input`]) and carries out what
//! it asks for ([`Effect`]). Behind it are three layers, and none knows those above it.
//!
//! * Objects that own their fields: `context` (job, clock, store), `connections` (who is connected), `presence` (which process
//!   speaks for a name), `certificates`, `back_off` (who sits out), `rounds` (numbers and metric), `models`, with `first` and
//!   `sealed`, `calls` of a host, `ended` (results that are still told), `released` (results that were opened), `operator`
//!   (orders), `trouble` (rounds without a result), and `phase`, in which `offered`, `fixed` and `running` are a round's steps.
//! * `state` has all of these. `handling` gives each input to `arriving`, `servers`, `leaving`, `passing`, `ordering` or
//!   `hosted`; `standing` and `status` say where the job stands. Nothing here waits for an input.
//! * The course of a job, which waits: `job`, from the first round to the end of the job; `gathering`, `called`, `joining`
//!   with `awaiting` and `selecting`, `opening` with `nonces`, `round` with `faults` and `talking`, and `concluding`.

mod api;
mod arriving;
mod awaiting;
mod back_off;
mod beginning;
mod board;
mod bounds;
mod called;
mod calls;
mod certificates;
mod choosing;
mod collecting;
mod concluding;
mod conduct;
mod connections;
mod context;
mod counting;
mod delivery;
mod departed;
mod ended;
mod faults;
mod finished;
mod first;
mod fixed;
mod gathering;
mod handling;
mod hosted;
mod inputs;
mod job;
mod joining;
mod leaving;
mod link;
mod lost;
mod models;
mod nonces;
mod offered;
mod opening;
mod operator;
mod ordering;
mod owed;
mod passing;
mod phase;
mod places;
mod presence;
mod released;
mod round;
mod rounds;
mod running;
mod sealed;
mod selecting;
mod servers;
mod shared;
mod shelf;
mod standing;
mod state;
mod status;
mod talking;
mod times;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_protocol::{InitialModel, Job, RoundKind};
use tracing::warn;

use crate::machine::{Machine, Now};
use crate::orders::Terms;
use crate::report::{JobState, JobStatus, PrivacyStatus, Releases, RoundReport};
use crate::totals::{Cause, Totals};
pub use crate::traffic::Traffic;
use crate::{JobError, Model, StoreError};
pub use api::{
    Choice, Content, CurrentTimes, Effect, Gate, Hold, Input, LinkId, Parts, Peer, Say, Settings,
    Who,
};
pub use arriving::LONGEST_LOCATION;
use board::Board;
pub use board::Counted;
use context::Context;
pub use departed::departure;
use operator::Operator;
pub use operator::Ordered;
use rounds::Rounds;
pub use servers::KEY_SERVICE;
pub use shared::Shared;
pub use shelf::{MemoryShelves, Shelf, ShelfError, Shelves};
use state::State;

/// The coordinator of a job, as a machine. It has no socket, no clock, no thread and no file: the same inputs at the
/// same times with the same entropy lead to the same effects.
///
/// The program that drives it carries out the effects in order. Before each of them it applies the current
/// [`gate`](Self::gate) to the code that receives answers: a party must not be told of a stage whose answers are not
/// let in yet.
pub type CoordinatorMachine = Machine<Input, Effect, Shown>;

/// What a coordinator shows while it runs.
pub struct Shown(Arc<Board>);

impl CoordinatorMachine {
    /// Goes on with a job that is in the store, or begins it. All its randomness comes from `entropy`, which must not
    /// be used a second time. This call reads the store at once.
    ///
    /// # Errors
    /// The store has the job with another specification, or cannot be read or written.
    pub fn open(parts: Parts, now: Now, entropy: [u8; 32]) -> Result<Self, JobError> {
        let spec = parts.job.spec();
        let given = parts.initial.clone();
        let initial = given.clone().unwrap_or_else(|| match spec.initial {
            InitialModel::FirstParty => Model::awaited(&parts.job),
            InitialModel::Coordinator | InitialModel::Zeros => Model::initial(&parts.job),
        });
        let stored = parts.store.open_job(&parts.job, &initial)?;
        if given.is_some_and(|given| given.hash() != stored.model.hash()) {
            let version = stored.model.version();
            warn!(job = %spec.job, version, "the store has the job already: it goes on from its model, and the one \
                that was given to start from is not used");
        }
        for round in &stored.interrupted {
            warn!(job = %spec.job, round, "aborted: the coordinator was restarted");
        }
        let rounds = parts.store.rounds(&spec.job, ROUNDS_READ)?;
        let mut numbers = Rounds::stored(&parts.job, &stored, &rounds);
        let latest = rounds.into_iter().next();
        parts
            .store
            .set_job_state(&spec.job, JobState::Running, "")?;
        let operator = Operator::stored(spec, &stored.operator).map_err(JobError::System)?;
        // Rounds without a gain count no more where an operator has let the job go on since.
        numbers.best = (numbers.best).map(|best| operator.counted(best, stored.next_round));
        let status = first_status(&parts, operator.terms, latest);
        // Whatever comes for rounds before the restart comes too late.
        let gate = Gate::closed(stored.next_round.saturating_sub(1));
        let mut totals = totals_of(&parts.job);
        totals.aborted(Cause::Restarted, stored.interrupted.len() as u64);
        let board = Board::new(gate, status, totals);
        let told = board.clone();
        Ok(Self::start(entropy, now, Shown(board), |hand| {
            let context = Context::new(hand, parts, told);
            let state = State::new(context, stored, operator, numbers);
            state.publish(None);
            let stopping = false;
            Coordinator { state, stopping }.run()
        }))
    }

    /// Which answers may come now. When it changes, this is another `Arc`.
    pub fn gate(&self) -> Arc<Gate> {
        self.shown.0.gate()
    }

    /// Where the job stands, for people. When it changes, this is another `Arc`.
    pub fn status(&self) -> Arc<JobStatus> {
        self.shown.0.status()
    }

    /// What the job has counted since it was opened: now, and whenever it is asked later.
    pub fn counted(&self) -> Counted {
        Counted::of(&self.shown.0)
    }
}

/// Nothing counted yet, for the stages of all rounds of a job.
fn totals_of(job: &Job) -> Totals {
    let parties = job.spec().parties as usize;
    let stages = |kind| job.plan_of(kind, parties).stages();
    Totals::new(stages(RoundKind::Sum), stages(RoundKind::KeySetup))
}

/// Rounds that a coordinator reads that goes on with a job, for the turns of its parties.
const ROUNDS_READ: u32 = 100;

/// What can be told of a job before it goes on.
fn first_status(parts: &Parts, terms: Terms, latest: Option<RoundReport>) -> JobStatus {
    let spec = parts.job.spec();
    JobStatus {
        job: spec.job.clone(),
        state: JobState::Running,
        reason: String::new(),
        protocol: spec.protocol.to_string(),
        rounds_done: 0,
        rounds: terms.rounds.into(),
        model_version: 0,
        model_hash: String::new(),
        model_from: String::new(),
        best: None,
        privacy: PrivacyStatus::of(&parts.job, Releases::default()),
        connected: Vec::new(),
        key_exchange: BTreeMap::new(),
        waiting_for: Vec::new(),
        min_parties: parts.job.least_roster(),
        warning: String::new(),
        warnings: Vec::new(),
        blocked: String::new(),
        unconfirmed: Vec::new(),
        lost: Vec::new(),
        left: BTreeMap::new(),
        round: latest,
        held: String::new(),
        ready: Vec::new(),
        banned: BTreeMap::new(),
    }
}

/// The course of a job, from top to bottom. It alone waits, for one input after the other, by which the state changes.
struct Coordinator {
    state: State,
    /// Whether the coordinator stops.
    stopping: bool,
}

/// Why a job does nothing more.
enum Halt {
    /// The coordinator is stopping.
    Stop,
    /// The round gave no result.
    Aborted(String),
    /// Members have ended the round without having lied: the next round does without them, where enough others are there.
    Missed { whom: String, reason: String },
    /// The round gave no result because of something that will pass, as a server that was started again: no round counts
    /// as failed, and the job waits for whom or what is named.
    Waits { whom: String, reason: String },
    /// Operators want no round to begin, for this reason.
    Held(String),
    /// The result of the round must not be opened; that of a round of other parties may be.
    Unopened(String),
    /// The job ends without being done.
    Ended(String),
    /// The job cannot go on.
    Broken(JobError),
}

impl Halt {
    /// Why a round ends, as its parties are told.
    fn reason(&self) -> &str {
        match self {
            Self::Stop => "the coordinator was stopped",
            Self::Aborted(reason)
            | Self::Held(reason)
            | Self::Unopened(reason)
            | Self::Ended(reason) => reason,
            Self::Missed { reason, .. } | Self::Waits { reason, .. } => reason,
            Self::Broken(_) => "the coordinator cannot go on",
        }
    }
}

impl From<JobError> for Halt {
    fn from(error: JobError) -> Self {
        Halt::Broken(error)
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Halt::Broken(error.into())
    }
}
