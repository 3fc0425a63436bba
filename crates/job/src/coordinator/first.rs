//! The first model of a job that takes it from a party: who is asked for it, what has come, and why a party's model was
//! not taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tracing::{info, warn};

use super::Halt;
use super::connections::Connections;
use super::context::Context;
use crate::chunks::{Assembly, Pushed};
use crate::machine::Time;
use crate::store::Store;
use crate::{foreign, pb, seconds};

/// The kind of the events about the first model.
pub(super) const EVENT: &str = "first model";

/// How many parties can be asked one after the other, each for all of its time, while the job has patience.
const GIVERS_IN_PATIENCE: u32 = 4;

/// Where the first model stands.
#[derive(Default)]
pub(super) struct FirstModel {
    /// The party that was asked for it.
    asked: Option<Asked>,
    /// All of it, not checked yet, and the party that gave it.
    pub given: Option<(Arc<str>, Bytes)>,
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
    pub fn failed_before(&self, name: &str) -> bool {
        self.failures.contains_key(name)
    }

    /// Nothing more is taken from this party's attempt, for this reason.
    fn failed(&mut self, name: Arc<str>, reason: &str) {
        self.asked.take_if(|asked| asked.name == name);
        *self.failures.entry(name.clone()).or_default() += 1;
        self.unrecorded.push(format!("{name}: {reason}"));
        self.reasons.insert(name, reason.into());
    }

    /// The connected party that is asked for the first model next: the one that failed least often, the first by name.
    pub fn next_giver(&self, members: &Connections) -> Option<Arc<str>> {
        let barred =
            // guard: nobody-is-asked-twice-over-a-connection
            |name: &Arc<str>| self.barred.contains(name) || self.asked_here.contains(name);
        let able = members
            .iter()
            .filter(|(name, member)| member.gives_model && !barred(name));
        let failures = |name: &Arc<str>| self.failures.get(name).copied().unwrap_or(0);
        let chosen = able.min_by_key(|(name, _)| (failures(name), (*name).clone()));
        chosen.map(|(name, _)| name.clone())
    }

    /// Whether a party was asked for it and may still give it.
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Until when the party that was asked has time.
    pub fn asked_until(&self) -> Option<Time> {
        let asked = self.asked.as_ref();
        asked.map(|asked| asked.next_until.min(asked.whole_until))
    }

    /// Asks this party for the first model, which it may load only now: no longer than for an update, and short enough for
    /// others to be asked while the job has patience.
    pub fn ask(
        &mut self,
        context: &Context,
        members: &Connections,
        name: Arc<str>,
        input_deadline: f64,
    ) {
        let Some(member) = members.get(&name) else {
            return;
        };
        info!(job = %context.name, party = %name, "asked for the first model");
        member.link.frame(pb::ModelWanted { version: 0 }.into());
        let patience = context.settings().patience / GIVERS_IN_PATIENCE;
        // guard: giving-takes-a-part-of-patience
        let time = seconds(input_deadline).min(patience);
        let whole_until = context.now() + time;
        self.ever_asked.insert(name.clone());
        self.asked_here.insert(name.clone());
        self.asked = Some(Asked {
            name,
            assembly: None,
            next_until: whole_until,
            whole_until,
        });
    }

    /// Gives up on a party that does not go on with its model.
    pub fn heed_giver(&mut self, context: &Context) {
        let now = context.now();
        // guard: a-whole-first-model-has-a-time
        let late = |asked: &mut Asked| asked.next_until.min(asked.whole_until) <= now;
        if let Some(asked) = self.asked.take_if(late) {
            let reason = "it did not send its model in time";
            warn!(job = %context.name, party = %asked.name, reason, "the first model did not come");
            self.failed(asked.name, reason);
        }
    }

