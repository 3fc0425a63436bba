//! The places in a round: who is still in it, whose answers are missing, and which messages each member has not
//! answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Culprit, Outgoing, PartyId, Round, Seat, ServerRole, Waiting};

use super::api::Who;
use super::beginning::{Beginnings, Shown, complete_start};
use super::finished::Finished;
use super::lost::{Lost, LostBy};
use super::owed::Owed;
use super::places::{Gone, Place, RoundServers};
use super::shared::Shared;
use crate::machine::Time;
use crate::orders::Terms;
use crate::report::{Bytes, RoundReport, RoundState, StageReport, void_metrics};
use crate::totals::LossCause;
use crate::{hex, pb};

/// Faults that a round's report tells.
const MAX_FAULTS: usize = 100;

/// A round under way.
pub(crate) struct Running {
    round: Arc<Round>,
    /// Its beginning, with the certificates of all members in the order of the roster.
    start: pb::RoundStart,
    /// The job's terms as it began.
    terms: Terms,
    beginnings: Beginnings,
    names: Vec<Arc<str>>,
    places: Vec<Place>,
    /// Parties that give no update to this round, by their own word.
    without_update: BTreeSet<Arc<str>>,
    pub servers: RoundServers,
    /// The stage under way.
    stage: u8,
    /// Who is waited for in it.
    missing: BTreeSet<Seat>,
    /// How many answers to it have come.
    answers: usize,
    pub report: RoundReport,
}

