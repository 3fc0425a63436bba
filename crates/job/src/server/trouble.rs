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
use tracing::{info, warn};

use super::{Halt, Lead};
use crate::report::JobState;
use crate::results::{LearntResult, keep};

/// The longest pause between two rounds.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Where a coordinator keeps results, for its status, which parties may ask for.
const RESULTS_FOLDER: &str =
    "in the coordinator's results folder (see to it; the coordinator's log has the path)";

/// The rounds without a result since the latest one with one.
#[derive(Default)]
pub(super) struct Trouble {
    /// How many of them have failed.
    failed: u32,
    /// How many pauses there were after the others.
    pauses: u32,
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
    fn waits(&mut self, blocked: String, what: &'static str, at_ms: u64) {
        self.blocked = blocked;
        self.next = Some((what, at_ms));
    }

    /// A round has begun: nobody is waited for any more.
    pub fn begun(&mut self) {
        self.blocked.clear();
        self.next = None;
    }

    /// The job waits for somebody or something once more; gives for how long.
    fn wait(&mut self, grace: Duration) -> Duration {
        let pause = grown(grace, self.pauses);
        self.pauses = self.pauses.saturating_add(1);
        pause
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

impl Lead {
    /// Why a round has no result, as its parties are told.
    pub(super) fn why_aborted(&self, number: u64, halt: &Halt) -> String {
        let drained = self.operator.drained_after(self.context.now());
        match (halt, &self.running, drained) {
            (Halt::Stop, Some(_), Some(within)) => format!(
                "the coordinator drained, and round {number} had not ended within {within} s"
            ),
            (Halt::Stop, None, _) if self.operator.drains() => {
                "the coordinator drains, and no round begins".into()
            }
            _ => halt.reason().into(),
        }
    }

    /// Logs the end of a round without a result. An offer that operators take back costs no party its training.
    pub(super) fn log_aborted(&self, number: u64, reason: &str) {
        let is_held = self.operator.drains() || self.may_begin().is_err();
        match is_held && self.running.is_none() {
            true => info!(job = %self.context.name, round = number, %reason, "offer taken back"),
            false => warn!(job = %self.context.name, round = number, %reason, "round aborted"),
        }
    }

    /// What becomes of the job after a round without a result; an error where it ends.
    pub(super) async fn without_result(&mut self, halt: Halt) -> Result<(), Halt> {
        if !matches!(halt, Halt::Unopened(_)) {
            // guard: patience-is-counted-anew
            self.opened.tried_otherwise();
        }
        match halt {
            // Nobody can be certified: no round is to blame, and none begins before that is over.
            Halt::Aborted(_) if self.certificates.cannot_certify(&self.context) => Ok(()),
            // Whoever ended it takes no part in the next one, which may as well begin now.
            Halt::Missed { .. } if self.has_enough_others() => Ok(()),
            Halt::Missed { whom, .. } => self.wait_for(&whom, Self::has_enough_others).await,
            Halt::Waits { whom, .. } => self.wait_for(&whom, |_| false).await,
            Halt::Unopened(reason) => self.wait_to_open(reason).await,
            // The operators want it so.
            Halt::Held(_) => Ok(()),
            Halt::Aborted(reason) => {
                self.trouble.failed += 1;
                let failed = self.trouble.failed;
                self.context
                    .count(|totals| totals.failed_in_row = failed.into());
                if failed >= self.context.parts.settings.failed_rounds {
                    let reason =
                        format!("{failed} rounds in a row gave no result; the last: {reason}");
                    return Err(Halt::Ended(reason));
                }
                let pause = match self.trouble.pauses {
                    0 => self.context.parts.settings.reconnect_grace,
                    _ => self
                        .trouble
                        .wait(self.context.parts.settings.reconnect_grace),
                };
                self.pause(pause, |_| false).await
            }
            halt => Err(halt),
        }
    }

    /// A round that came to nothing and that parties have left was lost with these: the next one begins without them, unless
    /// rounds were lost with all of its parties since the latest result. Whoever accuses somebody had to leave, and whoever
    /// was found to misbehave sits out already: a round that was lost with these alone has failed.
    ///
    /// A party that had no update to give may have one for the next round, unless each round needs everybody: the first time
    /// the job waits a while and asks it again. If it does so again it sits out, longer each time.
    pub(super) fn lost_with_parties(&mut self, number: u64, halt: Halt) -> Halt {
        if self.calls.is_hosted {
            return halt;
        }
        let (Halt::Aborted(reason), Some(running)) = (&halt, &self.running) else {
            return halt;
        };
        let needs_all = self.context.job().needs_everybody();
        let is_to_blame = |name: &str| {
            let accuses = self.conduct.has_accused(name, self.begun);
            needs_all || !(accuses || self.conduct.is_liar(name, self.begun))
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
                self.conduct.gave_no_update(&loss.name, self.begun);
            } else {
                self.conduct.lost(&loss.name, self.begun);
                self.trouble.lost.insert(loss.name.clone());
            }
        }
        let mut all = running.names().iter();
        if all.all(|name| self.trouble.lost.contains(name)) {
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
        let next = self.begun.saturating_add(1);
        let sits_out = |loss: &Loss| self.conduct.is_lossy(&loss.name, next);
        match losses.iter().any(sits_out) {
            true => Halt::Missed { whom, reason },
            false => Halt::Waits { whom, reason },
        }
    }

    /// An error where a server is out of the round without which no sum can be opened. One that was lost is waited for; one
    /// that misbehaved has made the round fail.
    pub(super) fn needs_servers(&self) -> Result<(), Halt> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let Some((role, reason)) = running.lacks_server() else {
            return Ok(());
        };
        let number = running.number();
        let told = format!("no sum without the {role}, which is out of the round: {reason}");
        Err(match running.has_lied(role) {
            true => Halt::Aborted(told),
            // guard: lost-servers-are-waited-for
            false => Halt::Waits {
                whom: format!("waiting for the {role}, lost in round {number}: {reason}"),
                reason: told,
            },
        })
    }

    /// Whether there are parties enough for a round without those with which the latest one was lost, and without liars. Those
    /// with which earlier ones were lost are asked again if there are not enough others.
    fn has_enough_others(&mut self) -> bool {
        let next = self.begun.saturating_add(1);
        self.conduct.choose(next);
        let takes_part = |name: &&Arc<str>| {
            let only_lossy = self.conduct.is_lossy(name, next) && !self.conduct.is_liar(name, next);
            self.sits_out(name, next).is_none()
                || only_lossy && self.conduct.latest_loss(name) != self.begun
        };
        let enough = self.context.least_roster();
        self.members.names().filter(takes_part).count() >= enough
    }

    /// Waits for somebody or something, longer each time, or until nobody has to be waited for.
    async fn wait_for(
        &mut self,
        whom: &str,
        is_over: impl Fn(&mut Self) -> bool,
    ) -> Result<(), Halt> {
        let pause = self
            .trouble
            .wait(self.context.parts.settings.reconnect_grace);
        let now_ms = self.context.unix_millis();
        let at_ms = now_ms.saturating_add(pause.as_millis() as u64);
        let what = "the next round begins at the earliest";
        self.trouble.waits(whom.to_owned(), what, at_ms);
        warn!(job = %self.context.name, "{}", self.trouble.blocked(now_ms));
        self.publish(None);
        self.pause(pause, is_over).await
    }

    /// A moment for parties to come back.
    pub(super) async fn pause(
        &mut self,
        time: Duration,
        is_over: impl Fn(&mut Self) -> bool,
    ) -> Result<(), Halt> {
        let until = self.context.now() + time;
        while self.context.now() < until && !is_over(self) {
            if let Some(input) = self.next_input(Some(until)).await? {
                self.handle(input).await;
            }
            if self.running.is_none() && self.may_begin().is_err() {
                break;
            }
        }
        // What is said of the time until now does not hold any more.
        self.context.news();
        Ok(())
    }

    /// For whom or what the job waits after a round without a result; empty where rounds go on, operators hold them, or the
    /// job has ended.
    pub(super) fn blocked(&self) -> String {
        let enough = self.members.len() >= self.context.least_roster();
        let is_offered = self.joining.is_some() && enough;
        match self.state == JobState::Running && self.operator.held().is_empty() && !is_offered {
            true => self.trouble.blocked(self.context.unix_millis()),
            false => String::new(),
        }
    }

    /// Keeps the result of a round, where the operator wants it: the round counts once that is done. A place that is full
    /// is tried again, with longer pauses, until there is room or the coordinator stops.
    pub(super) async fn keep_result(
        &mut self,
        round: u64,
        learnt: LearntResult,
    ) -> Result<Arc<LearntResult>, Halt> {
        let learnt = Arc::new(learnt);
        let Some(results) = self.context.parts.results.clone() else {
            return Ok(learnt);
        };
        loop {
            let (results, result) = (results.clone(), learnt.clone());
            let kept = move || keep(&*results, round, &result, RESULTS_FOLDER);
            let kept = self.context.hand.work(kept);
            // guard: mpc3-keep-at-coordinator
            let Err(reason) = kept.await? else {
                self.trouble.begun();
                return Ok(learnt);
            };
            let pause = self
                .trouble
                .wait(self.context.parts.settings.reconnect_grace);
            let at_ms = self
                .context
                .unix_millis()
                .saturating_add(pause.as_millis() as u64);
            let blocked = format!("round {round} does not end: {reason}");
            self.trouble.waits(blocked, "it is tried again", at_ms);
            self.context.news();
            self.pause(pause, |_| false).await?;
        }
    }

    /// Writes down who sits out rounds, where that has changed or somebody does.
    pub(super) async fn store_conduct(&mut self) {
        let bytes = self.conduct.to_bytes(0);
        if bytes == self.conduct_stored && self.conduct.is_at_rest(self.begun) {
            return;
        }
        let dated = self.conduct.to_bytes(self.begun);
        // guard: who-sits-out-is-stored
        let stored = self
            .context
            .stored(move |store, job| store.set_conduct(job, &dated));
        match stored.await {
            Ok(()) => self.conduct_stored = bytes,
            Err(halt) => self
                .context
                .not_stored("who sits out rounds could not be stored", halt),
        }
    }
}
