//! The servers beside the coordinator: what parties give them, what servers say to each other, and what that costs.
//!
//! Their lines lose and repeat nothing. What servers say at the same moment is one round: it takes as long as the slowest
//! of its letters.

use std::collections::BTreeMap;
use std::time::Duration;

use blindsum_protocol::{
    Fault, Follower, Message, PartyId, Round, Seat as Place, Server, ServerIndex, ServerRole,
};
use rand_chacha::ChaCha20Rng;

use super::Drive;
use crate::SimError;
use crate::agenda::Time;
use crate::relay::Parcel;
use crate::report::ServerCost;
use crate::seeds::stream;
use crate::turn::{Parts, planned};

/// The coordinator's place among servers that compute together.
const COORDINATOR: ServerIndex = ServerIndex::ALL[0];

/// What the servers beside the coordinator are, and what is on its way between servers.
pub(super) struct Servers {
    followers: BTreeMap<ServerRole, Follower>,
    /// What the coordinator handled, its work aside.
    pub(super) coordinator: ServerCost,
    costs: BTreeMap<ServerRole, ServerCost>,
    /// Letters that they said and nobody has heard yet: by whom, to whom.
    said: Vec<(ServerIndex, ServerIndex, Message)>,
    /// Their answers to the stage under way, on their way to the coordinator.
    answers: Vec<(ServerRole, Message)>,
    /// Why one of them has no further part in the round.
    fault: Option<Fault>,
    /// When the latest of what they said arrives.
    now: Time,
    /// Of their lines.
    rng: ChaCha20Rng,
}

impl Servers {
    pub(super) fn new(round: &Round, seed: u64) -> Self {
        Self {
            followers: BTreeMap::new(),
            coordinator: ServerCost::default(),
            costs: BTreeMap::new(),
            said: Vec::new(),
            answers: Vec::new(),
            fault: None,
            now: 0,
            rng: stream("servers' network", &[seed, round.number()]),
        }
    }

    pub(super) fn add(&mut self, role: ServerRole, follower: Follower) {
        self.followers.insert(role, follower);
    }

    /// What each of them handled, by its name, the coordinator first; nothing where it is alone.
    pub(super) fn costs(&self, work: Duration) -> Vec<(&'static str, ServerCost)> {
        let of = |role: &ServerRole| self.costs.get(role).copied().unwrap_or_default();
        let followers = self.followers.keys().map(|role| (role.as_str(), of(role)));
        let coordinator = ServerCost {
            work,
            ..self.coordinator
        };
        match self.followers.is_empty() {
            true => Vec::new(),
            false => [("coordinator", coordinator)]
                .into_iter()
                .chain(followers)
                .collect(),
        }
    }

    /// A stage begins at this moment.
    pub(super) fn open(&mut self, now: Time) {
        self.now = now;
    }

    fn cost(&mut self, role: ServerRole) -> &mut ServerCost {
        self.costs.entry(role).or_default()
    }

    /// The costs of a server by its place.
    fn cost_at(&mut self, place: ServerIndex) -> &mut ServerCost {
        match ServerRole::at(place) {
            Some(role) => self.cost(role),
            None => &mut self.coordinator,
        }
    }
}

/// How a party gives the servers beside the coordinator their parts of its answer, which it does before it answers.
#[derive(Debug, Default)]
pub(super) struct Giving {
    /// Who takes one, how often it was sent, and how many copies arrive.
    taken: Vec<(ServerRole, u64, usize)>,
    /// Whether all of them take theirs, so that the party goes on to the coordinator.
    pub(super) complete: bool,
    /// When the party knows it.
    pub(super) until: Time,
}

impl Giving {
    /// The parts that are taken.
    pub(super) fn keep(&self, parts: &mut Parts) {
        parts.retain(|(role, _)| self.taken.iter().any(|(taker, ..)| taker == role));
    }

    /// Bytes that the party sends.
    pub(super) fn bytes(&self, parts: &Parts) -> u64 {
        let of = |(role, attempts, _): &(ServerRole, u64, usize)| {
            let part = parts.iter().find(|(taker, _)| taker == role);
            part.map_or(0, |(_, part)| attempts * part.len() as u64)
        };
        self.taken.iter().map(of).sum()
    }