    /// A piece of the first model.
    ///
    /// # Errors
    /// Why the party has to go that sent it.
    pub fn piece(
        &mut self,
        context: &Context,
        name: &Arc<str>,
        chunk: pb::ModelChunk,
    ) -> Result<(), String> {
        let Some(asked) = self.asked.take_if(|asked| asked.name == *name) else {
            return match self.ever_asked.contains(name) {
                true => Ok(()),
                false => Err("ModelChunk: the first model was not asked for".into()),
            };
        };
        // guard: the-rest-of-a-first-model-is-left
        if asked.assembly.is_none() && chunk.offset > 0 && self.failed_before(name) {
            // The rest of what it was asked for before.
            self.asked = Some(asked);
            return Ok(());
        }
        let expected = length(context);
        let (piece, total) = ((chunk.offset, chunk.total, chunk.data), chunk.total);
        let pushed = match asked.assembly.is_none() && total != expected {
            true => Err(format!(
                "its model has {total} bytes, one of dim = {} has {expected}",
                context.spec().dim
            )),
            false => Assembly::next(asked.assembly, expected, piece).map_err(|e| e.to_string()),
        };
        match pushed {
            Ok(Pushed::Part(assembly)) => {
                // guard: each-piece-of-a-first-model-has-a-time
                let next_until = context.now() + context.settings().chunk_timeout;
                self.asked = Some(Asked {
                    assembly: Some(assembly),
                    next_until,
                    ..asked
                });
            }
            Ok(Pushed::Whole(bytes)) => self.given = Some((asked.name, bytes)),
            Err(reason) => return Err(self.refused(context, name, &reason)),
        }
        Ok(())
    }

    /// A party that was asked has no model to give.
    ///
    /// # Errors
    /// Why it has to go.
    pub fn declined(&mut self, name: &Arc<str>) -> Result<(), String> {
        if self.asked.as_ref().is_some_and(|a| a.name == *name) {
            self.failed(name.clone(), "it has no model to give");
            // guard: who-declines-is-not-asked-again
            self.barred.insert(name.clone());
        // guard: nobody-declines-unasked
        } else if !self.ever_asked.contains(name) {
            return Err("ModelRefused: the first model was not asked for".into());
        }
        Ok(())
    }

    /// What a party gave is no model of the job; what it is told.
    pub fn refused(&mut self, context: &Context, name: &Arc<str>, reason: &str) -> String {
        warn!(job = %context.name, party = %name, %reason, "its first model was refused");
        self.failed(name.clone(), reason);
        self.barred.insert(name.clone());
        format!("first model: {reason}")
    }

    /// A party has gone, or has another connection: what it was asked for ended with the old one.
    pub fn forget_giver(&mut self, context: &Context, name: &Arc<str>) {
        self.asked_here.remove(name);
        let was_asked = |asked: &mut Asked| asked.name == *name;
        if self.asked.take_if(was_asked).is_some() {
            let reason = "its connection ended before its model was here";
            warn!(job = %context.name, party = %name, reason, "the first model did not come");
            self.failed(name.clone(), reason);
        }
    }

    /// Records why models were not taken.
    pub async fn record(&mut self, context: &Context) -> Result<(), Halt> {
        for detail in std::mem::take(&mut self.unrecorded) {
            let store = move |store: &dyn Store, job: &str| store.event(job, 0, EVENT, &detail);
            context.stored(store).await?;
        }
        Ok(())
    }

    /// What the job waits for before round 1.
    pub fn warning(&self) -> String {
        match &self.asked {
            Some(asked) => format!(
                "the job waits for the first model, which {} sends",
                asked.name
            ),
            None => self.lacks(),
        }
    }

    /// That nobody can give the first model, with those whose model was not taken.
    pub fn lacks(&self) -> String {
        let reasons = self.reasons.iter();
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

/// Bytes of the values of a model.
fn length(context: &Context) -> u64 {
    let of_one = context.job().encoding().precision().bytes() as u64;
    context.spec().dim.saturating_mul(of_one)
}
