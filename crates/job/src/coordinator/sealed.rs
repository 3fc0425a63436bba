//! Jobs in which the coordinator learns neither sums nor the model: who holds the key of the job, and how a party that
//! lacks the model gets it from a party that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_protocol::RoundKind;
use bytes::Bytes;
use tracing::{debug, info, warn};

use super::api::Say;
use super::connections::Connections;
use super::context::Context;
use super::offered::{Offered, ReadyParty};
use crate::chunks::{Assembly, Pushed};
use crate::foreign;
use crate::machine::Time;
use crate::pb::{self, RefusalCode};

/// The current model, sealed by one party for the others.
#[derive(Default)]
pub(super) struct SealedModel {
    /// Its version.
    version: u64,
    /// All of it, once it is here, and the party that sealed it.
    kept: Option<(Arc<str>, Bytes)>,
    /// The party that was asked for it, and the part that has come.
    asked: Option<(Arc<str>, Option<Part>)>,
    /// How often each party was asked for a model that did not come, or was wrong.
    failures: BTreeMap<Arc<str>, u32>,
    /// The parties that wait for it.
    waiting: BTreeSet<Arc<str>>,
    /// The version that each party was sent last, and the party that sealed it.
    sent: BTreeMap<Arc<str>, (u64, Arc<str>)>,
    /// For each party, the parties whose sealed models it could not open. It is sent none of theirs while it has this
    /// key.
    unopened: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Which party has complained of which, ever. A second complaint does not count.
    complaints: BTreeSet<(Arc<str>, Arc<str>)>,
    /// The parties that have refused this model. Each may be ready without it next, for a key set-up.
    refusers: BTreeSet<Arc<str>>,
}

