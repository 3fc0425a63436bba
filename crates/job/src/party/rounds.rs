//! What a party does with the frames of a round and with its caller's commands.

use blindsum_protocol::{Answer, Culprit, Fault, Message, PartyId, RoundKind, RoundSum};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tracing::{debug, error, info, warn};

use super::active::Active;
use super::machine::{Step, result};
use super::member::{Ended, Member};
use super::past::PastStep;
use super::taking::confirmed;
use super::{RoundResult, Say, Told, Update};
use crate::chunks::{Assembly, Pushed};
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, foreign, hex};

/// What this party holds at the end of a round, against what the coordinator announces.
fn mismatch(own: &RoundResult, done: &pb::RoundDone) -> Option<JobError> {
    let (round, announced) = (done.round, done.model.clone().unwrap_or_default());
    if own.model.name() != announced {
        return Some(JobError::ModelMismatch {
            round,
            theirs: hex(&announced.hash),
            ours: hex(own.model.hash()),
        });
    }
    let other = own.result[..] != done.result[..];
    other.then(|| JobError::ResultMismatch {
        round,
        theirs: hex(&done.result),
        ours: hex(&own.result),
    })
}

/// What shows the fault of a member.
fn shown(error: &JobError) -> Vec<u8> {
    match error {
        JobError::Fault { fault, .. } if accuses(fault).is_some() => {
            let evidence = fault.evidence.as_ref();
            evidence.map_or(Vec::new(), |evidence| evidence.bytes().to_vec())
        }
        _ => Vec::new(),
    }
}

/// The member whose fault it may be.
fn accuses(fault: &Fault) -> Option<PartyId> {
    match fault.culprit {
        Culprit::Party(party) | Culprit::ServerOr(party) => Some(party),
        _ => None,
    }
}

pub(super) fn wrong(reason: impl Into<String>) -> JobError {
    JobError::Coordinator(reason.into())
}

impl Member {
    /// Writes down what must survive a crash.
    pub(super) async fn save(&mut self, snapshot: Option<Vec<u8>>) -> Result<(), JobError> {
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        let memory = self.memory.clone();
        self.hand
            .work(move || state.write(&memory, snapshot.as_deref()))
            .await??;
        match self.memory.live {
            Some(_) => Ok(()),
            None => self.forget_kept_model().await,
        }
    }

    pub(super) async fn submitted(
        &mut self,
        round: u64,
        update: Update,
        weight: u32,
    ) -> Result<(), JobError> {
        let Some(active) = self.active.as_mut().filter(|active| active.number == round) else {
            return Ok(());
        };
        active.update = Some((update, weight));
        if active.client.is_none() && active.needs_update() {
            self.step(None).await?;
        }
        self.go_on().await
    }

    pub(super) async fn abandoned(&mut self, round: u64) -> Result<(), JobError> {
        if self
            .active
            .as_ref()
            .is_none_or(|active| active.number != round)
        {
            return Ok(());
        }
        let reason = "the party's program gave no update".into();
        let error = JobError::Dropped { round, reason };
        self.refuse(round, RoundRefusalCode::RoundRefusalUnable, error)
            .await
    }

