//! How a party comes through its job: its inputs are handled one by one.

use tracing::{debug, info, warn};

use super::context::Context;
use super::done::is_of_others;
use super::exchange::{Departure, Effect, Identity, Input, Over, Settings, Told};
use super::job_party::JobParty;
use super::left::{Ended, Left, Verdict};
use super::stepping::Event;
use super::store::Store;
use crate::connection::{LinkId, Say, Standing, unspoken};
use crate::machine::Time;
use crate::pb::coordinator_frame::Frame;
use crate::pb::{self, CoordinatorFrame, LeavingCode};
use crate::{JobError, foreign};

/// Why a connection ends over which a party has shown a certificate that it has renewed.
pub const RENEWED: &str = "the certificate was renewed; showing the new one";

/// A party that handles its inputs one by one.
pub(super) struct EventLoop {
    party: JobParty,
    /// Why the caller leaves, once it does.
    departure: Departure,
}

impl EventLoop {
    pub fn new(settings: Settings, identity: Identity, store: Store) -> Self {
        Self {
            party: JobParty::new(Context::new(settings, identity, store)),
            departure: Departure::default(),
        }
    }

    /// Runs until the job is over, the caller leaves, or nothing more can be done.
    pub async fn run(mut self) {
        let over = self.run_to_end().await.unwrap_or_else(Over::Failed);
        if let Some(round) = self.party.state.number() {
            let reason = match &over {
                Over::Left => "this party has left the job".into(),
                Over::JobDone { .. } => "the job is done".into(),
                Over::Failed(error) => error.to_string(),
            };
            // Another process of this party may take the round up from its records, and its update then counts.
            // guard: what-the-next-process-may-take-up-is-not-denied
            let has_records = self.party.ctx.store.records.is_some();
            let verdict = match has_records && self.party.state.may_count() {
                true => Verdict::Unknown,
                false => Verdict::Dropped,
            };
            let error = self.party.without_result(round, reason, verdict);
            self.party.end_round(error);
        }
        if !matches!(over, Over::Left)
            && let Some(untold) = self.party.missed.take()
        {
            self.party.ctx.tell(Told::Refused(untold.error()));
        }
        self.say_goodbye(&over);
        self.party.ctx.tell(Told::Over(over));
    }

    async fn run_to_end(&mut self) -> Result<Over, JobError> {
        self.party.ctx.recall().await?;
        self.party.resume().await?;
        loop {
            let times = [
                self.overdue_from(),
                self.party.state.idle_from(&self.party.ctx),
                self.farewell_until(),
                self.party.held.due(self.party.ctx.hand.now()),
            ];
            let until = times.into_iter().flatten().min();
            let done = match self.party.ctx.hand.next(until).await {
                Some(input) => self.take(input).await,
                None => self.time_has_come().await,
            };
            match done.and_then(|()| self.renewed()) {
                Ok(()) => {}
                Err(Ended::Lost(reason)) => {
                    self.party.lose_connection();
                    let ctx = &self.party.ctx;
                    let link = ctx.connection.id();
                    ctx.hand.say(Effect::Reconnect(link, reason));
                }
                Err(Ended::Over(over)) => return Ok(over),
                Err(Ended::Failed(error)) => {
                    // guard: a-job-that-is-done-stays-so
                    let done = self.party.done.as_ref().filter(|_| is_of_others(&error));
                    let Some(done) = done else {
                        return Err(error);
                    };
                    info!(party = %self.party.ctx.identity.name, %error, "the job is done all the same");
                    if !self.party.state.is_untaken() {
                        return Ok(done.over(self.party.ctx.model.as_ref()));
                    }
                    // It ends once the caller has its result.
                    self.party.lose_connection();
                }
            }
            if let Some(over) = self.over() {
                return Ok(over);
            }
        }
    }

