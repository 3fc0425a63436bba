//! A round that ends for a party without a result.

use blindsum_protocol::{Culprit, Fault, PartyId, RoundKind};
use tracing::{info, warn};

use super::active::Active;
use super::exchange::Told;
use super::left::Left;
use super::member::{Ended, Member, Untold, Verdict};
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, foreign};

impl Member {
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
                let error = self.ctx.unusable(reason.clone());
                let code = RoundRefusalCode::RoundRefusalUnable;
                self.refuse(round, code, error).await?;
                Err(self.ctx.unusable(reason))
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
        self.ctx.send(pb::RoundRefused {
            round,
            code: code.into(),
            reason,
            accused: self.accused(&error),
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
            && !self.wanted
        {
            let (reason, verdict) = (reason.clone(), Verdict::Unknown);
            return self
                .missed(Untold {
                    round,
                    reason,
                    verdict,
                })
                .await;
        }
        let of_caller = |active: &Active| active.round.kind() == RoundKind::Sum;
        let error = match !self.active.as_ref().is_some_and(of_caller) && self.wanted {
            true => {
                // The caller waits for a round. Whether it wants the next one is for it to say.
                self.wanted = false;
                self.ctx.tell(Told::Refused(error));
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
        self.ready.take_if(|pledge| pledge.ready.round == round);
        let live = &mut self.ctx.memory.live;
        match live.take_if(|live| live.round == round) {
            Some(_) => self.ctx.save(None).await,
            None => Ok(()),
        }
    }

    /// Whether this party's update of a round is out: only the coordinator knows whether it counts.
    fn is_out(&self, round: u64) -> bool {
        let active = self.active.as_ref();
        // guard: campaign-an-update-that-is-out-is-not-denied
        active.is_some_and(|active| active.number == round && active.is_out())
            || self.is_from_before(round) && self.left_update()
    }

    /// Whether the process before this one left an update out, in the round that it was in.
    fn left_update(&self) -> bool {
        let live = self.ctx.memory.live.as_ref();
        // guard: a-key-set-up-counts-no-update
        !self.ctx.store.snapshot.is_empty() && live.is_some_and(|live| !live.key_setup)
    }

    /// What the caller is told of a round under way that gives this party no result, where the coordinator has not said
    /// whether the update counts: never that the round goes on without an update that is out.
    pub(super) fn without_result(&self, round: u64, reason: String) -> JobError {
        match self.is_out(round) {
            true => JobError::unknown(round, reason),
            false => JobError::Dropped { round, reason },
        }
    }

    /// What the caller is told of a round of which the coordinator knows nothing.
    pub(super) fn forgotten(&self, round: u64, reason: String) -> JobError {
        match self.is_out(round) {
            true => JobError::unknown(round, reason),
            false => JobError::RoundAborted { round, reason },
        }
    }

    /// The caller hears why there is no result.
    pub(super) fn end_round(&mut self, error: JobError) {
        if let Some(active) = self.active.take() {
            self.ctx.tell(Told::Ended(active.number, Err(error)));
        }
    }

    pub(super) async fn aborted(&mut self, aborted: pb::RoundAborted) -> Result<(), JobError> {
        let (round, reason) = (aborted.round, foreign(&aborted.reason));
        info!(party = %self.ctx.identity.name, round, only_me = aborted.only_you, %reason,
            "round aborted");
        if self.is_told(round) {
            return Ok(());
        }
        if aborted.only_you {
            self.passed_over(round, &reason);
        }
        self.ctx
            .connection
            .own
            .offer
            .take_if(|offer| offer.round == round);
        let verdict = match (aborted.counted, aborted.unknown, aborted.only_you) {
            (true, ..) => Verdict::Counts,
            (_, true, _) => Verdict::Unknown,
            (.., true) => Verdict::Dropped,
            (.., false) => Verdict::Aborted,
        };
        let untold = Untold {
            round,
            reason,
            verdict,
        };
        self.missed(untold).await
    }

    /// Whether this process has not taken up a round that the one before it left with its vector out.
    pub(super) fn is_from_before(&self, round: u64) -> bool {
        let mine = self.active.as_ref().map(|active| active.number) == Some(round)
            || self.ready.as_ref().map(|pledge| pledge.ready.round) == Some(round);
        let live = self.ctx.memory.live.as_ref();
        !mine && !self.is_told(round) && live.is_some_and(|live| live.round == round)
    }

    /// The coordinator says what became of a round whose result does not come here.
    pub(super) async fn missed(&mut self, untold: Untold) -> Result<(), JobError> {
        let round = untold.round;
        let live = self.ctx.memory.live.as_ref();
        // A key set-up counts no update.
        let key_setup = live.is_some_and(|live| live.round == round && live.key_setup);
        let counts = untold.verdict == Verdict::Counts && !key_setup;
        if counts && live.is_some_and(|live| live.round == round) {
            // guard: campaign-what-was-missed-is-not-sent-again
            self.ctx.commit_missed(round).await?;
        }
        // Without a snapshot nothing of its update was out.
        let was_out = counts || self.left_update();
        if !self.is_from_before(round) || !was_out {
            let error = match untold.verdict {
                Verdict::Unknown => self.forgotten(round, untold.reason),
                _ => untold.error(),
            };
            return self.drop_round(round, Some(error)).await;
        }
        // guard: missed-before-it-is-forgotten
        self.missed = Some(untold);
        match std::mem::take(&mut self.wanted) {
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
    async fn check_deadline(&mut self) -> Result<(), JobError> {
        // guard: who-counts-waits-for-its-result
        let overdue =
            |active: &&Active| active.deadline <= self.ctx.hand.now() && !active.may_count();
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
}

/// What the caller is told of a round that its party leaves because of this error after its update is out: that nobody here
/// knows whether it counts. That somebody has done wrong is told as it is. That the round goes on without the update only
/// the coordinator can say: [`Member::aborted`].
fn may_count_still(round: u64, error: JobError) -> JobError {
    match error {
        JobError::Policy(rule) => {
            let (reason, policy) = (rule.to_string(), Some(Box::new(rule)));
            JobError::Unknown {
                round,
                reason,
                policy,
            }
        }
        // guard: only-the-coordinator-says-that-an-update-does-not-count
        JobError::OutOfTime { reason, .. } | JobError::Dropped { reason, .. } => {
            JobError::unknown(round, reason)
        }
        // guard: a-failed-task-says-nothing-of-the-round
        // guard: a-state-folder-that-fails-says-nothing-of-the-round
        error @ (JobError::State { .. } | JobError::System(_)) => {
            JobError::unknown(round, error.to_string())
        }
        error => error,
    }
}

/// The reason alone, where the error is one of the round.
fn reason_of(error: &JobError) -> String {
    match error {
        JobError::Dropped { reason, .. } | JobError::Unknown { reason, .. } => reason.clone(),
        error => error.for_others(),
    }
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
