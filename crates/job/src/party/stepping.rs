//! The steps of a round's machine, and what is done with its answers. Servers other than the coordinator get their parts of
//! an answer first. The answer itself goes out once all of them have theirs: what the coordinator has is nowhere missing then.

use std::collections::BTreeSet;

use blindsum_encode::Judged;
use blindsum_protocol::{Answer, Client, Fault, Message, RoundSum, ServerRole};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tracing::{debug, warn};

use super::active::{Active, Outcome};
use super::context::Context;
use super::exchange::Effect;
use super::left::Left;
use super::machine::{Step, Stepped, result};
use super::past::PastStep;
use super::result::RoundResult;
use super::sparse::Sparse;
use crate::JobError;
use crate::connection::Say;
use crate::error::wrong;
use crate::pb;
use crate::report::void_metrics;

/// What happens in a round.
pub(super) enum Event {
    /// A piece of a message of the coordinator has come.
    Chunk(pb::Chunk),
    /// The caller has given its update.
    Update(Judged),
    /// Another server has taken its part of the latest answer.
    Uploaded(ServerRole),
    /// Another server will not take its part, for this reason.
    UploadRefused(ServerRole, String),
}

impl Active {
    /// The round begins over this connection, where the coordinator has so many answers of this party.
    pub(super) async fn begun(&mut self, ctx: &mut Context, taken: u32) -> Result<(), Left> {
        ctx.connection.own.begun = Some(self.number());
        let says_something = match self.client.is_some() {
            // guard: who-has-a-result-says-nothing-more
            true if self.has_result() => false,
            true => self
                .answered()
                // guard: an-update-given-meanwhile-goes-out, lost-answers-come-again
                .is_some_and(|stage| taken <= stage.into()),
            // An update that was given meanwhile has started it.
            false => !self.needs_update(),
        };
        if says_something {
            self.step(ctx, None).await?;
        }
        self.go_on(ctx).await
    }

    /// What happens in the round.
    pub(super) async fn on(&mut self, event: Event, ctx: &mut Context) -> Result<(), Left> {
        match event {
            Event::Chunk(chunk) => self.chunk(ctx, chunk).await,
            Event::Update(update) => {
                self.own.update = Some(update);
                if self.client.is_none() && self.needs_update() {
                    self.step(ctx, None).await?;
                }
                self.go_on(ctx).await
            }
            Event::Uploaded(role) => {
                if self.uploaded(role) {
                    self.say_latest(ctx);
                }
                Ok(())
            }
            Event::UploadRefused(role, reason) => self.upload_refused(role, &reason),
        }
    }

    /// A piece of a message of the coordinator.
    async fn chunk(&mut self, ctx: &mut Context, chunk: pb::Chunk) -> Result<(), Left> {
        match ctx.connection.receive(self.round.plan(), chunk)? {
            // One that came before does not take the place of the one that waits for the update.
            Some(message) if self.answers_now(&message) => {
                return self.step(ctx, Some(message)).await;
            }
            Some(message) => self.held = Some(message),
            None => {}
        }
        self.go_on(ctx).await
    }

    /// Answers the coordinator's message, once the update that it may need is there.
    async fn go_on(&mut self, ctx: &mut Context) -> Result<(), Left> {
        let ready = self.client.is_some() && (!self.needs_update() || self.own.update.is_some());
        match self.held.take_if(|_| ready) {
            Some(message) => self.step(ctx, Some(message)).await,
            None => Ok(()),
        }
    }