/// Who takes no part in a round, and why.
type LeftOut = Vec<(Arc<str>, &'static str)>;

/// The first part of a model.
struct Part {
    assembly: Assembly,
    /// When the next piece must have come.
    next_until: Time,
}

impl SealedModel {
    /// Nobody was asked for this version.
    pub fn of(version: u64) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// A round is offered. A party that was asked for the model and has not sent all of it is not waited for any
    /// longer: an honest party that was in the last round sends the model before it answers there.
    pub fn round_offered(&mut self) {
        // guard: a-part-waits-for-no-round
        if let Some((name, _)) = self.asked.take() {
            self.failed(name);
        }
    }

    /// There is a new model or a new key, so nothing that was sealed before is of use. Parties that wait for the same
    /// model go on waiting.
    pub fn outdated(&mut self, version: u64, is_new: bool) {
        self.version = version;
        if let Some((name, _)) = self.asked.take() {
            self.failed(name);
        }
        self.kept = None;
        if is_new {
            self.waiting.clear();
            self.refusers.clear();
        }
    }

    /// Another process has this name now. It has not tried what the process before could not open.
    pub fn forget_process(&mut self, name: &str) {
        self.unopened.remove(name);
        self.refusers.remove(name);
    }

    fn failed(&mut self, sealer: Arc<str>) {
        *self.failures.entry(sealer).or_default() += 1;
    }

    /// Whether a party may be able to open what `sealer` seals.
    fn may_open(&self, name: &str, sealer: &str) -> bool {
        let unopened = self.unopened.get(name);
        unopened.is_none_or(|sealers| !sealers.contains(sealer))
    }

    /// Whether a party that has asked for the model, and refused none, waits for something that none of these can seal
    /// for it.
    pub fn waits_in_vain<'a>(
        &self,
        name: &str,
        mut holders: impl Iterator<Item = &'a Arc<str>>,
    ) -> bool {
        let waits = self.waiting.contains(name) && !self.refusers.contains(name);
        let may_seal =
            |sealer: &Arc<str>| !self.waiting.contains(sealer) && self.may_open(name, sealer);
        // guard: campaign-nobody-waits-for-a-model-in-vain
        waits && !holders.any(may_seal)
    }

    /// Whether what this party seals is of use to a party that waits.
    fn is_useful(&self, sealer: &str) -> bool {
        let mut waiting = self.waiting.iter();
        !self.waiting.contains(sealer) && waiting.any(|name| self.may_open(name, sealer))
    }

    /// What the next round is for, which of the ready parties take part, and which do not and why: a key set-up if a party
    /// lacks the key of the job, but never two in a row if the others are enough for a round.
    pub fn choose_kind(
        &mut self,
        after_key_setup: bool,
        least: usize,
        ready: Vec<ReadyParty>,
    ) -> (RoundKind, Vec<ReadyParty>, LeftOut) {
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        let has_model = |party: &&ReadyParty| !party.key_id.is_empty() && !party.lacks_model;
        for party in ready.iter().filter(has_model) {
            *counts.entry(&party.key_id).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((key, holders)) = most else {
            return (RoundKind::KeySetup, ready, Vec::new());
        };
        let enough = after_key_setup && holders >= least;
        let key = key.to_vec();
        let lacks_key = ready.iter().any(|party| party.key_id != key);
        if lacks_key && !enough {
            // With another key it may open what it could not open before.
            for party in ready.iter().filter(|party| party.key_id != key) {
                self.forget_process(&party.name);
            }
            return (RoundKind::KeySetup, ready, Vec::new());
        }
        let (holders, others): (Vec<_>, Vec<_>) = ready
            .into_iter()
            .partition(|party| party.key_id == key && !party.lacks_model);
        let mut out = Vec::new();
        for party in others {
            let reason = match party.key_id == key {
                false => "it lacks the key of the job, which it gets before a later round",
                true => "it waits for the model",
            };
            if party.key_id != key {
                // It waits for the key now.
                self.waiting.remove(&party.name);
            }
            out.push((party.name, reason));
        }
        (RoundKind::Sum, holders, out)
    }

    /// A round begins without the parties that wait for its model. A party that can open the model of none of the
    /// members is refused, since it would wait in vain: these are such parties, and what they are told.
    pub fn hopeless(&mut self, holders: &[ReadyParty]) -> Vec<(Arc<str>, pb::Refused)> {
        let version = self.version;
        let hopeless = |name: &Arc<str>| {
            let sealers = self.unopened.get(name)?;
            let all = holders.iter().all(|holder| sealers.contains(&holder.name));
            all.then(|| (name.clone(), sealers.clone()))
        };
        let hopeless: Vec<_> = self.waiting.iter().filter_map(hopeless).collect();
        let refused = |(name, sealers): (Arc<str>, BTreeSet<Arc<str>>)| {
            self.waiting.remove(&name);
            let sealers: Vec<&str> = sealers.iter().map(|sealer| &**sealer).collect();
            let reason = format!(
                "this party could not open model version {version} as it was sealed by {}, and nobody else who is \
                 ready has it; come again when others are here, or without the state folder where its key may be \
                 the wrong one",
                foreign(&sealers.join(", "))
            );
            let refusal = pb::Refused::new(RefusalCode::RefusalNoModel, reason);
            (name, refusal)
        };
        hopeless.into_iter().map(refused).collect()
    }

    /// A party needs the model, which the coordinator does not know.
    pub fn want(
        &mut self,
        context: &Context,
        members: &Connections,
        joining: Option<&Offered>,
        name: &Arc<str>,
    ) {
        let kept = self.kept.clone();
        match kept.filter(|(sealer, _)| self.may_open(name, sealer)) {
            Some((sealer, values)) => {
                let (version, bytes) = (self.version, values.len());
                self.sent.insert(name.clone(), (version, sealer));
                info!(job = %context.name, party = %name, version, bytes, "sealed model passed on");
                if let Some(member) = members.get(name) {
                    member.link.say(Say::Model { version, values });
                }
            }
            None => {
                self.waiting.insert(name.clone());
                self.ask(context, members, joining);
            }
        }
    }

    /// A party could not open the model that it was sent: it gets another one, if somebody else can seal it.
    ///
    /// # Errors
    /// Why it has to go.
    pub fn refused(
        &mut self,
        context: &Context,
        members: &Connections,
        joining: Option<&Offered>,
        name: &Arc<str>,
        version: u64,
    ) -> Result<(), String> {
        let of_version = |sent: &(u64, Arc<str>)| sent.0 == version;
        let Some((_, sealer)) = self.sent.get(name).filter(|s| of_version(s)).cloned() else {
            // guard: models-that-were-sent
            return Err("ModelRefused: this version was not sent to it".into());
        };
        self.sent.remove(name);
        // guard: who-has-refused-a-model-is-heard
        self.refusers.insert(name.clone());
        let unopened = self.unopened.entry(name.clone()).or_default();
        // guard: rubbish-is-not-passed-on
        unopened.insert(sealer.clone());
        if self.complaints.insert((name.clone(), sealer.clone())) {
            warn!(job = %context.name, party = %sealer, to = %name, version,
                "the model that it sealed was not opened");
            self.failed(sealer.clone());
        }
        self.kept.take_if(|(of, _)| *of == sealer);
        // Where there is a newer one it is asked for that.
        if version == self.version {
            self.want(context, members, joining, name);
        }
        Ok(())
    }

    /// Asks a party that has the model for it, if another party waits.
    pub fn ask(&mut self, context: &Context, members: &Connections, joining: Option<&Offered>) {
        // Whoever is ready and holds the key has the model.
        let holders = joining.into_iter().flat_map(|joining| joining.holders());
        let able = |name: &&Arc<str>| members.has(name) && self.is_useful(name);
        let failures = |name: &Arc<str>| self.failures.get(name).copied().unwrap_or(0);
        let holders = holders.filter(able).cloned();
        let Some(name) = holders.min_by_key(|name| (failures(name), name.clone())) else {
            return;
        };
        match &self.asked {
            None => {}
            // Somebody better has become ready.
            // guard: a-part-is-no-model
            Some((asked, _)) if failures(&name) < failures(asked) => {}
            Some(_) => return,
        }
        let version = self.version;
        debug!(job = %context.name, party = %name, version, "asked for the model");
        if let Some(member) = members.get(&name) {
            let frame = pb::ModelWanted { version };
            member.link.frame(frame.into());
        }
        self.asked = Some((name, None));
    }

    /// Asks another party if one has begun to send the model and does not go on. Gives the time by which the next piece
    /// must come.
    pub fn heed_sealer(
        &mut self,
        context: &Context,
        members: &Connections,
        joining: Option<&Offered>,
    ) -> Option<Time> {
        let now = context.now();
        // guard: pieces-of-a-model-in-time
        let stalls = |part: &Part| part.next_until <= now;
        let asked = &mut self.asked;
        if let Some((name, _)) = asked.take_if(|(_, part)| part.as_ref().is_some_and(stalls)) {
            warn!(job = %context.name, party = %name, "it stopped in the middle of sending the model");
            self.failed(name);
            self.ask(context, members, joining);
        }
        let (_, part) = self.asked.as_ref()?;
        part.as_ref().map(|part| part.next_until)
    }

    /// A piece of the sealed model, which has at most `limit` bytes. Gives who waits for it, once it is whole.
    ///
    /// # Errors
    /// Why the party has to go that sent it.
    pub fn piece(
        &mut self,
        context: &Context,
        limit: u64,
        name: &str,
        chunk: pb::ModelChunk,
    ) -> Result<BTreeSet<Arc<str>>, String> {
        let nobody = BTreeSet::new();
        if chunk.version != self.version {
            // A round was finished meanwhile.
            return Ok(nobody);
        }
        let asked = self.asked.take_if(|(of, _)| **of == *name);
        let failed_before = self.failures.contains_key(name);
        let Some((of, part)) = asked else {
            if failed_before {
                // It comes after all, when another one was asked.
                return Ok(nobody);
            }
            // guard: models-that-were-asked-for
            return Err("ModelChunk: the model was not asked for".into());
        };
        if part.is_none() && chunk.offset > 0 && failed_before {
            // The rest of one that it was asked for before.
            self.asked = Some((of, None));
            return Ok(nobody);
        }
        let came = part.map(|part| part.assembly);
        let piece = (chunk.offset, chunk.total, chunk.data);
        match Assembly::next(came, limit, piece) {
            Ok(Pushed::Part(assembly)) => {
                let next_until = context.now() + context.settings().chunk_timeout;
                let part = Part {
                    assembly,
                    next_until,
                };
                self.asked = Some((of, Some(part)));
                Ok(nobody)
            }
            Ok(Pushed::Whole(bytes)) => {
                self.kept = Some((of, bytes));
                Ok(std::mem::take(&mut self.waiting))
            }
            Err(error) => {
                self.failed(of);
                Err(format!("ModelChunk: {error}"))
            }
        }
    }

    /// A party has gone, or has another connection. If it was asked for the model, or asked for it, that ended with the
    /// old connection. True where somebody else has to be asked.
    pub fn forget(&mut self, name: &str) -> bool {
        self.waiting.remove(name);
        self.sent.remove(name);
        self.asked.take_if(|(of, _)| **of == *name).is_some()
    }
}
