//! The places of a round: who is still in it, who is waited for, what is owed to whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Outgoing, PartyId, Round, RoundKind};
use tokio::time::Instant;

use super::job::JobTask;
use crate::outbox::{Content, Queued};
use crate::pb;
use crate::relay::{Relayed, Spool};
use crate::report::{Bytes, RoundReport, StageReport};

/// A round under way, or one that has just ended and whose result somebody may still need.
pub(crate) struct Running {
    round: Arc<Round>,
    model: pb::ModelName,
    names: Vec<Arc<str>>,
    places: Vec<Place>,
    /// Who is waited for in this stage.
    missing: BTreeSet<PartyId>,
    /// How many have.
    answers: usize,
    pub report: RoundReport,
    done: Option<pb::RoundDone>,
    /// The answers to the stage before, pieces of which are being passed on.
    relayed: Option<Arc<Spool>>,
}

/// One party of the round.
#[derive(Default)]
struct Place {
    /// How many of its answers were taken.
    answers: u32,
    /// The latest message to it.
    owed: Option<(u8, Content)>,
    /// When its connection was lost.
    lost: Option<Instant>,
    /// Why it is not in the round any more.
    gone: Option<String>,
}

impl Running {
    pub fn new(round: Arc<Round>, model: pb::ModelName, report: RoundReport) -> Self {
        let members = round.roster().members().iter();
        let names: Vec<Arc<str>> = members.map(|m| Arc::from(m.name.as_str())).collect();
        Self {
            places: names.iter().map(|_| Place::default()).collect(),
            missing: BTreeSet::new(),
            answers: 0,
            done: None,
            relayed: None,
            round,
            model,
            names,
            report,
        }
    }

    pub fn number(&self) -> u64 {
        self.round.number()
    }

    /// The end that was told, where the round has a result.
    pub fn done(&self) -> Option<&pb::RoundDone> {
        self.done.as_ref()
    }

    pub fn set_done(&mut self, done: pb::RoundDone) {
        self.done = Some(done);
    }

    pub fn id(&self, name: &str) -> Option<PartyId> {
        self.round.roster().rank_of(name).map(PartyId)
    }

