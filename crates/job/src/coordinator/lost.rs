//! Parties that are away, and parties that have failed.
//!
//! Two rules say how long anybody waits for a party, and the one that ends first holds. A connection that is known to be
//! broken: a stage waits `reconnect_grace` for the party to come back. A party that gives no sign of life, over a
//! connection that seems to stand or over none: it is a member until its lease runs out, and has failed then.

use std::time::Duration;

use crate::machine::Time;
use crate::totals::LossCause;

/// What reports, and the party where it hears it, are told of a lease that ran out.
pub(super) const FAILED: &str = "its lease ran out: it gave no sign of life";

/// What reports are told of a certificate that is on the revocation list.
const REVOKED: &str = "its certificate was revoked";

/// Somebody of a round whose connection was lost.
#[derive(Clone, Copy)]
pub(super) struct Lost {
    since: Time,
    how: LostBy,
}

/// How somebody was lost.
#[derive(Clone, Copy)]
pub(super) enum LostBy {
    /// Its connection has ended. It may connect again.
    Cut,
    /// Its lease has run out: it is not waited for any more.
    Failed,
    /// It has left the job: it is not waited for any more.
    Left,
    /// Its program has failed: it is not waited for any more.
    Broken,
    /// Its certificate was revoked: it is not waited for any more.
    Revoked,
    /// An operator has banned it: it is not waited for any more.
    Banned,
    /// The host of the job has reported it as failed: it is not waited for any more.
    Reported,
}

impl Lost {
    /// It is lost in this way from now on.
    pub fn new(since: Time, how: LostBy) -> Self {
        Self { since, how }
    }

    /// Until when it is waited for.
    pub fn until(self, grace: Duration) -> Time {
        match self.how {
            LostBy::Cut => self.since + grace,
            LostBy::Failed
            | LostBy::Left
            | LostBy::Broken
            | LostBy::Revoked
            | LostBy::Banned
            | LostBy::Reported => self.since,
        }
    }

    /// Whether another process of it may be on its way.
    pub fn may_return(self) -> bool {
        matches!(self.how, LostBy::Cut | LostBy::Failed | LostBy::Left)
    }

    /// Why it is not waited for after that.
    pub fn reason(self) -> &'static str {
        match self.how {
            LostBy::Cut => "its connection was lost",
            LostBy::Failed => FAILED,
            LostBy::Left => "it has left the job",
            LostBy::Broken => "its program failed",
            LostBy::Revoked => REVOKED,
            LostBy::Banned => "an operator has banned it",
            LostBy::Reported => "the host reports that it has failed",
        }
    }

    /// By what the loss is counted.
    pub fn cause(self) -> LossCause {
        match self.how {
            LostBy::Cut => LossCause::Connection,
            LostBy::Failed => LossCause::Lease,
            LostBy::Left => LossCause::Left,
            LostBy::Broken => LossCause::Failed,
            LostBy::Revoked => LossCause::Revoked,
            LostBy::Banned => LossCause::Banned,
            LostBy::Reported => LossCause::Failed,
        }
    }
}
