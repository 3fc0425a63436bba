//! The places of a round: who is still in it, who is waited for, what is owed to whom.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::roster::Member;
use blindsum_protocol::{Outcome, Outgoing, PartyId, Round, RoundKind};

use super::owed::Owed;
use crate::actor::Time;
use crate::report::{Bytes, RoundReport, RoundState, StageReport};
use crate::{hex, pb};

/// A round under way.
pub(crate) struct Running {
    round: Arc<Round>,
    /// Its beginning, with the certificates of all members in the order of the roster.
    start: pb::RoundStart,
    names: Vec<Arc<str>>,
    pub(super) places: Vec<Place>,
    /// Who is waited for in this stage.
    missing: BTreeSet<PartyId>,
    /// How many have.
    answers: usize,
    pub report: RoundReport,
}

/// One party of the round.
#[derive(Default)]
pub(super) struct Place {
    /// How many of its answers were taken.
    pub answers: u32,
    /// What it has not answered.
    pub owed: Owed,
    /// When its connection was lost.
    pub lost: Option<Time>,
    /// Whether it is not waited for any more.
    pub gone: Option<Gone>,
}

/// A party that is not waited for any more.
pub(super) struct Gone {
    pub reason: String,
    /// Whether it was told so. Somebody whose vector may be in the sum is told what became of the round when
    /// that is known.
    pub told: bool,
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
