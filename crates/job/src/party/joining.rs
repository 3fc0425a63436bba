//! How a party joins a round: the offer, the model, the roster that it checks.

use std::sync::Arc;

use blindsum_protocol::{Client, PartyId, Round};
use rand_core::Rng;
use tracing::{info, warn};

use super::active::{Active, cohort, deadline};
use super::exchange::{Begun, Told};
use super::guard::Guard;
use super::left::Left;
use super::member::{Ended, Member};
use super::past::Past;
use super::pledge::Pledge;
use super::result::Timings;
use super::state::Live;
use crate::JobError;
use crate::error::wrong;
use crate::orders::Terms;
use crate::pb::{self, RoundRefusalCode};

impl Member {
    /// A round may be joined.
    pub(super) async fn offered(&mut self, offer: pb::RoundOffer) -> Result<(), Ended> {
        let active = self.active.as_ref().map(|active| active.number);
        // guard: a-number-offered-again-ends-its-round
        if active == Some(offer.round) && self.ctx.connection.own.begun != active {
            return Ok(self.offered_again(offer.round).await?);
        }
        match &self.active {
            // One that comes late, or once more: no round begins before the one that it is in.
            // guard: late-offers-end-no-round
            Some(active) if offer.round <= active.number => return Ok(()),
            // What became of its update only the coordinator can say: it is asked over a new connection.
            Some(active) if active.may_count() => {
                let reason = "the next round is offered without a word on this one; asking what became of it";
                return Err(Ended::Lost(reason.into()));
            }
            Some(active) => {
                let round = active.number;
                let reason = "the coordinator went on to the next round".into();
                self.end_round(JobError::RoundAborted { round, reason });
            }
            None => {}
        }
        (self.done, self.farewell, self.done_early) = (None, None, String::new());
        // guard: the-giver-compares
        self.ctx.check_first(&offer)?;
        self.passed = None;
        self.ctx.connection.own.offer = Some(offer);
        Ok(self.try_ready().await?)
    }

    /// The number of the round that this party is in is offered over a new connection: the coordinator knows nothing of
    /// that round, as one whose store was put back. Nobody can say what became of it, and no party goes back to it.
    async fn offered_again(&mut self, round: u64) -> Result<(), JobError> {
        let reason = "the coordinator offers its number again, as if it had never been: its store was put back to an \
            earlier time";
        let error = self.forgotten(round, reason.into());
        self.refuse(round, RoundRefusalCode::RoundRefusalUnable, error)
            .await
    }

