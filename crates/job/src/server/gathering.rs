//! Before the first round and between rounds: the job waits for enough parties, and for the first model where one of them
//! gives it.

use std::sync::Arc;

use bytes::Bytes;
use tracing::info;

use super::certificates::LIST_LOOK;
use super::first::FirstModel;
use super::{Halt, Lead};
use crate::store::Store;
use crate::{Model, hex};

/// The kind of the events about the first model.
const EVENT: &str = "first model";

impl Lead {
    /// Until enough parties are connected for a round, and can be certified. While the revocation list is out of
    /// date, or a clock is wrong, nobody can come, and patience does not run out.
    pub(super) async fn wait_for_parties(&mut self) -> Result<(), Halt> {
        let need = self.context.least_roster();
        while self.members.len() < need
            || !self.members.has_needed(self.context.job())
            || self.certificates.cannot_certify(&self.context)
        {
            if self.certificates.cannot_certify(&self.context) {
                self.patience = self.context.now() + self.context.parts.settings.patience;
            } else if self.context.now() >= self.patience {
                return Err(match self.members.len() < need {
                    true => self.out_of_patience("connected", self.members.len()),
                    false => Halt::Ended(self.members.lacks_needed(self.context.job())),
                });
            }
            let until = self.patience.min(self.context.now() + LIST_LOOK);
            if let Some(input) = self.next_input(Some(until)).await? {
                self.handle(input).await;
                self.may_begin()?;
            }
        }
        Ok(())
    }

    pub(super) fn out_of_patience(&self, what: &str, have: usize) -> Halt {
        if self.certificates.cannot_certify(&self.context) {
            return Halt::Aborted(self.certificates.why_not_certified(&self.context));
        }
        Halt::Ended(format!(
            "{have} parties were {what} within {} s, {} are needed",
            self.context.parts.settings.patience.as_secs_f64(),
            self.context.least_roster()
        ))
    }

    /// Until the first model is here. The parties that can give one are asked one after the other.
    pub(super) async fn first_model(&mut self) -> Result<(), Halt> {
        while self.models.current.is_awaited() {
            self.models.first.heed_giver(&self.context);
            self.record_refusals().await?;
            if let Some((name, bytes)) = self.models.first.given.take() {
                self.take_first(name, bytes).await?;
                continue;
            }
            if !self.models.first.is_asked() {
                let giver = self.models.first.next_giver(&self.members);
                // Patience is for somebody to come. Who is here and was never asked is asked first.
                let is_new = |name: &Arc<str>| !self.models.first.failed_before(name);
                // guard: who-can-give-is-asked-beyond-patience
                if self.context.now() >= self.patience && !giver.as_ref().is_some_and(is_new) {
                    return Err(Halt::Ended(self.models.first.lacks()));
                }
                if let Some(giver) = giver {
                    let time = self.operator.terms.input_deadline;
                    let first = &mut self.models.first;
                    first.ask(&self.context, &self.members, giver, time);
                }
                self.publish(None);
            }
            let until = self.models.first.asked_until().unwrap_or(self.patience);
            if let Some(input) = self.next_input(Some(until)).await? {
                self.handle(input).await;
                self.may_begin()?;
            }
        }
        Ok(())
    }

    /// Checks what a party gave, and begins with it.
    async fn take_first(&mut self, name: Arc<str>, bytes: Bytes) -> Result<(), Halt> {
        let job = self.context.job().clone();
        let read = move || {
            let model = Model::first_from_bytes(&job, &bytes)?;
            let bytes = model.to_bytes();
            Ok::<_, String>((model, bytes))
        };
        let (model, bytes) = match self.context.hand.work(read).await? {
            Ok(read) => read,
            Err(reason) => {
                let reason = self.models.first.refused(&self.context, &name, &reason);
                self.refuse(&name, &reason);
                return Ok(());
            }
        };
        let (first, from, hash) = (model.clone(), name.clone(), hex(model.hash()));
        let detail = format!("{name} gave version 0, {hash}");
        let store = move |store: &dyn Store, job: &str| {
            store.first_model(job, &first, &from)?;
            store.event(job, 0, EVENT, &detail)
        };
        self.context.stored(store).await?;
        info!(job = %self.context.name, party = %name, %hash, "the first model is from this party");
        self.models.first = FirstModel::stored(name.to_string());
        self.models.set(model, bytes);
        self.publish(None);
        Ok(())
    }

    /// Records why models were not taken.
    async fn record_refusals(&mut self) -> Result<(), Halt> {
        for detail in std::mem::take(&mut self.models.first.unrecorded) {
            let store = move |store: &dyn Store, job: &str| store.event(job, 0, EVENT, &detail);
            self.context.stored(store).await?;
        }
        Ok(())
    }
}
