//! All that a party knows and keeps. Its code begins in `course.rs`.

use blindsum_protocol::Tag;

use super::active::Active;
use super::context::Context;
use super::exchange::{Departure, Over};
use super::held::Held;
use super::passed::Passed;
use super::pledge::Pledge;
use super::suspended::RoundUnderWay;
use super::untaken::Untaken;
use crate::JobError;
use crate::machine::Time;
use crate::pb;

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
    pub ctx: Context,
    pub active: Option<Active>,
    /// Whether the caller waits for a round.
    pub wanted: bool,
    /// The tag of the round that it waits for; none if it waits for any.
    pub wanted_tag: Option<Tag>,
    /// The latest round with a tag that goes on without this party, until the caller has heard of it.
    pub passed: Option<Passed>,
    /// The job is done, and its last model is this.
    pub done: Option<pb::ModelName>,
    /// Why the job was done before its rounds were, as the coordinator says; empty where it was not.
    pub done_early: String,
    /// Why operators let no round begin.
    pub held: Held,
    /// Until when that model is asked for over further connections, once one has broken.
    pub farewell: Option<Time>,
    /// A round from before the process was started, in which its update was out, and whose result does not come. The
    /// caller has not been told.
    pub missed: Option<Untold>,
    /// The latest round of which the caller was told the result.
    pub told: Option<u64>,
    /// That result, until the caller has taken it.
    pub untaken: Option<Untaken>,
    /// What this process said it is ready with, until the round begins.
    pub ready: Option<Pledge>,
    /// The latest round for which the caller gave no update.
    pub sits_out: Option<u64>,
    /// Why the caller leaves, once it does.
    pub departure: Departure,
}

impl Member {
    pub fn new(ctx: Context) -> Self {
        Self {
            ctx,
            active: None,
            wanted: false,
            wanted_tag: None,
            passed: None,
            done: None,
            done_early: String::new(),
            held: Held::default(),
            farewell: None,
            missed: None,
            told: None,
            untaken: None,
            ready: None,
            sits_out: None,
            departure: Departure::default(),
        }
    }

    /// Whether the caller was told the result of this round: nothing more that is said of it matters.
    pub fn is_told(&self, round: u64) -> bool {
        self.told == Some(round)
    }

    /// The round under way, as it is written down.
    pub fn under_way(&self) -> Option<RoundUnderWay> {
        let (now, unix_millis) = (self.ctx.hand.now(), self.ctx.hand.unix_millis());
        let active = self.active.as_ref()?;
        let receiving = self.ctx.connection.receiving(active.number);
        RoundUnderWay::of(active, receiving, now, unix_millis)
    }
}
