//! Before the first round and between rounds: the job waits for enough parties, for operators, and for the first model where
//! a party gives it.

use std::sync::Arc;

use bytes::Bytes;
use tracing::info;

use super::certificates::LIST_LOOK;
use super::first::{EVENT, FirstModel};
use super::state::State;
use super::{Coordinator, Halt};
use crate::report::JobState;
use crate::store::Store;
use crate::{Model, hex};

impl Coordinator {
    /// Until enough parties are connected for a round, and can be certified. While the revocation list is out of
    /// date, or a clock is wrong, nobody can come, and patience does not run out.
    pub(super) async fn wait_for_parties(&mut self) -> Result<(), Halt> {
        let need = self.state.context.least_roster();
        while self.state.connections.len() < need
            || !self.state.connections.has_needed(self.state.context.job())
            || self.state.certificates.cannot_certify(&self.state.context)
        {
            if self.state.certificates.cannot_certify(&self.state.context) {
                self.state.patience =
                    self.state.context.now() + self.state.context.settings().patience;
            } else if self.state.context.now() >= self.state.patience {
                return Err(match self.state.connections.len() < need {
                    true => out_of_patience(&self.state, "connected", self.state.connections.len()),
                    false => Halt::Ended(
                        self.state
                            .connections
                            .lacks_needed(self.state.context.job()),
                    ),
                });
            }
            let until = (self.state.patience).min(self.state.context.now() + LIST_LOOK);
            self.next_event(Some(until)).await?;
            self.state.may_begin()?;
        }
        Ok(())
    }

    /// Until the first model is here. The parties that can give one are asked one after the other.
    pub(super) async fn first_model(&mut self) -> Result<(), Halt> {
        while self.state.models.current.is_awaited() {
            self.state.models.first.heed_giver(&self.state.context);
            self.state.models.first.record(&self.state.context).await?;
            if let Some((name, bytes)) = self.state.models.first.given.take() {
                take_first(&mut self.state, name, bytes).await?;
                continue;
            }
            if !self.state.models.first.is_asked() {
                let giver = self.state.models.first.next_giver(&self.state.connections);
                // Patience is for somebody to come. Who is here and was never asked is asked first.
                let is_new = |name: &Arc<str>| !self.state.models.first.failed_before(name);
                // guard: who-can-give-is-asked-beyond-patience
                if self.state.context.now() >= self.state.patience
                    && !giver.as_ref().is_some_and(is_new)
                {
                    return Err(Halt::Ended(self.state.models.first.lacks()));
                }
                if let Some(giver) = giver {
                    let time = self.state.operator.terms.input_deadline;
                    let first = &mut self.state.models.first;
                    first.ask(&self.state.context, &self.state.connections, giver, time);
                }
                self.state.publish(None);
            }
            let until = self
                .state
                .models
                .first
                .asked_until()
                .unwrap_or(self.state.patience);
            self.next_event(Some(until)).await?;
            self.state.may_begin()?;
        }
        Ok(())
    }

    /// Until the job drains or is resumed. Nobody loses patience meanwhile.
    pub(super) async fn wait_while_held(&mut self) -> Result<(), Halt> {
        while self.state.operator.is_paused() || self.state.operator.drains() {
            self.next_event(None).await?;
        }
        Ok(())
    }

    /// A job that has failed, or is done, waits until an order lets it go on.
    pub(super) async fn wait_for_reopening(&mut self) -> Result<(), Halt> {
        while self.state.phase.state() != JobState::Running {
            self.idle().await?;
        }
        Ok(())
    }
}

/// Checks what a party gave, and begins with it.
async fn take_first(state: &mut State, name: Arc<str>, bytes: Bytes) -> Result<(), Halt> {
    let job = state.context.job().clone();
    let read = move || {
        let model = Model::first_from_bytes(&job, &bytes)?;
        let bytes = model.to_bytes();
        Ok::<_, String>((model, bytes))
    };
    let (model, bytes) = match state.context.hand.work(read).await? {
        Ok(read) => read,
        Err(reason) => {
            let reason = (state.models.first).refused(&state.context, &name, &reason);
            state.refuse(&name, &reason);
            return Ok(());
        }
    };
    let (first, from, hash) = (model.clone(), name.clone(), hex(model.hash()));
    let detail = format!("{name} gave version 0, {hash}");
    let store = move |store: &dyn Store, job: &str| {
        store.first_model(job, &first, &from)?;
        store.event(job, 0, EVENT, &detail)
    };
    state.context.stored(store).await?;
    info!(job = %state.context.name, party = %name, %hash, "the first model is from this party");
    state.models.first = FirstModel::stored(name.to_string());
    state.models.set(model, bytes);
    state.publish(None);
    Ok(())
}

pub(super) fn out_of_patience(state: &State, what: &str, have: usize) -> Halt {
    if state.certificates.cannot_certify(&state.context) {
        return Halt::Aborted(state.certificates.why_not_certified(&state.context));
    }
    Halt::Ended(format!(
        "{have} parties were {what} within {} s, {} are needed",
        state.context.settings().patience.as_secs_f64(),
        state.context.least_roster()
    ))
}
