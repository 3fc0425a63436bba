//! Brings the machine of a round to its state in another process, by giving it the same inputs again.

use std::sync::Arc;

use blindsum_protocol::{Answer, Client, Round};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::guard::Guard;
use super::machine::Step;
use super::member::Member;
use super::past::PastStep;
use crate::JobError;

impl Member {
    /// Brings the machine of the round under way to where it was in the process before. Nothing of it is said again.
    pub(super) async fn replay(
        &mut self,
        client: Option<Client>,
        steps: &[PastStep],
        round: &Arc<Round>,
        guard: &Arc<Guard>,
    ) -> Result<(), JobError> {
        if let Some(active) = &mut self.active {
            active.client = client;
        }
        for past in steps {
            let Some(active) = &mut self.active else {
                return Ok(());
            };
            let (client, me) = (active.client.take(), active.me);
            let step = Step {
                setup: self.setup(round, me, guard),
                client,
                message: past.message.clone(),
                update: None,
                leftover: self.leftover.clone(),
                state: None,
                rng: ChaCha20Rng::from_seed(*past.seed),
            };
            let stepped = self.hand.work(move || step.run()).await?;
            // What it allowed then is remembered already.
            guard.judged();
            let Some(active) = &mut self.active else {
                return Ok(());
            };
            active.client = stepped.client;
            match stepped.answer {
                Ok(Answer::Done(sum)) => {
                    let told = past.message.clone().unwrap_or_default();
                    self.opened(sum, told).await??;
                }
                Ok(Answer::KeyHeld(_)) => active.holds_key = true,
                Ok(_) => {}
                Err(fault) => {
                    let round = active.number;
                    return Err(JobError::Fault { round, fault });
                }
            }
        }
        Ok(())
    }
}
