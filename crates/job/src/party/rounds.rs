//! What a party does with the frames of a round and with its caller's commands.

use blindsum_encode::{Judged, LeftoverSize};
use blindsum_protocol::ServerRole;
use tracing::{error, info};

use super::active::Active;
use super::exchange::{Absence, Told};
use super::member::{Member, Untold, Verdict};
use super::metrics::Reported;
use super::result::RoundResult;
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
        let mut warnings = self.ctx.watch_metrics(round, &update);
        let model = self
            .active
            .as_ref()
            .and_then(|active| active.model.as_ref());
        let (update, again) = self.ctx.measured_once(round, model, update);
        warnings.extend(again);
        let reported = self.ctx.job.as_ref().map(|job| Reported::of(job, &update));
        let active = self.active.as_mut().filter(|active| active.number == round);
        let Some(active) = active.filter(|active| !active.has_update()) else {
            let why = self.takes_no_update(round);
            self.ctx
                .tell(Told::Dropped(JobError::Submission { round, why }));
            return Ok(());
        };
        active.reported = reported.unwrap_or_default();
        active.warnings.extend(warnings);
        let submitted = active.submit(&mut self.ctx, update).await;
        self.heed(round, submitted).await
    }

    /// Why a round takes no update from the caller now.
    fn takes_no_update(&self, round: u64) -> NoUpdateTaken {
        match &self.active {
            Some(active) if active.number == round => NoUpdateTaken::Submitted,
            _ if self.sits_out == Some(round) => NoUpdateTaken::SitsOut,
            _ if round <= self.ctx.memory.last_round => NoUpdateTaken::Over,
            _ => NoUpdateTaken::NotBegun,
        }
    }

    /// The caller gives no update. The coordinator is told at once, so that the round goes on without this party.
    pub(super) async fn abandoned(&mut self, round: u64, why: Absence) -> Result<(), JobError> {
        if self
            .active
            .as_ref()
            .is_none_or(|active| active.number != round)
        {
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
        let error = self.without_result(round, reason);
        self.refuse(round, code, error).await
    }

    /// A piece of a message of the coordinator.
    pub(super) async fn chunk(&mut self, chunk: pb::Chunk) -> Result<(), JobError> {
        let round = chunk.round;
        let Some(active) = Active::of(&mut self.active, round) else {
            return Ok(());
        };
        let answered = active.chunk(&mut self.ctx, chunk).await;
        self.heed(round, answered).await
    }

    /// Another server has taken its part of an answer.
    pub(super) fn uploaded(&mut self, round: u64, role: ServerRole) {
        if let Some(active) = Active::of(&mut self.active, round)
            && active.uploaded(role)
        {
            active.say_latest(&mut self.ctx);
        }
    }

    /// Another server will not take its part of an answer.
    pub(super) async fn upload_refused(
        &mut self,
        round: u64,
        role: ServerRole,
        reason: &str,
    ) -> Result<(), JobError> {
        let Some(active) = Active::of(&mut self.active, round) else {
            return Ok(());
        };
        let refused = active.upload_refused(role, reason);
        self.heed(round, refused).await
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
            info!(party = %self.ctx.identity.name, round, "holds the key of the job");
            drop(active);
            // With this key it may open what it could not open before.
            self.ctx.unopened = None;
            self.ctx.memory.live = None;
            return self.ctx.save(None).await;
        }
        let computed = match self.active.as_mut().filter(|active| active.number == round) {
            Some(active) => active.computed.take(),
            None => None,
        };
        if self.is_told(round) {
            return Ok(());
        }
        // guard: who-lost-the-model-hears-that-it-counts
        if self.is_from_before(round) {
            let reason = "the model that it starts from is not in the state folder any more";
            let code = RoundRefusalCode::RoundRefusalUnable.into();
            self.ctx.send(pb::RoundRefused {
                round,
                code,
                reason: reason.into(),
                ..pb::RoundRefused::default()
            });
            return self
                .missed(Untold {
                    round,
                    reason: reason.into(),
                    verdict: Verdict::Counts,
                })
                .await;
        }
        let Some(computed) = computed else {
            let reason = "it ended, and this party did not get its result".into();
            let error = self.without_result(round, reason);
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
        self.tell_result(done, computed).await
    }

    pub(super) fn job_done(&mut self, done: pb::JobDone) -> Result<(), JobError> {
        let (party, job) = (&self.ctx.identity.name, &self.ctx.settings.job);
        self.done_early = plain_text(&done.reason, MAX_REASON);
        if !self.done_early.is_empty() {
            info!(%party, %job, reason = %self.done_early, "the job is done early");
        }
        match self
            .ctx
            .given
            .leftover
            .as_ref()
            .map(|it| it.with(|sparsifier| sparsifier.leftover()))
        {
            None => info!(%party, %job, "job done"),
            Some(LeftoverSize { norm, coordinates }) => info!(%party, %job, left_norm = norm,
                left_coordinates = coordinates, "job done: what is left was not sent"),
        }
        let name = done.model.ok_or_else(|| wrong("JobDone names no model"))?;
        match self.ctx.comes_sealed(&name) {
            // Those who could seal it leave now: nothing would ever come.
            true => {
                self.ctx.check_not_older(&name)?;
                self.ctx.connection.own.requested = None;
            }
            false => drop(self.ctx.have_model(&name)?),
        }
        self.done = Some(name);
        self.held_no_more();
        Ok(())
    }
}
