//! A round that ends for a party without a result.

use blindsum_protocol::RoundKind;
use tracing::{info, warn};

use super::exchange::Told;
use super::job_party::JobParty;
use super::left::{Left, Untold, Verdict, may_count_still, reason_of, shown};
use super::participation::Participation;
use super::state::State;
use super::wish::Passed;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, foreign};

impl JobParty {
    /// Leaves the round, or the job, where the party cannot go on.
    pub(super) async fn heed(
        &mut self,
        round: u64,
        done: Result<(), Left>,
    ) -> Result<(), JobError> {
        match done {
            Ok(()) => Ok(()),
            Err(Left::Job(error)) => Err(error),
            Err(Left::Round(code, error)) => self.refuse(round, code, error).await,
            // The caller hears of the round first, and then that the party cannot go on.
            Err(Left::Unusable(reason)) => {
                let error = self.ctx.store.unusable(reason.clone());
                let code = RoundRefusalCode::RoundRefusalUnable;
                self.refuse(round, code, error).await?;
                Err(self.ctx.store.unusable(reason))
            }
        }
    }

    /// Tells coordinator and caller that this party has no further part in a round.
    pub(super) async fn refuse(
        &mut self,
        round: u64,
        code: RoundRefusalCode,
        error: JobError,
    ) -> Result<(), JobError> {
        let reason = match code {
            RoundRefusalCode::RoundRefusalSitsOut => {
                info!(party = %self.ctx.identity.name, round, "sits the round out");
                String::new()
            }
            RoundRefusalCode::RoundRefusalInput => reason_of(&error),
            _ => error.for_others(),
        };
        if !reason.is_empty() {
            warn!(party = %self.ctx.identity.name, round, %reason, "round refused");
        }
        let active = self.state.participation();
        self.ctx.send(pb::RoundRefused {
            round,
            code: code.into(),
            reason,
            accused: active.map_or(String::new(), |active| active.accused(&error)),
            evidence: shown(&error),
            ..pb::RoundRefused::default()
        });
        let error = match (self.is_out(round), self.is_from_before(round)) {
            (false, _) => error,
            (true, false) => may_count_still(round, error),
            // The caller knows of no round here that somebody could have done wrong in.
            (true, true) => match may_count_still(round, error) {
                unknown @ JobError::Unknown { .. } => unknown,
                error => JobError::unknown(round, error.to_string()),
            },
        };
        if let JobError::Unknown { reason, .. } = &error
            && self.is_from_before(round)
            // guard: what-is-not-known-waits-for-the-caller
            && !self.wish.waits
        {
            let untold = Untold::new(round, reason.as_str(), Verdict::Unknown);
            return self.missed(untold).await;
        }
        let of_caller = |active: &Participation| active.round.kind() == RoundKind::Sum;
        let error = match !self.state.participation().is_some_and(of_caller) && self.wish.waits {
            true => {
                // The caller waits for a round. Whether it wants the next one is for it to say.
                self.wish.waits = false;
                self.ctx.tell(Told::Refused(error));
                None
            }
            false => Some(error),
        };
        self.drop_round(round, error).await
    }

    /// The round is over for this party without a result.
    pub(super) async fn drop_round(
        &mut self,
        round: u64,
        error: Option<JobError>,
    ) -> Result<(), JobError> {
        match error {
            Some(error) if self.state.number() == Some(round) => self.end_round(error),
            None if self.state.number() == Some(round) => drop(self.state.leave_round()),
            _ => {}
        }
        if self.state.ready_for(round).is_some() {
            self.state = State::Waiting;
        }
        let live = &mut self.ctx.memory.live;
        match live.take_if(|live| live.round == round) {
            Some(_) => self.ctx.save(None).await,
            None => Ok(()),
        }
    }

    /// Whether this party's update of a round is out: only the coordinator knows whether it counts.
    fn is_out(&self, round: u64) -> bool {
        let is_in_it = self.state.number() == Some(round);
        // guard: campaign-an-update-that-is-out-is-not-denied
        is_in_it && self.state.is_out() || self.is_from_before(round) && self.ctx.left_update()
    }

