//! The steps of a round's machine, and what is done with its answers.

use blindsum_encode::Sent;
use blindsum_protocol::{Answer, Fault, Message, RoundSum};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tracing::{debug, warn};

use super::active::Active;
use super::machine::{Step, result};
use super::member::Member;
use super::past::PastStep;
use super::result::RoundResult;
use crate::JobError;
use crate::connection::Say;
use crate::error::wrong;
use crate::pb::RoundRefusalCode;
use crate::report::void_metrics;

impl Member {
    /// Answers the coordinator's message, once the update that it may need is there.
    pub(super) async fn go_on(&mut self) -> Result<(), JobError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let ready = active.client.is_some() && (!active.needs_update() || active.update.is_some());
        match active.held.take_if(|_| ready) {
            Some(message) => self.step(Some(message)).await,
            None => Ok(()),
        }
    }

    /// One step of the machine; what it says is written down before it is sent.
    pub(super) async fn step(&mut self, message: Option<Message>) -> Result<(), JobError> {
        let Some(active) = &self.active else {
            return Ok(());
        };
        let (number, heard) = (active.number, active.heard());
        // Sending the latest answer once more needs no update.
        let starts = message.is_some() || active.client.is_none();
        let seed = self.hand.seed();
        let Some((step, needed)) = self.next_step(message.clone(), &seed) else {
            return Ok(());
        };
        let begun = self.hand.now();
        let stepped = self.hand.work(move || step.run()).await?;
        let seconds = (self.hand.now() - begun).as_secs_f64();
        let kept = self.keep_step(number, &stepped.answer, stepped.sent).await;
        let kept = match (kept, &stepped.answer) {
            (Ok(()), Ok(_)) if needed => {
                let kept = self.keep_measured().await;
                kept.map_err(|error| (RoundRefusalCode::RoundRefusalUnable, error))
            }
            (kept, _) => kept,
        };
        if let Err((code, error)) = kept {
            return self.refuse(number, code, error).await;
        }
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let begins = message.is_none() && starts;
        active.client = stepped.client;
        // What came before leads nowhere.
        let is_new = begins || active.heard() != heard;
        if is_new {
            active.uploading = None;
        }
        if let Some(past) = active.past.as_mut().filter(|_| is_new) {
            let message = message.clone();
            past.add(PastStep { seed, message }, stepped.snapshot.is_some());
        }
        active.timings.protect += if needed { seconds } else { 0.0 };
        active.timings.open = seconds;
        active.clipped = stepped.clipped.or(active.clipped);
        let failed = match stepped.answer {
            Ok(Answer::Send(message)) => {
                self.tell_clipping(number, stepped.clipped);
                self.answer(number, Some(message), stepped.snapshot).await?;
                self.begin_waiting();
                return Ok(());
            }
            Ok(Answer::Wait) => return self.answer(number, None, stepped.snapshot).await,
            Ok(Answer::Old) => return Ok(()),
            Ok(Answer::KeyHeld(_)) => {
                active.holds_key = true;
                return Ok(());
            }
            Ok(Answer::Done(sum)) => match self.opened(sum, message.unwrap_or_default()).await? {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            Err(fault) => match self.found_wrong(number, fault) {
                // The caller hears of the round first, and then that the party cannot go on.
                JobError::State { reason, .. } => {
                    let code = RoundRefusalCode::RoundRefusalUnable;
                    let error = self.unusable(reason.clone());
                    self.refuse(number, code, error).await?;
                    return Err(self.unusable(reason));
                }
                error => error,
            },
        };
        let code = RoundRefusalCode::RoundRefusalFault;
        self.refuse(number, code, failed).await
    }

    /// The next step of the machine, which answers this message, and whether it takes the update.
    fn next_step(&mut self, message: Option<Message>, seed: &[u8; 32]) -> Option<(Step, bool)> {
        let active = self.active.as_mut()?;
        let (round, me, guard) = (active.round.clone(), active.me, active.guard.clone());
        let needed = match (&active.client, &message) {
            (Some(client), Some(message)) => client.takes_input_with(message),
            (None, _) => active.needs_update(),
            (Some(_), None) => false,
        };
        let (client, update) = (
            active.take_client(),
            if needed { active.update.take() } else { None },
        );
        let step = Step {
            setup: self.setup(&round, me, &guard),
            client,
            message,
            update,
            leftover: self.leftover.clone(),
            state: self.state.clone(),
            rng: ChaCha20Rng::from_seed(*seed),
        };
        Some((step, needed))
    }

    /// Keeps what must be known before the answer of a step is sent; or says why it must not be.
    async fn keep_step(
        &mut self,
        round: u64,
        answer: &Result<Answer, Fault>,
        sent: Option<Sent>,
    ) -> Result<(), (RoundRefusalCode, JobError)> {
        if let (Ok(_), Some(sent)) = (answer, sent) {
            let kept = self.keep_sent(round, sent).await;
            kept.map_err(|error| (RoundRefusalCode::RoundRefusalUnable, error))?;
        }
        self.heed_guard(answer).await
    }

    /// The machine has the sum, which this message told: what it makes of the model, unless no honest parties have such
    /// a sum.
    pub(super) async fn opened(
        &mut self,
        sum: RoundSum,
        told: Message,
    ) -> Result<Result<(), JobError>, JobError> {
        let Some(active) = &self.active else {
            return Ok(Ok(()));
        };
        let (round, model, number) = (active.round.clone(), active.model.clone(), active.number);
        let model = model.ok_or_else(|| wrong("a result of a round without a model"))?;
        let compute = move || result(&round, &sum, &model, &told);
        let computed = match self.hand.work(compute).await? {
            Ok(computed) => computed,
            Err(error) => return Ok(Err(error)),
        };
        let leftover = self
            .leftover_after(number, computed.contributors.as_deref())
            .await?;
        if let Some(active) = &mut self.active {
            let (timings, clipped) = (active.timings, active.clipped);
            let name = &self.identity.name;
            let exposed = active.reported.exposed(active.round.job(), name, &computed);
            // guard: a-party-hears-of-void-metrics
            let told = [exposed, void_metrics(&computed.metrics)].concat();
            for warning in &told {
                warn!(party = %name, round = number, "{warning}");
            }
            active.computed = Some(RoundResult {
                timings,
                clipped,
                leftover,
                warnings: [active.warnings.clone(), told].concat(),
                ..computed
            });
        }
        Ok(Ok(()))
    }

    /// Writes an answer down, and then sends it; or only that there was nothing to say.
    async fn answer(
        &mut self,
        round: u64,
        message: Option<Message>,
        snapshot: Option<Vec<u8>>,
    ) -> Result<(), JobError> {
        let heard = self.active.as_ref().map_or(0, Active::heard);
        let stage = self.active.as_ref().and_then(Active::answered);
        if let Some(live) = &mut self.memory.live {
            live.answered = heard;
        }
        // guard: campaign-written-before-it-is-said, written-before-it-is-sent
        if let Err(error) = self.save(snapshot).await {
            self.keeps_answer();
            let code = RoundRefusalCode::RoundRefusalUnable;
            return self.refuse(round, code, error).await;
        }
        let (Some(message), Some(stage)) = (message, stage) else {
            return Ok(());
        };
        let bytes = message.len();
        debug!(party = %self.identity.name, round, stage, bytes, "answered");
        // guard: uploads-come-before-the-answer
        if self.has_uploaded() {
            self.say_answer(round, stage, message);
        }
        Ok(())
    }

    /// The latest answer stays here: unless an earlier one carried the update, none of it has left.
    pub(super) fn keeps_answer(&mut self) {
        // guard: what-stays-here-does-not-count
        if let Some(active) = self.active.as_mut().filter(|active| !active.out) {
            active.client = None;
        }
    }

    /// Sends an answer. What is not sent now is sent when the connection begins the round.
    pub(super) fn say_answer(&mut self, round: u64, stage: u8, message: Message) {
        // guard: nothing-before-the-round-begins
        if self.connection.own.begun != Some(round) {
            return;
        }
        // Not before: whoever is killed in between, or has no connection, has sent nothing.
        // guard: a-round-that-has-begun-is-no-vector
        if self.active.as_ref().is_some_and(Active::says_vector) {
            self.memory.draws.sends(round);
        }
        self.say(Say::Message {
            round,
            stage,
            message,
        });
    }
}