    /// A piece of a message of the coordinator.
    pub(super) async fn chunk(&mut self, chunk: pb::Chunk) -> Result<(), JobError> {
        let (active, round) = (self.active.as_mut(), chunk.round);
        let Some(active) = active.filter(|active| active.number == round) else {
            return Ok(());
        };
        let assembly = match active.receiving.take() {
            Some((stage, assembly)) if stage == chunk.stage && chunk.offset > 0 => assembly,
            _ => {
                let stage = u8::try_from(chunk.stage).unwrap_or(u8::MAX);
                let reply = active.round.plan().reply(stage);
                let limit = reply.map_or(0, |step| step.largest);
                Assembly::begin(chunk.total, limit).map_err(|e| wrong(e.to_string()))?
            }
        };
        let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
        match pushed.map_err(|e| wrong(format!("chunk: {e}")))? {
            Pushed::Part(assembly) => active.receiving = Some((chunk.stage, assembly)),
            // One that came before does not take the place of the one that waits for the update.
            Pushed::Whole(message) if active.answers_now(&message) => {
                return self.step(Some(message)).await;
            }
            Pushed::Whole(message) => active.held = Some(message),
        }
        self.go_on().await
    }

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
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let (number, round, me) = (active.number, active.round.clone(), active.me);
        let guard = active.guard.clone();
        // Sending the latest answer once more needs no update.
        let starts = message.is_some() || active.client.is_none();
        let heard = active.heard();
        let needed = match (&active.client, &message) {
            (Some(client), Some(message)) => client.takes_input_with(message),
            (None, _) => active.needs_update(),
            (Some(_), None) => false,
        };
        let (client, update) = (
            active.client.take(),
            if needed { active.update.take() } else { None },
        );
        let seed = self.hand.seed();
        let step = Step {
            setup: self.setup(&round, me, &guard),
            client,
            message: message.clone(),
            update,
            leftover: self.leftover.clone(),
            state: self.state.clone(),
            rng: ChaCha20Rng::from_seed(*seed),
        };
        let begun = self.hand.now();
        let stepped = self.hand.work(move || step.run()).await?;
        let seconds = (self.hand.now() - begun).as_secs_f64();
        if let (Ok(_), Some(sent)) = (&stepped.answer, stepped.sent)
            && let Err(error) = self.keep_sent(number, sent).await
        {
            let code = RoundRefusalCode::RoundRefusalUnable;
            return self.refuse(number, code, error).await;
        }
        if let Err((code, error)) = self.heed_guard(&stepped.answer).await {
            return self.refuse(number, code, error).await;
        }
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let begins = message.is_none() && starts;
        active.client = stepped.client;
        // What came before leads nowhere.
        let is_new = begins || active.heard() != heard;
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
            Err(fault) => JobError::Fault {
                round: number,
                fault,
            },
        };
        let code = RoundRefusalCode::RoundRefusalFault;
        self.refuse(number, code, failed).await
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
        let (round, model) = (active.round.clone(), active.model.clone());
        let model = model.ok_or_else(|| wrong("a result of a round without a model"))?;
        let compute = move || result(&round, &sum, &model, &told);
        let computed = match self.hand.work(compute).await? {
            Ok(computed) => computed,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(active) = &mut self.active {
            let (timings, clipped) = (active.timings, active.clipped);
            active.computed = Some(RoundResult {
                timings,
                clipped,
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
        if let Err(error) = self.save(snapshot).await {
            let code = RoundRefusalCode::RoundRefusalUnable;
            return self.refuse(round, code, error).await;
        }
        let (Some(message), Some(stage)) = (message, stage) else {
            return Ok(());
        };
        let bytes = message.len();
        debug!(party = %self.identity.name, round, stage, bytes, "answered");
        // What is not sent now is sent when the connection begins the round.
        if self.begun == Some(round) {
            self.say(Say::Message {
                round,
                stage,
                message,
            });
        }
        Ok(())
    }

    /// Tells coordinator and caller that this party has no further part in a round.
    pub(super) async fn refuse(
        &mut self,
        round: u64,
        code: RoundRefusalCode,
        error: JobError,
    ) -> Result<(), JobError> {
        let reason = error.to_string();
        warn!(party = %self.identity.name, round, %reason, "round refused");
        self.send(pb::RoundRefused {
            round,
            code: code.into(),
            reason,
            accused: self.accused(&error),
            evidence: shown(&error),
        });
        let of_caller = |active: &Active| active.round.kind() == RoundKind::Sum;
        let error = match !self.active.as_ref().is_some_and(of_caller) && self.wanted {
            true => {
                // The caller waits for a round. Whether it wants the next one is for it to say.
                self.wanted = false;
                self.tell(Told::Refused(error));
                None
            }
            false => Some(error),
        };
        self.drop_round(round, error).await
    }

    /// The member of the round that is said to have done wrong, by name; empty where there is none.
    fn accused(&self, error: &JobError) -> String {
        let party = match error {
            JobError::Fault { fault, .. } => accuses(fault),
            _ => None,
        };
        let active = self.active.as_ref();
        let member = party.and_then(|party| active?.round.roster().member(party.0));
        member.map_or(String::new(), |member| member.name.clone())
    }

    /// The round is over for this party without a result.
    pub(super) async fn drop_round(
        &mut self,
        round: u64,
        error: Option<JobError>,
    ) -> Result<(), JobError> {
        let active = self.active.as_ref().map(|active| active.number);
        if let Some(error) = error.filter(|_| active == Some(round)) {
            self.end_round(error);
        }
        self.ready.take_if(|ready| ready.round == round);
        let live = &mut self.memory.live;
        match live.take_if(|live| live.round == round) {
            Some(_) => self.save(None).await,
            None => Ok(()),
        }
    }

    pub(super) async fn aborted(&mut self, aborted: pb::RoundAborted) -> Result<(), JobError> {
        let (round, reason) = (aborted.round, foreign(&aborted.reason));
        info!(party = %self.identity.name, round, only_me = aborted.only_you, %reason,
            "round aborted");
        if self.is_told(round) {
            return Ok(());
        }
        self.offer.take_if(|offer| offer.round == round);
        let error = match (aborted.counted, aborted.only_you) {
            (true, _) => return self.missed(round, reason).await,
            (false, true) => JobError::Dropped { round, reason },
            (false, false) => JobError::RoundAborted { round, reason },
        };
        self.drop_round(round, Some(error)).await
    }

    /// Whether this process has not taken up a round that the one before it left with its vector out.
    pub(super) fn is_from_before(&self, round: u64) -> bool {
        let mine = self.active.as_ref().map(|active| active.number) == Some(round)
            || self.ready.as_ref().map(|ready| ready.round) == Some(round);
        let live = self.memory.live.as_ref();
        !mine && !self.is_told(round) && live.is_some_and(|live| live.round == round)
    }

    /// A round counts this party's update, and its result does not come here.
    async fn missed(&mut self, round: u64, reason: String) -> Result<(), JobError> {
        let live = self.memory.live.as_ref();
        if live.is_some_and(|live| live.round == round) {
            self.commit_missed(round).await?;
        }
        if !self.is_from_before(round) {
            let error = JobError::Missed { round, reason };
            return self.drop_round(round, Some(error)).await;
        }
        self.missed = Some((round, reason));
        match std::mem::take(&mut self.wanted) {
            true => self.tell_missed().await,
            false => Ok(()),
        }
    }

    /// The caller knows nothing of a round from before the process was started: it hears of it once it waits for one, and
    /// only then is the round forgotten.
    async fn tell_missed(&mut self) -> Result<(), JobError> {
        let Some((round, reason)) = self.missed.take() else {
            return Ok(());
        };
        self.tell(Told::Refused(JobError::Missed { round, reason }));
        self.drop_round(round, None).await
    }

    /// The caller waits for a round, and hears first of one that it has missed.
    pub(super) async fn want_round(&mut self) -> Result<(), JobError> {
        if self.missed.is_some() {
            return self.tell_missed().await;
        }
        self.wanted = true;
        self.try_ready().await
    }

    /// The coordinator's word on the model after a round, against this party's own.
    pub(super) async fn round_done(&mut self, done: pb::RoundDone) -> Result<(), JobError> {
        let round = done.round;
        if let Some(active) = self.active.take_if(|active| active.is_over(round)) {
            info!(party = %self.identity.name, round, "holds the key of the job");
            drop(active);
            self.memory.live = None;
            return self.save(None).await;
        }
        let computed = match self.active.as_mut().filter(|active| active.number == round) {
            Some(active) => active.computed.take(),
            None => None,
        };
        if self.is_told(round) {
            return Ok(());
        }
        if self.is_from_before(round) {
            let reason = "the model that it starts from is not in the state folder any more";
            let code = RoundRefusalCode::RoundRefusalUnable.into();
            self.send(pb::RoundRefused {
                round,
                code,
                reason: reason.into(),
                ..pb::RoundRefused::default()
            });
            return self.missed(round, reason.into()).await;
        }
        let Some(computed) = computed else {
            let reason = "it ended, and its result did not come here".into();
            let error = JobError::Dropped { round, reason };
            return self.drop_round(round, Some(error)).await;
        };
        if let Some(error) = mismatch(&computed, &done) {
            error!(party = %self.identity.name, "{error}");
            self.send(confirmed(round, &computed));
            self.end_round(error);
            self.memory.live = None;
            self.save(None).await?;
            return mismatch(&computed, &done).map_or(Ok(()), Err);
        }
        self.model = Some(computed.model.clone());
        self.tell_result(done, computed).await
    }

    /// The caller hears why there is no result.
    pub(super) fn end_round(&mut self, error: JobError) {
        if let Some(active) = self.active.take() {
            self.tell(Told::Ended(active.number, Err(error)));
        }
    }

    /// The round under way has passed all its deadlines. What became of an update that was sent only the coordinator
    /// can say: it is asked over a new connection, since nothing came over this one. The party may have been stopped.
    pub(super) async fn overdue(&mut self) -> Result<(), Ended> {
        if self.active.as_ref().is_some_and(Active::may_count) {
            let reason = "no word of the round within its deadlines; asking what became of it";
            return Err(Ended::Lost(reason.into()));
        }
        self.check_deadline().await.map_err(Ended::Failed)
    }

    /// Ends a round that has passed all its deadlines, unless its result may count this party's update.
    pub(super) async fn check_deadline(&mut self) -> Result<(), JobError> {
        let overdue = |active: &&Active| active.deadline <= self.hand.now() && !active.may_count();
        let Some(round) = self
            .active
            .as_ref()
            .filter(overdue)
            .map(|active| active.number)
        else {
            return Ok(());
        };
        let reason = "every deadline of the round has passed without a result".into();
        let error = JobError::Dropped { round, reason };
        self.refuse(round, RoundRefusalCode::RoundRefusalUnable, error)
            .await
    }

    pub(super) fn job_done(&mut self, done: pb::JobDone) -> Result<(), JobError> {
        info!(party = %self.identity.name, job = %self.settings.job, "job done");
        let name = done.model.ok_or_else(|| wrong("JobDone names no model"))?;
        match self.comes_sealed(&name) {
            // Those who could seal it leave now: nothing would ever come.
            true => {
                self.check_not_older(&name)?;
                self.requested = None;
            }
            false => drop(self.have_model(&name)?),
        }
        self.done = Some(name);
        Ok(())
    }
}