    /// One step of the machine; what it says is written down before it is sent.
    async fn step(&mut self, ctx: &mut Context, message: Option<Message>) -> Result<(), Left> {
        let heard = self.heard();
        let begins = message.is_none() && self.client.is_none();
        let seed = ctx.hand.seed();
        let (step, needed) = self.next_step(ctx, message.clone(), &seed);
        let begun = ctx.hand.now();
        let mut stepped = ctx.hand.work(move || step.run()).await?;
        let seconds = (ctx.hand.now() - begun).as_secs_f64();
        self.keep_step(ctx, &mut stepped, needed).await?;
        self.client = stepped.client;
        // What came before leads nowhere.
        let is_new = begins || self.heard() != heard;
        if is_new {
            self.uploading = None;
        }
        if let Some(past) = self.past.as_mut().filter(|_| is_new) {
            let message = message.clone();
            past.add(PastStep { seed, message }, stepped.snapshot.is_some());
        }
        self.timings.protect += if needed { seconds } else { 0.0 };
        self.timings.open = seconds;
        self.own.clipped = stepped.clipped.or(self.own.clipped);
        match stepped.answer {
            Ok(Answer::Send(message)) => {
                ctx.tell_clipping(self.number(), stepped.clipped);
                self.answer(ctx, Some(message), stepped.snapshot).await?;
                self.begin_waiting(ctx.hand.now());
                Ok(())
            }
            Ok(Answer::Wait) => self.answer(ctx, None, stepped.snapshot).await,
            Ok(Answer::Old) => Ok(()),
            Ok(Answer::KeyHeld(_)) => {
                self.outcome = Outcome::KeyHeld;
                Ok(())
            }
            Ok(Answer::Done(sum)) => self.opened(ctx, sum, message.unwrap_or_default()).await,
            Err(fault) => Err(match ctx.found_wrong(self.number(), fault) {
                JobError::State { reason, .. } => Left::Unusable(reason),
                error => Left::fault(error),
            }),
        }
    }

    /// The next step of the machine, which answers this message, and whether it takes the update.
    fn next_step(
        &mut self,
        ctx: &Context,
        message: Option<Message>,
        seed: &[u8; 32],
    ) -> (Step, bool) {
        let needed = match (&self.client, &message) {
            (Some(client), Some(message)) => client.takes_input_with(message),
            (None, _) => self.needs_update(),
            // Sending the latest answer once more needs no update.
            (Some(_), None) => false,
        };
        let step = Step {
            client: self.take_client(),
            setup: self.setup(ctx),
            message,
            update: if needed { self.own.update.take() } else { None },
            leftover: ctx.given.sparse.as_ref().map(Sparse::leftover).cloned(),
            state: ctx.store.state.clone(),
            rng: ChaCha20Rng::from_seed(*seed),
        };
        (step, needed)
    }

    /// Keeps what must be known before the answer of a step is sent; or says why it must not be.
    async fn keep_step(
        &mut self,
        ctx: &mut Context,
        stepped: &mut Stepped,
        needed: bool,
    ) -> Result<(), Left> {
        let sent = stepped.sent.take().filter(|_| stepped.answer.is_ok());
        if let (Some(sent), Some(sparse)) = (sent, &mut ctx.given.sparse) {
            let kept = sparse.keep(&mut ctx.store, self.number(), sent).await;
            kept.map_err(Left::failed)?;
        }
        self.heed_guard(ctx, &stepped.answer).await?;
        if needed && stepped.answer.is_ok() {
            let (model, reported) = (self.model.as_ref(), &self.own.reported);
            let kept = ctx.keep_measured(self.number(), model, reported).await;
            kept.map_err(Left::failed)?;
        }
        Ok(())
    }

    /// Remembers the survivors for whom the machine answers, if it was asked about them in this step: before the
    /// answer is sent. Where they break the policy, that is why there is no answer.
    async fn heed_guard(
        &mut self,
        ctx: &mut Context,
        answer: &Result<Answer, Fault>,
    ) -> Result<(), Left> {
        match self.guard.judged() {
            Some(Err(broken)) => Err(Left::refused(broken.into())),
            Some(Ok(survivors)) if answer.is_ok() => {
                // guard: survivors-are-remembered
                ctx.remember_sum(survivors, &self.guard.round).await
            }
            _ => Ok(()),
        }
    }

