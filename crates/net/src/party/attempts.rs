//! What came of a party's connections so far, and when to try again.

use std::time::Duration;

use blindsum_job::foreign;
use blindsum_job::party::RENEWED;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::connect::PAUSES;
use crate::pb::{RefusalCode, Refused};
use crate::seconds;

/// The attempts of a party to be let in, since it last was.
pub(super) struct Attempts {
    /// Seconds for which a party tries again.
    give_up_after: f64,
    /// Until when it does.
    until: Instant,
    /// Seconds before the next one.
    pause: f64,
    /// Whether the coordinator has welcomed the party over the latest connection.
    welcomed: bool,
    /// Whether the coordinator has asked over the latest connection to come again with a token, and whether over the one
    /// before.
    asked_now: bool,
    asked_before: bool,
    /// Why there is no connection, as the log has it.
    logged: Option<String>,
    /// Why the coordinator says that the job has failed.
    failed: Option<String>,
}

impl Attempts {
    pub fn new(give_up_after: f64) -> Self {
        Self {
            give_up_after,
            until: Instant::now() + seconds(give_up_after),
            pause: PAUSES.0,
            welcomed: false,
            asked_now: false,
            asked_before: false,
            logged: None,
            failed: None,
        }
    }

    /// The coordinator has welcomed the party.
    pub fn welcomed(&mut self) {
        self.welcomed = true;
        self.failed = None;
    }

    /// The coordinator has refused it.
    pub fn refused(&mut self, refused: &Refused) {
        match refused.code() {
            RefusalCode::RefusalComeAgain => self.asked_now = true,
            RefusalCode::RefusalJobFailed => self.failed = Some(foreign(&refused.reason)),
            _ => {}
        }
    }

    /// A connection has ended, or did not come about. After one with a welcome the attempts are counted anew.
    pub fn ended(&mut self) {
        if std::mem::take(&mut self.welcomed) {
            self.until = Instant::now() + seconds(self.give_up_after);
            self.pause = PAUSES.0;
            self.logged = None;
        }
    }

    /// How long to wait before the next attempt, after one that ended for this reason; nothing where the party comes again at
    /// once. The log of `party` says why.
    ///
    /// # Errors
    /// Why there was no connection for so long that the party gives up.
    pub fn again(&mut self, party: &str, reason: String) -> Result<Option<Duration>, String> {
        // guard: trouble-that-stays-is-given-up
        if Instant::now() >= self.until {
            return Err(match self.failed.take() {
                Some(failed) if failed != reason => format!("{reason}; before that: {failed}"),
                _ => reason,
            });
        }
        let asked_before = self.asked_before;
        self.asked_before = std::mem::take(&mut self.asked_now);
        let pause = self.pause;
        if self.asked_before && !asked_before {
            // So begins every process of a party that was here before: it comes at once, with the token.
            debug!(%party, %reason, "connecting again, as the coordinator asks");
            return Ok(None);
        } else if reason == RENEWED {
            info!(%party, "{reason}");
        } else if self.logged.as_ref() != Some(&reason) {
            let seconds = self.give_up_after;
            warn!(%party, %reason, seconds, "no connection; trying again");
            self.logged = Some(reason);
        } else {
            debug!(%party, %reason, pause, "no connection yet");
        }
        self.pause = (pause * 2.0).min(PAUSES.1);
        Ok(Some(seconds(pause)))
    }
}
