//! The course of a job: it waits for parties, runs rounds (`round.rs`), and ends.

use std::sync::Arc;

use blindsum_protocol::{Seat, ServerIndex};
use bytes::Bytes;
use tracing::{error, info, warn};

use super::face::{Effect, Hold, Input};
use super::phase::{End, Phase};
use super::trouble::Trouble;
use super::{Halt, Lead};
use crate::machine::Time;
use crate::pb::party_frame::Frame;
use crate::pb::{self, RefusalCode};
use crate::report::{JobState, JobStatus, RoundReport};
use crate::{JobError, hex};

/// What concerns the round that is offered or under way.
pub(super) enum Event {
    /// A frame of a party.
    Frame { name: Arc<str>, frame: Frame },
    /// The answer of a party or another server to a stage.
    Answer {
        seat: Seat,
        round: u64,
        message: Bytes,
        hold: Hold,
    },
    /// What a server says that computes with this one.
    Letter {
        from: ServerIndex,
        round: u64,
        letter: Bytes,
    },
    /// The line to such a server was lost.
    LineLost { to: ServerIndex, reason: String },
    /// What a round passes on cannot be read.
    Unreadable { round: u64, reason: String },
}

impl Lead {
    /// Runs the job until the coordinator stops. A job that is over still answers its parties.
    pub(super) async fn run(mut self) {
        let result = loop {
            let result = self.until_over().await;
            // A job that has failed goes on where an operator resumes it.
            if result.is_ok() || self.wait_for_reopening().await.is_err() {
                break result;
            }
        };
        self.ended.close(&self.context).await;
        // Watchers see who has confirmed the latest result.
        self.publish(None);
        for member in self.members.everybody() {
            let reason = "the coordinator is stopping; connect again when it is back";
            let last = pb::Refused::new(RefusalCode::RefusalStopping, reason);
            member.link.close(last);
        }
        self.context.say(Effect::Over(result));
    }

    /// Runs the job until the coordinator stops, or until it has failed or cannot go on.
    async fn until_over(&mut self) -> Result<(), JobError> {
        let error = match self.run_rounds().await {
            Halt::Stop => return Ok(()),
            Halt::Aborted(reason)
            | Halt::Missed { reason, .. }
            | Halt::Waits { reason, .. }
            | Halt::Held(reason)
            | Halt::Unopened(reason)
            | Halt::Ended(reason) => JobError::JobFailed {
                job: self.context.name.clone(),
                reason,
            },
            Halt::Broken(error) => error,
        };
        error!(job = %self.context.name, %error, "the job cannot go on");
        // What a disk or this process cannot do now ends the coordinator and not the job.
        let state = match error {
            JobError::JobFailed { .. } => JobState::Failed,
            _ => JobState::Stopped,
        };
        self.fail(state, error.to_string()).await;
        Err(error)
    }

