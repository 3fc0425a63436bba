//! Brings the machine of a round to its state in another process, by giving it the same inputs again.

use blindsum_protocol::{Answer, Client};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::active::Active;
use super::context::Context;
use super::left::Left;
use super::machine::Step;
use super::past::PastStep;
use crate::JobError;

impl Active {
    /// Brings the machine to where it was in the process before. Nothing of it is said again.
    pub(super) async fn replay(
        &mut self,
        ctx: &mut Context,
        client: Option<Client>,
        steps: &[PastStep],
    ) -> Result<(), Left> {
        self.client = client;
        for past in steps {
            let step = Step {
                client: self.client.take(),
                setup: self.setup(ctx),
                message: past.message.clone(),
                update: None,
                leftover: ctx.given.leftover.clone(),
                state: None,
                rng: ChaCha20Rng::from_seed(*past.seed),
            };
            let stepped = ctx.hand.work(move || step.run()).await?;
            // What it allowed then is remembered already.
            self.guard.judged();
            self.client = stepped.client;
            match stepped.answer {
                Ok(Answer::Done(sum)) => {
                    let told = past.message.clone().unwrap_or_default();
                    self.opened(ctx, sum, told).await?;
                }
                Ok(Answer::KeyHeld(_)) => self.holds_key = true,
                Ok(_) => {}
                Err(fault) => {
                    let round = self.number;
                    return Err(JobError::Fault { round, fault }.into());
                }
            }
        }
        Ok(())
    }
}
