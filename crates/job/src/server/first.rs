//! The first model of a job that takes it from a party: who is asked for it, what has come, and why a party's model was
//! not taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{InitialModel, Tag};
use bytes::Bytes;
use tracing::{info, warn};

use super::{Halt, Lead};
use crate::chunks::{Assembly, Pushed};
use crate::machine::Time;
use crate::report::JobState;
use crate::{Model, foreign, hex, pb, seconds};

/// The kind of the events about the first model.
const EVENT: &str = "first model";

/// How many parties can be asked one after the other, each for all of its time, while the job has patience.
const GIVERS_IN_PATIENCE: u32 = 4;

/// Where the first model stands.
#[derive(Default)]
pub(super) struct FirstModel {
    /// The party that was asked for it.
    asked: Option<Asked>,
    /// All of it, not checked yet, and the party that gave it.
    given: Option<(Arc<str>, Bytes)>,
    /// Everybody who was asked. What such a party sends late is no offence.
    ever_asked: BTreeSet<Arc<str>>,
    /// Those who were asked over the connection that they have. A party gives its model once over a connection.
    asked_here: BTreeSet<Arc<str>>,
    /// How often each party was asked for a model that did not come.
    failures: BTreeMap<Arc<str>, u32>,
    /// Parties that are not asked again, since what they gave was no model of the job, or they have none.
    barred: BTreeSet<Arc<str>>,
    /// Why each party's model was not taken, for people.
    reasons: BTreeMap<Arc<str>, String>,
    /// What the store is not told yet.
    unrecorded: Vec<String>,
    /// The party whose model it is; empty before it is here, and in jobs that take it from nobody.
    pub from: String,
}

/// A party that was asked for the first model.
struct Asked {
    name: Arc<str>,
    /// The part that has come.
    assembly: Option<Assembly>,
    /// When the next piece must have come, and all of it.
    next_until: Time,
    whole_until: Time,
}

impl FirstModel {
    /// As the store has it.
    pub fn stored(from: String) -> Self {
        Self {
            from,
            ..Self::default()
        }
    }

    /// Whether this party was asked before.
    fn failed_before(&self, name: &str) -> bool {
        self.failures.contains_key(name)
    }

    /// Nothing more is taken from this party's attempt, for this reason.
    fn failed(&mut self, name: Arc<str>, reason: &str) {
        self.asked.take_if(|asked| asked.name == name);
        *self.failures.entry(name.clone()).or_default() += 1;
        self.unrecorded.push(format!("{name}: {reason}"));
        self.reasons.insert(name, reason.into());
    }
}

impl Lead {
    /// Whether the first model is to come from a party and is not here.
    fn awaits_first(&self) -> bool {
        self.model.is_awaited()
    }

    /// Whether a frame about this version of the model is one about the first model from a party.
    pub(super) fn is_of_first(&self, version: u64) -> bool {
        version == 0 && self.context.spec().initial == InitialModel::FirstParty
    }

    /// Until the first model is here. The parties that can give one are asked one after the other.
    pub(super) async fn first_model(&mut self) -> Result<(), Halt> {
        while self.awaits_first() {
            self.heed_giver();
            self.record_refusals().await?;
            if let Some((name, bytes)) = self.first.given.take() {
                self.take_first(name, bytes).await?;
                continue;
            }
            if self.first.asked.is_none() {
                let giver = self.next_giver();
                // Patience is for somebody to come. Who is here and was never asked is asked first.
                let is_new = |name: &Arc<str>| !self.first.failed_before(name);
                // guard: who-can-give-is-asked-beyond-patience
                if self.context.now() >= self.patience && !giver.as_ref().is_some_and(is_new) {
                    return Err(Halt::Ended(self.lacks_first()));
                }
                self.ask_for_first(giver);
            }
            let asked = self.first.asked.as_ref();
            let until = asked.map_or(self.patience, |asked| {
                asked.next_until.min(asked.whole_until)
            });
            if let Some(input) = self.next_input(Some(until)).await? {
                self.handle(input).await;
                self.may_begin()?;
            }
        }
        Ok(())
    }

