//! A party hears that operators let no round begin, or that the job goes on, and tells its caller.

use tracing::{info, warn};

use super::exchange::Told;
use super::held::{Held, PAUSE};
use super::member::Member;
use crate::machine::Time;
use crate::orders::MAX_REASON;
use crate::plain_text;

impl Member {
    /// The coordinator says why operators let no round begin; nothing where they do.
    pub(super) fn hears_held(&mut self, reason: &str) {
        if self.done.is_some() {
            return;
        }
        self.held.latest = plain_text(reason, MAX_REASON);
        self.tell_held();
    }

    /// Tells the caller what is new, if it may be told now. True where it was.
    pub(super) fn tell_held(&mut self) -> bool {
        let now = self.ctx.hand.now();
        if self.held.due(now).is_none_or(|due| due > now) {
            return false;
        }
        let reason = self.held.latest.clone();
        let (party, job) = (&self.ctx.identity.name, &self.ctx.settings.job);
        match reason.is_empty() {
            true => info!(%party, %job, "the job goes on"),
            false => warn!(%party, %job, %reason, "no round begins: an operator holds the job"),
        }
        if !reason.is_empty() {
            self.held.next = Some(now + PAUSE);
        }
        self.held.told.clone_from(&reason);
        self.ctx.tell(Told::Held(reason));
        true
    }

    /// When the caller is told, if it must be told something.
    pub(super) fn held_due(&self) -> Option<Time> {
        self.held.due(self.ctx.hand.now())
    }

    /// What the coordinator said last, as it is written down.
    pub(super) fn kept_held(&self) -> String {
        self.held.latest.clone()
    }

    /// The job is done: nothing holds it any more, and nobody is told that it goes on.
    pub(super) fn held_no_more(&mut self) {
        self.held = Held::default();
    }
}
