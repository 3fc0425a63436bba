//! Rounds with a result: every party whose update is in the sum is told the result, at once or when it comes back, even
//! by a coordinator that was restarted. The coordinator keeps track of who has confirmed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::PartyId;
use tracing::warn;

use super::Halt;
use super::api::{Content, Say};
use super::beginning::Beginnings;
use super::connections::Connections;
use super::context::Context;
use super::owed::Owed;
use super::running::{AtEnd, Running};
use crate::machine::Time;
use crate::pb;
use crate::report::RoundState;
use crate::store::Ending;

/// How long confirmations are gathered before they are written together.
const GATHERED: Duration = Duration::from_millis(100);

/// The latest sum and the latest key set-up, for those of their parties that have not heard the end.
#[derive(Default)]
pub(super) struct Ended {
    sum: Option<EndedRound>,
    key_setup: Option<EndedRound>,
    /// Who has confirmed the latest sum since that was last written down.
    unwritten: Vec<Arc<str>>,
    /// When that is written down.
    write_at: Option<Time>,
}

/// What a party that has come back is told of a round that it was in.
#[derive(PartialEq)]
pub(super) enum Told {
    /// The result.
    Result,
    /// That it cannot be told the result: it confirms nothing.
    Out,
}

/// A round that has ended with a result.
struct EndedRound {
    ending: Ending,
    /// Who is told the result.
    hearers: BTreeSet<Arc<str>>,
    /// The messages before the last one, for those that were away when they were sent.
    owed: BTreeMap<Arc<str>, Owed>,
    beginnings: Beginnings,
}

impl Ended {
    /// What a coordinator finds in its store.
    pub fn stored(ending: Option<Ending>) -> Self {
        let round = |ending: Ending| EndedRound {
            hearers: ending.survivors.keys().cloned().collect(),
            owed: BTreeMap::new(),
            beginnings: Beginnings::default(),
            ending,
        };
        Self {
            sum: ending.map(round),
            ..Self::default()
        }
    }

    /// Survivors of the latest sum that have not confirmed it.
    pub fn unconfirmed(&self) -> Vec<String> {
        let survivors = self.sum.iter().flat_map(|sum| &sum.ending.survivors);
        let missing = survivors.filter(|(_, confirmed)| !**confirmed);
        missing.map(|(name, _)| name.to_string()).collect()
    }

    /// When what was confirmed is to be written down, where there is something.
    pub fn write_at(&self) -> Option<Time> {
        self.write_at
    }

    /// Whether a party that says it is in this round gets a result.
    pub fn owes(&self, name: &str, round: u64) -> bool {
        self.of(round)
            .is_some_and(|ended| ended.hearers.contains(name))
    }

    fn of(&self, round: u64) -> Option<&EndedRound> {
        let both = [&self.sum, &self.key_setup].into_iter().flatten();
        both.into_iter()
            .find(|ended| ended.ending.done.round == round)
    }

    fn of_mut(&mut self, round: u64) -> Option<&mut EndedRound> {
        let both = [&mut self.sum, &mut self.key_setup].into_iter().flatten();
        both.into_iter()
            .find(|ended| ended.ending.done.round == round)
    }

    fn put(&mut self, ended: EndedRound) {
        match ended.ending.start.kind() {
            pb::RoundKind::KeySetup => self.key_setup = Some(ended),
            pb::RoundKind::Sum => {
                self.sum = Some(ended);
                (self.unwritten, self.write_at) = (Vec::new(), None);
            }
        }
    }

    /// A survivor of this sum needs to be told nothing more; true where it did until now.
    pub fn settle(&mut self, round: u64, name: &str, now: Time) -> bool {
        let Some(sum) = self.sum.as_mut().filter(|s| s.ending.done.round == round) else {
            return false;
        };
        if !sum.settle(name) {
            return false;
        }
        self.unwritten.push(name.into());
        self.write_at.get_or_insert(now + GATHERED);
        true
    }

