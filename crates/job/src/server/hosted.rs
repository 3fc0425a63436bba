//! Jobs whose rounds a host begins: a call is taken or refused, its round waits for exactly the parties that it names, and
//! the host is handed what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_encode::Reals;
use blindsum_protocol::Tag;
use tracing::{info, warn};

use super::face::Effect;
use super::lost::Lost;
use super::{Halt, Lead};
use crate::calls::{Call, CallError, CallId, CallSum};
use crate::machine::Time;
use crate::pb;
use crate::report::{JobState, RoundReport};
use crate::results::LearntResult;
use crate::{foreign, seconds};

/// A job whose rounds a host begins.
#[derive(Default)]
pub(super) struct Hosted {
    /// The call under way.
    pub call: Option<UnderWay>,
    /// The latest call with a result, for those of its parties that come after its end.
    pub over: Option<Over>,
}

/// A call with a result.
pub(super) struct Over {
    pub tag: Option<Tag>,
    pub round: u64,
    /// Who was called and is not in the sum, and why.
    pub lost: BTreeMap<String, String>,
}

/// A call that was taken.
pub(super) struct UnderWay {
    pub id: CallId,
    pub tag: Option<Tag>,
    pub names: BTreeSet<Arc<str>>,
    /// Seconds in which they may come.
    pub join_within: f64,
    /// Until when they may, in the round that is offered.
    pub join_until: Time,
    /// When the call ends, and after how many seconds that is.
    pub until: Option<(Time, f64)>,
    /// Why the host has called it off.
    pub off: Option<String>,
    /// Who has connected or was ready since the call. The others may be processes of an earlier round that go, while those
    /// of this one are still to come.
    pub came: BTreeSet<Arc<str>>,
    /// Who was ready for a round of the call.
    pub ready: BTreeSet<Arc<str>>,
    /// Who is not waited for, and why; who connects again is.
    pub gone: BTreeMap<Arc<str>, String>,
    /// Whose connection was lost while the round was offered, and since when.
    pub away: BTreeMap<Arc<str>, Time>,
    /// Who has failed, as the host says, or was left out; connecting again changes nothing.
    pub out: BTreeMap<Arc<str>, String>,
    /// The number of the latest round that was offered.
    pub round: u64,
    pub sum: Option<Box<CallSum>>,
}

impl UnderWay {
    /// Why somebody is not waited for.
    pub fn why_lost(&self, name: &str) -> Option<&str> {
        let why = self.out.get(name).or_else(|| self.gone.get(name));
        why.map(String::as_str)
    }

    /// Everybody who is not waited for, with the reasons.
    pub fn lost(&self) -> BTreeMap<String, String> {
        let named = |name: &Arc<str>| Some((name.to_string(), self.why_lost(name)?.to_owned()));
        self.names.iter().filter_map(named).collect()
    }
}

impl Lead {
    /// Whether a host begins the rounds.
    pub(super) fn is_hosted(&self) -> bool {
        self.hosted.is_some()
    }

    pub(super) fn call(&self) -> Option<&UnderWay> {
        self.hosted.as_ref()?.call.as_ref()
    }

    pub(super) fn call_mut(&mut self) -> Option<&mut UnderWay> {
        self.hosted.as_mut()?.call.as_mut()
    }

