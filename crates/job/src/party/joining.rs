//! How a party joins a round: the offer, the model, the roster that it checks.

use std::sync::Arc;

use blindsum_protocol::Round;
use rand_core::Rng;
use tracing::warn;

use super::job_party::JobParty;
use super::left::{Ended, Left, Verdict};
use super::participation::{Participation, cohort, guard_of, own_place};
use super::pledge::Pledge;
use super::records::Live;
use super::replay_log::ReplayLog;
use super::state::State;
use super::stepping::Event;
use super::wish::Unwanted;
use crate::error::wrong;
use crate::pb;
use crate::{JobError, Model};

impl JobParty {
    /// A round may be joined.
    pub(super) async fn offered(&mut self, offer: pb::RoundOffer) -> Result<(), Ended> {
        let active = self.state.number();
        // guard: a-number-offered-again-ends-its-round
        if active == Some(offer.round) && self.ctx.connection.own.begun != active {
            // The coordinator knows nothing of that round. Nobody can say what became of it, and no party goes back to it.
            let reason = "the coordinator offers its number again, as if it had never been: its store was put back to an \
                earlier time";
            let error = self.without_result(offer.round, reason.into(), Verdict::Aborted);
            return Ok(self.heed(offer.round, Err(Left::failed(error))).await?);
        }
        match active {
            // One that comes late, or once more: no round begins before the one that it is in.
            // guard: late-offers-end-no-round
            Some(round) if offer.round <= round => return Ok(()),
            // What became of its update only the coordinator can say: it is asked over a new connection.
            Some(_) if self.state.may_count() => {
                let reason = "the next round is offered without a word on this one; asking what became of it";
                return Err(Ended::Lost(reason.into()));
            }
            Some(round) => {
                let reason = "the coordinator went on to the next round".into();
                self.end_round(JobError::RoundAborted { round, reason });
            }
            None => {}
        }
        self.done = None;
        // guard: the-giver-compares
        self.ctx.check_first(&offer)?;
        self.wish.passed = None;
        self.ctx.connection.own.offer = Some(offer);
        Ok(self.try_ready().await?)
    }

    /// Answers the offer, once the caller waits for a round and the model is here.
    pub(super) async fn try_ready(&mut self) -> Result<(), JobError> {
        if !self.wish.waits || self.state.number().is_some() || self.state.is_untaken() {
            return Ok(());
        }
        let Some(offer) = self.ctx.connection.own.offer.clone() else {
            return Ok(());
        };
        if let Some(unwanted) = self.wish.unwanted(&offer)? {
            return self.does_not_want(offer.round, unwanted).await;
        }
        let name = offer.model.clone();
        let name = name.ok_or_else(|| wrong("RoundOffer names no model"))?;
        self.ctx.check_not_older(&name)?;
        let round = offer.round;
        let key = self.ctx.held_key(round).await?;
        // Without the key the model cannot be read; the key comes first.
        let lacks_key = self.ctx.hides_sum() && key.is_none();
        let lacks_model = !lacks_key && self.ctx.unopened.is_some();
        if !lacks_key && !self.ctx.have_model(&name)? && !lacks_model {
            return Ok(());
        }
        self.ctx.connection.own.offer = None;
        let before = self.state.ready_for(round).is_some();
        // guard: no-round-from-the-past
        if !before && round <= self.ctx.memory.last_round {
            let last = self.ctx.memory.last_round;
            let reason =
                format!("this party took part in round {last} already and never goes back");
            return self.heed(round, Err(Left::unable(round, reason))).await;
        }
        if !before {
            self.ctx.check_ready(round).await?;
            let job = self.ctx.job()?;
            let mut nonce = [0; 32];
            // guard: a-fresh-nonce-for-each-round
            self.ctx.hand.random().fill_bytes(&mut nonce);
            let pledge = Pledge::new(job, round, &self.ctx.identity.name, nonce);
            self.state = State::Ready(Box::new(pledge));
        }
        self.ctx.memory.last_round = round;
        if self.ctx.memory.live_in(round).is_none() {
            // What is left of the round before says nothing of this one.
            // guard: a-snapshot-is-of-one-round
            self.ctx.store.snapshot.clear();
            self.ctx.memory.live = Some(Live::of(round));
        }
        let (own, offered) = (self.ctx.model.as_ref(), name.version);
        if let Some(ours) = own.map(Model::version).filter(|ours| *ours > offered) {
            warn!(party = %self.ctx.identity.name, round, ours, offered,
                "the round starts from an older model than the latest one here: the coordinator's store was restored, or it lies");
        }
        if let Some(pledge) = self.state.ready_for(round) {
            pledge.ready.key_id = key.map_or(Vec::new(), |key| key.to_vec());
            pledge.ready.lacks_model = lacks_model;
            (pledge.ready.tag, pledge.ready.about) = (offer.tag, offer.about);
            self.ctx.send(pledge.ready.clone());
        }
        Ok(())
    }

