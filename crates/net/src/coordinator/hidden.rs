//! Jobs of which the coordinator learns neither sums nor, therefore, the model: who holds the key of the job,
//! and how a party that lacks the model gets it from one that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_protocol::RoundKind;
use bytes::Bytes;
use tracing::{debug, info};

use super::job::JobTask;
use super::joining::ReadyParty;
use crate::chunks::{Assembly, Pushed};
use crate::model::{history_len, sealed_len};
use crate::outbox::Queued;
use crate::pb;

/// The current model, sealed by one party for the others.
#[derive(Default)]
pub(super) struct SealedModel {
    /// All of it, once it is here.
    bytes: Option<Bytes>,
    /// Who was asked for it, and what has come.
    asked: Option<(Arc<str>, Option<Assembly>)>,
    /// How often parties were asked for a model that did not come.
    failures: BTreeMap<Arc<str>, u32>,
    /// Who waits for it.
    waiting: BTreeSet<Arc<str>>,
}

impl SealedModel {
    /// A round is offered: somebody who was asked and has sent nothing since does not keep the others waiting.
    pub fn round_offered(&mut self) {
        if let Some((name, None)) = self.asked.take_if(|(_, assembly)| assembly.is_none()) {
            *self.failures.entry(name).or_default() += 1;
        }
    }

    /// There is a new model, which nobody has sealed yet.
    pub fn outdated(&mut self) {
        self.round_offered();
        let failures = std::mem::take(&mut self.failures);
        *self = Self {
            failures,
            ..Self::default()
        };
    }
}

impl JobTask {
    /// What the next round is for, and who of those that are ready takes part: a key set-up where somebody
    /// lacks the key of the job, but never two in a row where the others are enough for a round.
    pub(super) fn choose_kind(
        &self,
        round: u64,
        ready: Vec<ReadyParty>,
    ) -> (RoundKind, Vec<ReadyParty>) {
        if !self.parts.job.hides_sum() {
            return (RoundKind::Sum, ready);
        }
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        for party in ready.iter().filter(|party| !party.key_id.is_empty()) {
            *counts.entry(&party.key_id).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((key, holders)) = most else {
            return (RoundKind::KeySetup, ready);
        };
        let enough = self.after_key_setup && holders >= self.parts.job.min_parties();
        if holders < ready.len() && !enough {
            return (RoundKind::KeySetup, ready);
        }
        let key = key.to_vec();
        let (holders, others): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|party| party.key_id == key);
        for ReadyParty { name, .. } in others {
            let reason = "it lacks the key of the job, which it gets before a later round";
            self.tell_dropped(round, &name, reason);
        }
        (RoundKind::Sum, holders)
    }

    /// A party needs the model, which the coordinator does not know.
    pub(super) fn want_sealed_model(&mut self, name: &str) {
        if let Some(bytes) = self.sealed_model.bytes.clone() {
            self.send_sealed_model(name, bytes);
            return;
        }
        self.sealed_model.waiting.insert(name.into());
        self.ask_for_model();
    }

    /// Asks a party that has the model for it, where another one waits.
    pub(super) fn ask_for_model(&mut self) {
        let sealed = &self.sealed_model;
        if sealed.waiting.is_empty() || sealed.bytes.is_some() {
            return;
        }
        // Whoever is ready and holds the key has the model.
        let holders = self.joining.iter().flat_map(|joining| joining.holders());
        let able =
            |name: &&Arc<str>| self.members.contains_key(*name) && !sealed.waiting.contains(*name);
        let failures = |name: &Arc<str>| sealed.failures.get(name).copied().unwrap_or(0);
        let holders = holders.filter(able).cloned();
        let Some(name) = holders.min_by_key(|name| (failures(name), name.clone())) else {
            return;
        };
        match &sealed.asked {
            None => {}
            // Somebody better has become ready.
            Some((asked, None)) if failures(&name) < failures(asked) => {}
            Some(_) => return,
        }
        let version = self.model.version();
        debug!(job = %self.name, party = %name, version, "asked for the model");
        if let Some(member) = self.members.get(&name) {
            let frame = pb::ModelWanted { version };
            member.session.outbox.frame(frame.into());
        }
        self.sealed_model.asked = Some((name, None));
    }

    /// A piece of the sealed model.
    pub(super) fn model_sealed(&mut self, name: &str, chunk: pb::ModelChunk) {
        if chunk.version != self.model.version() {
            // A round was finished meanwhile.
            return;
        }
        let asked = self.sealed_model.asked.take_if(|(of, _)| **of == *name);
        let Some((of, assembly)) = asked else {
            if self.sealed_model.failures.contains_key(name) {
                // It comes after all, when another one was asked.
                return;
            }
            return self.refuse(name, "ModelChunk: the model was not asked for");
        };
        let job = &self.parts.job;
        let limit = sealed_len(4 * job.spec().dim + history_len(job) as u64);
        let pushed = match assembly {
            Some(assembly) => Ok(assembly),
            None => Assembly::begin(chunk.total, limit),
        }
        .and_then(|assembly| assembly.push(chunk.offset, chunk.total, chunk.data));
        match pushed {
            Ok(Pushed::Part(assembly)) => self.sealed_model.asked = Some((of, Some(assembly))),
            Ok(Pushed::Whole(bytes)) => {
                for name in std::mem::take(&mut self.sealed_model.waiting) {
                    self.send_sealed_model(&name, bytes.clone());
                }
                self.sealed_model.bytes = Some(bytes);
            }
            Err(error) => {
                self.refuse(name, &format!("ModelChunk: {error}"));
                *self.sealed_model.failures.entry(of).or_default() += 1;
                self.ask_for_model();
            }
        }
    }

    /// A party that may have been asked for the model has gone.
    pub(super) fn forget_sealer(&mut self, name: &str) {
        let sealed = &mut self.sealed_model;
        sealed.waiting.remove(name);
        if sealed.asked.take_if(|(of, _)| **of == *name).is_some() {
            self.ask_for_model();
        }
    }

    fn send_sealed_model(&self, name: &str, values: Bytes) {
        let version = self.model.version();
        let bytes = values.len();
        info!(job = %self.name, party = %name, version, bytes, "sealed model passed on");
        if let Some(member) = self.members.get(name) {
            member.session.outbox.put(Queued::Model { version, values });
        }
    }
}