    /// Whether a party may take part in the round that is offered: where a host has called it, if it was named and is not out.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let named = |call: &UnderWay| call.names.contains(name) && !call.out.contains_key(name);
        !self.is_hosted() || self.call().is_some_and(named)
    }

    /// The tag of the round, where a host chose one.
    pub(super) fn tag(&self) -> Option<Tag> {
        self.call()?.tag
    }

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
        let Some(hosted) = &self.hosted else {
            return Err(CallError::NotHosted { job: job() });
        };
        if hosted.call.is_some() {
            return Err(CallError::Busy { job: job() });
        }
        if self.state != JobState::Running || self.is_over() {
            let (state, advice) = match self.state {
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
        let model = call.check(self.context.job(), &self.model)?;
        if let Some(model) = model {
            let bytes = model.to_bytes();
            self.set_model(model, bytes);
            // It may have been sent before with other values.
            self.members.forget_model();
        }
        let now = self.context.now();
        let join_within = call
            .join_within
            .unwrap_or(self.operator.terms.join_deadline);
        info!(job = %self.context.name, tag = call.tag, parties = call.parties.len(), "round called");
        let under_way = UnderWay {
            id,
            tag: call.named_tag(),
            names: call
                .parties
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            join_within,
            join_until: now,
            until: call.deadline.map(|within| (now + seconds(within), within)),
            off: None,
            came: BTreeSet::new(),
            ready: BTreeSet::new(),
            gone: BTreeMap::new(),
            away: BTreeMap::new(),
            out: BTreeMap::new(),
            round: 0,
            sum: None,
        };
        let over = None;
        self.hosted = Some(Hosted {
            call: Some(under_way),
            over,
        });
        Ok(())
    }

    /// The host has learnt that a party takes no further part in the round.
    pub(super) fn reported_failed(&mut self, name: &Arc<str>, reason: &str) {
        let Some(call) = self.call_mut().filter(|call| call.names.contains(name)) else {
            return;
        };
        let reason = match foreign(reason) {
            reason if reason.is_empty() => "the host reports that it has failed".into(),
            reason => format!("the host reports that it has failed: {reason}"),
        };
        call.out.insert(name.clone(), reason.clone());
        if let Some(joining) = &mut self.joining {
            joining.forget(name);
            let round = joining.number;
            self.members.tell_dropped(round, name, &reason);
        }
        let now = self.context.now();
        self.give_up(name, Lost::reported(now));
    }

    /// The host wants no result of its call any more.
    pub(super) fn called_off(&mut self, id: CallId, reason: &str) {
        if let Some(call) = self.call_mut().filter(|call| call.id == id) {
            let reason = foreign(reason);
            call.off = Some(format!("the host has called the round off: {reason}"));
        }
    }

    /// When the call ends in any case.
    pub(super) fn called_until(&self) -> Option<Time> {
        Some(self.call()?.until?.0)
    }

    /// An error where the call is over: the host has called it off, or its time has passed.
    pub(super) fn call_goes_on(&self) -> Result<(), Halt> {
        let Some(call) = self.call().filter(|call| call.sum.is_none()) else {
            return Ok(());
        };
        if let Some(reason) = &call.off {
            return Err(Halt::Aborted(reason.clone()));
        }
        match call.until.filter(|(until, _)| *until <= self.context.now()) {
            Some((_, within)) => Err(Halt::Aborted(format!(
                "the host gave the round {within} s, and it had not ended: give it a later deadline, or call it again"
            ))),
            None => Ok(()),
        }
    }

    /// Nobody waits for a party of the call any more, unless it connects again.
    pub(super) fn call_lost(&mut self, name: &str, reason: String) {
        if let Some(call) = self.call_mut() {
            // Who refuses and goes then has refused.
            call.gone.entry(name.into()).or_insert(reason);
        }
    }

    /// A party that was to open its nonce and did not is out of the call.
    pub(super) fn call_without(&mut self, name: &Arc<str>, reason: &str) {
        if let Some(call) = self.call_mut() {
            call.out
                .entry(name.clone())
                .or_insert_with(|| reason.into());
        }
    }

    /// A party of the call is left out of its round, and told so.
    pub(super) fn leave_out(&mut self, round: u64, name: &str, reason: &str) {
        self.call_lost(name, reason.into());
        self.members.tell_dropped(round, name, reason);
    }

    /// A party of the round that is offered is not waited for any more. One that goes and did not come for this call may
    /// only have ended an earlier round.
    pub(super) fn call_gave_up(&mut self, name: &str, lost: Lost) {
        let is_offered = self.joining.is_some();
        let reason = self.members.departed.reason(name, lost.reason());
        let counts =
            |call: &&mut UnderWay| is_offered && (!lost.may_return() || call.came.contains(name));
        if let Some(call) = self.call_mut().filter(counts) {
            call.gone.entry(name.into()).or_insert(reason);
        }
    }

    /// A party is ready for the round that is offered.
    pub(super) fn call_ready(&mut self, name: &Arc<str>) {
        if let Some(call) = self.call_mut() {
            call.came.insert(name.clone());
            call.ready.insert(name.clone());
        }
    }

    /// The connection of a party has ended.
    pub(super) fn call_left(&mut self, name: &Arc<str>) {
        let (now, is_offered) = (self.context.now(), self.joining.is_some());
        if let Some(call) = self
            .call_mut()
            .filter(|call| is_offered && call.came.contains(name))
        {
            call.away.entry(name.clone()).or_insert(now);
        }
    }

    /// A party has connected, and says that it is in this round. One that was called and comes after its sum has begun hears
    /// so.
    pub(super) fn call_came(&mut self, name: &Arc<str>, in_round: u64) {
        let without = |has: bool| !has;
        if let Some(over) = self.hosted.as_ref().and_then(|hosted| hosted.over.as_ref())
            && let Some(reason) = over.lost.get(&**name)
            && in_round != over.round
        {
            self.tell_begun_without(name, (over.round, over.tag), reason);
            return;
        }
        let running = self.running.as_ref().filter(|_| !self.after_key_setup);
        let opening = self.opening.as_ref();
        let is_late = running.is_some_and(|running| without(running.id(name).is_some()))
            || opening.is_some_and(|opening| without(opening.has(name)));
        let Some(call) = self.call_mut().filter(|call| call.names.contains(name)) else {
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
        self.tell_begun_without(name, (round, self.tag()), &reason);
    }

    /// A party that waits for a tag hears that the round with it began without the party.
    fn tell_begun_without(&self, name: &str, (round, tag): (u64, Option<Tag>), reason: &str) {
        if let Some(member) = self.members.get(name) {
            let offer = pb::RoundOffer {
                tag: tag.map(|tag| tag.number),
                about: Tag::about_bytes(tag),
                ..self.offer(round)
            };
            member.link.frame(offer.into());
        }
        self.members.tell_dropped(round, name, reason);
    }

    /// Why the host reported somebody, for reports.
    pub(super) fn why_out_of_call(&self, name: &str) -> Option<String> {
        self.call()?.out.get(name).cloned()
    }

    /// The call has its result, out of a round with this report.
    pub(super) fn call_has_sum(
        &mut self,
        report: &RoundReport,
        mean: Option<Reals>,
        learnt: Option<Arc<LearntResult>>,
    ) {
        let model_version = self.model.version();
        let Some(call) = self.call_mut().filter(|_| !report.key_setup) else {
            return;
        };
        call.round_ended(report);
        let survivors = &report.survivors;
        let mut lost = call.lost();
        for name in &call.names {
            let reason = || "its update is not in the sum".into();
            lost.entry(name.to_string()).or_insert_with(reason);
        }
        lost.retain(|name, _| !survivors.contains(name));
        call.sum = Some(Box::new(CallSum {
            tag: call.tag.map(|tag| tag.number),
            round: report.number,
            survivors: survivors.clone(),
            mean,
            sums: learnt.and_then(|learnt| learnt.sums.clone()),
            total_weight: report.total_weight,
            metrics: report.metrics.clone(),
            lost,
            result: report.result.clone(),
            model_version,
            seconds: report.seconds,
        }));
    }

    /// A round of the call has ended without a result.
    pub(super) fn call_has_none(&mut self, report: &RoundReport) {
        if let Some(call) = self.call_mut() {
            call.round_ended(report);
        }
    }
}

impl UnderWay {
    /// Who was lost in the stages of a round.
    fn round_ended(&mut self, report: &RoundReport) {
        let dropped = report.stages.iter().flat_map(|stage| &stage.dropped);
        for (name, reason) in dropped {
            self.gone.insert(name.as_str().into(), reason.clone());
        }
    }
}
