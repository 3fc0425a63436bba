//! What a party does when the roster of a round is fixed: it checks it like the beginning of a round, counts the graph
//! that is drawn, and opens its nonce.

use tracing::warn;

use super::active::{cohort, refusal_code};
use super::member::Member;
use super::pledge::as_start;
use crate::JobError;
use crate::error::wrong;
use crate::pb::{self, RoundRefusalCode};

impl Member {
    /// The members of a round are fixed, who have committed to their nonces.
    pub(super) async fn roster_fixed(&mut self, fixed: pb::RosterFixed) -> Result<(), JobError> {
        let number = fixed.round;
        let mut start = as_start(&fixed);
        let active = self.active.as_ref().map(|active| active.number);
        // A round that has begun comes once more, if anything does: its nonce is not this party's any more.
        let has_begun = active == Some(number) || self.is_from_before(number);
        if has_begun || self.is_told(number) || self.is_past(number) {
            return self.started_late(start);
        }
        match self.open_nonce(fixed, &mut start).await? {
            Ok(opening) => {
                self.send(opening);
                Ok(())
            }
            Err((code, error)) => self.refuse(number, code, error).await,
        }
    }

    /// The nonce, where everything is as it must be; or why the round is refused.
    async fn open_nonce(
        &mut self,
        fixed: pb::RosterFixed,
        start: &mut pb::RoundStart,
    ) -> Result<Result<pb::NonceOpening, (RoundRefusalCode, JobError)>, JobError> {
        let number = fixed.round;
        let fault = |reason: String| {
            let error = wrong(format!("round {number}: {reason}"));
            (RoundRefusalCode::RoundRefusalFault, error)
        };
        let unable = |reason: &str| {
            let reason = reason.to_owned();
            let error = JobError::Dropped {
                round: number,
                reason,
            };
            (RoundRefusalCode::RoundRefusalUnable, error)
        };
        if self.lacks_model(start)? {
            return Ok(Err(unable(
                "it starts from another model than the one offered",
            )));
        }
        let round = match self.certified(start)? {
            Ok(round) => round,
            Err(error) => return Ok(Err((refusal_code(&error), error))),
        };
        let ready = self.ready.as_ref();
        let Some(pledge) = ready.filter(|pledge| pledge.ready.round == number) else {
            return Ok(Err(unable("this party was not ready for it")));
        };
        let me = round.roster().rank_of(&self.identity.name);
        let key = me.and_then(|me| round.roster().verifying_key(me));
        let member = me.and_then(|me| round.roster().member(me));
        let committed = member.is_some_and(|member| member.nonce[..] == pledge.ready.commitment);
        if key != Some(self.identity.key.verifying_key()) || !committed {
            return Ok(Err(unable(
                "the roster lacks this party, or holds another key or commitment of it",
            )));
        }
        if let Err(refused) = self.judge_roster(&round, &cohort(&round)).await {
            return Ok(Err(refused));
        }
        // What it was opened for already comes once more after a connection was lost.
        let draws = self.ready.as_ref().is_some_and(|it| it.opened.is_none());
        if draws && let Err(error) = self.note_draw(number).await {
            return Ok(Err((RoundRefusalCode::RoundRefusalUnable, error)));
        }
        let Some(pledge) = &mut self.ready else {
            return Ok(Err(unable("this party was not ready for it")));
        };
        Ok(pledge.open(fixed).map_err(fault))
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