    /// The round under way has ended with a result, which is stored: all its parties hear it.
    pub fn tell_end(
        &mut self,
        context: &Context,
        members: &Connections,
        running: &Running,
        ending: Ending,
        addressed: &BTreeSet<PartyId>,
    ) {
        let (round, stage) = (ending.done.round, ending.stage);
        let mut ended = EndedRound {
            hearers: ending.survivors.keys().cloned().collect(),
            owed: BTreeMap::new(),
            beginnings: Beginnings::default(),
            ending,
        };
        let (mut now, mut out) = (Vec::new(), Vec::new());
        for (party, name) in (0..).map(PartyId).zip(running.names()) {
            let counts = ended.ending.survivors.contains_key(name);
            match running.standing(party) {
                AtEnd::In(missed) if addressed.contains(&party) => {
                    ended.keep(name, missed);
                    now.push(name);
                }
                AtEnd::In(_) => {
                    let reason = "left out by the protocol".to_owned();
                    out.push((name.clone(), counts, reason));
                }
                // It wants to hear nothing.
                AtEnd::Out => drop(ended.settle(name)),
                AtEnd::Late { reason, missed } => {
                    let latest = missed.stages().map(|(_, latest)| latest);
                    // guard: lost-in-the-last-stage
                    match latest.and_then(|latest| latest.checked_add(1)) >= Some(stage) && counts {
                        true => {
                            ended.keep(name, missed);
                            now.push(name);
                        }
                        false => out.push((name.clone(), counts, reason.to_owned())),
                    }
                }
            }
        }
        ended.hearers.extend(now.iter().copied().cloned());
        for member in now.iter().filter_map(|name| members.get(name)) {
            member.link.say(ended.message());
            let done = ended.ending.done.clone();
            member.link.frame(done.into());
        }
        self.put(ended);
        for (name, counts, reason) in out {
            self.tell_out(context, members, round, (&name, counts), &reason);
        }
    }

    /// A party is not told the result of a round, which its update may be in.
    fn tell_out(
        &mut self,
        context: &Context,
        members: &Connections,
        round: u64,
        (name, counts): (&str, bool),
        reason: &str,
    ) {
        let Some(member) = members.get(name) else {
            return;
        };
        let frame = pb::RoundAborted {
            round,
            only_you: true,
            reason: reason.into(),
            // guard: campaign-who-counts-is-told-so, survivors-hear-that-they-count
            counted: counts,
            unknown: false,
        };
        member.link.frame(frame.into());
        self.settle(round, name, context.now());
        context.news();
    }

    /// A party that has come back asks for the end of a round; `None` where it is not known any more.
    pub fn send_end(
        &mut self,
        context: &Context,
        members: &mut Connections,
        name: &str,
        (round, answered): (u64, u32),
    ) -> Option<Told> {
        let (ended, member) = (self.of(round)?, members.get_mut(name)?);
        if !ended.hearers.contains(name) {
            return None;
        }
        let stage = u32::from(ended.ending.stage);
        let owed = ended.owed.get(name).filter(|_| answered < stage);
        let first = owed.and_then(Owed::stages).map(|(first, _)| first.into());
        // What a party was not told it need not be told now.
        let kind = ended.ending.start.kind().into();
        let parties = ended.ending.start.roster.len();
        let plan = context.job().plan_of(kind, parties);
        if plan.tells_all(answered, first.unwrap_or(stage)) {
            let counts = ended.ending.survivors.contains_key(name);
            let reason = "it was away for more of the round than can be told now";
            self.tell_out(context, members, round, (name, counts), reason);
            return Some(Told::Out);
        }
        let ended = self.of_mut(round)?;
        // Nothing that it has said, or not, counts now.
        let (start, beginnings) = (&ended.ending.start, &mut ended.beginnings);
        let start = beginnings.start(start, stage + 1, &mut member.shown);
        let link = &member.link;
        link.shared(start);
        let owed = ended.owed.get(name).filter(|_| answered < stage);
        if let Some(owed) = owed {
            owed.say(link, round, answered);
        }
        if answered <= stage {
            link.say(ended.message());
        }
        link.frame(ended.ending.done.clone().into());
        Some(Told::Result)
    }