    pub fn name(&self, party: PartyId) -> &Arc<str> {
        static NOBODY: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "".into());
        self.names.get(party.rank()).unwrap_or(&NOBODY)
    }

    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Everybody, and who still has a place.
    pub fn members(&self) -> BTreeMap<Arc<str>, bool> {
        let places = self.places.iter().map(|place| place.gone.is_none());
        self.names.iter().cloned().zip(places).collect()
    }

    pub fn is_gone(&self, party: PartyId) -> bool {
        let place = self.places.get(party.rank());
        place.is_none_or(|place| place.gone.is_some())
    }

    /// A stage begins; those who left the round earlier are not waited for.
    pub fn begin_stage(&mut self, name: &str, required: usize, missing: Vec<PartyId>) {
        self.missing = missing
            .into_iter()
            .filter(|party| !self.is_gone(*party))
            .collect();
        self.answers = 0;
        self.report.stages.push(StageReport {
            name: name.into(),
            seconds: 0.0,
            required,
            bytes: BTreeMap::new(),
            dropped: BTreeMap::new(),
        });
    }

    pub fn missing(&self) -> Vec<PartyId> {
        self.missing.iter().copied().collect()
    }

    /// Whether there is nothing to wait for: nobody is missing, or so many have left the round that there
    /// cannot be enough answers any more.
    pub fn is_settled(&self) -> bool {
        let required = self.report.stages.last().map_or(0, |stage| stage.required);
        self.missing.is_empty() || self.answers + self.missing.len() < required
    }

    pub fn waiting_for(&self) -> Vec<String> {
        let names = self.missing.iter().map(|party| self.name(*party));
        names.map(|name| name.to_string()).collect()
    }

    /// An answer counts.
    pub fn answered(&mut self, party: PartyId, bytes: usize) {
        self.missing.remove(&party);
        self.answers += 1;
        if let Some(place) = self.places.get_mut(party.rank()) {
            place.answers += 1;
        }
        self.count(party, |count| count.up += bytes as u64);
    }

    /// A party has no part in the round any more; true where it had one.
    pub fn drop_out(&mut self, party: PartyId, reason: &str) -> bool {
        self.missing.remove(&party);
        let name = self.name(party).to_string();
        let Some(place) = self.places.get_mut(party.rank()) else {
            return false;
        };
        if place.gone.is_some() {
            return false;
        }
        place.gone = Some(reason.into());
        place.owed = None;
        if let Some(stage) = self.report.stages.last_mut() {
            stage.dropped.insert(name, reason.into());
        }
        true
    }

    /// The connection of a party was lost.
    pub fn lost(&mut self, name: &str) {
        if let Some(party) = self.id(name)
            && let Some(place) = self.places.get_mut(party.rank())
        {
            place.lost.get_or_insert(Instant::now());
        }
    }

    /// Of those who are waited for: who has been lost for longer than `grace`, and when the next one
    /// will have been.
    pub fn overdue(&self, grace: Duration) -> (Vec<PartyId>, Option<Instant>) {
        let now = Instant::now();
        let lost = |party: &PartyId| {
            let place = self.places.get(party.rank())?;
            Some((*party, place.lost? + grace))
        };
        let (over, coming): (Vec<_>, Vec<_>) = self
            .missing
            .iter()
            .filter_map(lost)
            .partition(|(_, until)| *until <= now);
        (
            over.into_iter().map(|(party, _)| party).collect(),
            coming.into_iter().map(|(_, until)| until).min(),
        )
    }

    /// Counts what is about to be sent.
    pub fn count_down(&mut self, messages: &[(PartyId, Outgoing)]) {
        for (party, message) in messages {
            self.count(*party, |count| count.down += message.len() as u64);
        }
    }

    fn count(&mut self, party: PartyId, add: impl FnOnce(&mut Bytes)) {
        let name = self.name(party).to_string();
        if let Some(stage) = self.report.stages.last_mut() {
            add(stage.bytes.entry(name).or_default());
        }
    }

    fn start_frame(
        &self,
        party: PartyId,
        sent: &mut std::collections::HashSet<[u8; 32]>,
    ) -> pb::RoundStart {
        let mut certificates = Vec::new();
        let roster = self.round.roster().members().iter().map(|member| {
            let fingerprint = crate::fingerprint(&member.certificate);
            if sent.insert(fingerprint) {
                certificates.push(member.certificate.clone());
            }
            pb::Participant {
                fingerprint: fingerprint.to_vec(),
                nonce: member.nonce.to_vec(),
            }
        });
        let roster = roster.collect();
        pb::RoundStart {
            round: self.number(),
            model: Some(self.model.clone()),
            roster,
            certificates,
            answers_taken: self
                .places
                .get(party.rank())
                .map_or(0, |place| place.answers),
            kind: match self.round.kind() {
                RoundKind::Sum => pb::RoundKind::Sum,
                RoundKind::KeySetup => pb::RoundKind::KeySetup,
            }
            .into(),
        }
    }
}

impl JobTask {
    /// Sends the beginning of the round, or what a party that has come back missed of it.
    pub(super) fn send_start(&mut self, name: &str, answered: u32) {
        let (Some(running), Some(member)) = (&mut self.running, self.members.get_mut(name)) else {
            return;
        };
        let Some(party) = running.id(name) else {
            return;
        };
        let start = running.start_frame(party, &mut member.sent);
        member.session.outbox.frame(start.into());
        let number = running.number();
        let Some(place) = running.places.get_mut(party.rank()) else {
            return;
        };
        place.lost = None;
        if let Some((stage, message)) = &place.owed
            && u32::from(*stage) >= answered
        {
            member.session.outbox.put(Queued::Message {
                round: number,
                stage: *stage,
                message: message.clone(),
            });
        }
        if let Some(done) = &running.done {
            member.session.outbox.frame(done.clone().into());
        }
    }