    /// Answers the offer, once the caller waits for a round and the model is here.
    pub(super) async fn try_ready(&mut self) -> Result<(), JobError> {
        if !self.wanted || self.active.is_some() || self.untaken.is_some() {
            return Ok(());
        }
        let Some(offer) = self.ctx.connection.own.offer.clone() else {
            return Ok(());
        };
        if !self.wants_tag(&offer).await? {
            return Ok(());
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
        let before = self.ready.take_if(|pledge| pledge.ready.round == round);
        let mut pledge = match before {
            Some(pledge) => pledge,
            // guard: no-round-from-the-past
            None if round <= self.ctx.memory.last_round => {
                let reason = format!(
                    "this party took part in round {} already and never goes back",
                    self.ctx.memory.last_round
                );
                let error = JobError::Dropped { round, reason };
                let code = RoundRefusalCode::RoundRefusalUnable;
                return self.refuse(round, code, error).await;
            }
            None => {
                let job = self.ctx.job()?;
                if job.commits_nonces() {
                    self.ctx.check_draws(round)?;
                }
                let mut nonce = [0; 32];
                // guard: a-fresh-nonce-for-each-round
                self.ctx.hand.random().fill_bytes(&mut nonce);
                Pledge::new(job, round, &self.ctx.identity.name, nonce)
            }
        };
        self.ctx.memory.last_round = round;
        let live = self
            .ctx
            .memory
            .live
            .take()
            .filter(|live| live.round == round);
        if live.is_none() {
            // What is left of the round before says nothing of this one.
            // guard: a-snapshot-is-of-one-round
            self.ctx.store.snapshot.clear();
        }
        self.ctx.memory.live = live.or_else(|| Some(Live::of(round)));
        pledge.ready.key_id = key.map_or(Vec::new(), |key| key.to_vec());
        pledge.ready.lacks_model = lacks_model;
        (pledge.ready.tag, pledge.ready.about) = (offer.tag, offer.about);
        if let Some(own) = self
            .ctx
            .model
            .as_ref()
            .filter(|own| own.version() > name.version)
        {
            let (ours, offered) = (own.version(), name.version);
            warn!(party = %self.ctx.identity.name, round, ours, offered,
                "the round starts from an older model than the latest one here: the coordinator's store was restored, or it lies");
        }
        self.ctx.send(pledge.ready.clone());
        self.ready = Some(pledge);
        Ok(())
    }

    /// Whether a round is one from before the latest one, which this party is in no more: what begins it comes late.
    pub(super) fn is_past(&self, round: u64) -> bool {
        let live = self.ctx.memory.live.as_ref().map(|live| live.round);
        let active = self.active.as_ref().map(|active| active.number);
        round < self.ctx.memory.last_round && live != Some(round) && active != Some(round)
    }

    /// A round begins, or goes on after the connection was lost.
    pub(super) async fn started(&mut self, start: pb::RoundStart) -> Result<(), JobError> {
        let number = start.round;
        if self.is_told(number) || self.is_past(number) {
            return self.started_late(start);
        }
        let begun = self.begin(start).await;
        self.heed(number, begun).await
    }

    async fn begin(&mut self, mut start: pb::RoundStart) -> Result<(), Left> {
        let number = start.round;
        let (lacks_model, round, is_same) = {
            let active = self.active.as_ref();
            let active = active.filter(|active| active.number == number);
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
            None if self.begins_another(&round) => {
                let reason = "its program waits for another tag".into();
                self.waits_for_another(number, reason);
                return Ok(());
            }
            None if lacks_model && self.is_from_before(number) => {
                warn!(party = %self.ctx.identity.name, round = number, "the model that the round starts from is not in \
                    the state folder any more; waiting for the end of the round");
                return Ok(());
            }
            None => self.take_up(&start, round, lacks_model).await?,
        }
        match &mut self.active {
            Some(active) => active.begun(&mut self.ctx, start.answers_taken).await,
            None => Ok(()),
        }
    }

    /// What begins a round comes late: its result was told, or this party has gone on to later ones.
    pub(super) fn started_late(&mut self, start: pb::RoundStart) -> Result<(), JobError> {
        if self.is_past(start.round) {
            // The coordinator may have forgotten, as one that was restored; to the caller it is no news.
            let reason = "this party has gone on to later rounds and never goes back";
            self.ctx.send(pb::RoundRefused {
                round: start.round,
                code: RoundRefusalCode::RoundRefusalUnable.into(),
                reason: reason.into(),
                ..pb::RoundRefused::default()
            });
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
        let live = self
            .ctx
            .memory
            .live
            .as_ref()
            .filter(|live| live.round == number);
        live.ok_or_else(|| unable("this party was not ready for it"))?;
        if lacks_model {
            return Err(unable("it starts from another model than the one offered"));
        }
        let terms = self.ctx.judge_terms(start, &round);
        let terms = terms.map_err(Left::refused)?;
        let me = round.roster().rank_of(&self.ctx.identity.name);
        let member = me.and_then(|me| round.roster().member(me));
        let key = me.and_then(|me| round.roster().verifying_key(me));
        let (Some(me), Some(member)) = (me, member) else {
            return Err(unable("the roster lacks this party"));
        };
        // Its certificate may have been renewed since it was ready.
        let another = "the roster holds another key or nonce of this party";
        if key != Some(self.ctx.identity.key.verifying_key()) {
            return Err(unable(another));
        }
        // It begins one round with one nonce. Where another process was ready, its nonce is in the snapshot's header.
        let ready = self.ready.take();
        if let Some(ready) = &ready {
            // guard: only-the-round-that-it-was-ready-for
            if member.nonce != ready.nonce {
                return Err(unable(another));
            }
            if let Err(reason) = ready.check(start, &round) {
                let error = wrong(format!("round {number}: {reason}"));
                return Err(Left::fault(error));
            }
            // guard: policy-is-asked
            self.ctx.judge_roster(&round, &cohort(&round)).await?;
        }
        let (policy, earlier) = (self.ctx.settings.policy.clone(), self.ctx.sums.groups());
        let guard = Arc::new(Guard::new(policy, round.clone(), earlier));
        let setup = self.ctx.setup(&round, PartyId(me), &guard, Arc::default());
        let client = match ready {
            Some(_) => None,
            None => Some(self.ctx.unsealed(setup).await.map_err(|why| unable(&why))?),
        };
        let past = self
            .ctx
            .store
            .marks
            .as_ref()
            .map(|_| Past::of(start, client.is_some()));
        self.enter(round, PartyId(me), client, guard, past, &terms);
        self.tell_begun();
        // While the caller makes its update.
        // guard: the-model-of-the-round-is-kept
        let kept = self.ctx.keep_model().await;
        kept.map_err(Left::failed)?;
        let now = self.ctx.hand.now();
        self.active
            .iter_mut()
            .for_each(|active| active.begin_waiting(now));
        Ok(())
    }

    /// The party is in a round now.
    pub(super) fn enter(
        &mut self,
        round: Arc<Round>,
        me: PartyId,
        client: Option<Client>,
        guard: Arc<Guard>,
        past: Option<Past>,
        terms: &Terms,
    ) {
        info!(party = %self.ctx.identity.name, round = round.number(), parties = round.parties(),
            resumed = client.is_some(), "round begins");
        let warnings = self.ctx.watch_bounds(&round);
        // guard: a-round-that-is-taken-up-is-not-left
        self.missed.take_if(|missed| missed.round == round.number());
        self.active = Some(Active {
            number: round.number(),
            // guard: alone-across-processes
            reported: self.ctx.given.measured.reported_in(round.number()),
            deadline: deadline(&round, terms, self.ctx.hand.now()),
            round,
            me,
            model: self.ctx.model.clone(),
            client,
            past,
            out: false,
            uploading: None,
            held: None,
            update: None,
            clipped: None,
            warnings,
            computed: None,
            unwanted: false,
            holds_key: false,
            idle_from: None,
            prepared: Arc::default(),
            guard,
            timings: Timings::default(),
        });
    }

    /// The caller gets the round, if it is one for it: in a key set-up it still waits for its round.
    pub(super) fn tell_begun(&mut self) {
        let Some(active) = &self.active else { return };
        let (Some(_), Some(model)) = (active.input_stage(), &active.model) else {
            return;
        };
        let begun = Begun {
            number: active.number,
            model: model.clone(),
            parties: cohort(&active.round).into_iter().collect(),
            tag: active.round.tag(),
            needs_update: !active.has_update(),
        };
        self.wanted = false;
        self.ctx.tell(Told::Round(begun));
    }
}
