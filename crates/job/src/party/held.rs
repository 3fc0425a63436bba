//! What a party knows of operators that let no round begin.
//!
//! The coordinator says so once it is so, and in the `Welcome` of every connection. The caller and the log are told of
//! what is new, and a second passes between two reasons: a coordinator that says something else all the time fills
//! neither.

use std::time::Duration;

use tracing::{info, warn};

use super::context::Context;
use super::exchange::Told;
use crate::machine::Time;
use crate::orders::MAX_REASON;
use crate::plain_text;

/// The least time between two reasons that are told. That rounds begin again is told at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Why no round begins, as the coordinator says.
#[derive(Default)]
pub(super) struct Held {
    /// What the coordinator said last; empty where rounds begin.
    pub latest: String,
    /// What the caller was told last.
    told: String,
    /// When the caller may be told another reason.
    next: Option<Time>,
}

impl Held {
    /// The coordinator says why operators let no round begin; nothing where they do.
    pub fn hear(&mut self, ctx: &Context, reason: &str) {
        self.latest = plain_text(reason, MAX_REASON);
        self.tell(ctx);
    }

    /// When the caller is told, if it must be told something.
    pub fn due(&self, now: Time) -> Option<Time> {
        let next = self.next.filter(|_| !self.latest.is_empty());
        (self.latest != self.told).then(|| next.unwrap_or(now))
    }

    /// Tells the caller what is new, if it may be told now. True where it was.
    pub fn tell(&mut self, ctx: &Context) -> bool {
        let now = ctx.hand.now();
        if self.due(now).is_none_or(|due| due > now) {
            return false;
        }
        let reason = self.latest.clone();
        let (party, job) = (&ctx.identity.name, &ctx.settings.job);
        match reason.is_empty() {
            true => info!(%party, %job, "the job goes on"),
            false => {
                warn!(%party, %job, %reason, "no round begins: an operator holds the job");
                self.next = Some(now + PAUSE);
            }
        }
        self.told.clone_from(&reason);
        ctx.tell(Told::Held(reason));
        true
    }
}
