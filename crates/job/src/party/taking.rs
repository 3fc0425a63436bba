//! How a result reaches the caller. The party tells it, and the caller takes it; only then does the party confirm the
//! result to the coordinator and forget the round. A party that is killed in between goes on in the round, comes to the
//! same result, and tells it again.

use blindsum_encode::LeftoverSize;
use tracing::info;

use super::exchange::Told;
use super::job_party::JobParty;
use super::participation::Participation;
use super::result::RoundResult;
use super::state::State;
use super::suspended::RoundUnderWay;
use super::untaken::Untaken;
use crate::{JobError, pb};

impl JobParty {
    /// The caller has the result of a round, or will not want it.
    pub(super) async fn takes(&mut self, round: u64) -> Result<(), JobError> {
        let of = self.state.participation_mut();
        if let Some(of) = of.filter(|of| of.number() == round) {
            of.unwanted = true;
        }
        match self.told == Some(round) {
            true => self.took().await,
            false => Ok(()),
        }
    }

    /// The caller has the result: the round needs nothing more.
    async fn took(&mut self) -> Result<(), JobError> {
        let Some(untaken) = self.state.take_result() else {
            return Ok(());
        };
        let round = untaken.round;
        // Killed after this, a party goes on in the round and comes to the same.
        if let (Some(counts), Some(sparse)) = (untaken.contributors, &mut self.ctx.given.sparse) {
            let store = &mut self.ctx.store;
            sparse.commit_opened(store, round, counts).await?;
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
        of: Participation,
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
        let under_way = RoundUnderWay::of(&of, true, &self.ctx);
        let again = under_way.map(|under_way| (under_way, done));
        let untaken = Untaken::new(round, &result, &self.ctx.identity.name, again);
        self.state = State::Untaken(Box::new(untaken));
        self.told = Some(round);
        // guard: campaign-results-are-told-once
        self.ctx.tell(Told::Ended(round, Ok(Box::new(result))));
        match of.unwanted {
            true => self.took().await,
            false => Ok(()),
        }
    }
}
