//! How the course of a job waits: for the next input, or for a while.

use std::time::Duration;

use tracing::warn;

use super::api::Input;
use super::handling::Event;
use super::state::State;
use super::trouble::WAITS;
use super::{Coordinator, Halt};
use crate::machine::Time;

impl Coordinator {
    /// The next input; none where the deadline comes first. Meanwhile watchers are told how things stand.
    async fn next_input(&mut self, deadline: Option<Time>) -> Result<Option<Input>, Halt> {
        loop {
            let look = Some(self.state.heed_list());
            let joining = self.state.phase.offered();
            let sealed = &mut self.state.models.sealed;
            let sealer = sealed.heed_sealer(&self.state.context, &self.state.connections, joining);
            let progress = self.state.publish_progress();
            let (drained, called) = (self.state.operator.drained_by(), self.state.calls.until());
            let times = [deadline, progress, look, sealer, drained, called];
            let until = times.into_iter().flatten().min();
            let input = self.input_until(until).await?;
            if input.is_some()
                || deadline.is_some_and(|deadline| deadline <= self.state.context.now())
            {
                return Ok(input);
            }
        }
    }

    async fn input_until(&mut self, deadline: Option<Time>) -> Result<Option<Input>, Halt> {
        if self.stopping || self.state.is_drained() {
            self.stopping = true;
            return Err(Halt::Stop);
        }
        self.state.calls.go_on(self.state.context.now())?;
        match self.state.context.hand.next(deadline).await {
            Some(Input::Stop) => {
                self.stopping = true;
                Err(Halt::Stop)
            }
            input => Ok(input),
        }
    }

    /// Waits for the next input, and does what every input needs. Gives what concerns the round.
    pub(super) async fn next_event(&mut self, until: Option<Time>) -> Result<Option<Event>, Halt> {
        match self.next_input(until).await? {
            Some(input) => Ok(self.state.handle(input).await),
            None => Ok(None),
        }
    }

    /// Waits for the next input where no round is to begin. Confirmations are written down in time, also where there is
    /// always another input.
    pub(super) async fn idle(&mut self) -> Result<(), Halt> {
        let until = self.state.ended.write_at();
        self.next_event(until).await?;
        if until.is_some_and(|until| until <= self.state.context.now()) {
            (self.state.ended)
                .write_confirmed(&self.state.context)
                .await?;
        }
        Ok(())
    }

    /// A moment for parties to come back.
    pub(super) async fn pause(
        &mut self,
        time: Duration,
        is_over: impl Fn(&mut State) -> bool,
    ) -> Result<(), Halt> {
        let until = self.state.context.now() + time;
        while self.state.context.now() < until && !is_over(&mut self.state) {
            self.next_event(Some(until)).await?;
            if self.state.phase.running().is_none() && self.state.may_begin().is_err() {
                break;
            }
        }
        // What is said of the time until now does not hold any more.
        self.state.context.news();
        Ok(())
    }

    /// Waits for somebody or something, longer each time, or until nobody has to be waited for.
    pub(super) async fn wait_for(
        &mut self,
        whom: &str,
        is_over: impl Fn(&mut State) -> bool,
    ) -> Result<(), Halt> {
        let pause = (self.state.trouble).wait(self.state.context.grace());
        let now_ms = self.state.context.unix_millis();
        let at_ms = now_ms.saturating_add(pause.as_millis() as u64);
        let what = "the next round begins at the earliest";
        self.state.trouble.waits(whom.to_owned(), what, at_ms);
        warn!(target: WAITS, job = %self.state.context.name, "{}", self.state.trouble.blocked(now_ms));
        self.state.publish(None);
        self.pause(pause, is_over).await
    }
}
