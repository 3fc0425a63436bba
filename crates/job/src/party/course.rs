//! The course of a party through its job: inputs are handled one by one.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::exchange::{Effect, Input, Over, Told};
use super::member::{Ended, Member};
use crate::connection::{LinkId, Say};
use crate::machine::Time;
use crate::pb::CoordinatorFrame;
use crate::pb::coordinator_frame::Frame;
use crate::{JobError, Model};

/// How long a party asks for the last model of a job that is done, once its connection has broken.
const FAREWELL: Duration = Duration::from_secs(60);

/// Why a connection ends over which a party has shown a certificate that it has renewed.
pub const RENEWED: &str = "the certificate was renewed; showing the new one";

impl Member {
    /// Runs until the job is over, the caller leaves, or nothing more can be done.
    pub(super) async fn run(mut self) {
        let over = self.run_to_end().await.unwrap_or_else(Over::Failed);
        if let Some(round) = self.active.as_ref().map(|active| active.number) {
            let reason = match &over {
                Over::Left => "this party has left the job".into(),
                Over::JobDone { .. } => "the job is done".into(),
                Over::Failed(error) => error.to_string(),
            };
            let error = self.without_result(round, reason);
            self.end_round(error);
        }
        if !matches!(over, Over::Left)
            && let Some(untold) = self.missed.take()
        {
            self.ctx.tell(Told::Refused(untold.error()));
        }
        self.ctx.say_goodbye(&over, &self.departure);
        self.ctx.tell(Told::Over(over));
    }

    async fn run_to_end(&mut self) -> Result<Over, JobError> {
        self.ctx.recall().await?;
        self.resume().await?;
        loop {
            let overdue = self.overdue_from();
            let times = [
                overdue,
                self.active
                    .as_ref()
                    .and_then(|active| active.idle_from(&self.ctx)),
                self.farewell_until(),
                self.held_due(),
            ];
            let until = times.into_iter().flatten().min();
            let done = match self.ctx.hand.next(until).await {
                Some(input) => self.take(input).await,
                None => self.time_has_come().await,
            };
            match done.and_then(|()| self.renewed()) {
                Ok(()) => {}
                Err(Ended::Lost(reason)) => {
                    self.lose_link();
                    self.ctx
                        .hand
                        .say(Effect::Reconnect(self.ctx.connection.id(), reason));
                }
                Err(Ended::Over(over)) => return Ok(over),
                Err(Ended::Failed(error)) if self.is_no_matter(&error) => {
                    info!(party = %self.ctx.identity.name, %error, "the job is done all the same");
                    if self.untaken.is_none() {
                        return Ok(self.job_is_done());
                    }
                    // It ends once the caller has its result.
                    self.lose_link();
                }
                Err(Ended::Failed(error)) => return Err(error),
            }
            if let Some(over) = self.over() {
                return Ok(over);
            }
        }
    }

    async fn take(&mut self, input: Input) -> Result<(), Ended> {
        match input {
            Input::Linked(link) => self.linked(link),
            Input::Lost(link, reason) if self.ctx.connection.is_over(link) => {
                debug!(party = %self.ctx.identity.name, %reason, "the connection has ended");
                self.lose_link();
            }
            Input::Frame(link, frame) if self.ctx.connection.is_over(link) => {
                self.heard(frame).await?
            }
            // Of a connection that was given up.
            Input::Lost(..) | Input::Frame(..) => {}
            Input::Renewed => self.ctx.connection.own.newer = true,
            Input::Suspend => self.suspend().await?,
            Input::Leave(departure) => {
                self.departure = departure;
                return Err(Ended::Over(Over::Left));
            }
            Input::GiveUp(reason) => {
                return Err(match self.done {
                    // Nobody tells its last model any more.
                    Some(_) => Ended::Over(self.job_is_done()),
                    None => JobError::System(reason).into(),
                });
            }
            command => match self.obey(command).await {
                // What a machine says now is sent when the round is taken up again.
                Err(error) if !self.ctx.connection.is_welcomed() => {
                    warn!(%error, "without a connection");
                }
                done => done?,
            },
        }
        Ok(())
    }

