//! What a party does when the roster of a round is fixed: it checks it like the beginning of a round, counts the graph
//! that is drawn, and opens its nonce.

use super::job_party::JobParty;
use super::left::Left;
use super::participation::{cohort, own_place};
use super::pledge::as_start;
use super::state::State;
use crate::JobError;
use crate::error::wrong;
use crate::pb;

impl JobParty {
    /// The members of a round are fixed, who have committed to their nonces.
    pub(super) async fn roster_fixed(&mut self, fixed: pb::RosterFixed) -> Result<(), JobError> {
        let number = fixed.round;
        let mut start = as_start(&fixed);
        // A round that has begun comes once more, if anything does: its nonce is not this party's any more.
        let has_begun = self.state.number() == Some(number) || self.is_from_before(number);
        if has_begun || self.told == Some(number) || self.is_past(number) {
            return self.started_late(start);
        }
        match self.open_nonce(fixed, &mut start).await {
            Ok(opening) => {
                self.ctx.send(opening);
                Ok(())
            }
            Err(left) => self.heed(number, Err(left)).await,
        }
    }

    /// The nonce, where everything is as it must be; or why the round is refused.
    async fn open_nonce(
        &mut self,
        fixed: pb::RosterFixed,
        start: &mut pb::RoundStart,
    ) -> Result<pb::NonceOpening, Left> {
        let number = fixed.round;
        let unable = |reason: &str| Left::unable(number, reason);
        if self.ctx.lacks_model(start)? {
            return Err(unable("it starts from another model than the one offered"));
        }
        let round = self.ctx.certified(start, None)?;
        let ready = self.state.ready_for(number);
        let pledge = ready.ok_or_else(|| unable("this party was not ready for it"))?;
        let opening = pledge.opening();
        let committed = Some(&pledge.ready.commitment[..]);
        own_place(&self.ctx.identity, &round, committed)?;
        self.ctx.judge_roster(&round, &cohort(&round)).await?;
        match &self.state {
            // What it was opened for already comes once more after a connection was lost.
            State::Opened(opened) => opened
                .check_same(fixed)
                .map_err(|reason| Left::fault(wrong(format!("round {number}: {reason}"))))?,
            _ => {
                self.ctx.note_draw(number).await.map_err(Left::failed)?;
                self.state.open(fixed);
            }
        }
        Ok(opening)
    }
}
