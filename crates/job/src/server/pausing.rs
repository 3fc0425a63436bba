//! After a round without a result: how the job waits, and for whom.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::{Halt, Lead};
use crate::report::JobState;
use crate::results::{LearntResult, keep};

/// Where a coordinator keeps results, for its status, which parties may ask for.
const RESULTS_FOLDER: &str =
    "in the coordinator's results folder (see to it; the coordinator's log has the path)";

impl Lead {
    /// Why a round has no result, as its parties are told.
    pub(super) fn why_aborted(&self, number: u64, halt: &Halt) -> String {
        let drained = self.operator.drained_after(self.context.now());
        match (halt, self.phase.running(), drained) {
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
        match is_held && self.phase.running().is_none() {
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
            if self.phase.running().is_none() && self.may_begin().is_err() {
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
        let is_offered = self.phase.joining().is_some() && enough;
        match self.phase.state() == JobState::Running
            && self.operator.held().is_empty()
            && !is_offered
        {
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

    /// Whether there are parties enough for a round without those with which the latest one was lost.
    fn has_enough_others(&mut self) -> bool {
        let enough = self.context.least_roster();
        self.bans.has_enough_others(&self.members, enough)
    }
}
