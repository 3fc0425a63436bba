//! The calls of a host: whom the one under way waits for, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_encode::Reals;
use blindsum_protocol::Tag;

use super::Halt;
use super::connections::Connections;
use super::lost::Lost;
use super::offered::Offered;
use crate::calls::{Call, CallEnd, CallId, CallLost, CallSum};
use crate::machine::Time;
use crate::report::RoundReport;
use crate::results::LearntResult;
use crate::{foreign, seconds};

/// The calls of a job's host. A job that begins its rounds by itself has none.
#[derive(Default)]
pub(super) struct Calls {
    /// Whether a host begins the rounds.
    pub is_hosted: bool,
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

impl Calls {
    pub fn new(is_hosted: bool) -> Self {
        Self {
            is_hosted,
            ..Self::default()
        }
    }

    /// Whether a party may take part in the round that is offered: where a host has called it, if it was named and is not
    /// out.
    pub fn is_called(&self, name: &str) -> bool {
        let named = |call: &UnderWay| call.names.contains(name) && !call.out.contains_key(name);
        !self.is_hosted || self.call.as_ref().is_some_and(named)
    }

    /// The tag of the round, where a host chose one.
    pub fn tag(&self) -> Option<Tag> {
        self.call.as_ref()?.tag
    }

    /// The call under way, if it names this party.
    pub fn naming(&mut self, name: &str) -> Option<&mut UnderWay> {
        let call = self.call.as_mut();
        call.filter(|call| call.names.contains(name))
    }

    /// The host wants no result of its call any more.
    pub fn call_off(&mut self, id: CallId, reason: &str) {
        if let Some(call) = self.call.as_mut().filter(|call| call.id == id) {
            let reason = foreign(reason);
            call.off = Some(format!("the host has called the round off: {reason}"));
        }
    }

    /// When the call ends in any case.
    pub fn until(&self) -> Option<Time> {
        Some(self.call.as_ref()?.until?.0)
    }

    /// An error where the call is over: the host has called it off, or its time has passed.
    pub fn go_on(&self, now: Time) -> Result<(), Halt> {
        let Some(call) = self.call.as_ref().filter(|call| call.sum.is_none()) else {
            return Ok(());
        };
        if let Some(reason) = &call.off {
            return Err(Halt::Aborted(reason.clone()));
        }
        match call.until.filter(|(until, _)| *until <= now) {
            Some((_, within)) => Err(Halt::Aborted(format!(
                "the host gave the round {within} s, and it had not ended: give it a later deadline, or call it again"
            ))),
            None => Ok(()),
        }
    }

    /// A round of the call is offered.
    pub fn offered(&mut self, number: u64) {
        if let Some(call) = &mut self.call {
            call.round = number;
            call.away.clear();
        }
    }

    /// Nobody waits for a party of the call any more, unless it connects again.
    pub fn lost(&mut self, name: &str, reason: String) {
        if let Some(call) = &mut self.call {
            // Who refuses and goes then has refused.
            call.gone.entry(name.into()).or_insert(reason);
        }
    }

    /// A party that was to open its nonce and did not is out of the call.
    pub fn without(&mut self, name: &Arc<str>, reason: &str) {
        if let Some(call) = &mut self.call {
            let reason = || reason.into();
            call.out.entry(name.clone()).or_insert_with(reason);
        }
    }

    /// A party of the round that is offered is not waited for any more. One that goes and did not come for this call may
    /// only have ended an earlier round.
    pub fn gave_up(&mut self, name: &str, lost: Lost, reason: String) {
        let counts = |call: &&mut UnderWay| !lost.may_return() || call.came.contains(name);
        if let Some(call) = self.call.as_mut().filter(counts) {
            call.gone.entry(name.into()).or_insert(reason);
        }
    }

    /// A party is ready for the round that is offered.
    pub fn ready(&mut self, name: &Arc<str>) {
        if let Some(call) = &mut self.call {
            call.came.insert(name.clone());
            call.ready.insert(name.clone());
        }
    }

    /// The connection of a party has ended while a round is offered.
    pub fn left(&mut self, name: &Arc<str>, now: Time) {
        let came = |call: &&mut UnderWay| call.came.contains(name);
        if let Some(call) = self.call.as_mut().filter(came) {
            call.away.entry(name.clone()).or_insert(now);
        }
    }

    /// Why the host reported somebody, for reports.
    pub fn why_out(&self, name: &str) -> Option<String> {
        self.call.as_ref()?.out.get(name).cloned()
    }

