//! The round of a call, from the call to what its host is told of it.

use super::api::Effect;
use super::certificates::LIST_LOOK;
use super::{Coordinator, Halt};
use crate::seconds;

impl Coordinator {
    /// Waits for a call, and runs its round. Between calls nobody loses patience.
    pub(super) async fn run_call(&mut self) -> Result<(), Halt> {
        while self.state.calls.call.is_none() {
            if !self.state.operator.held().is_empty()
                || self
                    .state
                    .rounds
                    .are_over(&self.state.operator, self.state.context.job())
            {
                return Ok(());
            }
            self.idle().await?;
        }
        let halt = self.run_called_rounds().await;
        let Some(call) = self.state.calls.call.take() else {
            return halt;
        };
        let context = &self.state.context;
        let awaited = &context.board.status().waiting_for;
        let (id, now) = (call.id, context.now());
        let lost = call.lost_at(now, &self.state.connections, awaited);
        let reason = halt.as_ref().err().map_or("it has no result", Halt::reason);
        let end = self.state.calls.end(call, reason, lost);
        self.state.context.say(Effect::CallEnded { id, end });
        self.state.context.news();
        match halt {
            Err(halt @ (Halt::Stop | Halt::Broken(_))) => Err(halt),
            // Whether there is another one is for the host to say.
            _ => Ok(()),
        }
    }

    /// The round of the call; before it the one that gives its parties the key of the job, where they need one. Where the
    /// parties open their nonces and somebody does not, the others begin anew.
    pub(super) async fn run_called_rounds(&mut self) -> Result<(), Halt> {
        loop {
            let now = self.state.context.now();
            if let Some(call) = &mut self.state.calls.call {
                call.join_until = now + seconds(call.join_within);
                self.state.patience = call.join_until;
            }
            while self.state.certificates.cannot_certify(&self.state.context)
                && self.state.context.now() < self.state.patience
            {
                let until = (self.state.patience).min(self.state.context.now() + LIST_LOOK);
                self.next_event(Some(until)).await?;
                self.state.may_begin()?;
            }
            if self.state.certificates.cannot_certify(&self.state.context) {
                return Err(Halt::Aborted(
                    self.state
                        .certificates
                        .why_not_certified(&self.state.context),
                ));
            }
            self.first_model().await?;
            match self.run_round().await {
                Ok(()) if self.state.rounds.after_key_setup => {}
                Err(Halt::Missed { .. }) if self.state.calls.call.is_some() => {}
                ended => return ended,
            }
        }
    }
}
