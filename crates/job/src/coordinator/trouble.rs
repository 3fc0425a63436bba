//! Rounds without a result: what counts as failed, and how the job waits where nothing does.
//!
//! A job ends after too many failed rounds in a row. Nothing small may end it, so a round does not count as failed if it
//! was lost with some of its parties or with another server. Where enough other parties are there, the next round begins at
//! once without those. Otherwise the job waits, longer each time, and tells for whom. Once rounds were lost with each of the
//! parties, no result between them, something else is wrong, and they count.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::calendar::utc;

use super::Halt;
use super::back_off::{BackOff, Out};
use super::running::Running;

/// The target of log lines for whom a job waits, and of rounds without a result. A program that tells this itself leaves
/// them out by this name, wherever they are written.
pub(super) const WAITS: &str = "blindsum_job::waits";

/// The longest pause between two rounds.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The rounds without a result since the latest one with one.
#[derive(Default)]
pub(super) struct Trouble {
    /// How many of them have failed.
    pub failed: u32,
    /// How many pauses there were after the others.
    pub pauses: u32,
    /// The parties with which some of them were lost.
    lost: BTreeSet<Arc<str>>,
    /// For whom or what the job waits; empty if for nobody.
    blocked: String,
    /// What happens then, and when: milliseconds since 1970.
    next: Option<(&'static str, u64)>,
}

impl Trouble {
    /// For whom or what the job waits, with the date of what comes next while that is still to come; empty if for nobody.
    pub fn blocked(&self, now_ms: u64) -> String {
        match self.next {
            Some((what, at_ms)) if at_ms > now_ms && !self.blocked.is_empty() => {
                format!("{}; {what} {}", self.blocked, utc(at_ms.div_ceil(1000)))
            }
            _ => self.blocked.clone(),
        }
    }

    /// The job waits for this; `what` happens at that time.
    pub fn waits(&mut self, blocked: String, what: &'static str, at_ms: u64) {
        self.blocked = blocked;
        self.next = Some((what, at_ms));
    }

    /// A round has begun: nobody is waited for any more.
    pub fn begun(&mut self) {
        self.blocked.clear();
        self.next = None;
    }

    /// The job waits for somebody or something once more; gives for how long.
    pub fn wait(&mut self, grace: Duration) -> Duration {
        let pause = grown(grace, self.pauses);
        self.pauses = self.pauses.saturating_add(1);
        pause
    }

    /// A round that came to nothing and that parties have left was lost with these: the next one begins without them, unless
    /// rounds were lost with all of its parties since the latest result. Whoever accuses somebody had to leave, and whoever
    /// was found to misbehave sits out already: a round that was lost with these alone has failed.
    ///
    /// A party that had no update to give may have one for the next round, unless each round needs everybody: the first time
    /// the job waits a while and asks it again. If it does so again it sits out, longer each time.
    pub fn lost_with(
        &mut self,
        running: Option<&Running>,
        back_off: &mut BackOff,
        needs_all: bool,
        halt: Halt,
    ) -> Halt {
        let (Halt::Aborted(reason), Some(running)) = (&halt, running) else {
            return halt;
        };
        let number = running.number();
        let is_to_blame = |name: &str| {
            needs_all
                || !(back_off.conduct.has_accused(name) || back_off.why_out(name) == Out::Liar)
        };
        let losses: Vec<Loss> = running
            .losses()
            .filter(|(name, _)| is_to_blame(name))
            .map(|(name, reason)| Loss {
                name: name.clone(),
                reason: format!("{name} ({reason})"),
                gave_no_update: !needs_all && running.gave_no_update(name),
            })
            .collect();
        if losses.is_empty() {
            return halt;
        }
        for loss in &losses {
            if loss.gave_no_update {
                // guard: who-gives-no-update-again-and-again-sits-out
                back_off.conduct.gave_no_update(&loss.name);
            } else {
                back_off.conduct.lost(&loss.name);
                self.lost.insert(loss.name.clone());
            }
        }
        let mut all = running.names().iter();
        if all.all(|name| self.lost.contains(name)) {
            return halt;
        }
        let lost: Vec<&str> = losses.iter().map(|loss| &*loss.reason).collect();
        let lost = lost.join(", ");
        let reason = match needs_all {
            true => format!(
                "lost {lost}: every round needs all of its parties, and the next one begins without them"
            ),
            // It names who has left, if that is why.
            false => reason.clone(),
        };
        let whom = format!(
            "waiting for other parties than those lost in round {number}, or for these again: {lost}"
        );
        match losses.iter().any(|loss| back_off.sits_out_next(&loss.name)) {
            true => Halt::Missed { whom, reason },
            false => Halt::Waits { whom, reason },
        }
    }
}

/// A party that has left a round that came to nothing.
struct Loss {
    name: Arc<str>,
    /// Its name and why it left, for people.
    reason: String,
    /// Whether it had no update to give, and may have one for the next round.
    gave_no_update: bool,
}

/// A pause that was doubled so many times, up to the longest one.
pub(super) fn grown(grace: Duration, times: u32) -> Duration {
    let factor = 1u32.checked_shl(times).unwrap_or(u32::MAX);
    grace.saturating_mul(factor).min(MAX_PAUSE)
}

/// An error where a server is out of the round without which no sum can be opened. One that was lost is waited for; one
/// that misbehaved has made the round fail.
pub(super) fn needs_servers(running: Option<&Running>) -> Result<(), Halt> {
    let Some(running) = running else {
        return Ok(());
    };
    let Some((role, reason)) = running.servers.lacking() else {
        return Ok(());
    };
    let number = running.number();
    let told = format!("no sum without the {role}, which is out of the round: {reason}");
    Err(match running.servers.has_misbehaved(role) {
        true => Halt::Aborted(told),
        // guard: lost-servers-are-waited-for
        false => Halt::Waits {
            whom: format!("waiting for the {role}, lost in round {number}: {reason}"),
            reason: told,
        },
    })
}