    /// The latest call with a result, if that party was called and is not in it, and its connection says that it is in
    /// another round; and why it is not.
    pub fn over_without(&self, name: &str, in_round: u64) -> Option<(u64, Option<Tag>, String)> {
        let over = self.over.as_ref().filter(|over| over.round != in_round)?;
        Some((over.round, over.tag, over.lost.get(name)?.clone()))
    }

    /// The call has its result, out of a round with this report.
    pub fn has_sum(
        &mut self,
        report: &RoundReport,
        mean: Option<Reals>,
        learnt: Option<Arc<LearntResult>>,
        model_version: u64,
    ) {
        let Some(call) = self.call.as_mut().filter(|_| !report.key_setup) else {
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
    pub fn has_none(&mut self, report: &RoundReport) {
        if let Some(call) = &mut self.call {
            call.round_ended(report);
        }
    }

    /// The call is over, and so ends: with its sum, or for this reason without one. `lost` is who kept it from a sum.
    pub fn end(&mut self, call: UnderWay, reason: &str, lost: BTreeMap<String, String>) -> CallEnd {
        let tag = call.tag;
        let Some(sum) = call.sum else {
            return CallEnd::Lost(CallLost {
                tag: tag.map(|tag| tag.number),
                round: call.round,
                reason: reason.into(),
                lost,
            });
        };
        self.over = Some(Over {
            tag,
            round: sum.round,
            lost: sum.lost.clone(),
        });
        CallEnd::Sum(sum)
    }
}

impl UnderWay {
    /// A call that is taken now.
    pub fn new(id: CallId, call: &Call, join_within: f64, now: Time) -> Self {
        let names = call.parties.iter().map(|name| name.as_str().into());
        Self {
            id,
            tag: call.named_tag(),
            names: names.collect(),
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
        }
    }

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

    /// Who is waited for while a round is offered, and when the next one is not waited for any more whose connection was
    /// lost.
    pub fn awaited(
        &mut self,
        joining: &Offered,
        now: Time,
        grace: Duration,
    ) -> (Vec<Arc<str>>, Option<Time>) {
        for (name, reason) in joining.refused() {
            let reason = format!("refused by the party: {reason}");
            self.gone.insert(name.clone(), reason);
        }
        let over = |since: &mut Time| *since + grace <= now;
        for (name, _) in self.away.extract_if(.., |_, since| over(since)) {
            let reason = "its connection was lost".to_owned();
            self.gone.entry(name).or_insert(reason);
        }
        let open = |name: &&Arc<str>| !joining.has(name) && self.why_lost(name).is_none();
        let awaited = self.names.iter().filter(open).cloned().collect();
        let next = self.away.values().map(|since| *since + grace).min();
        (awaited, next)
    }

    /// Who was lost in the stages of a round.
    fn round_ended(&mut self, report: &RoundReport) {
        let dropped = report.stages.iter().flat_map(|stage| &stage.dropped);
        for (name, reason) in dropped {
            self.gone.insert(name.as_str().into(), reason.clone());
        }
    }

    /// Everybody who kept the call from a sum, with the reasons; who was waited for to its end, where the host had set that.
    pub fn lost_at(
        &self,
        now: Time,
        members: &Connections,
        awaited: &[String],
    ) -> BTreeMap<String, String> {
        let mut lost = self.lost();
        let is_late = self.until.is_some_and(|(until, _)| until <= now);
        if self.off.is_none() && !is_late {
            return lost;
        }
        for name in &self.names {
            let why = match members.has(name) {
                false => "it had not come when the round ended",
                true if self.ready.contains(name) && !awaited.iter().any(|one| **one == **name) => {
                    continue;
                }
                true => "the round ended while it was waited for",
            };
            lost.entry(name.to_string()).or_insert_with(|| why.into());
        }
        lost
    }

    /// Why there is no round of the call with the parties that are left.
    pub fn too_few(&self, left: usize, least: usize, root: Option<&str>) -> String {
        let lost = in_words(&self.lost());
        match root.filter(|_| left >= least) {
            Some(root) => {
                format!("no round takes place without the party {root}, and it is lost: {lost}")
            }
            None => {
                format!("{left} of its parties are left, a round of this job needs {least}: {lost}")
            }
        }
    }
}

/// What people are told of lost parties.
fn in_words(lost: &BTreeMap<String, String>) -> String {
    let each: Vec<String> = lost
        .iter()
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    crate::first_few(&each)
}