    async fn take(&mut self, input: Input) -> Result<(), Ended> {
        match input {
            Input::Linked(link) => self.linked(link),
            Input::Lost(link, reason) if self.party.ctx.connection.is_over(link) => {
                debug!(party = %self.party.ctx.identity.name, %reason, "the connection has ended");
                self.party.lose_connection();
            }
            Input::Frame(link, frame) if self.party.ctx.connection.is_over(link) => {
                self.heard(frame).await?
            }
            // Of a connection that was given up.
            Input::Lost(..) | Input::Frame(..) => {}
            Input::Renewed => self.party.ctx.connection.own.newer = true,
            Input::Suspend => self.party.suspend().await?,
            Input::Leave(departure) => {
                self.departure = departure;
                return Err(Ended::Over(Over::Left));
            }
            Input::GiveUp(reason) => {
                return Err(match &self.party.done {
                    // Nobody tells its last model any more.
                    Some(done) => Ended::Over(done.over(self.party.ctx.model.as_ref())),
                    None => JobError::System(reason).into(),
                });
            }
            command => match self.obey(command).await {
                // What a machine says now is sent when the round is taken up again.
                Err(error) if !self.party.ctx.connection.is_welcomed() => {
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
        match self.party.ctx.connection.is_welcomed() {
            false => self.welcome(frame).await,
            true => self.frame(frame).await,
        }
    }

    /// The first frame over a connection.
    async fn welcome(&mut self, frame: Frame) -> Result<(), Ended> {
        let welcome = match frame {
            Frame::Welcome(welcome) => welcome,
            Frame::Refused(refused) => {
                return Err(self.party.ctx.refused(refused, self.party.done.is_some()));
            }
            _ => {
                // Something was lost on the way: another connection begins with one.
                let reason = "the first frame must be a Welcome";
                return Err(Ended::Lost(reason.into()));
            }
        };
        if let Some(reason) = unspoken(&welcome) {
            return Err(JobError::Coordinator(reason).into());
        }
        match &self.party.ctx.job {
            Some(job) if welcome.job_hash == job.hash() => {}
            Some(_) => {
                let reason = "the coordinator has changed the job".into();
                return Err(JobError::Coordinator(reason).into());
            }
            None => {
                let job = self.party.ctx.learn_job(&welcome).await?;
                self.party.ctx.welcome = Some(welcome.clone());
                self.party.ctx.tell(Told::Joined(job));
            }
        }
        info!(party = %self.party.ctx.identity.name, job = %self.party.ctx.settings.job,
            coordinator = %foreign(&welcome.program), "connected");
        self.party.ctx.connection.welcome();
        self.party.hears_held(&welcome.held);
        let now = self.party.ctx.hand.now();
        if let Some(active) = self.party.state.participation_mut() {
            active.connected_again(now);
        }
        Ok(())
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame {
            Frame::Refused(refused) => {
                return Err(self.party.ctx.refused(refused, self.party.done.is_some()));
            }
            // A host that was killed before it kept the mark of a state hears the same once more.
            Frame::Welcome(welcome) if self.party.ctx.welcome.as_ref() == Some(&welcome) => {}
            Frame::Welcome(_) => return Err(Ended::Lost("a second Welcome".into())),
            Frame::RoundOffer(offer) => self.party.offered(offer).await?,
            Frame::ModelChunk(chunk) => self.party.model_chunk(chunk).await?,
            Frame::RoundStart(start) => self.party.started(start).await?,
            Frame::Chunk(chunk) => {
                let round = chunk.round;
                self.party.in_round(round, Event::Chunk(chunk)).await?;
            }
            Frame::RoundAborted(aborted) => self.party.aborted(aborted).await?,
            Frame::RoundDone(done) => self.party.round_done(done).await?,
            Frame::ModelWanted(wanted) => {
                let in_round = self.party.state.number().is_some();
                self.party.ctx.model_wanted(wanted, in_round).await?
            }
            Frame::JobDone(done) => self.party.job_done(done)?,
            Frame::RosterFixed(fixed) => self.party.roster_fixed(fixed).await?,
            Frame::JobHeld(held) => self.party.hears_held(&held.reason),
        }
        Ok(())
    }

    /// What the caller wants.
    async fn obey(&mut self, command: Input) -> Result<(), JobError> {
        match command {
            Input::WantRound => self.party.wants(None).await,
            Input::WantTag(tag) => self.party.wants(Some(tag)).await,
            Input::Submit { round, update } => self.party.submitted(round, update).await,
            Input::Took(round) => self.party.takes(round).await,
            Input::Abandon { round, why } => self.party.abandoned(round, why).await,
            Input::Uploaded { round, role } => {
                self.party.in_round(round, Event::Uploaded(role)).await
            }
            Input::UploadRefused {
                round,
                role,
                reason,
            } => {
                let event = Event::UploadRefused(role, reason);
                self.party.in_round(round, event).await
            }
            _ => Ok(()),
        }
    }

    /// When the round under way has passed its deadlines. Without a connection nothing can be asked about an update
    /// that may count.
    fn overdue_from(&self) -> Option<Time> {
        let linked = self.party.ctx.connection.is_welcomed();
        let active = self.party.state.participation();
        let active = active.filter(|_| linked || !self.party.state.may_count());
        active.map(|active| active.deadline)
    }

    async fn time_has_come(&mut self) -> Result<(), Ended> {
        let now = self.party.ctx.hand.now();
        let has_come = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if has_come(self.overdue_from()) {
            return self.overdue().await;
        }
        if let Some(done) = &self.party.done
            && has_come(self.farewell_until())
        {
            return Err(Ended::Over(done.over(self.party.ctx.model.as_ref())));
        }
        if self.party.held.tell(&self.party.ctx) {
            return Ok(());
        }
        let JobParty { state, ctx, .. } = &mut self.party;
        Ok(state.work_ahead(ctx).await?)
    }

    /// The round under way has passed all its deadlines. What became of an update that was sent only the coordinator
    /// can say: it is asked over a new connection, since nothing came over this one. The party may have been stopped.
    async fn overdue(&mut self) -> Result<(), Ended> {
        let Some(round) = self.party.state.number() else {
            return Ok(());
        };
        // guard: who-counts-waits-for-its-result
        if self.party.state.may_count() {
            let reason = "no word of the round within its deadlines; asking what became of it";
            return Err(Ended::Lost(reason.into()));
        }
        let reason = "every deadline of the round has passed without a result";
        let left = Err(Left::unable(round, reason));
        Ok(self.party.heed(round, left).await?)
    }

    fn linked(&mut self, link: LinkId) {
        if link > self.party.ctx.connection.id() {
            self.party.lose_connection();
            self.party.ctx.connection.begin(link);
            let hello = Say::Frame(self.party.ctx.hello().into());
            self.party.ctx.hand.say(Effect::Send(link, hello));
        }
    }

    /// Between rounds the party shows a newer certificate over another connection: the one that it has shown may be
    /// over soon.
    fn renewed(&self) -> Result<(), Ended> {
        let connection = &self.party.ctx.connection;
        let in_round = self.party.state.number().is_some();
        // guard: renewed-certificates-are-shown, no-renewal-amid-a-round
        match connection.own.newer && !in_round && connection.is_welcomed() {
            true => Err(Ended::Lost(RENEWED.into())),
            false => Ok(()),
        }
    }

    /// Whether the job is done and its last model here, where it comes from the coordinator. What was lost on the way is
    /// asked for over the next connection.
    fn over(&self) -> Option<Over> {
        let (ctx, done) = (&self.party.ctx, self.party.done.as_ref()?);
        let comes = done.last_model(ctx.model.as_ref()).is_none() && !ctx.comes_sealed(&done.last);
        // guard: campaign-the-last-model-comes
        let waits = self.party.state.is_untaken() || comes;
        (!waits).then(|| done.over(ctx.model.as_ref()))
    }

    /// Until when the last model is asked for. A result that the caller has not taken yet waits for ever.
    fn farewell_until(&self) -> Option<Time> {
        let done = self.party.done.as_ref();
        let done = done.filter(|_| !self.party.state.is_untaken());
        done.and_then(|done| done.farewell)
    }

    /// Sends the last frame of a party that leaves before the job is done, where there is a connection.
    fn say_goodbye(&self, over: &Over) {
        let ctx = &self.party.ctx;
        if ctx.connection.standing() == Standing::Lost {
            return;
        }
        let (code, reason) = match over {
            Over::JobDone { .. } => return,
            Over::Left => left(&self.departure),
            Over::Failed(error) => match failed(error) {
                Some(leaving) => leaving,
                // The coordinator has ended the connection itself.
                None => return,
            },
        };
        let leaving = pb::Leaving {
            code: code.into(),
            reason: foreign(&reason),
        };
        ctx.hand.say(Effect::Send(
            ctx.connection.id(),
            Say::Frame(leaving.into()),
        ));
    }
}

/// What the coordinator is told of a caller that leaves.
fn left(departure: &Departure) -> (LeavingCode, String) {
    match departure {
        Departure::Closed => (LeavingCode::LeavingClosed, String::new()),
        Departure::Stopped => (LeavingCode::LeavingStopped, String::new()),
        Departure::Failed(reason) => (LeavingCode::LeavingFailed, reason.clone()),
    }
}

/// What the coordinator is told of a party that cannot go on. Nothing of this machine is in it, such as a path.
fn failed(error: &JobError) -> Option<(LeavingCode, String)> {
    let reason = match error {
        JobError::Refused { .. } => return None,
        JobError::Policy(_) => return Some((LeavingCode::LeavingPolicy, error.for_others())),
        JobError::System(_) => "its program or its machine failed".into(),
        error => error.for_others(),
    };
    Some((LeavingCode::LeavingFailed, reason))
}
