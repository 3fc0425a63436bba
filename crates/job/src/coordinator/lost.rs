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
    how: How,
}

/// How somebody was lost.
#[derive(Clone, Copy)]
enum How {
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
    pub fn since(since: Time) -> Self {
        let how = How::Cut;
        Self { since, how }
    }

    pub fn failed(since: Time) -> Self {
        let how = How::Failed;
        Self { since, how }
    }

    pub fn left(since: Time) -> Self {
        let how = How::Left;
        Self { since, how }
    }

    pub fn broken(since: Time) -> Self {
        let how = How::Broken;
        Self { since, how }
    }

    pub fn revoked(since: Time) -> Self {
        let how = How::Revoked;
        Self { since, how }
    }

    pub fn banned(since: Time) -> Self {
        let how = How::Banned;
        Self { since, how }
    }

    pub fn reported(since: Time) -> Self {
        let how = How::Reported;
        Self { since, how }
    }

    /// Until when it is waited for.
    pub fn until(self, grace: Duration) -> Time {
        match self.how {
            How::Cut => self.since + grace,
            How::Failed | How::Left | How::Broken | How::Revoked | How::Banned | How::Reported => {
                self.since
            }
        }
    }

    /// Whether another process of it may be on its way.
    pub fn may_return(self) -> bool {
        matches!(self.how, How::Cut | How::Failed | How::Left)
    }

    /// Why it is not waited for after that.
    pub fn reason(self) -> &'static str {
        match self.how {
            How::Cut => "its connection was lost",
            How::Failed => FAILED,
            How::Left => "it has left the job",
            How::Broken => "its program failed",
            How::Revoked => REVOKED,
            How::Banned => "an operator has banned it",
            How::Reported => "the host reports that it has failed",
        }
    }

    /// By what the loss is counted.
    pub fn cause(self) -> LossCause {
        match self.how {
            How::Cut => LossCause::Connection,
            How::Failed => LossCause::Lease,
            How::Left => LossCause::Left,
            How::Broken => LossCause::Failed,
            How::Revoked => LossCause::Revoked,
            How::Banned => LossCause::Banned,
            How::Reported => LossCause::Failed,
        }
    }
}
