//! The places of a round: who is still in it, who is waited for, what is owed to whom.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::roster::Member;
use blindsum_protocol::{Outcome, Outgoing, PartyId, Round, RoundKind};

use super::Lead;
use super::face::{Content, Say};
use super::owed::Owed;
use super::shelf::Shelf;
use crate::actor::Time;
use crate::report::{Bytes, RoundReport, RoundState, StageReport};
use crate::{hex, pb};

/// A round under way.
pub(crate) struct Running {
    round: Arc<Round>,
    /// Its beginning, with the certificates of all members in the order of the roster.
    start: pb::RoundStart,
    names: Vec<Arc<str>>,
    places: Vec<Place>,
    /// Who is waited for in this stage.
    missing: BTreeSet<PartyId>,
    /// How many have.
    answers: usize,
    pub report: RoundReport,
}

/// One party of the round.
#[derive(Default)]
struct Place {
    /// How many of its answers were taken.
    answers: u32,
    /// What it has not answered.
    owed: Owed,
    /// When its connection was lost.
    lost: Option<Time>,
    /// Whether it is not waited for any more.
    gone: Option<Gone>,
}

/// A party that is not waited for any more.
struct Gone {
    reason: String,
    /// Whether it was told so. Somebody whose vector may be in the sum is told what became of the round when
    /// that is known.
    told: bool,
}

/// How a party stands at the end of a round.
pub(super) enum Standing<'a> {
    /// It has answered all it was asked. Where it was asked nothing it may have missed messages.
    In(&'a Owed),
    /// It was told that the round goes on without it.
    Out,
    /// It was too late with an answer after its vector.
    Late {
        reason: &'a str,
        /// The messages that it has not answered.
        missed: &'a Owed,
    },
}

impl Running {
    pub fn new(round: Arc<Round>, model: pb::ModelName, report: RoundReport) -> Self {
        let members = round.roster().members().iter();
        let names: Vec<Arc<str>> = members.map(|m| Arc::from(m.name.as_str())).collect();
        Self {
            places: names.iter().map(|_| Place::default()).collect(),
            missing: BTreeSet::new(),
            answers: 0,
            start: complete_start(&round, model),
            round,
            names,
            report,
        }
    }

    /// The beginning of the round, with the certificates of all members.
    pub fn start(&self) -> &pb::RoundStart {
        &self.start
    }

    pub fn number(&self) -> u64 {
        self.round.number()
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

    /// Who has lost its place.
    pub fn gone(&self) -> BTreeSet<Arc<str>> {
        let places = self.names.iter().zip(&self.places);
        let gone = places.filter(|(_, place)| place.gone.is_some());
        gone.map(|(name, _)| name.clone()).collect()
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
            place.owed.clear();
        }
        self.count(party, |count| count.up += bytes as u64);
    }

    /// Whether the vectors that will be in the sum are all here.
    fn has_vectors(&self) -> bool {
        let stage = self.report.stages.len().saturating_sub(1);
        let input = self.round.plan().input_stage();
        input.is_some_and(|input| stage > usize::from(input))
    }

