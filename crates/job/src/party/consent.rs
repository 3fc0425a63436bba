//! What a party agrees to in a round: to the members before it says anything, and to the survivors before it answers
//! for them.

use blindsum_protocol::{Round, RoundKind};
use tracing::warn;

use super::context::Context;
use super::left::Left;
use super::policy::Cohort;
use crate::error::wrong;
use crate::orders::Terms;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, PolicyError};

impl Context {
    /// The party's rules on the members of a round, before anything is said in it. Where the party has no say in
    /// who survives, their sum counts as opened from now on.
    pub(super) async fn judge_roster(
        &mut self,
        round: &Round,
        cohort: &Cohort,
    ) -> Result<(), Left> {
        let policy = &self.settings.policy;
        let broken = |broken: PolicyError| Left::refused(broken.into());
        policy.check_roster(cohort).map_err(broken)?;
        // Only sums can be subtracted from each other: a key set-up is compared with none.
        let asked_later = round.job().spec().protocol.name().asks_parties();
        if asked_later || round.kind() == RoundKind::KeySetup {
            return Ok(());
        }
        policy
            .check_difference(round.job().spec().parties, cohort, &self.sums.groups())
            .map_err(broken)?;
        // guard: cohorts-are-remembered
        self.remember_sum(cohort.clone(), round).await
    }

    /// The job's terms as the coordinator tells them with the beginning of a round. More rounds than the job has begin for
    /// nobody, and no more than the policy allows for this party. A job that keeps no model does not count its rounds.
    pub(super) fn judge_terms(
        &self,
        start: &pb::RoundStart,
        round: &Round,
    ) -> Result<Terms, JobError> {
        let (number, spec) = (round.number(), round.job().spec());
        let fault = |reason: String| wrong(format!("round {number}: {reason}"));
        let terms = Terms::heard(start.terms.as_ref(), spec).map_err(fault)?;
        self.settings
            .policy
            .check_extension(terms.rounds, spec.rounds)?;
        let sums = start.model.as_ref().map_or(0, |model| model.version);
        // guard: no-round-beyond-those-announced
        if round.kind() == RoundKind::Sum && terms.are_met_by(sums) {
            return Err(fault(format!(
                "the job has {} rounds, the coordinator has not announced more, and {sums} are in the model already",
                terms.rounds
            )));
        }
        Ok(terms)
    }

    /// Remembers whose vectors may be summed now, where the policy compares later sums with these.
    pub(super) async fn remember_sum(
        &mut self,
        parties: Cohort,
        round: &Round,
    ) -> Result<(), Left> {
        if self.settings.policy.min_cohort_change == 0 {
            return Ok(());
        }
        let of_job = round.job().spec().parties;
        let added = self.sums.add(parties, of_job, &self.hand).await;
        added.map_err(Left::failed)
    }

    /// Whether this party commits to a nonce for one more round. Where it does not the coordinator is told why.
    ///
    /// # Errors
    /// Its part in the job is over.
    pub(super) fn check_draws(&self, round: u64) -> Result<(), JobError> {
        let draws = &self.memory.draws;
        draws.check().map_err(|error| {
            self.send(pb::RoundRefused {
                round,
                code: RoundRefusalCode::RoundRefusalPolicy.into(),
                reason: error.to_string(),
                ..pb::RoundRefused::default()
            });
            error.into()
        })
    }

    /// One more graph is drawn: that is written down before this party's nonce is said.
    pub(super) async fn note_draw(&mut self, round: u64) -> Result<(), JobError> {
        self.memory.draws.drawn(round);
        if self.memory.draws.is_news() {
            let draws = &self.memory.draws;
            warn!(party = %self.identity.name, job = %self.settings.job, unused = draws.unused, sent = draws.sent,
                most = draws.allowed(),
                "many rounds ended after this party had opened its nonce and before it sent its vector: somebody may be \
                 looking for a graph that gives it away; at the most its part in the job ends. The coordinator's reports \
                 name who ended them");
        }
        // guard: graphs-are-counted-before-nonces-are-opened
        self.save(None).await
    }
}
