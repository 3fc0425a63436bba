//! A party that has the sum of its round, or the key in a key set-up.

use super::context::Context;
use super::left::Left;
use super::participation::Participation;
use super::result::RoundResult;
use super::stepping::{Event, Outcome};
use crate::{JobError, hex, pb};

/// *Result*, in docs/wire-party.md: from when it has the sum, or the key in a key set-up, until `RoundDone` r. Its `Hello`
/// says round r, and the stage behind that of the latest message that it has answered, or one more: the last message has no
/// answer.
pub(super) struct Computed {
    pub of: Participation,
    pub outcome: Outcome,
}

impl Computed {
    pub fn new(of: Participation, outcome: Outcome) -> Self {
        Self { of, outcome }
    }

    /// What happens in the round.
    pub async fn on(&mut self, event: Event, ctx: &mut Context) -> Result<(), Left> {
        match event {
            // guard: who-has-a-result-says-nothing-more
            Event::Begun(_) => {}
            Event::Chunk(chunk) => {
                let message = ctx.connection.receive(self.of.round.plan(), chunk)?;
                if message.is_some() && self.of.client.is_some() {
                    let setup = self.of.setup(ctx);
                    // The last message once more is no news, and another one is a fault.
                    self.of.step(ctx, setup, message, None).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// What this party holds at the end of a round, against what the coordinator announces.
pub(super) fn mismatch(own: &RoundResult, done: &pb::RoundDone) -> Option<JobError> {
    let (round, announced) = (done.round, done.model.clone().unwrap_or_default());
    // guard: models-are-compared
    if own.model.name() != announced {
        return Some(JobError::ModelMismatch {
            round,
            theirs: hex(&announced.hash),
            ours: hex(own.model.hash()),
        });
    }
    // guard: results-are-compared-by-parties
    let other = own.result[..] != done.result[..];
    other.then(|| JobError::ResultMismatch {
        round,
        theirs: hex(&done.result),
        ours: hex(&own.result),
    })
}
