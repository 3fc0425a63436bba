//! The round of a call: it waits for the parties that its host has named, and for nobody else.

use std::collections::BTreeMap;

use super::calls::UnderWay;
use super::certificates::LIST_LOOK;
use super::face::Effect;
use super::{Halt, Lead};
use crate::seconds;

impl Lead {
    /// Waits for a call, and runs its round. Between calls nobody loses patience.
    pub(super) async fn run_call(&mut self) -> Result<(), Halt> {
        while self.calls.call.as_ref().is_none() {
            if !self.operator.held().is_empty()
                || self.rounds.are_over(&self.operator, self.context.spec())
            {
                return Ok(());
            }
            let until = self.ended.write_at();
            if let Some(input) = self.next_input(until).await? {
                self.handle(input).await;
            }
            if until.is_some_and(|until| until <= self.context.now()) {
                self.ended.write_confirmed(&self.context).await?;
            }
        }
        let halt = self.run_called_rounds().await;
        let Some(call) = self.calls.call.take() else {
            return halt;
        };
        let (id, lost) = (call.id, self.lost_of(&call));
        let reason = halt.as_ref().err().map_or("it has no result", Halt::reason);
        let end = self.calls.end(call, reason, lost);
        self.context.say(Effect::CallEnded { id, end });
        self.context.news();
        match halt {
            Err(halt @ (Halt::Stop | Halt::Broken(_))) => Err(halt),
            // Whether there is another one is for the host to say.
            _ => Ok(()),
        }
    }

    /// Everybody who kept the call from a sum, with the reasons; who was waited for to its end, where the host had set that.
    fn lost_of(&self, call: &UnderWay) -> BTreeMap<String, String> {
        let mut lost = call.lost();
        let is_late = call
            .until
            .is_some_and(|(until, _)| until <= self.context.now());
        if call.off.is_none() && !is_late {
            return lost;
        }
        let awaited = &self.context.board.status().waiting_for;
        for name in &call.names {
            let why = match self.members.has(name) {
                false => "it had not come when the round ended",
                true if call.ready.contains(name) && !awaited.iter().any(|one| **one == **name) => {
                    continue;
                }
                true => "the round ended while it was waited for",
            };
            lost.entry(name.to_string()).or_insert_with(|| why.into());
        }
        lost
    }

    /// The round of the call; before it the one that gives its parties the key of the job, where they need one. Where the
    /// parties open their nonces and somebody does not, the others begin anew.
    async fn run_called_rounds(&mut self) -> Result<(), Halt> {
        loop {
            let now = self.context.now();
            if let Some(call) = self.calls.call.as_mut() {
                call.join_until = now + seconds(call.join_within);
                self.patience = call.join_until;
            }
            while self.certificates.cannot_certify(&self.context)
                && self.context.now() < self.patience
            {
                let until = self.patience.min(self.context.now() + LIST_LOOK);
                if let Some(input) = self.next_input(Some(until)).await? {
                    self.handle(input).await;
                }
                self.may_begin()?;
            }
            if self.certificates.cannot_certify(&self.context) {
                return Err(Halt::Aborted(
                    self.certificates.why_not_certified(&self.context),
                ));
            }
            self.first_model().await?;
            match self.run_round().await {
                Ok(()) if self.rounds.after_key_setup => {}
                Err(Halt::Missed { .. }) if self.calls.call.as_ref().is_some() => {}
                ended => return ended,
            }
        }
    }

    /// Until everybody who was called is ready, or is not waited for.
    pub(super) async fn collect_called(&mut self, number: u64) -> Result<(), Halt> {
        let grace = self.context.parts.settings.reconnect_grace;
        let least = self.context.least_roster();
        loop {
            let now = self.context.now();
            let (Some(joining), Some(call)) = (self.phase.joining(), &mut self.calls.call) else {
                return Ok(());
            };
            let ready = joining.count();
            let (awaited, next) = call.awaited(joining, now, grace);
            let root = self.context.spec().root();
            let is_lost = |root: &str| call.why_lost(root).is_some();
            if ready + awaited.len() < least || root.is_some_and(is_lost) {
                let reason = call.too_few(ready + awaited.len(), least, root);
                return Err(Halt::Aborted(reason));
            }
            let (join_until, within) = (call.join_until, call.join_within);
            let has_needed = self.members.has_needed(self.context.job());
            if awaited.is_empty() && has_needed {
                return Ok(());
            }
            if now >= join_until {
                if !has_needed {
                    return Err(Halt::Aborted(self.members.lacks_needed(self.context.job())));
                }
                for name in awaited {
                    let what = match self.members.has(&name) {
                        true => "was not ready",
                        false => "did not come",
                    };
                    let reason = format!("it {what} within {within} s");
                    self.leave_out(number, &name, &reason);
                }
                continue;
            }
            let until = next.map_or(join_until, |next| next.min(join_until));
            if let Some(input) = self.next_input(Some(until)).await? {
                self.joining_input(number, input).await;
                self.may_begin()?;
            }
        }
    }
}