    /// How many copies of its part a server gets.
    fn copies(&self, role: ServerRole) -> usize {
        let taken = self.taken.iter().find(|(taker, ..)| *taker == role);
        taken.map_or(0, |(_, _, copies)| *copies)
    }
}

impl Drive<'_> {
    /// A party begins to give its parts; those that are lost until the deadline are not taken.
    pub(super) fn give(&mut self, from: PartyId, stage: u8, sent: Time) -> Giving {
        let most = self.script.uploads(from, stage);
        let mut giving = Giving {
            taken: Vec::new(),
            complete: most.is_none(),
            until: sent,
        };
        let round = &self.setting.round;
        if round.plan().input_stage_of(from) != Some(stage) {
            return giving;
        }
        let takers = round.servers().filter(|role| role.place().is_some());
        for role in takers.take(most.unwrap_or(usize::MAX)) {
            let rng = &mut self.network_rng;
            let transmission = self.network.transmit(rng, sent, self.deadline);
            let Some(first) = transmission.arrivals.iter().min() else {
                giving.complete = false;
                continue;
            };
            let copies = transmission.arrivals.len();
            giving.taken.push((role, transmission.attempts, copies));
            giving.until = giving.until.max(first + self.network.lossless_way(rng));
        }
        giving
    }

    /// The parts of an answer reach those who take them.
    pub(super) fn deliver_parts(&mut self, from: PartyId, parts: &Parts, giving: &Giving) {
        for (role, part) in parts {
            for _ in 0..giving.copies(*role) {
                let Some(follower) = self.servers.followers.get_mut(role) else {
                    continue;
                };
                let clock = self.workers.server_clock();
                let (taken, work) = clock.measure(|| follower.take_upload(from, part));
                let cost = self.servers.cost(*role);
                cost.work += work;
                cost.received += part.len() as u64;
                if let Err(fault) = taken {
                    self.hooks.refused(self.stage, &fault);
                    self.refused.push(fault);
                }
            }
        }
    }

    /// Servers tell each other of the uploads that they took. That is no round: nobody waits for it.
    pub(super) fn tell_of_uploads(&mut self, server: &mut Server) -> Result<(), SimError> {
        let mut told = Vec::new();
        let mut say = |from, notices: Vec<(ServerIndex, Message)>| {
            told.extend(notices.into_iter().map(|(to, notice)| (from, to, notice)));
        };
        say(COORDINATOR, server.notices());
        for (role, follower) in &mut self.servers.followers {
            if let Some(place) = role.place() {
                say(place, follower.notices());
            }
        }
        for (from, to, notice) in told {
            self.servers.cost_at(from).sent += notice.len() as u64;
            self.hand_over(server, from, to, &notice)?;
        }
        Ok(())
    }

    /// A server that is not the coordinator hears it, and answers or begins to talk with the others.
    pub(super) fn tell_server(&mut self, role: ServerRole, parcel: Parcel) -> Result<(), SimError> {
        let stage = self.stage.saturating_sub(1);
        let message = parcel.open().map_err(SimError::Spool)?;
        let to = Place::Server(role);
        let message = message.ok_or(SimError::Relay { to, stage })?;
        self.check_reply(to, stage, Some(message.len()))?;
        self.servers.coordinator.sent += message.len() as u64;
        self.servers.cost(role).received += message.len() as u64;
        let arrives = self.agenda.time() + self.network.lossless_way(&mut self.servers.rng);
        self.servers.now = self.servers.now.max(arrives);
        let Some(follower) = self.servers.followers.get_mut(&role) else {
            return Ok(());
        };
        let (rng, clock) = (&mut self.server_rng, self.workers.server_clock());
        let (answer, work) = clock.measure(|| follower.answer(&message, rng));
        self.servers.cost(role).work += work;
        self.heard(role, answer)
    }

    /// What became of what a server heard: it answers the coordinator, writes letters, or meets a fault.
    fn heard(
        &mut self,
        role: ServerRole,
        answer: Result<Option<Message>, Fault>,
    ) -> Result<(), SimError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                self.servers.fault.get_or_insert(fault);
                return Ok(());
            }
        };
        let servers = &mut self.servers;
        let follower = servers.followers.get_mut(&role);
        let letters = follower.map_or_else(Vec::new, Follower::letters);
        let (plan, stage) = (self.setting.round.plan(), self.stage);
        let length = answer.as_ref().map(|answer| answer.len());
        // As long as it computes with the others it owes the coordinator nothing.
        let computes = length.is_none() && role.place().is_some();
        let allowed = computes || plan.allows_answer(role, stage, length);
        planned(role, allowed, plan.answer(stage), stage, length)?;
        servers.answers.extend(answer.map(|answer| (role, answer)));
        let from = role.place();
        let letters = letters.into_iter();
        let said = letters.filter_map(|(to, letter)| Some((from?, to, letter)));
        servers.said.extend(said);
        Ok(())
    }

    /// Servers that compute together talk until they have nothing more to say, or until the deadline; then the others
    /// answer the coordinator. Gives the fault of a server, which costs the round.
    pub(super) fn compute(&mut self, server: &mut Server) -> Result<Option<Fault>, SimError> {
        loop {
            let letters = server.letters().into_iter();
            let said = letters.map(|(to, letter)| (COORDINATOR, to, letter));
            self.servers.said.extend(said);
            let letters = std::mem::take(&mut self.servers.said);
            if letters.is_empty() || !self.carry(letters.len()) {
                break;
            }
            self.count_round(&letters);
            for (from, to, letter) in letters {
                self.hand_over(server, from, to, &letter)?;
            }
            if let Some(fault) = self.servers.fault.take() {
                self.agenda.passes(self.servers.now);
                return Ok(Some(fault));
            }
        }
        let answers = std::mem::take(&mut self.servers.answers);
        if !answers.is_empty() && self.carry(answers.len()) {
            for (role, answer) in answers {
                self.servers.cost(role).sent += answer.len() as u64;
                self.servers.coordinator.received += answer.len() as u64;
                match self.serve(|_| server.receive(role, &answer)) {
                    Ok(_) => self.silent = self.silent.saturating_sub(1),
                    Err(fault) => self.refused.push(fault),
                }
            }
            self.tell()?;
        }
        self.agenda.passes(self.servers.now);
        Ok(self.servers.fault.take())
    }

    /// So many messages are on their way that servers say at the same moment. False if one of them comes after the
    /// deadline.
    fn carry(&mut self, messages: usize) -> bool {
        let rng = &mut self.servers.rng;
        let slowest = (0..messages).map(|_| self.network.lossless_way(rng)).max();
        let arrives = self.servers.now.saturating_add(slowest.unwrap_or(0));
        self.servers.now = arrives.min(self.deadline);
        arrives <= self.deadline
    }

    /// Counts letters that are said at the same moment.
    fn count_round(&mut self, letters: &[(ServerIndex, ServerIndex, Message)]) {
        for place in ServerIndex::ALL {
            let own = letters.iter().filter(|(from, ..)| *from == place);
            let sent: u64 = own.map(|(_, _, letter)| letter.len() as u64).sum();
            let cost = self.servers.cost_at(place);
            cost.sent += sent;
            cost.rounds += u64::from(sent > 0);
        }
    }

    /// One server hears another one.
    fn hand_over(
        &mut self,
        server: &mut Server,
        from: ServerIndex,
        to: ServerIndex,
        letter: &Message,
    ) -> Result<(), SimError> {
        self.servers.cost_at(to).received += letter.len() as u64;
        let Some(role) = ServerRole::at(to) else {
            if let Err(fault) = self.serve(|_| server.receive_letter(from, letter)) {
                self.servers.fault.get_or_insert(fault);
            }
            return Ok(());
        };
        let Some(follower) = self.servers.followers.get_mut(&role) else {
            return Ok(());
        };
        let clock = self.workers.server_clock();
        let (answer, work) = clock.measure(|| follower.receive_letter(from, letter));
        self.servers.cost(role).work += work;
        self.heard(role, answer)
    }
}
