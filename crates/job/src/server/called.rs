//! The round of a call: it waits for the parties that its host has named, and for nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::certificates::LIST_LOOK;
use super::face::Effect;
use super::hosted::{Over, UnderWay};
use super::{Halt, Lead};
use crate::calls::{CallEnd, CallLost};
use crate::machine::Time;
use crate::seconds;

/// What people are told of lost parties.
fn in_words(lost: &BTreeMap<String, String>) -> String {
    let each: Vec<String> = lost
        .iter()
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    crate::first_few(&each)
}

impl Lead {
    /// Waits for a call, and runs its round. Between calls nobody loses patience.
    pub(super) async fn run_call(&mut self) -> Result<(), Halt> {
        while self.call().is_none() {
            if !self.operator.held().is_empty() || self.is_over() {
                return Ok(());
            }
            let until = self.ended.write_at();
            if let Some(input) = self.next_input(until).await? {
                self.handle(input).await;
            }
            if until.is_some_and(|until| until <= self.context.now()) {
                self.write_confirmed().await?;
            }
        }
        let halt = self.run_called_rounds().await;
        let Some(call) = self.hosted.as_mut().and_then(|hosted| hosted.call.take()) else {
            return halt;
        };
        let lost = self.lost_of(&call);
        if let (Some(sum), Some(hosted)) = (&call.sum, &mut self.hosted) {
            hosted.over = Some(Over {
                tag: call.tag,
                round: sum.round,
                lost: sum.lost.clone(),
            });
        }
        let end = match (call.sum, &halt) {
            (Some(sum), _) => CallEnd::Sum(sum),
            (None, halt) => CallEnd::Lost(CallLost {
                tag: call.tag.map(|tag| tag.number),
                round: call.round,
                reason: halt
                    .as_ref()
                    .err()
                    .map_or("it has no result", Halt::reason)
                    .into(),
                lost,
            }),
        };
        self.context.say(Effect::CallEnded { id: call.id, end });
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
            if let Some(call) = self.call_mut() {
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
                Ok(()) if self.after_key_setup => {}
                Err(Halt::Missed { .. }) if self.call().is_some() => {}
                ended => return ended,
            }
        }
    }

    /// A round of the call is offered.
    pub(super) fn call_offered(&mut self, number: u64) {
        if let Some(call) = self.call_mut() {
            call.round = number;
            call.away.clear();
        }
    }

    /// Until everybody who was called is ready, or is not waited for.
    pub(super) async fn collect_called(&mut self, number: u64) -> Result<(), Halt> {
        let grace = self.context.parts.settings.reconnect_grace;
        let least = self.context.least_roster();
        loop {
            let now = self.context.now();
            let Some((awaited, ready, next)) = self.awaited(now, grace) else {
                return Ok(());
            };
            let root = self.context.spec().root();
            let is_lost = |root: &str| {
                self.call()
                    .is_some_and(|call| call.why_lost(root).is_some())
            };
            if ready + awaited.len() < least || root.is_some_and(is_lost) {
                return Err(Halt::Aborted(self.too_few(ready + awaited.len(), root)));
            }
            let Some(join_until) = self.call().map(|call| call.join_until) else {
                return Ok(());
            };
            let has_needed = self.members.has_needed(self.context.job());
            if awaited.is_empty() && has_needed {
                return Ok(());
            }
            if now >= join_until {
                if !has_needed {
                    return Err(Halt::Aborted(self.members.lacks_needed(self.context.job())));
                }
                let within = self.call().map_or(0.0, |call| call.join_within);
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

    /// Who is waited for, how many are ready, and when the next one is not waited for any more whose connection was lost.
    fn awaited(
        &mut self,
        now: Time,
        grace: Duration,
    ) -> Option<(Vec<Arc<str>>, usize, Option<Time>)> {
        let joining = self.joining.as_ref()?;
        let call = self.hosted.as_mut()?.call.as_mut()?;
        for (name, reason) in joining.refused() {
            call.gone
                .insert(name.clone(), format!("refused by the party: {reason}"));
        }
        let over = |since: &mut Time| *since + grace <= now;
        for (name, _) in call.away.extract_if(.., |_, since| over(since)) {
            let reason = "its connection was lost".to_owned();
            call.gone.entry(name).or_insert(reason);
        }
        let open = |name: &&Arc<str>| !joining.has(name) && call.why_lost(name).is_none();
        let awaited = call.names.iter().filter(open).cloned().collect();
        let next = call.away.values().map(|since| *since + grace).min();
        Some((awaited, joining.count(), next))
    }

    fn too_few(&self, left: usize, root: Option<&str>) -> String {
        let lost = in_words(&self.call().map(UnderWay::lost).unwrap_or_default());
        match root.filter(|_| left >= self.context.least_roster()) {
            Some(root) => {
                format!("no round takes place without the party {root}, and it is lost: {lost}")
            }
            None => format!(
                "{left} of its parties are left, a round of this job needs {}: {lost}",
                self.context.least_roster()
            ),
        }
    }
}
