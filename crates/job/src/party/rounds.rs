//! What a party does with the frames of a round and with its caller's commands.

use blindsum_encode::{Judged, LeftoverSize};
use blindsum_protocol::Tag;
use tracing::{error, info};

use super::active::Outcome;
use super::done::Done;
use super::exchange::{Absence, Told};
use super::held::Held;
use super::left::{Untold, Verdict};
use super::member::Member;
use super::result::RoundResult;
use super::sparse::Sparse;
use super::states::State;
use super::stepping::Event;
use super::untaken::confirmed;
use crate::error::wrong;
use crate::orders::MAX_REASON;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, NoUpdateTaken, foreign, hex, plain_text};

/// What this party holds at the end of a round, against what the coordinator announces.
fn mismatch(own: &RoundResult, done: &pb::RoundDone) -> Option<JobError> {
    let (round, announced) = (done.round, done.model.clone().unwrap_or_default());
    // guard: models-are-compared
    if own.model.name() != announced {
        return Some(JobError::ModelMismatch {
            round,
            theirs: hex(&announced.hash),
            ours: hex(own.model.hash()),
        });
    }
    // guard: results-are-compared-by-parties
    let other = own.result[..] != done.result[..];
    other.then(|| JobError::ResultMismatch {
        round,
        theirs: hex(&done.result),
        ours: hex(&own.result),
    })
}

impl Member {
    pub(super) async fn submitted(&mut self, round: u64, update: Judged) -> Result<(), JobError> {
        let active = self.state.in_round(round);
        let Some(active) = active.filter(|active| !active.has_update()) else {
            let why = match self.state.number() == Some(round) {
                true => NoUpdateTaken::Submitted,
                _ if self.sits_out == Some(round) => NoUpdateTaken::SitsOut,
                _ if round <= self.ctx.memory.last_round => NoUpdateTaken::Over,
                _ => NoUpdateTaken::NotBegun,
            };
            let error = JobError::Submission { round, why };
            self.ctx.tell(Told::Dropped(error));
            return Ok(());
        };
        let model = active.model.as_ref();
        let (update, reported, warnings) = self.ctx.reported(round, model, update);
        active.own.reported = reported;
        active.own.warnings.extend(warnings);
        self.in_round(round, Event::Update(update)).await
    }

    /// The caller gives no update. The coordinator is told at once, so that the round goes on without this party.
    pub(super) async fn abandoned(&mut self, round: u64, why: Absence) -> Result<(), JobError> {
        if self.state.number() != Some(round) {
            return Ok(());
        }
        let (code, reason) = match why {
            Absence::SitsOut => {
                let reason = "this party's program gave no update".into();
                (RoundRefusalCode::RoundRefusalSitsOut, reason)
            }
            Absence::Unusable(reason) => (RoundRefusalCode::RoundRefusalInput, foreign(&reason)),
        };
        self.sits_out = Some(round);
        let error = self.without_result(round, reason, Verdict::Dropped);
        self.refuse(round, code, error).await
    }

    /// What happens in a round, if the party is in it.
    pub(super) async fn in_round(&mut self, round: u64, event: Event) -> Result<(), JobError> {
        let Some(active) = self.state.in_round(round) else {
            return Ok(());
        };
        let done = active.on(event, &mut self.ctx).await;
        self.heed(round, done).await
    }

    /// The caller waits for a round with this tag; with none for any round. In a round of another tag it takes no part any
    /// more, unless its update is in it. It hears first of a round that it has missed.
    pub(super) async fn wants(&mut self, tag: Option<Tag>) -> Result<(), JobError> {
        self.wish.tag = tag;
        if let Some(tag) = tag {
            self.leave_others(tag).await?;
        }
        match self.missed.is_some() {
            true => self.tell_missed().await?,
            false => {
                self.wish.waits = true;
                self.try_ready().await?;
            }
        }
        self.tell_passed();
        Ok(())
    }

    async fn leave_others(&mut self, wanted: Tag) -> Result<(), JobError> {
        match &self.state {
            State::InRound(active) => {
                let needs = active.needs_update() && !active.has_update();
                if needs && !wanted.takes(active.round.tag()) {
                    let number = active.number();
                    return self.abandoned(number, Absence::SitsOut).await;
                }
            }
            State::Ready(pledge) if !wanted.takes(pledge.tag()) => {
                let reason = "its program waits for another tag now";
                self.ctx.unable(pledge.ready.round, reason);
                self.state = State::Waiting;
            }
            _ => {}
        }
        Ok(())
    }

    /// The coordinator's word on the model after a round, against this party's own.
    pub(super) async fn round_done(&mut self, done: pb::RoundDone) -> Result<(), JobError> {
        let round = done.round;
        let active = self.state.in_round(round);
        let outcome = active.map(|active| std::mem::take(&mut active.outcome));
        if let Some(Outcome::KeyHeld) = outcome {
            info!(party = %self.ctx.identity.name, round, "holds the key of the job");
            self.state = State::Waiting;
            // With this key it may open what it could not open before.
            self.ctx.unopened = None;
            self.ctx.memory.live = None;
            return self.ctx.save(None).await;
        }
        if self.told == Some(round) {
            return Ok(());
        }
        // guard: who-lost-the-model-hears-that-it-counts
        if self.is_from_before(round) {
            let reason = "the model that it starts from is not in the state folder any more";
            self.ctx.unable(round, reason);
            let untold = Untold::new(round, reason, Verdict::Counts);
            return self.missed(untold).await;
        }
        let Some(Outcome::Computed(computed)) = outcome else {
            let reason = "it ended, and this party did not get its result".into();
            let error = self.without_result(round, reason, Verdict::Dropped);
            return self.drop_round(round, Some(error)).await;
        };
        // guard: campaign-announced-results
        if let Some(error) = mismatch(&computed, &done) {
            error!(party = %self.ctx.identity.name, "{error}");
            self.ctx.send(confirmed(round, &computed));
            self.end_round(error);
            self.ctx.memory.live = None;
            self.ctx.save(None).await?;
            return mismatch(&computed, &done).map_or(Ok(()), Err);
        }
        self.ctx.model = Some(computed.model.clone());
        // guard: campaign-told-before-it-is-confirmed
        self.tell_result(done, *computed).await
    }

    pub(super) fn job_done(&mut self, done: pb::JobDone) -> Result<(), JobError> {
        let (party, job) = (&self.ctx.identity.name, &self.ctx.settings.job);
        let reason = plain_text(&done.reason, MAX_REASON);
        if !reason.is_empty() {
            info!(%party, %job, %reason, "the job is done early");
        }
        match self.ctx.given.sparse.as_ref().map(Sparse::size) {
            None => info!(%party, %job, "job done"),
            Some(LeftoverSize { norm, coordinates }) => info!(%party, %job, left_norm = norm,
                left_coordinates = coordinates, "job done: what is left was not sent"),
        }
        let last = done.model.ok_or_else(|| wrong("JobDone names no model"))?;
        match self.ctx.comes_sealed(&last) {
            // Those who could seal it leave now: nothing would ever come.
            true => {
                self.ctx.check_not_older(&last)?;
                self.ctx.connection.own.requested = None;
            }
            false => drop(self.ctx.have_model(&last)?),
        }
        self.done = Some(Done {
            last,
            reason,
            farewell: self.done.take().and_then(|done| done.farewell),
        });
        // Nothing holds it any more, and nobody is told that it goes on.
        self.held = Held::default();
        Ok(())
    }
}
