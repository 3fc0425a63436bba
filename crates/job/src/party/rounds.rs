//! What a party does with the frames of a round and with its caller's commands.

use blindsum_encode::{Judged, LeftoverSize};
use blindsum_protocol::Tag;
use tracing::{error, info};

use super::computed::{Computed, mismatch};
use super::done::Done;
use super::exchange::{Absence, Told};
use super::held::Held;
use super::job_party::JobParty;
use super::left::{Untold, Verdict};
use super::sparse::Sparse;
use super::state::State;
use super::stepping::{Event, Outcome};
use super::untaken::confirmed;
use crate::error::wrong;
use crate::orders::MAX_REASON;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, NoUpdateTaken, foreign, plain_text};

impl JobParty {
    pub(super) async fn submitted(&mut self, round: u64, update: Judged) -> Result<(), JobError> {
        let Some(of) = self.state.lacks_update(round) else {
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
        let (update, reported, warnings) = self.ctx.reported(round, of.model.as_ref(), update);
        of.reported = reported;
        of.warnings.extend(warnings);
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
        if self.state.number() != Some(round) {
            return Ok(());
        }
        let done = self.state.on(event, &mut self.ctx).await;
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
            State::Working(working) => {
                let needs = working.needs_update() && working.update.is_none();
                if needs && !wanted.takes(working.of.round.tag()) {
                    let number = working.of.number();
                    return self.abandoned(number, Absence::SitsOut).await;
                }
            }
            state => {
                let other = state.ready().filter(|pledge| !wanted.takes(pledge.tag()));
                if let Some(pledge) = other {
                    let reason = "its program waits for another tag now";
                    self.ctx.unable(pledge.ready.round, reason);
                    self.state = State::Waiting;
                }
            }
        }
        Ok(())
    }

    /// The coordinator's word on the model after a round, against this party's own.
    pub(super) async fn round_done(&mut self, done: pb::RoundDone) -> Result<(), JobError> {
        let round = done.round;
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
        let Some(Computed { of, outcome }) = self.state.take_computed(round) else {
            let reason = "it ended, and this party did not get its result".into();
            let error = self.without_result(round, reason, Verdict::Dropped);
            return self.drop_round(round, Some(error)).await;
        };
        let result = match outcome {
            Outcome::Result(result) => result,
            Outcome::KeyHeld => {
                info!(party = %self.ctx.identity.name, round, "holds the key of the job");
                // With this key it may open what it could not open before.
                self.ctx.unopened = None;
                self.ctx.memory.live = None;
                return self.ctx.save(None).await;
            }
        };
        // guard: campaign-announced-results
        if let Some(error) = mismatch(&result, &done) {
            error!(party = %self.ctx.identity.name, "{error}");
            self.ctx.send(confirmed(round, &result));
            self.ctx.tell_end(round, error);
            self.ctx.memory.live = None;
            self.ctx.save(None).await?;
            return mismatch(&result, &done).map_or(Ok(()), Err);
        }
        self.ctx.model = Some(result.model.clone());
        // guard: campaign-told-before-it-is-confirmed
        self.tell_result(of, done, *result).await
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
