//! Jobs whose rounds a host begins: a call is taken or refused, its round waits for exactly the parties that it names, and
//! the host is handed what came of it.

use std::sync::Arc;

use blindsum_protocol::Tag;
use tracing::{info, warn};

use super::Lead;
use super::calls::UnderWay;
use super::face::Effect;
use super::lost::Lost;
use crate::calls::{Call, CallError, CallId};
use crate::foreign;
use crate::pb;
use crate::report::JobState;

impl Lead {
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
            || self.rounds.are_over(&self.operator, self.context.spec())
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
            self.members.forget_model();
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

    /// The host has learnt that a party takes no further part in the round.
    pub(super) fn reported_failed(&mut self, name: &Arc<str>, reason: &str) {
        let Some(call) = self.calls.naming(name) else {
            return;
        };
        let reason = match foreign(reason) {
            reason if reason.is_empty() => "the host reports that it has failed".into(),
            reason => format!("the host reports that it has failed: {reason}"),
        };
        call.out.insert(name.clone(), reason.clone());
        if let Some(joining) = self.phase.joining_mut() {
            joining.forget(name);
            let round = joining.number;
            self.members.tell_dropped(round, name, &reason);
        }
        let now = self.context.now();
        self.give_up(name, Lost::reported(now));
    }

    /// A party of the call is left out of its round, and told so.
    pub(super) fn leave_out(&mut self, round: u64, name: &str, reason: &str) {
        self.calls.lost(name, reason.into());
        self.members.tell_dropped(round, name, reason);
    }

    /// A party has connected, and says that it is in this round. One that was called and comes after its sum has begun hears
    /// so.
    pub(super) fn call_came(&mut self, name: &Arc<str>, in_round: u64) {
        if let Some((round, tag, reason)) = self.calls.over_without(name, in_round) {
            self.tell_begun_without(name, (round, tag), &reason);
            return;
        }
        let is_late = self.phase.began_without(name, self.rounds.after_key_setup);
        let Some(call) = self.calls.naming(name) else {
            return;
        };
        if !is_late {
            call.away.remove(name);
            call.gone.remove(name);
            call.came.insert(name.clone());
            return;
        }
        if in_round == call.round {
            return;
        }
        let (round, why) = (call.round, call.why_lost(name));
        let reason = why
            .unwrap_or("the round began without this party: it came too late")
            .to_owned();
        self.tell_begun_without(name, (round, self.calls.tag()), &reason);
    }

    /// A party that waits for a tag hears that the round with it began without the party.
    fn tell_begun_without(&self, name: &str, (round, tag): (u64, Option<Tag>), reason: &str) {
        if let Some(member) = self.members.get(name) {
            let offer = pb::RoundOffer {
                tag: tag.map(|tag| tag.number),
                about: Tag::about_bytes(tag),
                ..self.models.offer(round, tag)
            };
            member.link.frame(offer.into());
        }
        self.members.tell_dropped(round, name, reason);
    }
}