    /// The machine has the sum, which this message told: what it makes of the model, unless no honest parties have such
    /// a sum.
    pub(super) async fn opened(
        &mut self,
        ctx: &mut Context,
        sum: RoundSum,
        told: Message,
    ) -> Result<(), Left> {
        let (round, number) = (self.round.clone(), self.number());
        let model = self.model.clone();
        let model = model.ok_or_else(|| wrong("a result of a round without a model"))?;
        let compute = move || result(&round, &sum, &model, &told);
        let computed = ctx.hand.work(compute).await?.map_err(Left::fault)?;
        let leftover = match (&mut ctx.given.sparse, &computed.contributors) {
            (Some(sparse), Some(counts)) => {
                let size = sparse.size_after(&mut ctx.store, number, counts);
                Some(size.await?)
            }
            _ => None,
        };
        let name = &ctx.identity.name;
        let exposed = self.own.reported.exposed(self.round.job(), name, &computed);
        // guard: a-party-hears-of-void-metrics
        let told = [exposed, void_metrics(&computed.metrics)].concat();
        for warning in &told {
            warn!(party = %name, round = number, "{warning}");
        }
        self.outcome = Outcome::Computed(Box::new(RoundResult {
            timings: self.timings,
            clipped: self.own.clipped,
            leftover,
            warnings: [self.own.warnings.clone(), told].concat(),
            ..computed
        }));
        Ok(())
    }

    /// Writes an answer down, and then sends it; or only that there was nothing to say.
    async fn answer(
        &mut self,
        ctx: &mut Context,
        message: Option<Message>,
        snapshot: Option<Vec<u8>>,
    ) -> Result<(), Left> {
        if let Some(live) = &mut ctx.memory.live {
            live.answered = self.heard();
        }
        // guard: campaign-written-before-it-is-said, written-before-it-is-sent
        if let Err(error) = ctx.save(snapshot).await {
            self.keeps_answer();
            return Err(Left::failed(error));
        }
        let (Some(message), Some(stage)) = (message, self.answered()) else {
            return Ok(());
        };
        let (party, round, bytes) = (&ctx.identity.name, self.number(), message.len());
        debug!(%party, round, stage, bytes, "answered");
        // guard: uploads-come-before-the-answer
        if self.has_uploaded(ctx) {
            self.say_answer(ctx, stage, message);
        }
        Ok(())
    }

    /// Sends the latest answer of the machine.
    fn say_latest(&self, ctx: &mut Context) {
        let latest = self.client.as_ref().map(Client::latest);
        if let (Some(latest), Some(stage)) = (latest, self.answered()) {
            self.say_answer(ctx, stage, latest.clone());
        }
    }

    /// Sends an answer. What is not sent now is sent when the connection begins the round.
    fn say_answer(&self, ctx: &mut Context, stage: u8, message: Message) {
        let round = self.number();
        // guard: nothing-before-the-round-begins
        if ctx.connection.own.begun != Some(round) {
            return;
        }
        // Not before: whoever is killed in between, or has no connection, has sent nothing.
        // guard: a-round-that-has-begun-is-no-vector
        if self.says_vector() {
            ctx.memory.draws.sends(round);
        }
        ctx.say(Say::Message {
            round,
            stage,
            message,
        });
    }

    /// Whether every other server has its part of the latest answer. Those that have not been given it are given it now.
    fn has_uploaded(&mut self, ctx: &Context) -> bool {
        if let Some(uploading) = &self.uploading {
            return uploading.is_empty();
        }
        let round = self.number();
        let parts = self.client.as_ref().map_or(&[][..], Client::parts);
        for (role, message) in parts {
            ctx.hand.say(Effect::Upload {
                round,
                role: *role,
                message: message.clone(),
            });
        }
        let uploading: BTreeSet<ServerRole> = parts.iter().map(|(role, _)| *role).collect();
        let has_none = uploading.is_empty();
        self.uploading = Some(uploading);
        has_none
    }

    /// A server has taken its part; true where it is the last one. The answer goes out then.
    fn uploaded(&mut self, role: ServerRole) -> bool {
        let missing = self.uploading.as_mut();
        missing.is_some_and(|missing| missing.remove(&role) && missing.is_empty())
    }

    /// A server will not take its part: the party cannot be in the sum.
    fn upload_refused(&mut self, role: ServerRole, reason: &str) -> Result<(), Left> {
        let missing = self.uploading.as_ref();
        if !missing.is_some_and(|missing| missing.contains(&role)) {
            return Ok(());
        }
        // guard: a-part-that-is-refused-before-the-answer-leaves-keeps-the-party-out
        self.keeps_answer();
        let reason = format!("the {role} refuses this party's upload: {reason}");
        Err(Left::unable(self.number(), reason))
    }
}