    async fn run_rounds(&mut self) -> Halt {
        loop {
            if let Err(halt) = self.wait_while_held().await {
                return halt;
            }
            if self.rounds.are_over(&self.operator, self.context.spec()) {
                let served = match self.finish().await {
                    Ok(()) => self.wait_for_reopening().await,
                    Err(halt) => Err(halt),
                };
                match served {
                    Ok(()) => continue,
                    Err(halt) => return halt,
                }
            }
            if self.calls.is_hosted {
                match self.run_call().await {
                    Ok(()) => continue,
                    Err(halt) => return halt,
                }
            }
            self.patience = self.context.now() + self.context.parts.settings.patience;
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
                    self.trouble = Trouble::default();
                    self.context.count(|totals| totals.failed_in_row = 0);
                    Ok(())
                }
                Err(halt) => self.without_result(halt).await,
            };
            if let Err(halt) = goes_on {
                return halt;
            }
        }
    }

    /// What the operator must know: of whom no round begins without, for whom the job waits, of the revocation list, of
    /// bounds that fall.
    fn warned(&self) -> String {
        let lacks = self
            .lacks_only_needed()
            .then(|| self.members.lacks_needed(self.context.job()));
        let (first, blocked) = (self.first_warning(), self.blocked());
        let others = [
            first.as_str(),
            &blocked,
            &self.opened.warning,
            self.certificates.warning(),
            &self.bounds.warning,
        ];
        let all = lacks.as_deref().into_iter().chain(others);
        let all: Vec<&str> = all.filter(|warning| !warning.is_empty()).collect();
        all.join("; ")
    }

    /// Whether there are enough parties for a round, and servers or the root are missing.
    fn lacks_only_needed(&self) -> bool {
        let enough = self.members.len() >= self.context.least_roster();
        enough
            && !self.members.has_needed(self.context.job())
            && self.phase.state() == JobState::Running
    }

    /// All rounds are done, or a metric has ended the job: everybody is told.
    async fn finish(&mut self) -> Result<(), Halt> {
        let (rounds, model) = (self.rounds.done, self.models.current.version());
        let early = (!self.operator.is_over(rounds))
            .then(|| self.rounds.ended_by_metric(self.context.spec()));
        let reason = early.flatten().unwrap_or_default();
        match reason.is_empty() {
            true => info!(job = %self.context.name, rounds, model, "job done"),
            false => info!(job = %self.context.name, rounds, model, %reason, "job done early"),
        }
        let told = reason.clone();
        self.context
            .stored(move |store, job| store.set_job_state(job, JobState::Done, &told))
            .await?;
        let state = JobState::Done;
        self.phase = Phase::Finished(End { state, reason });
        self.members.tell_everybody(&self.job_done().into());
        self.publish(None);
        Ok(())
    }

    async fn fail(&mut self, state: JobState, reason: String) {
        if state == JobState::Failed {
            let told = reason.clone();
            let stored = self
                .context
                .stored(move |store, job| store.set_job_state(job, JobState::Failed, &told));
            if let Err(halt) = stored.await {
                self.context
                    .not_stored("the job's end could not be stored", halt);
            }
        }
        self.phase = Phase::Finished(End { state, reason });
        let last = self.job_failed();
        for member in self.members.dismiss() {
            member.link.close(last.clone());
        }
        self.publish(None);
    }

    /// The next input; none where the deadline comes first. Meanwhile watchers are told how things stand.
    pub(super) async fn next_input(
        &mut self,
        deadline: Option<Time>,
    ) -> Result<Option<Input>, Halt> {
        loop {
            let look = Some(self.heed_list());
            let joining = self.phase.joining();
            let sealed = &mut self.models.sealed;
            let sealer = sealed.heed_sealer(&self.context, &self.members, joining);
            let progress = self.publish_progress();
            let (drained, called) = (self.operator.drained_by(), self.calls.until());
            let times = [deadline, progress, look, sealer, drained, called];
            let until = times.into_iter().flatten().min();
            let input = self.input_until(until).await?;
            if input.is_some() || deadline.is_some_and(|deadline| deadline <= self.context.now()) {
                return Ok(input);
            }
        }
    }

    async fn input_until(&mut self, deadline: Option<Time>) -> Result<Option<Input>, Halt> {
        if self.stopping || self.is_drained() {
            self.stopping = true;
            return Err(Halt::Stop);
        }
        self.calls.go_on(self.context.now())?;
        match self.context.hand.next(deadline).await {
            Some(Input::Stop) => {
                self.stopping = true;
                Err(Halt::Stop)
            }
            input => Ok(input),
        }
    }

    /// Does what every input needs whatever the job is doing, and gives back what concerns the round.
    pub(super) async fn handle(&mut self, input: Input) -> Option<Event> {
        match input {
            Input::Connected { link, peer, hello } => {
                match peer.role {
                    Some(role) => self.admit_server(link, peer, role, &hello),
                    None => self.admit(link, peer, hello).await,
                }
                None
            }
            Input::Lost {
                link,
                reason,
                returns,
            } => {
                match self.members.server_at(link) {
                    Some(role) => self.leave_server(role, &reason),
                    None => self.leave(link, &reason, returns),
                }
                None
            }
            Input::Frame { link, frame } => {
                if let Some(role) = self.members.server_at(link) {
                    return self.server_frame(role, frame);
                }
                let name = self.members.name_at(link)?.clone();
                self.frame(name, frame).await
            }
            Input::Answer {
                link,
                round,
                message,
                hold,
            } => Some(Event::Answer {
                seat: self.seat_at(link)?,
                round,
                message,
                hold,
            }),
            Input::Letter {
                from,
                round,
                letter,
            } => Some(Event::Letter {
                from,
                round,
                letter,
            }),
            Input::LineLost { to, reason } => Some(Event::LineLost { to, reason }),
            Input::Unreadable { round, reason } => Some(Event::Unreadable { round, reason }),
            Input::LeaseLost { name } => {
                self.lease_lost(&name);
                None
            }
            Input::Order { id, order } => {
                self.ordered(id, &order).await;
                None
            }
            Input::Call { id, call } => {
                self.called(id, call);
                None
            }
            Input::PartyFailed { name, reason } => {
                self.reported_failed(&name, &reason);
                None
            }
            Input::CallOff { id, reason } => {
                self.calls.call_off(id, &reason);
                None
            }
            Input::Settings(settings) => {
                // A wait that is under way began this long before its patience is over.
                let before = self.context.parts.settings.patience;
                self.patience = self.patience.moved(before, settings.patience);
                self.context.parts.settings = settings;
                None
            }
            Input::Stop => None,
        }
    }

    /// A frame of a party that is connected.
    async fn frame(&mut self, name: Arc<str>, frame: Frame) -> Option<Event> {
        match frame {
            Frame::Leaving(leaving) => self.departs(&name, &leaving),
            Frame::ModelRequest(_) | Frame::ModelChunk(_) | Frame::ModelRefused(_) => {
                self.model_frame(&name, frame);
            }
            Frame::RoundConfirmed(confirmed) => self.confirmed(&name, &confirmed).await,
            Frame::RoundRefused(refused) if self.ended.owes(&name, refused.round) => {
                self.result_refused(&name, &refused).await;
            }
            frame => return Some(Event::Frame { name, frame }),
        }
        None
    }

    pub(super) fn job_done(&self) -> pb::JobDone {
        pb::JobDone {
            model: Some(self.models.current.name()),
            reason: self.phase.reason().into(),
        }
    }

    /// Tells the watchers what has changed, not more often than they can look; gives the time of the next
    /// telling, where there is something to tell.
    fn publish_progress(&mut self) -> Option<Time> {
        if let Err(next) = self.context.board.is_due(self.context.now()) {
            return next;
        }
        self.publish(self.phase.report());
        None
    }

    /// Tells the watchers where the job stands.
    pub(super) fn publish(&self, latest: Option<RoundReport>) {
        let (before, warning) = (self.context.board.status(), self.warned());
        let ready = self.phase.count();
        self.context.count(|totals| totals.ready = ready);
        if self.lacks_only_needed() && warning != before.warning {
            warn!(job = %self.context.name, "{warning}");
        }
        let waiting_for = self.phase.waiting_for(&self.members, &self.calls);
        self.context.board.set_status(JobStatus {
            job: before.job.clone(),
            state: self.phase.state(),
            reason: self.phase.reason().into(),
            protocol: before.protocol.clone(),
            rounds_done: self.rounds.done,
            rounds: self.operator.terms.rounds.into(),
            model_version: self.models.current.version(),
            model_hash: hex(self.models.current.hash()),
            model_from: self.models.first.from.clone(),
            best: self.rounds.best.clone(),
            connected: self.members.names().map(|name| name.to_string()).collect(),
            key_exchange: self.members.key_exchange(),
            waiting_for,
            min_parties: before.min_parties,
            warning,
            blocked: self.blocked(),
            unconfirmed: self.ended.unconfirmed(),
            lost: self.members.lost(),
            left: self.members.departed.reasons(),
            round: latest.or_else(|| before.round.clone()),
            held: self.operator.held(),
            ready: self.phase.ready(),
            banned: self.operator.banned(self.context.unix_millis()),
        });
    }
}
