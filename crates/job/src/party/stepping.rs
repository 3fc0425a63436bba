//! The steps of a round's machine: what each of them is given, and what is written down before its answer is sent.

use blindsum_encode::Judged;
use blindsum_protocol::{Answer, Client, ClientSetup, Fault, Message, RoundSum, ServerRole};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tracing::{debug, info, warn};

use super::context::Context;
use super::left::Left;
use super::participation::Participation;
use super::replay_log::ReplayStep;
use super::result::RoundResult;
use super::sparse::Sparse;
use super::steps::{Step, Stepped, result};
use crate::JobError;
use crate::connection::Say;
use crate::error::wrong;
use crate::pb;
use crate::report::void_metrics;

/// What happens in a round.
pub(super) enum Event {
    /// The round begins over this connection, where the coordinator has so many answers of this party.
    Begun(u32),
    /// A piece of a message of the coordinator has come.
    Chunk(pb::Chunk),
    /// A message of the coordinator is here, which waited for the update.
    Message(Message),
    /// The caller has given its update.
    Update(Judged),
    /// Another server has taken its part of the latest answer.
    Uploaded(ServerRole),
    /// Another server will not take its part, for this reason.
    UploadRefused(ServerRole, String),
}

/// What a step has led to.
pub(super) enum Came {
    /// To nothing that is sent.
    Nothing,
    /// To an answer, which is written down and not sent yet.
    Answer {
        /// Whether it is the one that was sent before.
        again: bool,
    },
    /// To the end of what the machine does.
    End(Outcome),
}

/// What a machine ends with.
pub(super) enum Outcome {
    /// The result, while the coordinator's word on the model is awaited.
    Result(Box<RoundResult>),
    /// A key set-up has given this party the key of the job.
    KeyHeld,
}

impl Participation {
    /// One step of the machine. A message is answered, with the update if the answer carries it; none starts the machine,
    /// or gives its latest answer again. When this returns its answer is written down.
    pub(super) async fn step(
        &mut self,
        ctx: &mut Context,
        setup: ClientSetup,
        message: Option<Message>,
        update: Option<Judged>,
    ) -> Result<Came, Left> {
        let (heard, takes_update) = (self.heard(), update.is_some());
        let begins = message.is_none() && self.client.is_none();
        let seed = ctx.hand.seed();
        let step = Step {
            client: self.client.take(),
            setup,
            message: message.clone(),
            update,
            leftover: ctx.given.sparse.as_ref().map(Sparse::leftover).cloned(),
            state: ctx.store.state.clone(),
            rng: ChaCha20Rng::from_seed(*seed),
        };
        let begun = ctx.hand.now();
        let mut stepped = ctx.hand.work(move || step.run()).await?;
        let seconds = (ctx.hand.now() - begun).as_secs_f64();
        self.keep_step(ctx, &mut stepped, takes_update).await?;
        self.client = stepped.client;
        // What came before leads nowhere.
        let is_new = begins || self.heard() != heard;
        if let Some(log) = self.log.as_mut().filter(|_| is_new) {
            let message = message.clone();
            log.add(ReplayStep { seed, message }, stepped.snapshot.is_some());
        }
        self.timings.protect += if takes_update { seconds } else { 0.0 };
        self.timings.open = seconds;
        self.clipped = stepped.clipped.or(self.clipped);
        match stepped.answer {
            Ok(Answer::Send(_)) => {
                ctx.tell_clipping(self.number(), stepped.clipped);
                self.write_down(ctx, stepped.snapshot).await?;
                self.begin_waiting(ctx.hand.now());
                Ok(Came::Answer { again: !is_new })
            }
            Ok(Answer::Wait) => {
                self.write_down(ctx, stepped.snapshot).await?;
                Ok(Came::Nothing)
            }
            Ok(Answer::Old) => Ok(Came::Nothing),
            Ok(Answer::KeyHeld(_)) => Ok(Came::End(Outcome::KeyHeld)),
            Ok(Answer::Done(sum)) => {
                let result = self
                    .outcome_of(ctx, sum, message.unwrap_or_default())
                    .await?;
                Ok(Came::End(result))
            }
            Err(fault) => Err(match ctx.found_wrong(self.number(), fault) {
                JobError::State { reason, .. } => Left::Unusable(reason),
                error => Left::fault(error),
            }),
        }
    }

    /// Keeps what must be known before the answer of a step is sent; or says why it must not be.
    async fn keep_step(
        &mut self,
        ctx: &mut Context,
        stepped: &mut Stepped,
        takes_update: bool,
    ) -> Result<(), Left> {
        let sent = stepped.sent.take().filter(|_| stepped.answer.is_ok());
        if let (Some(sent), Some(sparse)) = (sent, &mut ctx.given.sparse) {
            let kept = sparse.keep(&mut ctx.store, self.number(), sent).await;
            kept.map_err(Left::failed)?;
        }
        self.heed_guard(ctx, &stepped.answer).await?;
        if takes_update && stepped.answer.is_ok() {
            let (model, reported) = (self.model.as_ref(), &self.reported);
            let kept = ctx.keep_measured(self.number(), model, reported).await;
            kept.map_err(Left::failed)?;
        }
        let sent = match &stepped.answer {
            // guard: charged-before-the-machine-is-written-down
            Ok(Answer::Send(message)) if takes_update => {
                let parts = stepped.client.as_ref().map_or(&[][..], Client::parts);
                let parts = parts.iter().map(|(_, part)| part.clone());
                [message.clone()].into_iter().chain(parts).collect()
            }
            _ => return Ok(()),
        };
        let Some(spending) = ctx.store.spending.clone() else {
            return Ok(());
        };
        let charged = spending.charge(&ctx.hand, &self.round, sent).await;
        let charged = charged.map_err(|error| match error {
            JobError::Policy(_) => Left::refused(error),
            // Another round would be charged and not sent, too.
            error => Left::Job(error),
        });
        info!(party = %ctx.identity.name, round = self.number(), "{}", charged?);
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
    pub(super) async fn outcome_of(
        &mut self,
        ctx: &mut Context,
        sum: RoundSum,
        told: Message,
    ) -> Result<Outcome, Left> {
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
        let exposed = self.reported.exposed(self.round.job(), name, &computed);
        // guard: a-party-hears-of-void-metrics
        let told = [exposed, void_metrics(&computed.metrics)].concat();
        for warning in &told {
            warn!(party = %name, round = number, "{warning}");
        }
        Ok(Outcome::Result(Box::new(RoundResult {
            timings: self.timings,
            clipped: self.clipped,
            leftover,
            privacy: (ctx.store.spending.as_ref()).map(|spending| spending.spent()),
            warnings: [self.warnings.clone(), told].concat(),
            ..computed
        })))
    }

    /// Writes down what the machine has come to, before anything of it is sent.
    async fn write_down(
        &mut self,
        ctx: &mut Context,
        snapshot: Option<Vec<u8>>,
    ) -> Result<(), Left> {
        if let Some(live) = &mut ctx.memory.live {
            live.answered = self.heard();
        }
        // guard: campaign-written-before-it-is-said, written-before-it-is-sent
        ctx.save(snapshot).await.map_err(Left::failed)
    }

    /// Sends the latest answer of the machine. What is not sent now is sent when the connection begins the round.
    pub(super) fn say_latest(&self, ctx: &mut Context) {
        let latest = self.client.as_ref().map(Client::latest).cloned();
        let (Some(message), Some(stage)) = (latest, self.answered()) else {
            return;
        };
        let (party, round, bytes) = (&ctx.identity.name, self.number(), message.len());
        debug!(%party, round, stage, bytes, "answered");
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
}
