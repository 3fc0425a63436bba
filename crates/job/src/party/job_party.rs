//! A party: what it has in every state, and its state. Its code begins in `event_loop.rs`.

use super::context::Context;
use super::done::Done;
use super::held::Held;
use super::left::Untold;
use super::state::State;
use super::wish::Wish;

/// A party of a job.
pub(super) struct JobParty {
    pub ctx: Context,
    pub state: State,
    pub wish: Wish,
    /// The job is done.
    pub done: Option<Done>,
    /// Why operators let no round begin.
    pub held: Held,
    /// A round from before the process was started, in which its update was out, and whose result does not come. The
    /// caller has not been told.
    pub missed: Option<Untold>,
    /// The latest round of which the caller was told the result.
    pub told: Option<u64>,
    /// The latest round for which the caller gave no update.
    pub sits_out: Option<u64>,
}

impl JobParty {
    pub fn new(ctx: Context) -> Self {
        Self {
            ctx,
            state: State::default(),
            wish: Wish::default(),
            done: None,
            held: Held::default(),
            missed: None,
            told: None,
            sits_out: None,
        }
    }

    /// The coordinator says why operators let no round begin; nothing where they do.
    pub fn hears_held(&mut self, reason: &str) {
        if self.done.is_none() {
            self.held.hear(&self.ctx, reason);
        }
    }

    /// The connection has ended.
    pub fn lose_connection(&mut self) {
        self.ctx.connection.lose();
        if let Some(done) = &mut self.done {
            done.connection_lost(self.ctx.hand.now());
        }
    }
}