    /// How a round ended that is not the latest one, for a party that was in it.
    pub async fn send_past(context: &Context, members: &Connections, name: &str, round: u64) {
        let report = context
            .stored(move |store, job| store.round(job, round))
            .await;
        let report = report.unwrap_or_else(|halt| {
            context.not_stored("a report could not be read", halt);
            None
        });
        let mut frame = pb::RoundAborted {
            round,
            only_you: false,
            reason: "nothing is known of it here".into(),
            counted: false,
            // guard: a-round-that-is-not-known-is-not-denied
            unknown: true,
        };
        if let Some(report) = report {
            frame.unknown = report.unknown;
            frame.only_you = report.state == RoundState::Done;
            // guard: survivors-of-earlier-rounds-hear-that-they-count
            frame.counted = frame.only_you
                && !report.key_setup
                && report.survivors.iter().any(|survivor| survivor == name);
            if frame.counted {
                frame.reason = "a later round has a result, and only the latest one is kept".into();
            } else {
                let mut stages = report.stages.iter();
                let why = stages.find_map(|stage| stage.dropped.get(name));
                frame.reason = match (report.reason.is_empty(), why) {
                    (false, _) => report.reason,
                    (true, Some(why)) => why.clone(),
                    (true, None) => "it is over".into(),
                };
            }
        }
        if let Some(member) = members.get(name) {
            member.link.frame(frame.into());
        }
    }

    /// A party that connects says which round it is in. A survivor of the latest sum that is in another one, or
    /// in none, will not confirm it any more.
    pub fn forget_hearer(&mut self, name: &str, round: u64, now: Time) {
        let sum = self.sum.as_ref().map(|sum| sum.ending.done.round);
        if let Some(sum) = sum.filter(|sum| *sum != round) {
            self.settle(sum, name, now);
        }
    }

    /// Compares what a party holds after a round with what the coordinator has.
    pub async fn compare(&self, context: &Context, name: &str, confirmed: &pb::RoundConfirmed) {
        let round = confirmed.round;
        let Some(ended) = self.of(round) else {
            return;
        };
        let done = &ended.ending.done;
        if done.model != confirmed.model {
            let detail = format!("{name} computes another model from the same sum");
            context.record_event(round, "model", name, detail).await;
        // guard: results-are-compared-by-coordinators
        } else if done.result != confirmed.result {
            let detail = format!("{name} was told another result");
            context.record_event(round, "result", name, detail).await;
        }
    }

    /// Writes down who has confirmed the latest sum: a coordinator that is restarted does not wait for them.
    pub async fn write_confirmed(&mut self, context: &Context) -> Result<(), Halt> {
        self.write_at = None;
        let names = std::mem::take(&mut self.unwritten);
        let Some(sum) = self.sum.as_ref().filter(|_| !names.is_empty()) else {
            return Ok(());
        };
        let round = sum.ending.done.round;
        context
            .stored(move |store, job| store.confirm(job, round, &names))
            .await
    }

    /// The last act of a job.
    pub async fn close(&mut self, context: &Context) {
        if let Err(halt) = self.write_confirmed(context).await {
            context.not_stored("confirmations could not be stored", halt);
        }
        let missing = self.unconfirmed();
        if !missing.is_empty() {
            warn!(job = %context.name, parties = ?missing, "have not confirmed the latest result");
        }
    }
}

impl EndedRound {
    /// What a party has missed of the round before its end.
    fn keep(&mut self, name: &Arc<str>, missed: &Owed) {
        if !missed.is_empty() {
            self.owed.insert(name.clone(), missed.clone());
        }
    }

    /// A survivor needs to be told nothing more; true where it did until now.
    fn settle(&mut self, name: &str) -> bool {
        self.owed.remove(name);
        let confirmed = self.ending.survivors.get_mut(name);
        confirmed.is_some_and(|confirmed| !std::mem::replace(confirmed, true))
    }

    fn message(&self) -> Say {
        Say::Message {
            round: self.ending.done.round,
            stage: self.ending.stage,
            content: Content::Here(self.ending.message.clone()),
        }
    }
}
