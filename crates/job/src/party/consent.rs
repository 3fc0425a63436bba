//! What a party agrees to in a round: to the members, once their certificates were verified and before it says anything, and
//! to the survivors before it answers for them.

use blindsum_protocol::{Round, RoundKind};
use tracing::warn;

use super::context::Context;
use super::left::Left;
use super::policy::Cohort;
use crate::certified::certified_round;
use crate::error::wrong;
use crate::orders::Terms;
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, Model, PolicyError};

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

    /// Whether this party may be ready for one more round: its nonces have not drawn too many graphs in vain, and its data can
    /// afford it. Where not, the coordinator is told why.
    ///
    /// # Errors
    /// Its part in the job is over.
    pub(super) async fn check_ready(&self, round: u64) -> Result<(), JobError> {
        let mut allowed = Ok(());
        if self.job()?.commits_nonces() {
            allowed = self.memory.draws.check().map_err(JobError::from);
        }
        if let (Ok(()), Some(spending)) = (&allowed, self.store.spending.clone()) {
            allowed = spending.afford(&self.hand).await;
        }
        if let Err(error) = &allowed {
            let code = match error {
                JobError::Policy(_) => RoundRefusalCode::RoundRefusalPolicy,
                _ => RoundRefusalCode::RoundRefusalUnable,
            };
            self.send(pb::RoundRefused {
                round,
                code: code.into(),
                reason: error.for_others(),
                ..pb::RoundRefused::default()
            });
        }
        allowed
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

    /// Keeps the certificates of a beginning that comes late: they do not come again over this connection.
    pub(super) fn keep_certificates(&mut self, mut start: pb::RoundStart) -> Result<(), JobError> {
        let (parties, anchor) = (self.job()?.spec().parties, &self.identity.anchor);
        let certificates = &mut self.connection.certificates;
        if let Ok(brought) = certificates.take(&mut start, parties) {
            certificates.forget_strangers(brought, anchor);
        }
        Ok(())
    }

    /// Whether a sum starts from a model that is not here.
    pub(super) fn lacks_model(&mut self, start: &pb::RoundStart) -> Result<bool, JobError> {
        if start.kind() != pb::RoundKind::Sum {
            return Ok(false);
        }
        let name = start.model.clone().unwrap_or_default();
        Ok(!self.has_model(&name)?)
    }

    /// The round that begins, once its members are certified. `of_round` is the model of the round, if the party is in
    /// it.
    pub(super) fn certified(
        &mut self,
        start: &mut pb::RoundStart,
        of_round: Option<&Model>,
    ) -> Result<Round, Left> {
        let job = self.job()?.clone();
        let anchor = &self.identity.anchor;
        let certificates = &mut self.connection.certificates;
        let brought = certificates.take(start, job.spec().parties);
        let brought = brought.map_err(|reason| {
            let error = wrong(format!("round {}: {reason}", start.round));
            Left::refused(error)
        })?;
        let model = of_round.or(self.model.as_ref());
        let is_named = |model: &&Model| start.model.as_ref().is_some_and(|name| model.is(name));
        let model = model.filter(is_named);
        // A certificate that ends while a round is under way counts to the end of it.
        let live = self.memory.live_in(start.round);
        // guard: a-round-goes-on-with-those-with-whom-it-began
        let began = live.as_ref().and_then(|live| live.certified);
        let now = began.unwrap_or_else(|| self.hand.unix_seconds());
        match (
            certified_round(start, &job, anchor, certificates, model, now),
            live,
        ) {
            (Ok(round), Some(live)) => {
                live.certified = Some(now);
                live.key_setup = round.kind() == RoundKind::KeySetup;
                Ok(round)
            }
            (Ok(round), None) => Ok(round),
            (Err(error), _) => {
                certificates.forget_strangers(brought, anchor);
                Err(Left::refused(error))
            }
        }
    }
}
