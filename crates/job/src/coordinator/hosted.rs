//! A host calls a round: the call is taken or refused.

use tracing::{info, warn};

use super::api::Effect;
use super::calls::UnderWay;
use super::state::State;
use crate::calls::{Call, CallError, CallId};
use crate::report::JobState;

impl State {
    /// A host wants to begin a round.
    pub(super) fn called(&mut self, id: CallId, call: Call) {
        let taken = self.take_call(id, call);
        if let Err(error) = &taken {
            warn!(job = %self.context.name, %error, "call refused");
        }
        self.context.say(Effect::Called { id, taken });
    }

    fn take_call(&mut self, id: CallId, call: Call) -> Result<(), CallError> {
        let job = || self.context.name.clone();
        if !self.calls.is_hosted {
            return Err(CallError::NotHosted { job: job() });
        }
        if self.calls.call.is_some() {
            return Err(CallError::Busy { job: job() });
        }
        if self.phase.state() != JobState::Running
            || self.rounds.are_over(&self.operator, self.context.job())
        {
            let (state, advice) = match self.phase.state() {
                JobState::Failed => (JobState::Failed, "resume it, or begin another job"),
                JobState::Stopped => (JobState::Stopped, "start its coordinator again"),
                JobState::Running | JobState::Done => (
                    JobState::Done,
                    "give it more rounds with extend, or begin another job",
                ),
            };
            let job = job();
            return Err(CallError::Over { job, state, advice });
        }
        let (job, why) = (job(), self.operator.held());
        if !why.is_empty() {
            return Err(CallError::Held { job, why });
        }
        let model = call.check(self.context.job(), &self.models.current)?;
        if let Some(model) = model {
            let bytes = model.to_bytes();
            self.models.set(model, bytes);
            // It may have been sent before with other values.
            self.connections.forget_model();
        }
        let now = self.context.now();
        let join_within = call
            .join_within
            .unwrap_or(self.operator.terms.join_deadline);
        info!(job = %self.context.name, tag = call.tag, parties = call.parties.len(), "round called");
        self.calls.call = Some(UnderWay::new(id, &call, join_within, now));
        self.calls.over = None;
        Ok(())
    }
}
