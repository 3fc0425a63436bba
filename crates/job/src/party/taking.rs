//! How a result reaches the caller. The party tells it, and the caller takes it; only then does the party confirm the
//! result to the coordinator and forget the round. A party that is killed in between goes on in the round, comes to the
//! same result, and tells it again.

use blindsum_encode::LeftoverSize;
use tracing::info;

use super::exchange::Told;
use super::member::Member;
use super::result::RoundResult;
use super::untaken::Untaken;
use crate::{JobError, pb};

impl Member {
    /// The caller has the result of a round, or will not want it.
    pub(super) async fn takes(&mut self, round: u64) -> Result<(), JobError> {
        if let Some(active) = self.active.as_mut().filter(|active| active.number == round) {
            active.unwanted = true;
        }
        match self.is_told(round) {
            true => self.took().await,
            false => Ok(()),
        }
    }

    /// The caller has the result: the round needs nothing more.
    pub(super) async fn took(&mut self) -> Result<(), JobError> {
        let Some(untaken) = self.untaken.take() else {
            return Ok(());
        };
        let round = untaken.round;
        // Killed after this, a party goes on in the round and comes to the same.
        if let (Some(counts), Some(least)) = (untaken.contributors, self.ctx.least_contributors()) {
            // guard: campaign-what-stays-closed-is-left
            let opened = move |d: u32| counts.get(d as usize).is_some_and(|count| *count >= least);
            self.ctx.commit(round, opened).await?;
        }
        self.ctx.memory.live.take_if(|live| live.round == round);
        match self.ctx.hides_sum() {
            true => self.ctx.save_with_model().await?,
            false => self.ctx.save(None).await?,
        }
        // Whoever has confirmed is not told the result again.
        self.ctx.send(untaken.confirmed);
        self.try_ready().await
    }

    /// The caller is told the result.
    pub(super) async fn tell_result(
        &mut self,
        done: pb::RoundDone,
        result: RoundResult,
    ) -> Result<(), JobError> {
        let round = done.round;
        let (party, survivors) = (&self.ctx.identity.name, result.survivors.len());
        let model = result.model.version();
        match result.leftover {
            // guard: updates-are-not-logged
            None => info!(%party, round, survivors, model, "round done"),
            Some(LeftoverSize { norm, coordinates }) => info!(%party, round, survivors, model,
                left_norm = norm, left_coordinates = coordinates, "round done"),
        }
        let again = self.under_way().map(|under_way| (under_way, done));
        self.untaken = Some(Untaken::new(round, &result, &self.ctx.identity.name, again));
        self.told = Some(round);
        let active = self.active.take();
        // guard: campaign-results-are-told-once
        self.ctx.tell(Told::Ended(round, Ok(Box::new(result))));
        match active.is_some_and(|active| active.unwanted) {
            true => self.took().await,
            false => Ok(()),
        }
    }
}