    /// What the caller is told of a round under way that gives this party no result, where the coordinator has not said
    /// whether the update counts: never that the round goes on without an update that is out.
    pub(super) fn without_result(&self, round: u64, reason: String, verdict: Verdict) -> JobError {
        let verdict = match self.is_out(round) {
            true => Verdict::Unknown,
            false => verdict,
        };
        Untold::new(round, reason, verdict).error()
    }

    /// The caller hears why there is no result.
    pub(super) fn end_round(&mut self, error: JobError) {
        if let Some(round) = self.state.leave_round() {
            self.ctx.tell_end(round, error);
        }
    }

    pub(super) async fn aborted(&mut self, aborted: pb::RoundAborted) -> Result<(), JobError> {
        let (round, reason) = (aborted.round, foreign(&aborted.reason));
        info!(party = %self.ctx.identity.name, round, only_me = aborted.only_you, %reason,
            "round aborted");
        if self.told == Some(round) {
            return Ok(());
        }
        if aborted.only_you {
            self.passed_over(round, &reason);
        }
        let offer = &mut self.ctx.connection.own.offer;
        offer.take_if(|offer| offer.round == round);
        let verdict = match (aborted.counted, aborted.unknown, aborted.only_you) {
            (true, ..) => Verdict::Counts,
            (_, true, _) => Verdict::Unknown,
            (.., true) => Verdict::Dropped,
            (.., false) => Verdict::Aborted,
        };
        self.missed(Untold::new(round, reason, verdict)).await
    }

    /// Whether this process has not taken up a round that the one before it left with its vector out.
    pub(super) fn is_from_before(&self, round: u64) -> bool {
        let ready = self.state.ready().map(|pledge| pledge.ready.round);
        let mine = self.state.number().or(ready) == Some(round);
        let live = self.ctx.memory.live.as_ref();
        !mine && self.told != Some(round) && live.is_some_and(|live| live.round == round)
    }

    /// The coordinator says what became of a round whose result does not come here.
    pub(super) async fn missed(&mut self, untold: Untold) -> Result<(), JobError> {
        let round = untold.round;
        let live = self.ctx.memory.live.as_ref();
        // A key set-up counts no update.
        let key_setup = live.is_some_and(|live| live.round == round && live.key_setup);
        let counts = untold.verdict() == Verdict::Counts && !key_setup;
        if counts && live.is_some_and(|live| live.round == round) {
            // guard: campaign-what-was-missed-is-not-sent-again
            if let Some(sparse) = &mut self.ctx.given.sparse {
                sparse.commit_all(&mut self.ctx.store, round).await?;
            }
        }
        // Without a snapshot nothing of its update was out.
        let was_out = counts || self.ctx.left_update();
        if !self.is_from_before(round) || !was_out {
            let error = match untold.verdict() {
                Verdict::Unknown => self.without_result(round, untold.reason, Verdict::Aborted),
                _ => untold.error(),
            };
            return self.drop_round(round, Some(error)).await;
        }
        // guard: missed-before-it-is-forgotten
        self.missed = Some(untold);
        match std::mem::take(&mut self.wish.waits) {
            true => self.tell_missed().await,
            false => Ok(()),
        }
    }

    /// The caller knows nothing of a round from before the process was started: it hears of it once it waits for one, and
    /// only then is the round forgotten.
    pub(super) async fn tell_missed(&mut self) -> Result<(), JobError> {
        let Some(untold) = self.missed.take() else {
            return Ok(());
        };
        let round = untold.round;
        self.ctx.tell(Told::Refused(untold.error()));
        self.drop_round(round, None).await
    }

    /// The coordinator begins, or goes on with, a round without this party. A caller that waits for its tag waits in vain,
    /// now or later.
    fn passed_over(&mut self, round: u64, reason: &str) {
        let offered = self.ctx.connection.own.offer.as_ref();
        let offered = offered.filter(|offer| offer.round == round);
        let ready = self.state.ready_for(round).map(|pledge| &pledge.ready);
        let tag = offered
            .and_then(|offer| offer.tag)
            .or_else(|| ready.and_then(|ready| ready.tag));
        self.wish.passed = tag.map(|tag| Passed {
            tag,
            round,
            reason: reason.into(),
        });
        self.tell_passed();
    }

    /// Tells the caller of the round with its tag that goes on without this party.
    pub(super) fn tell_passed(&mut self) {
        if let Some(error) = self.wish.hear_passed() {
            self.ctx.tell(Told::Refused(error));
        }
    }
}