    async fn heard(&mut self, frame: CoordinatorFrame) -> Result<(), Ended> {
        let empty = || JobError::Coordinator("a frame that is empty or unknown here".into());
        let frame = frame.frame.ok_or_else(empty)?;
        match self.ctx.connection.is_welcomed() {
            false => self.welcome(frame).await,
            true => self.frame(frame).await,
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame {
            Frame::Refused(refused) => return Err(self.ctx.refused(refused, self.done.is_some())),
            // A host that was killed before it kept the mark of a state hears the same once more.
            Frame::Welcome(welcome) if self.ctx.welcome.as_ref() == Some(&welcome) => {}
            Frame::Welcome(_) => return Err(Ended::Lost("a second Welcome".into())),
            Frame::RoundOffer(offer) => self.offered(offer).await?,
            Frame::ModelChunk(chunk) => self.model_chunk(chunk).await?,
            Frame::RoundStart(start) => self.started(start).await?,
            Frame::Chunk(chunk) => self.chunk(chunk).await?,
            Frame::RoundAborted(aborted) => self.aborted(aborted).await?,
            Frame::RoundDone(done) => self.round_done(done).await?,
            Frame::ModelWanted(wanted) => {
                self.ctx.model_wanted(wanted, self.active.is_some()).await?
            }
            Frame::JobDone(done) => self.job_done(done)?,
            Frame::RosterFixed(fixed) => self.roster_fixed(fixed).await?,
            Frame::JobHeld(held) => self.hears_held(&held.reason),
        }
        Ok(())
    }

    /// What the caller wants.
    async fn obey(&mut self, command: Input) -> Result<(), JobError> {
        match command {
            Input::WantRound => self.want_tag(None).await,
            Input::WantTag(tag) => self.want_tag(Some(tag)).await,
            Input::Submit { round, update } => self.submitted(round, update).await,
            Input::Took(round) => self.takes(round).await,
            Input::Abandon { round, why } => self.abandoned(round, why).await,
            Input::Uploaded { round, role } => {
                self.uploaded(round, role);
                Ok(())
            }
            Input::UploadRefused {
                round,
                role,
                reason,
            } => self.upload_refused(round, role, &reason).await,
            _ => Ok(()),
        }
    }

    /// When the round under way has passed its deadlines. Without a connection nothing can be asked about an update
    /// that may count.
    fn overdue_from(&self) -> Option<Time> {
        let linked = self.ctx.connection.is_welcomed();
        let active = self.active.as_ref();
        let active = active.filter(|active| linked || !active.may_count());
        active.map(|active| active.deadline)
    }

    async fn time_has_come(&mut self) -> Result<(), Ended> {
        match self.overdue_from() {
            Some(deadline) if deadline <= self.ctx.hand.now() => self.overdue().await,
            _ if self
                .farewell_until()
                .is_some_and(|until| until <= self.ctx.hand.now()) =>
            {
                Err(Ended::Over(self.job_is_done()))
            }
            _ if self.tell_held() => Ok(()),
            _ => match &mut self.active {
                Some(active) => Ok(active.work_ahead(&mut self.ctx).await?),
                None => Ok(()),
            },
        }
    }

    fn linked(&mut self, link: LinkId) {
        if self.ctx.connection.begin(link) {
            self.begin_farewell();
            let hello = self.ctx.hello();
            self.ctx
                .hand
                .say(Effect::Send(link, Say::Frame(hello.into())));
        }
    }

    fn lose_link(&mut self) {
        self.ctx.connection.lose();
        self.begin_farewell();
    }

    /// A connection has ended: from now on the last model of a job that is done is waited for.
    fn begin_farewell(&mut self) {
        if self.done.is_some() {
            let until = self.ctx.hand.now() + FAREWELL;
            // guard: the-last-model-is-waited-for-a-minute
            self.farewell.get_or_insert(until);
        }
    }

    /// Between rounds the party shows a newer certificate over another connection: the one that it has shown may be
    /// over soon.
    fn renewed(&self) -> Result<(), Ended> {
        // guard: renewed-certificates-are-shown, no-renewal-amid-a-round
        match self.ctx.connection.own.newer
            && self.active.is_none()
            && self.ctx.connection.is_welcomed()
        {
            true => Err(Ended::Lost(RENEWED.into())),
            false => Ok(()),
        }
    }

    /// Whether the job is done and its last model here, where it comes from the coordinator. What was lost on the way is
    /// asked for over the next connection.
    fn over(&self) -> Option<Over> {
        let done = self.done.as_ref().filter(|_| self.untaken.is_none())?;
        let model = self.ctx.model.as_ref().filter(|model| model.is(done));
        match model {
            // guard: campaign-the-last-model-comes
            None if !self.ctx.comes_sealed(done) => None,
            _ => Some(self.job_is_done()),
        }
    }

    /// Until when the last model is asked for. A result that the caller has not taken yet waits for ever.
    fn farewell_until(&self) -> Option<Time> {
        self.farewell.filter(|_| self.untaken.is_none())
    }

    /// A piece of the last model has come: the next one has as much time.
    pub(super) fn put_off_farewell(&mut self) {
        if self.farewell.is_some() {
            self.farewell = Some(self.ctx.hand.now() + FAREWELL);
        }
    }

    /// The job is done, with its last model if that is here.
    fn job_is_done(&self) -> Over {
        let last = |model: &Model| self.done.as_ref().is_some_and(|done| model.is(done));
        Over::JobDone {
            model: self.ctx.model.clone().filter(last),
            reason: self.done_early.clone(),
        }
    }

    /// Whether a job that is done stays so: whoever answers now refuses this party, or is no coordinator of the job.
    fn is_no_matter(&self, error: &JobError) -> bool {
        let of_others = matches!(error, JobError::Refused { .. } | JobError::Coordinator(_));
        // guard: a-job-that-is-done-stays-so
        self.done.is_some() && of_others
    }
}
