//! How the machine of a round came to where it is: enough to bring another one there, in another process.
//!
//! Until its vector is out a machine gives no snapshot. But it is deterministic: with the same randomness the same
//! messages lead to the same answers. So what is kept is what it was given since its snapshot, or since its beginning.

use std::sync::Arc;

use blindsum_crypto::Zeroizing;
use blindsum_protocol::{Answer, Client, Message, Round};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::guard::Guard;
use super::machine::Step;
use super::member::Member;
use crate::JobError;
use crate::pb;

/// What the machine of a round was given.
pub(super) struct Past {
    /// What began the round.
    pub start: pb::RoundStart,
    /// Whether the steps follow the snapshot in the records, or the machine's beginning.
    pub from_snapshot: bool,
    pub steps: Vec<PastStep>,
}

/// What one step of the machine was given.
pub(super) struct PastStep {
    /// What its randomness began with.
    pub seed: Zeroizing<[u8; 32]>,
    /// The coordinator's message; none started the machine.
    pub message: Option<Message>,
}

impl Past {
    /// Of a round that begins now, or goes on from its snapshot.
    pub fn of(start: &pb::RoundStart, from_snapshot: bool) -> Self {
        Self {
            start: start.clone(),
            from_snapshot,
            steps: Vec::new(),
        }
    }

    /// The machine has made a step; with a snapshot of it nothing before matters any more.
    pub fn add(&mut self, step: PastStep, has_snapshot: bool) {
        match has_snapshot {
            true => {
                self.from_snapshot = true;
                self.steps.clear();
            }
            false => self.steps.push(step),
        }
    }
}

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
