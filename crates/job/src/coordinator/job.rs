//! The course of a job: it waits for parties, runs rounds (`round.rs`), and ends.

use tracing::{error, info, warn};

use super::api::Effect;
use super::phase::{End, Phase};
use super::state::State;
use super::trouble::Trouble;
use super::{Coordinator, Halt};
use crate::JobError;
use crate::pb::{self, RefusalCode};
use crate::report::JobState;

impl Coordinator {
    /// Runs the job until the coordinator stops. A job that is over still answers its parties.
    pub(super) async fn run(mut self) {
        let result = loop {
            let result = self.until_over().await;
            // A job that has failed goes on where an operator resumes it.
            if result.is_ok() || self.wait_for_reopening().await.is_err() {
                break result;
            }
        };
        self.state.ended.close(&self.state.context).await;
        // Watchers see who has confirmed the latest result.
        self.state.publish(None);
        for member in self.state.connections.everybody() {
            let reason = "the coordinator is stopping; connect again when it is back";
            let last = pb::Refused::new(RefusalCode::RefusalStopping, reason);
            member.link.close(last);
        }
        self.state.context.say(Effect::Over(result));
    }

    /// Runs the job until the coordinator stops, or until it has failed or cannot go on.
    async fn until_over(&mut self) -> Result<(), JobError> {
        let error = match self.run_rounds().await {
            Halt::Stop => return Ok(()),
            Halt::Broken(error) => error,
            halt => JobError::JobFailed {
                job: self.state.context.name.clone(),
                reason: halt.reason().into(),
            },
        };
        error!(job = %self.state.context.name, %error, "the job cannot go on");
        // What a disk or this process cannot do now ends the coordinator and not the job.
        let state = match error {
            JobError::JobFailed { .. } => JobState::Failed,
            _ => JobState::Stopped,
        };
        fail(&mut self.state, state, error.to_string()).await;
        Err(error)
    }

    async fn run_rounds(&mut self) -> Halt {
        loop {
            if let Err(halt) = self.wait_while_held().await {
                return halt;
            }
            if self
                .state
                .rounds
                .are_over(&self.state.operator, self.state.context.job())
            {
                let served = match finish(&mut self.state).await {
                    Ok(()) => self.wait_for_reopening().await,
                    Err(halt) => Err(halt),
                };
                match served {
                    Ok(()) => continue,
                    Err(halt) => return halt,
                }
            }
            if self.state.calls.is_hosted {
                match self.run_call().await {
                    Ok(()) => continue,
                    Err(halt) => return halt,
                }
            }
            self.state.patience = self.state.context.now() + self.state.context.settings().patience;
            let halt = match self.wait_for_parties().await {
                Ok(()) => self.first_model().await,
                Err(halt) => Err(halt),
            };
            let halt = match halt {
                Ok(()) => self.run_round().await,
                Err(halt) => Err(halt),
            };
            let goes_on = match halt {
                Ok(()) => {
                    self.state.trouble = Trouble::default();
                    self.state.context.count(|totals| totals.failed_in_row = 0);
                    Ok(())
                }
                Err(halt) => self.without_result(halt).await,
            };
            if let Err(halt) = goes_on {
                return halt;
            }
        }
    }

    /// What becomes of the job after a round without a result; an error where it ends.
    async fn without_result(&mut self, halt: Halt) -> Result<(), Halt> {
        if !matches!(halt, Halt::Unopened(_)) {
            // guard: patience-is-counted-anew
            self.state.opened.tried_otherwise();
        }
        match halt {
            // Nobody can be certified: no round is to blame, and none begins before that is over.
            Halt::Aborted(_) if self.state.certificates.cannot_certify(&self.state.context) => {
                Ok(())
            }
            // Whoever ended it takes no part in the next one, which may as well begin now.
            Halt::Missed { .. } if has_enough_others(&mut self.state) => Ok(()),
            Halt::Missed { whom, .. } => self.wait_for(&whom, has_enough_others).await,
            Halt::Waits { whom, .. } => self.wait_for(&whom, |_| false).await,
            Halt::Unopened(reason) => self.wait_to_open(reason).await,
            // The operators want it so.
            Halt::Held(_) => Ok(()),
            Halt::Aborted(reason) => {
                self.state.trouble.failed += 1;
                let failed = self.state.trouble.failed;
                self.state
                    .context
                    .count(|totals| totals.failed_in_row = failed.into());
                if failed >= self.state.context.settings().failed_rounds {
                    let reason =
                        format!("{failed} rounds in a row gave no result; the last: {reason}");
                    return Err(Halt::Ended(reason));
                }
                let pause = match self.state.trouble.pauses {
                    0 => self.state.context.grace(),
                    _ => self.state.trouble.wait(self.state.context.grace()),
                };
                self.pause(pause, |_| false).await
            }
            halt => Err(halt),
        }
    }

    /// No result may be opened for now. Rounds begin again, after pauses that grow, until the job's patience is over.
    async fn wait_to_open(&mut self, reason: String) -> Result<(), Halt> {
        let pause = self.state.opened.wait(&self.state.context, &reason)?;
        warn!(job = %self.state.context.name, %reason, "waits for other parties");
        self.state.publish(None);
        self.pause(pause, |_| false).await
    }
}

/// All rounds are done, or the job ends early: everybody is told.
async fn finish(state: &mut State) -> Result<(), Halt> {
    let (rounds, model) = (state.rounds.done, state.models.current.version());
    let early =
        (!state.operator.is_over(rounds)).then(|| state.rounds.ended_early(state.context.job()));
    let reason = early.flatten().unwrap_or_default();
    match reason.is_empty() {
        true => info!(job = %state.context.name, rounds, model, "job done"),
        false => {
            info!(job = %state.context.name, rounds, model, %reason, "job done early")
        }
    }
    let told = reason.clone();
    state
        .context
        .stored(move |store, job| store.set_job_state(job, JobState::Done, &told))
        .await?;
    let end = JobState::Done;
    state.phase = Phase::Finished(End { state: end, reason });
    state.connections.tell_everybody(&state.job_done().into());
    state.publish(None);
    Ok(())
}

/// The job has failed, or the coordinator cannot go on: everybody is sent away.
async fn fail(state: &mut State, end: JobState, reason: String) {
    if end == JobState::Failed {
        let told = reason.clone();
        let stored = state
            .context
            .stored(move |store, job| store.set_job_state(job, JobState::Failed, &told));
        if let Err(halt) = stored.await {
            state
                .context
                .not_stored("the job's end could not be stored", halt);
        }
    }
    state.phase = Phase::Finished(End { state: end, reason });
    let last = state.job_failed();
    for member in state.connections.dismiss() {
        member.link.close(last.clone());
    }
    state.publish(None);
}

/// Whether there are parties enough for a round without those with which the latest one was lost.
fn has_enough_others(state: &mut State) -> bool {
    let enough = state.context.least_roster();
    state.back_off.has_enough_others(&state.connections, enough)
}
