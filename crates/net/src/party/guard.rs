//! The party's policy where it has the last word: on the survivors of a round, before it confirms them, reveals what
//! opens their sum, or adds up.

use std::sync::{Arc, Mutex, PoisonError};

use blindsum_protocol::{Answer, Fault, PartySet, Round, SurvivorGuard};

use super::policy::{Cohort, Policy, PolicyError};
use super::task::Task;
use crate::NetError;
use crate::pb::RoundRefusalCode;

/// What a round's machine asks about its survivors.
pub(super) struct Guard {
    policy: Policy,
    round: Arc<Round>,
    /// The parties of earlier sums.
    earlier: Arc<Vec<Cohort>>,
    judged: Mutex<Option<Result<Cohort, PolicyError>>>,
}

impl Guard {
    pub fn new(policy: Policy, round: Arc<Round>, earlier: Arc<Vec<Cohort>>) -> Self {
        Self {
            policy,
            round,
            earlier,
            judged: Mutex::default(),
        }
    }

    /// What was said of the survivors since it was asked last.
    fn judged(&self) -> Option<Result<Cohort, PolicyError>> {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.take()
    }

    fn judge(&self, survivors: &PartySet) -> Result<Cohort, PolicyError> {
        let parties = self.round.job().spec().parties;
        self.policy.check_survivors(parties, survivors.len())?;
        let members = self.round.roster().members();
        let names = survivors
            .iter()
            .filter_map(|party| Some(members.get(party.rank())?.name.clone()));
        let cohort = names.collect();
        self.policy
            .check_difference(parties, &cohort, &self.earlier)?;
        Ok(cohort)
    }
}

impl SurvivorGuard for Guard {
    fn allow(&self, survivors: &PartySet) -> Result<(), String> {
        let judged = self.judge(survivors);
        let allowed = judged.as_ref().map(drop).map_err(PolicyError::to_string);
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = Some(judged);
        allowed
    }
}

impl Task {
    /// Remembers the survivors for whom the machine answers, if it was asked about them in this step: before the
    /// answer is sent. Where they break the policy, that is why there is no answer.
    pub(super) async fn heed_guard(
        &mut self,
        answer: &Result<Answer, Fault>,
    ) -> Result<(), (RoundRefusalCode, NetError)> {
        match self
            .active
            .as_ref()
            .and_then(|active| active.guard.judged())
        {
            Some(Err(broken)) => Err((RoundRefusalCode::RoundRefusalPolicy, broken.into())),
            Some(Ok(survivors)) if answer.is_ok() => self.remember_sum(survivors).await,
            _ => Ok(()),
        }
    }

    /// Remembers whose vectors may be summed now, where the policy compares later sums with these.
    pub(super) async fn remember_sum(
        &mut self,
        parties: Cohort,
    ) -> Result<(), (RoundRefusalCode, NetError)> {
        if self.config.policy.min_cohort_change == 0 {
            return Ok(());
        }
        let unable = |error| (RoundRefusalCode::RoundRefusalUnable, error);
        self.sums.add(parties).await.map_err(unable)
    }
}