/// How a party stands at the end of a round.
pub(super) enum AtEnd<'a> {
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
    pub fn new(round: Arc<Round>, model: pb::ModelName, report: RoundReport, terms: Terms) -> Self {
        let members = round.roster().members().iter();
        let names: Vec<Arc<str>> = members.map(|m| Arc::from(m.name.as_str())).collect();
        Self {
            places: names.iter().map(|_| Place::default()).collect(),
            servers: RoundServers::of(&round),
            without_update: BTreeSet::new(),
            stage: 0,
            missing: BTreeSet::new(),
            answers: 0,
            start: complete_start(&round, model, terms),
            terms,
            beginnings: Beginnings::default(),
            round,
            names,
            report,
        }
    }

    /// The beginning of the round, with the certificates of all members.
    pub fn start(&self) -> &pb::RoundStart {
        &self.start
    }

    /// The beginning of the round for a connection, of which the stages before this one were answered.
    pub fn beginning_for(&mut self, answers_taken: u32, shown: &mut Shown) -> Arc<Shared> {
        self.beginnings.start(&self.start, answers_taken, shown)
    }

    /// Seconds for the answers to a stage.
    pub fn deadline(&self, stage: u8) -> f64 {
        self.terms.deadline(self.round.plan().answer(stage))
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

    /// Everybody, and who may answer in a stage: it has a place, and the plan lets it speak.
    pub fn members(&self, stage: u8) -> BTreeMap<Who, bool> {
        let plan = self.round.plan();
        let speaks = |seat: Seat| plan.allows_answer(seat, stage, Some(0)) && !self.is_gone(seat);
        let parties = self.names.iter().zip((0..).map(PartyId));
        let parties = parties.map(|(name, id)| (Who::Party(name.clone()), speaks(id.into())));
        let servers = self.servers.roles();
        let servers = servers.map(|role| (Who::Server(role), speaks(role.into())));
        parties.chain(servers).collect()
    }

    pub fn place(&self, seat: Seat) -> Option<&Place> {
        match seat {
            Seat::Party(party) => self.places.get(party.rank()),
            Seat::Server(role) => self.servers.place(role),
        }
    }

    pub fn place_mut(&mut self, seat: Seat) -> Option<&mut Place> {
        match seat {
            Seat::Party(party) => self.places.get_mut(party.rank()),
            Seat::Server(role) => self.servers.place_mut(role),
        }
    }

    /// What reports call somebody.
    pub fn label(&self, seat: Seat) -> String {
        match seat {
            Seat::Party(party) => self.name(party).to_string(),
            Seat::Server(role) => role.to_string(),
        }
    }

    /// What people are told of a fault, or of its kind.
    pub fn told(&self, fault: &impl Display) -> String {
        self.round.in_words(fault)
    }

    /// Something that a member did wrong, for the report; said once, and not without end.
    pub fn add_fault(&mut self, text: String) {
        let faults = &mut self.report.faults;
        if faults.len() < MAX_FAULTS && !faults.contains(&text) {
            faults.push(text);
        }
    }

    /// The parties that have lost their place, without those that gave it up.
    pub fn gone(&self) -> BTreeSet<Arc<str>> {
        let lost = self.losses().map(|(name, _)| name);
        let lost = lost.filter(|name| !self.gave_no_update(name));
        lost.cloned().collect()
    }

    /// A party gives no update to this round: it sits out, or its program refused what it was to give.
    pub fn gives_no_update(&mut self, name: &Arc<str>) {
        self.without_update.insert(name.clone());
    }

    /// Whether a party has said that it gives no update to this round.
    pub fn gave_no_update(&self, name: &str) -> bool {
        self.without_update.contains(name)
    }

    /// Who has left the round, and why.
    pub fn losses(&self) -> impl Iterator<Item = (&Arc<str>, &str)> {
        let places = self.names.iter().zip(&self.places);
        places.filter_map(|(name, place)| Some((name, &*place.gone.as_ref()?.reason)))
    }

    pub fn is_gone(&self, seat: impl Into<Seat>) -> bool {
        let place = self.place(seat.into());
        place.is_none_or(|place| place.gone.is_some())
    }

    /// Whether a party is still in the round.
    pub fn has_place(&self, name: &str) -> bool {
        self.id(name).is_some_and(|id| !self.is_gone(id))
    }

    /// Whether a party has said more than it remembers: its records are of an earlier time, and what it would need to go on
    /// from there is not kept.
    pub fn is_older(&self, party: PartyId, answered: u32) -> bool {
        let place = self.place(party.into());
        place.is_some_and(|place| answered.saturating_add(1) < place.answers)
    }

    /// A stage begins; those who left the round earlier are not waited for.
    pub fn begin_stage(&mut self, waiting: &Waiting, began_ms: u64) {
        let parties = waiting.missing.iter().copied().map(Seat::from);
        let servers = waiting.servers.iter().copied().map(Seat::from);
        let missing = parties.chain(servers);
        self.missing = missing.filter(|seat| !self.is_gone(*seat)).collect();
        (self.stage, self.answers) = (waiting.stage, 0);
        self.report.stages.push(StageReport {
            name: waiting.name.into(),
            seconds: 0.0,
            required: waiting.required,
            bytes: BTreeMap::new(),
            dropped: BTreeMap::new(),
            causes: BTreeMap::new(),
            began_ms,
        });
    }

    /// The name of the stage under way.
    pub fn stage_name(&self) -> &'static str {
        let step = self.round.plan().answer(self.stage);
        step.map_or("", |step| step.name)
    }

    /// How many answers to the stage under way have come, and how many it needs.
    pub fn answers(&self) -> (usize, usize) {
        let stage = self.report.stages.last();
        (self.answers, stage.map_or(0, |stage| stage.required))
    }

    /// Whether there is nothing to wait for: nobody is missing and nothing is `computing`, or so many have left the round
    /// that there cannot be enough answers any more.
    pub fn is_settled(&self, computing: bool) -> bool {
        let (answers, required) = self.answers();
        let all_answered = self.missing.is_empty() && !computing;
        // guard: too-few-cannot-succeed
        all_answered || answers + self.missing.len() < required
    }

    pub fn waiting_for(&self) -> Vec<String> {
        self.missing.iter().map(|seat| self.label(*seat)).collect()
    }

    /// An answer to the stage under way counts.
    pub fn answered(&mut self, seat: Seat, bytes: usize) {
        self.missing.remove(&seat);
        self.answers += 1;
        let answers = u32::from(self.stage) + 1;
        if let Some(place) = self.place_mut(seat) {
            place.answers = answers;
            place.owed.clear();
        }
        self.count(seat, |count| count.up += bytes as u64);
    }

    /// Whether this party's vector was taken, also in the stage under way.
    fn has_vector(&self, party: PartyId) -> bool {
        let input = self.round.plan().input_stage_of(party);
        let answers = self.place(party.into()).map_or(0, |place| place.answers);
        input.is_some_and(|input| answers > input.into())
    }

    /// How a party stands at the end.
    pub fn standing(&self, party: PartyId) -> AtEnd<'_> {
        let Some(place) = self.places.get(party.rank()) else {
            return AtEnd::Out;
        };
        match &place.gone {
            None => AtEnd::In(&place.owed),
            Some(Gone { told: true, .. }) => AtEnd::Out,
            Some(Gone { reason, .. }) => {
                let missed = &place.owed;
                AtEnd::Late { reason, missed }
            }
        }
    }

    /// A party is not waited for any more; true where it was until now and is told so now. `hears` says
    /// whether it would hear of a result.
    pub fn drop_out(&mut self, party: PartyId, why: (LossCause, &str), hears: bool) -> bool {
        let (cause, reason) = why;
        let may_count = self.has_vector(party);
        // guard: survivors-are-not-sent-away-early, campaign-who-counts-hears-the-end
        let told = !(hears && may_count);
        self.missing.remove(&party.into());
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
                place.gone = Some(Gone {
                    reason: reason.into(),
                    told,
                    may_count,
                });
            }
        }
        if told {
            place.owed.clear();
        }
        if let Some(stage) = self.report.stages.last_mut() {
            stage.causes.insert(name.clone(), cause);
            stage.dropped.insert(name, reason.into());
        }
        told
    }

    /// Another server is not waited for any more.
    pub fn drop_server(&mut self, role: ServerRole, cause: LossCause, reason: &str) {
        self.missing.remove(&role.into());
        if let Some(place) = self.servers.place_mut(role) {
            place.gone = Some(Gone {
                reason: reason.into(),
                told: true,
                may_count: false,
            });
        }
        if let Some(stage) = self.report.stages.last_mut() {
            stage.causes.insert(role.to_string(), cause);
            stage.dropped.insert(role.to_string(), reason.into());
        }
    }

    /// The connection of a party was lost.
    pub fn lost(&mut self, name: &str, now: Time) {
        if let Some(party) = self.id(name) {
            self.lost_seat(party.into(), now);
        }
    }

    /// A connection was lost.
    pub fn lost_seat(&mut self, seat: Seat, now: Time) {
        if let Some(place) = self.place_mut(seat) {
            place.lost.get_or_insert(Lost::new(now, LostBy::Cut));
        }
    }

    /// A party is not waited for any more: its lease has run out, or it has left the job.
    pub fn failed(&mut self, name: &str, lost: Lost) {
        let party = self.id(name);
        if let Some(place) = party.and_then(|party| self.place_mut(party.into())) {
            place.lost = Some(lost);
        }
    }

    /// How many parties have not left the round.
    pub fn left(&self) -> usize {
        let here = self.places.iter().filter(|place| place.gone.is_none());
        here.count()
    }

    /// Who is waited for in vain. Servers that talk wait for each other: where nobody else is missing it is those that have
    /// said the least.
    pub fn silent(&self) -> Vec<Seat> {
        let said = |seat: &Seat| match seat {
            Seat::Server(role) => Some(self.servers.letters(*role)),
            Seat::Party(_) => None,
        };
        let missing = self.missing.iter().copied();
        match self.missing.iter().map(said).min().flatten() {
            Some(least) => missing.filter(|seat| said(seat) == Some(least)).collect(),
            None => missing.collect(),
        }
    }

    /// Of those who are waited for, and of servers that will be: who has failed, or been lost for longer than `grace`, and
    /// why; and when the next one will have been.
    pub fn overdue(&self, now: Time, grace: Duration) -> (Vec<(Seat, Lost)>, Option<Time>) {
        let lost = |seat: Seat| Some((seat, self.place(seat)?.lost?));
        let servers = self
            .servers
            .needed()
            .filter(|(_, place)| place.gone.is_none());
        let servers = servers.map(|(role, _)| Seat::Server(*role));
        let awaited: BTreeSet<Seat> = self.missing.iter().copied().chain(servers).collect();
        let (over, coming): (Vec<_>, Vec<_>) = awaited
            .into_iter()
            .filter_map(lost)
            .partition(|(_, lost)| lost.until(grace) <= now);
        let coming = coming.into_iter().map(|(_, lost)| lost.until(grace));
        (over, coming.min())
    }

    /// The round has a result.
    pub fn finished(
        &mut self,
        Finished {
            outcome,
            total_weight,
            metrics,
            result,
            ..
        }: &Finished,
        unix_millis: u64,
    ) {
        let survivors = outcome.survivors.iter();
        let survivors = survivors.map(|party| self.name(party).to_string());
        // guard: campaign-who-counts-is-in-the-sum
        self.report.survivors = survivors.collect();
        // Those of parties are in the report already (`found_out`).
        let others = outcome.faults.iter();
        for fault in others.filter(|fault| !matches!(fault.culprit, Culprit::Party(_))) {
            self.add_fault(self.told(fault));
        }
        // guard: a-void-metric-is-named
        self.report.faults.extend(void_metrics(metrics));
        self.report.state = RoundState::Done;
        self.report.total_weight = *total_weight;
        self.report.metrics.clone_from(metrics);
        self.report.result = hex(result);
        self.report.seconds = self.report.elapsed(unix_millis);
    }

    /// Counts what is about to be sent.
    pub fn count_down(&mut self, messages: &[(Seat, Outgoing)]) {
        for (seat, message) in messages {
            self.count(*seat, |count| count.down += message.len() as u64);
        }
    }

    fn count(&mut self, seat: Seat, add: impl FnOnce(&mut Bytes)) {
        let name = self.label(seat);
        if let Some(stage) = self.report.stages.last_mut() {
            add(stage.bytes.entry(name).or_default());
        }
    }
}