    /// The offer of a round, with the party that gave the model where it is the first one.
    pub(super) fn offer(&self, round: u64) -> pb::RoundOffer {
        let begins = self.model.version() == 0;
        pb::RoundOffer {
            round,
            model: Some(self.model.name()),
            model_from: match begins {
                true => self.first.from.clone(),
                false => String::new(),
            },
            tag: self.calls.tag().map(|tag| tag.number),
            about: Tag::about_bytes(self.calls.tag()),
        }
    }

    /// The connected party that is asked for the first model next: the one that failed least often, the first by name.
    fn next_giver(&self) -> Option<Arc<str>> {
        let first = &self.first;
        let barred =
            // guard: nobody-is-asked-twice-over-a-connection
            |name: &Arc<str>| first.barred.contains(name) || first.asked_here.contains(name);
        let able = self
            .members
            .iter()
            .filter(|(name, member)| member.gives_model && !barred(name));
        let failures = |name: &Arc<str>| first.failures.get(name).copied().unwrap_or(0);
        let chosen = able.min_by_key(|(name, _)| (failures(name), (*name).clone()));
        chosen.map(|(name, _)| name.clone())
    }

    /// How long one party has to give its model, which it may load only now: no longer than for an update, and short enough
    /// for others to be asked while the job has patience.
    fn giving_time(&self) -> Duration {
        let patience = self.context.parts.settings.patience / GIVERS_IN_PATIENCE;
        // guard: giving-takes-a-part-of-patience
        seconds(self.operator.terms.input_deadline).min(patience)
    }

    /// Asks this party for the first model, if there is one to ask.
    fn ask_for_first(&mut self, giver: Option<Arc<str>>) {
        let member = giver.and_then(|name| Some((self.members.get(&name)?, name)));
        let Some((member, name)) = member else {
            return self.publish(None);
        };
        info!(job = %self.context.name, party = %name, "asked for the first model");
        member.link.frame(pb::ModelWanted { version: 0 }.into());
        let whole_until = self.context.now() + self.giving_time();
        self.first.ever_asked.insert(name.clone());
        self.first.asked_here.insert(name.clone());
        self.first.asked = Some(Asked {
            name,
            assembly: None,
            next_until: whole_until,
            whole_until,
        });
        self.publish(None);
    }

    /// Gives up on a party that does not go on with its model.
    fn heed_giver(&mut self) {
        let now = self.context.now();
        // guard: a-whole-first-model-has-a-time
        let late = |asked: &mut Asked| asked.next_until.min(asked.whole_until) <= now;
        if let Some(asked) = self.first.asked.take_if(late) {
            let reason = "it did not send its model in time";
            warn!(job = %self.context.name, party = %asked.name, reason, "the first model did not come");
            self.first.failed(asked.name, reason);
        }
    }

    /// A piece of the first model.
    pub(super) fn first_model_piece(&mut self, name: &Arc<str>, chunk: pb::ModelChunk) {
        let Some(asked) = self.first.asked.take_if(|asked| asked.name == *name) else {
            if !self.first.ever_asked.contains(name) {
                self.refuse(name, "ModelChunk: the first model was not asked for");
            }
            return;
        };
        // guard: the-rest-of-a-first-model-is-left
        if asked.assembly.is_none() && chunk.offset > 0 && self.first.failed_before(name) {
            // The rest of what it was asked for before.
            self.first.asked = Some(asked);
            return;
        }
        let expected = self.first_len();
        let begun = match asked.assembly {
            Some(assembly) => Ok(assembly),
            None if chunk.total != expected => Err(format!(
                "its model has {} bytes, one of dim = {} has {expected}",
                chunk.total,
                self.context.spec().dim
            )),
            None => Assembly::begin(chunk.total, expected).map_err(|error| error.to_string()),
        };
        let pushed = begun.and_then(|assembly| {
            let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
            pushed.map_err(|error| error.to_string())
        });
        match pushed {
            Ok(Pushed::Part(assembly)) => {
                // guard: each-piece-of-a-first-model-has-a-time
                let next_until = self.context.now() + self.context.parts.settings.chunk_timeout;
                self.first.asked = Some(Asked {
                    assembly: Some(assembly),
                    next_until,
                    ..asked
                });
            }
            Ok(Pushed::Whole(bytes)) => self.first.given = Some((asked.name, bytes)),
            Err(reason) => self.refuse_first(name, &reason),
        }
    }