    /// How a party stands at the end.
    pub fn standing(&self, party: PartyId) -> Standing<'_> {
        let Some(place) = self.places.get(party.rank()) else {
            return Standing::Out;
        };
        match &place.gone {
            None => Standing::In(&place.owed),
            Some(Gone { told: true, .. }) => Standing::Out,
            Some(Gone { reason, .. }) => {
                let missed = &place.owed;
                Standing::Late { reason, missed }
            }
        }
    }

    /// A party is not waited for any more; true where it was until now and is told so now. `hears` says
    /// whether it would hear of a result.
    pub fn drop_out(&mut self, party: PartyId, reason: &str, hears: bool) -> bool {
        let told = !(hears && self.has_vectors());
        self.missing.remove(&party);
        let name = self.name(party).to_string();
        let Some(place) = self.places.get_mut(party.rank()) else {
            return false;
        };
        match &mut place.gone {
            Some(gone) => {
                let news = told && !gone.told;
                gone.told |= told;
                return news;
            }
            None => {
                let reason = reason.into();
                place.gone = Some(Gone { reason, told });
            }
        }
        if told {
            place.owed.clear();
        }
        if let Some(stage) = self.report.stages.last_mut() {
            stage.dropped.insert(name, reason.into());
        }
        told
    }

    /// The connection of a party was lost.
    pub fn lost(&mut self, name: &str, now: Time) {
        if let Some(party) = self.id(name)
            && let Some(place) = self.places.get_mut(party.rank())
        {
            place.lost.get_or_insert(now);
        }
    }

    /// Of those who are waited for: who has been lost for longer than `grace`, and when the next one
    /// will have been.
    pub fn overdue(&self, now: Time, grace: Duration) -> (Vec<PartyId>, Option<Time>) {
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

    /// The round has a result.
    pub fn finished(
        &mut self,
        outcome: &Outcome,
        total_weight: Option<u64>,
        result: &[u8],
        unix_millis: u64,
    ) {
        let survivors = outcome.survivors.iter();
        let survivors = survivors.map(|party| self.name(party).to_string());
        self.report.survivors = survivors.collect();
        for fault in &outcome.faults {
            let text = fault.to_string();
            let mut faults = self.report.faults.iter();
            if !faults.any(|known| known.ends_with(&text)) {
                self.report.faults.push(text);
            }
        }
        self.report.state = RoundState::Done;
        self.report.total_weight = total_weight;
        self.report.result = hex(result);
        self.report.seconds = self.report.elapsed(unix_millis);
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
}

/// The beginning of a round with everything that anybody may need of it.
fn complete_start(round: &Round, model: pb::ModelName) -> pb::RoundStart {
    let members = round.roster().members();
    let participant = |member: &Member| pb::Participant {
        fingerprint: crate::fingerprint(&member.certificate).to_vec(),
        nonce: member.nonce.to_vec(),
    };
    pb::RoundStart {
        round: round.number(),
        model: Some(model),
        roster: members.iter().map(participant).collect(),
        certificates: members.iter().map(|m| m.certificate.clone()).collect(),
        answers_taken: 0,
        kind: match round.kind() {
            RoundKind::Sum => pb::RoundKind::Sum,
            RoundKind::KeySetup => pb::RoundKind::KeySetup,
        }
        .into(),
    }
}

/// The beginning of a round for one connection, with the certificates that it was not sent yet.
pub(super) fn start_frame(
    complete: &pb::RoundStart,
    answers_taken: u32,
    sent: &mut HashSet<[u8; 32]>,
) -> pb::RoundStart {
    let members = complete.roster.iter().zip(&complete.certificates);
    let new = members.filter(|(participant, _)| {
        let fingerprint = <[u8; 32]>::try_from(&participant.fingerprint[..]);
        fingerprint.map_or(true, |fingerprint| sent.insert(fingerprint))
    });
    pb::RoundStart {
        round: complete.round,
        model: complete.model.clone(),
        roster: complete.roster.clone(),
        certificates: new.map(|(_, certificate)| certificate.clone()).collect(),
        answers_taken,
        kind: complete.kind,
    }
}

impl Lead {
    /// Sends the beginning of the round, or what a party that has come back missed of it.
    pub(super) fn send_start(&mut self, name: &str, answered: u32) {
        let (Some(running), Some(member)) = (&mut self.running, self.members.get_mut(name)) else {
            return;
        };
        let Some(party) = running.id(name) else {
            return;
        };
        let taken = running.places.get(party.rank()).map_or(0, |p| p.answers);
        let start = start_frame(&running.start, taken, &mut member.sent);
        member.link.frame(start.into());
        let number = running.number();
        let Some(place) = running.places.get_mut(party.rank()) else {
            return;
        };
        place.lost = None;
        place.owed.say(&member.link, number, answered);
    }

    /// Whether a party has said more in the round under way than it remembers: its records are of an earlier time, and
    /// what it would need to go on from there is not kept.
    fn is_older(&self, party: PartyId, answered: u32) -> bool {
        let running = self.running.as_ref();
        let place = running.and_then(|running| running.places.get(party.rank()));
        place.is_some_and(|place| answered.saturating_add(1) < place.answers)
    }

    /// A party connects that says it is in a round: it goes on, or hears how the round ended.
    pub(super) async fn resume(&mut self, name: &Arc<str>, hello: &pb::Hello) {
        let place = self.running.as_ref().and_then(|running| {
            let party = running.id(name)?;
            let gone = running.places.get(party.rank())?.gone.as_ref();
            let out = gone
                .filter(|gone| gone.told)
                .map(|gone| gone.reason.clone());
            Some((running.number(), party, out))
        });
        match place {
            Some((round, party, None)) if round == hello.round => {
                return match self.is_older(party, hello.answered) {
                    false => self.send_start(name, hello.answered),
                    true => {
                        let reason = "came back with an older state of the round";
                        self.drop_party(round, party, reason);
                    }
                };
            }
            Some((round, _, Some(reason))) if round == hello.round => {
                return self.tell_dropped(round, name, &reason);
            }
            Some((round, party, None)) => {
                let reason = "started again without its state of the round";
                self.leave_round(round, party, reason);
            }
            _ => {}
        }
        self.forget_hearer(name, hello.round);
        let running = self.running.as_ref().map(Running::number);
        if place.is_none() && running == Some(hello.round) {
            let reason = "the round began without this party: it was not known to be ready";
            return self.tell_dropped(hello.round, name, reason);
        }
        let joining = self.joining.as_ref().map(|joining| joining.number);
        if hello.round != 0
            && Some(hello.round) != joining
            && !self.send_end(name, hello.round, hello.answered)
        {
            self.send_past(name, hello.round).await;
        }
    }

    /// Sends what ends a stage; `shelf` has the answers to that stage which are passed on. What was passed
    /// on before is not needed any more.
    pub(super) fn deliver_all(
        &mut self,
        round: u64,
        stage: u8,
        messages: Vec<(PartyId, Outgoing)>,
        shelf: Box<dyn Shelf>,
    ) {
        let shelf: Arc<dyn Shelf> = shelf.into();
        let mut addressed = BTreeSet::new();
        for (party, outgoing) in messages {
            addressed.insert(party);
            let (message, shelf) = match outgoing.is_whole() {
                true => (Content::Here(outgoing.head), None),
                false => {
                    let kept = Content::Kept {
                        outgoing: outgoing.into(),
                        shelf: Arc::downgrade(&shelf),
                    };
                    (kept, Some(shelf.clone()))
                }
            };
            self.deliver(party, stage, message, shelf);
        }
        let Some(running) = &mut self.running else {
            return;
        };
        for party in (0..running.names.len() as u32).map(PartyId) {
            if !addressed.contains(&party) {
                self.drop_party(round, party, "left out by the protocol");
            }
        }
    }

    /// Sends a message to a member of the round, now or when it comes back.
    fn deliver(
        &mut self,
        party: PartyId,
        stage: u8,
        message: Content,
        shelf: Option<Arc<dyn Shelf>>,
    ) {
        let Some(running) = &mut self.running else {
            return;
        };
        let (round, name) = (running.number(), running.name(party).clone());
        if let Some(place) = running.places.get_mut(party.rank()) {
            place.owed.add(stage, message.clone(), shelf);
        }
        if let Some(member) = self.members.get(&name) {
            member.link.say(Say::Message {
                round,
                stage,
                content: message,
            });
        }
    }

    /// A party loses its place in the round. It is told so at once, or at the end of the round where its
    /// vector may be in the sum.
    pub(super) fn drop_party(&mut self, round: u64, party: PartyId, reason: &str) {
        self.drop_out(round, party, reason, true);
    }

    /// A party has left the round and wants to hear no more of it.
    pub(super) fn leave_round(&mut self, round: u64, party: PartyId, reason: &str) {
        self.drop_out(round, party, reason, false);
    }

    fn drop_out(&mut self, round: u64, party: PartyId, reason: &str, hears: bool) {
        let Some(running) = &mut self.running else {
            return;
        };
        let name = running.name(party).clone();
        if !running.is_gone(party) {
            self.unpublished = true;
            tracing::warn!(job = %self.name, round, party = %name, %reason, "dropped out");
        }
        if running.drop_out(party, reason, hears) {
            self.tell_dropped(round, &name, reason);
        }
    }

    /// Counts what went over a party's connection since it was last counted, for the round under way.
    pub(super) fn settle(&mut self, name: &str) {
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let traffic = &member.link.peer.traffic;
        let (up, down) = (traffic.read(), traffic.written());
        let running = self.running.as_mut();
        if let Some(running) = running.filter(|r| r.id(name).is_some()) {
            let wire = running.report.wire.entry(name.into()).or_default();
            wire.up += up - member.counted.up;
            wire.down += down - member.counted.down;
        }
        member.counted = Bytes { up, down };
    }
}