    /// The caller does not want the round that is offered: the coordinator is told that it need not wait; the caller, where
    /// no round with its tag can come after this one.
    async fn does_not_want(&mut self, round: u64, unwanted: Unwanted) -> Result<(), JobError> {
        self.ctx.connection.own.offer = None;
        match unwanted {
            Unwanted::Earlier(error) => self.ctx.unable(round, &error.for_others()),
            Unwanted::Later(error, passed) => {
                self.heed(round, Err(Left::failed(error))).await?;
                self.wish.passed = passed;
            }
        }
        Ok(())
    }

    /// Whether a round is one from before the latest one, which this party is in no more: what begins it comes late.
    pub(super) fn is_past(&self, round: u64) -> bool {
        let live = self.ctx.memory.live.as_ref().map(|live| live.round);
        let active = self.state.number();
        round < self.ctx.memory.last_round && live != Some(round) && active != Some(round)
    }

    /// A round begins, or goes on after the connection was lost.
    pub(super) async fn started(&mut self, start: pb::RoundStart) -> Result<(), JobError> {
        let number = start.round;
        if self.told == Some(number) || self.is_past(number) {
            return self.started_late(start);
        }
        let begun = self.begin(start).await;
        self.heed(number, begun).await
    }

    async fn begin(&mut self, mut start: pb::RoundStart) -> Result<(), Left> {
        let number = start.round;
        let (lacks_model, round, is_same) = {
            let active = self.state.participation();
            let active = active.filter(|active| active.number() == number);
            let lacks_model = active.is_none() && self.ctx.lacks_model(&start)?;
            let model = active.and_then(|active| active.model.as_ref());
            let round = Arc::new(self.ctx.certified(&mut start, model)?);
            // guard: one-beginning-of-a-round
            let is_same = active.map(|active| active.round.context() == round.context());
            (lacks_model, round, is_same)
        };
        match is_same {
            Some(true) => {}
            Some(false) => {
                let error = wrong(format!("two different beginnings of round {number}"));
                return Err(Left::fault(error));
            }
            None if self.wish.is_other(round.tag()) => {
                self.ctx.unable(number, "its program waits for another tag");
                return Ok(());
            }
            None if lacks_model && self.is_from_before(number) => {
                warn!(party = %self.ctx.identity.name, round = number, "the model that the round starts from is not in \
                    the state folder any more; waiting for the end of the round");
                return Ok(());
            }
            None => self.take_up(&start, round, lacks_model).await?,
        }
        self.ctx.connection.own.begun = Some(number);
        let begun = Event::Begun(start.answers_taken);
        self.state.on(begun, &mut self.ctx).await
    }

    /// What begins a round comes late: its result was told, or this party has gone on to later ones.
    pub(super) fn started_late(&mut self, start: pb::RoundStart) -> Result<(), JobError> {
        if self.is_past(start.round) {
            // The coordinator may have forgotten, as one that was restored; to the caller it is no news.
            let reason = "this party has gone on to later rounds and never goes back";
            self.ctx.unable(start.round, reason);
        }
        self.ctx.keep_certificates(start)
    }

    /// Takes part in a round that this party was ready for.
    async fn take_up(
        &mut self,
        start: &pb::RoundStart,
        round: Arc<Round>,
        lacks_model: bool,
    ) -> Result<(), Left> {
        let number = round.number();
        let unable = |reason: &str| Left::unable(number, reason);
        let live = self.ctx.memory.live_in(number);
        live.ok_or_else(|| unable("this party was not ready for it"))?;
        if lacks_model {
            return Err(unable("it starts from another model than the one offered"));
        }
        let terms = self.ctx.judge_terms(start, &round);
        let terms = terms.map_err(Left::refused)?;
        // It begins one round with one nonce. Where another process was ready, its nonce is in the snapshot's header.
        let ready = self.state.ready();
        let nonce = ready.map(|ready| &ready.nonce[..]);
        let me = own_place(&self.ctx.identity, &round, nonce)?;
        let was_ready = ready.is_some();
        if was_ready {
            if let Err(reason) = self.state.check_beginning(start, &round) {
                let error = wrong(format!("round {number}: {reason}"));
                return Err(Left::fault(error));
            }
            // guard: policy-is-asked
            self.ctx.judge_roster(&round, &cohort(&round)).await?;
        }
        let guard = guard_of(&self.ctx, &round);
        let setup = self.ctx.setup(&round, me, &guard, Arc::default());
        let client = match was_ready {
            true => None,
            false => {
                let unsealed = self.ctx.store.unsealed(setup).await;
                Some(unsealed.map_err(|why| unable(&why))?)
            }
        };
        let log = ReplayLog::of(start, client.is_some());
        let mut of = Participation::enter(&mut self.ctx, round, me, client, guard, &terms);
        of.log = self.ctx.store.marks.is_some().then_some(log);
        self.state = State::enter(of);
        if self.state.tell_begun(&self.ctx) {
            self.wish.waits = false;
        }
        // guard: a-round-that-is-taken-up-is-not-left
        self.missed.take_if(|missed| missed.round == number);
        // While the caller makes its update.
        // guard: the-model-of-the-round-is-kept
        let kept = self.ctx.store.keep_model(self.ctx.model.clone()).await;
        kept.map_err(Left::failed)?;
        if let Some(of) = self.state.participation_mut() {
            of.begin_waiting(self.ctx.hand.now());
        }
        Ok(())
    }
}