    /// Bytes of the values of a model.
    fn first_len(&self) -> u64 {
        let job = self.context.job();
        let of_one = job.encoding().precision().bytes() as u64;
        job.spec().dim.saturating_mul(of_one)
    }

    /// A party that was asked has no model to give.
    pub(super) fn first_declined(&mut self, name: &Arc<str>) {
        if self.first.asked.as_ref().is_some_and(|a| a.name == *name) {
            self.first.failed(name.clone(), "it has no model to give");
            // guard: who-declines-is-not-asked-again
            self.first.barred.insert(name.clone());
        // guard: nobody-declines-unasked
        } else if !self.first.ever_asked.contains(name) {
            self.refuse(name, "ModelRefused: the first model was not asked for");
        }
    }

    /// What a party gave is no model of the job.
    fn refuse_first(&mut self, name: &Arc<str>, reason: &str) {
        warn!(job = %self.context.name, party = %name, %reason, "its first model was refused");
        self.first.failed(name.clone(), reason);
        self.first.barred.insert(name.clone());
        self.refuse(name, &format!("first model: {reason}"));
    }

    /// A party has gone, or has another connection: what it was asked for ended with the old one.
    pub(super) fn forget_giver(&mut self, name: &Arc<str>) {
        self.first.asked_here.remove(name);
        let was_asked = |asked: &mut Asked| asked.name == *name;
        if self.first.asked.take_if(was_asked).is_some() {
            let reason = "its connection ended before its model was here";
            warn!(job = %self.context.name, party = %name, reason, "the first model did not come");
            self.first.failed(name.clone(), reason);
        }
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
                self.refuse_first(&name, &reason);
                return Ok(());
            }
        };
        let (first, from, hash) = (model.clone(), name.clone(), hex(model.hash()));
        let detail = format!("{name} gave version 0, {hash}");
        let store = move |store: &dyn crate::store::Store, job: &str| {
            store.first_model(job, &first, &from)?;
            store.event(job, 0, EVENT, &detail)
        };
        self.context.stored(store).await?;
        info!(job = %self.context.name, party = %name, %hash, "the first model is from this party");
        self.first = FirstModel::stored(name.to_string());
        self.set_model(model, bytes);
        self.publish(None);
        Ok(())
    }

    /// Records why models were not taken.
    async fn record_refusals(&mut self) -> Result<(), Halt> {
        for detail in std::mem::take(&mut self.first.unrecorded) {
            let store = move |store: &dyn crate::store::Store, job: &str| {
                store.event(job, 0, EVENT, &detail)
            };
            self.context.stored(store).await?;
        }
        Ok(())
    }

    /// What the job waits for before round 1; empty where it does not wait for the first model.
    pub(super) fn first_warning(&self) -> String {
        let enough = self.members.len() >= self.context.least_roster();
        if !self.awaits_first() || self.state != JobState::Running || !enough {
            return String::new();
        }
        match &self.first.asked {
            Some(asked) => format!(
                "the job waits for the first model, which {} sends",
                asked.name
            ),
            None => self.lacks_first(),
        }
    }

    /// That nobody can give the first model, with those whose model was not taken.
    fn lacks_first(&self) -> String {
        let reasons = self.first.reasons.iter();
        let reasons: Vec<String> = reasons
            .map(|(name, reason)| format!("{name}: {}", foreign(reason)))
            .collect();
        let lacks = match reasons.is_empty() {
            true => "no connected party can give the first model".into(),
            false => format!(
                "no connected party has given the first model (not taken: {})",
                reasons.join("; ")
            ),
        };
        format!("{lacks}: start one with --initial FILE, or in Python with join(…, initial=…)")
    }
}