    /// A party connects that says it is in a round: it goes on, or hears how the round ended.
    pub(super) fn resume(&mut self, name: &Arc<str>, hello: &pb::Hello) {
        let place = self.running.as_ref().and_then(|running| {
            let party = running.id(name)?;
            let gone = running.places.get(party.rank())?.gone.clone();
            Some((running.number(), party, gone, running.done.is_some()))
        });
        match place {
            Some((round, _, None, _)) if round == hello.round => {
                self.send_start(name, hello.answered);
                return;
            }
            Some((round, _, Some(reason), _)) if round == hello.round => {
                self.tell_dropped(round, name, &reason);
                return;
            }
            Some((round, party, None, false)) => {
                let reason = "started again without its state of the round";
                self.drop_party(round, party, reason);
            }
            _ => {}
        }
        let joining = self.joining.as_ref().map(|joining| joining.number);
        if hello.round != 0 && Some(hello.round) != joining {
            let known = self.aborted.get(&hello.round).cloned();
            let reason = known.unwrap_or_else(|| "it is over".into());
            if let Some(member) = self.members.get(name) {
                let frame = pb::RoundAborted {
                    round: hello.round,
                    only_you: false,
                    reason,
                };
                member.session.outbox.frame(frame.into());
            }
        }
    }

    /// Sends what ends a stage; `spool` has the answers to that stage which are passed on. What was passed
    /// on before is not needed any more.
    pub(super) fn deliver_all(
        &mut self,
        round: u64,
        stage: u8,
        messages: Vec<(PartyId, Outgoing)>,
        spool: Spool,
    ) {
        let spool = Arc::new(spool);
        let mut addressed = BTreeSet::new();
        for (party, outgoing) in messages {
            addressed.insert(party);
            let message = match outgoing.is_whole() {
                true => Content::Here(outgoing.head),
                false => {
                    let failed = self.unreadable.0.clone();
                    Content::Relayed(Relayed::new(outgoing, &spool, round, failed))
                }
            };
            self.deliver(party, stage, message);
        }
        let Some(running) = &mut self.running else {
            return;
        };
        running.relayed = Some(spool);
        for party in (0..running.names.len() as u32).map(PartyId) {
            if !addressed.contains(&party) {
                self.drop_party(round, party, "left out by the protocol");
            }
        }
    }

    /// Sends a message to a member of the round, now or when it comes back.
    fn deliver(&mut self, party: PartyId, stage: u8, message: Content) {
        let Some(running) = &mut self.running else {
            return;
        };
        let (round, name) = (running.number(), running.name(party).clone());
        if let Some(place) = running.places.get_mut(party.rank()) {
            place.owed = Some((stage, message.clone()));
        }
        if let Some(member) = self.members.get(&name) {
            member.session.outbox.put(Queued::Message {
                round,
                stage,
                message,
            });
        }
    }

    /// A party loses its place in the round and is told.
    pub(super) fn drop_party(&mut self, round: u64, party: PartyId, reason: &str) {
        let Some(running) = &mut self.running else {
            return;
        };
        let name = running.name(party).clone();
        if running.drop_out(party, reason) {
            self.unpublished = true;
            tracing::warn!(job = %self.name, round, party = %name, %reason, "dropped out");
            self.tell_dropped(round, &name, reason);
        }
    }

    /// Counts what went over a party's connection since it was last counted, for the round under way.
    pub(super) fn settle(&mut self, name: &str) {
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let traffic = &member.session.peer.traffic;
        let (up, down) = (traffic.read(), traffic.written());
        let running = self.running.as_mut();
        if let Some(running) = running.filter(|r| r.done.is_none() && r.id(name).is_some()) {
            let wire = running.report.wire.entry(name.into()).or_default();
            wire.up += up - member.counted.up;
            wire.down += down - member.counted.down;
        }
        member.counted = Bytes { up, down };
    }
}
