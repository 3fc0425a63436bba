//! One round, stage by stage, in virtual time.
//!
//! A party's vector is made when it reaches the server, and freed when the server has added it, so a round of many
//! parties holds only a few vectors at a time. If messages are repeated or delayed, the copies on their way keep their
//! vectors.

mod arrivals;
mod letters;
mod parties;
mod post;
mod servers;

use std::time::Duration;

use blindsum_math::words::Words;
use blindsum_protocol::{
    Closed, Fault, Follower, FollowerSetup, Message, Outcome, PartyId, Server,
};
use rand_chacha::ChaCha20Rng;

use crate::agenda::{Agenda, Time};
use crate::liars::liar_of;
use crate::network::{Network, time};
use crate::progress::{Progress, ProgressFn, look};
use crate::relay::{Kept, Parcel};
use crate::report::{Cost, Excluded, RESULT, ServerCost};
use crate::scenario::Script;
use crate::seeds::stream;
use crate::turn::{Parts, Seat, Setting, Turn};
use crate::workers::Workers;
use crate::{Hooks, Scratch, SimError};

use servers::{Giving, Servers};

/// Bytes of vectors that are made ahead of the server at most, where that is more than one per thread.
const AHEAD: usize = 4 << 20;

/// Something that happens at a moment of virtual time.
enum Arrival {
    /// A party's turn: at the start of the round, or when a message of the server reaches it.
    AtClient { to: PartyId, turn: Turn },
    /// A copy of an answer reaches the server.
    AtServer { letter: usize },
}

/// An answer on its way to the server, with all its copies.
struct Letter {
    from: PartyId,
    stage: u8,
    content: Content,
    /// How the other servers get their parts of it before.
    giving: Giving,
    /// How often it was sent.
    attempts: u64,
    /// Copies still on their way.
    copies: usize,
    /// Whether the server has it.
    taken: bool,
}

/// What a letter says.
enum Content {
    /// Nothing yet: the party's turn comes when the letter arrives.
    Owed(Turn),
    /// These messages, none where the party had nothing to say or a hook took it away, and the parts of other servers.
    Made(Vec<Message>, Parts),
}

impl Content {
    fn nothing() -> Self {
        Self::Made(Vec::new(), Parts::new())
    }
}

/// A round in progress.
pub(crate) struct Drive<'a> {
    setting: Setting<'a>,
    script: Script,
    network: Network,
    workers: &'a Workers<Scratch>,
    hooks: &'a mut dyn Hooks,
    progress: &'a mut ProgressFn<'a>,
    /// Letters that are made ahead of the server at most.
    ahead: usize,
    seats: Vec<Seat>,
    letters: Vec<Letter>,
    agenda: Agenda<Arrival>,
    network_rng: ChaCha20Rng,
    server_rng: ChaCha20Rng,
    deadline: Time,
    stage: u8,
    expected: usize,
    missing: usize,
    /// Servers beside the coordinator whose answer is not there yet.
    silent: usize,
    server_work: Vec<Duration>,
    refused: Vec<Fault>,
    outcome: Option<Outcome>,
    /// Answers to this stage, where it passes them on.
    kept: Kept,
    /// The servers beside the coordinator.
    servers: Servers,
    /// Who had not answered when the latest stage ended.
    silent_parties: Vec<PartyId>,
    /// When each stage began.
    began: Vec<Time>,
}

/// A round that is over.
pub(crate) struct Finished {
    pub(crate) outcome: Result<Outcome, Fault>,
    /// The sum, where there is one.
    pub(crate) sum: Option<Words>,
    /// How many survivors sent each coordinate, where the round was sparse.
    pub(crate) contributors: Option<Vec<u32>>,
    pub(crate) seats: Vec<Seat>,
    /// Per stage.
    pub(crate) server_work: Vec<Duration>,
    /// What each server handled, the coordinator first; nothing where there is no other.
    pub(crate) servers: Vec<(&'static str, ServerCost)>,
    pub(crate) refused: Vec<Fault>,
    pub(crate) virtual_time: Time,
    /// When each stage began.
    pub(crate) began: Vec<Time>,
    /// Who had not answered the stage in which the round ended without a sum.
    pub(crate) silent: Vec<PartyId>,
}

impl Finished {
    /// Parties that were found to lie.
    pub(crate) fn excluded(&self) -> Vec<Excluded> {
        let faults = match &self.outcome {
            Ok(outcome) => outcome.faults.as_slice(),
            Err(ended) => ended.found(),
        };
        let excluded = faults.iter().filter_map(|fault| {
            let (party, test) = liar_of(fault)?;
            let bytes = fault
                .evidence
                .as_ref()
                .map_or(&[] as &[u8], |evidence| evidence.bytes());
            Some(Excluded {
                party: party.0,
                test: test.into(),
                evidence: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            })
        });
        excluded.collect()
    }
}

impl<'a> Drive<'a> {
    pub(crate) fn new(
        setting: Setting<'a>,
        script: Script,
        network: Network,
        workers: &'a Workers<Scratch>,
        hooks: &'a mut dyn Hooks,
        progress: &'a mut ProgressFn<'a>,
    ) -> Self {
        let (round, seed) = (setting.round.clone(), setting.seed);
        let seat = |party| Seat::new(&setting, party, hooks.believed_round(party, &round));
        let seats = round.everyone().map(seat).collect();
        Self {
            script,
            network,
            workers,
            hooks,
            progress,
            ahead: (AHEAD / round.job().packed_len().max(1)).clamp(workers.threads(), 4096),
            seats,
            letters: Vec::new(),
            agenda: Agenda::default(),
            network_rng: stream("network", &[seed, round.number()]),
            server_rng: stream("server", &[seed, round.number()]),
            deadline: 0,
            stage: 0,
            expected: 0,
            missing: 0,
            silent: 0,
            server_work: vec![Duration::ZERO; round.plan().answers().count() + 1],
            refused: Vec::new(),
            outcome: None,
            kept: Kept::default(),
            servers: Servers::new(&round, seed),
            silent_parties: Vec::new(),
            began: Vec::new(),
            setting,
        }
    }

    /// Runs the round to its end.
    pub(crate) fn run(mut self) -> Result<Finished, SimError> {
        self.hooks.begin(&self.setting.round, self.setting.cohort);
        let round = self.setting.round.clone();
        for role in round.servers() {
            let setup = FollowerSetup {
                round: round.clone(),
                role,
                memory: self.setting.memories.servers.clone(),
                identity: self.setting.cohort.key_service().cloned(),
                now: 0,
            };
            let follower = Follower::start(setup).map_err(SimError::Round)?;
            self.servers.add(role, follower);
        }
        let mut server = self
            .serve(|_| Server::start(round))
            .map_err(SimError::Round)?;
        for party in self.setting.round.everyone() {
            self.turn_comes(0, party, 0, None);
        }
        self.open(Some(&server));
        let aborted = loop {
            self.collect(Some(&mut server))?;
            if let Some(fault) = self.compute(&mut server)? {
                break Some(fault);
            }
            for (from, message) in self.hooks.before_close(self.stage) {
                self.receive(&mut server, from, &message)?;
            }
            let answered = server.answered();
            self.silent_parties = server.waiting().missing;
            match self.serve(|rng| server.close(rng)) {
                Err(fault) => break Some(fault),
                Ok(Closed::Next {
                    server: next,
                    messages,
                    excused,
                }) => {
                    server = next;
                    self.stage = server.waiting().stage;
                    self.open(Some(&server));
                    let excused = |party: &PartyId| excused.iter().any(|one| one.party == *party);
                    let waiting = answered.into_iter().filter(|party| !excused(party));
                    self.check_silence(waiting, &messages)?;
                    self.send(messages)?;
                }
                Ok(Closed::Done { outcome, messages }) => {
                    self.outcome = Some(outcome);
                    self.stage += 1;
                    self.open(None);
                    self.check_silence(answered, &messages)?;
                    self.send(messages)?;
                    self.collect(None)?;
                    break None;
                }
            }
        };
        Ok(self.finish(aborted))
    }

    fn finish(mut self, aborted: Option<Fault>) -> Finished {
        let servers = self.servers.costs(self.server_work.iter().sum());
        let nothing = || Fault::nobody(blindsum_protocol::FaultKind::Ended);
        Finished {
            sum: self.outcome.as_mut().and_then(|outcome| outcome.sum.take()),
            contributors: None,
            outcome: match aborted {
                Some(fault) => Err(fault),
                None => self.outcome.ok_or_else(nothing),
            },
            seats: self.seats,
            server_work: self.server_work,
            servers,
            refused: self.refused,
            virtual_time: self.agenda.time(),
            began: self.began,
            silent: self.silent_parties,
        }
    }

    /// Measures work of the server.
    fn serve<T>(&mut self, work: impl FnOnce(&mut ChaCha20Rng) -> T) -> T {
        let rng = &mut self.server_rng;
        let (result, time) = self.workers.server_clock().measure(|| work(rng));
        if let Some(total) = self.server_work.get_mut(usize::from(self.stage)) {
            *total += time;
        }
        result
    }

    /// A party has its turn at this time. Without a message it starts.
    fn turn_comes(&mut self, at: Time, to: PartyId, leads_to: u8, message: Option<Parcel>) {
        let turn = Turn {
            leads_to,
            message,
            restarts: self.script.restarts(to, leads_to),
        };
        self.agenda.at(at, Arrival::AtClient { to, turn });
    }

    fn seat(&mut self, party: PartyId) -> Option<&mut Seat> {
        self.seats.get_mut(party.rank())
    }

    /// A party vanishes.
    fn leaves(&mut self, party: PartyId) {
        self.seat(party).into_iter().for_each(Seat::leave);
    }

    /// What a party's answer of a stage costs it.
    fn cost(&mut self, party: PartyId, stage: u8) -> Option<&mut Cost> {
        self.seat(party)?.cost(stage)
    }

    /// A stage begins; without a server it is the one in which parties take the result.
    fn open(&mut self, server: Option<&Server>) {
        let round = &self.setting.round;
        let step = round.plan().answer(self.stage);
        let seconds = step.map_or(round.job().spec().stage_deadline, |step| step.deadline);
        let now = self.agenda.time();
        self.deadline = now + time(seconds);
        self.missing = server.map_or(0, |server| server.waiting().missing.len());
        self.silent = server.map_or(0, |server| server.waiting().servers.len());
        self.expected = self.missing + self.silent;
        self.servers.open(now);
        self.began.push(now);
    }

    /// Lets things happen until nobody is missing, or until the deadline where somebody stays away.
    fn collect(&mut self, mut server: Option<&mut Server>) -> Result<(), SimError> {
        self.tell()?;
        while server.is_none() || self.missing > 0 {
            let happened = self.client_run()? || self.server_run(server.as_deref_mut())?;
            if !happened {
                break;
            }
        }
        if self.missing > 0 {
            self.agenda.passes(self.deadline);
        }
        Ok(())
    }

    /// Tells how far the stage has come.
    fn tell(&mut self) -> Result<(), SimError> {
        let so_far = self.so_far();
        look(self.progress, &so_far)
    }

    /// How far the stage has come.
    fn so_far(&self) -> Progress {
        let step = self.setting.round.plan().answer(self.stage);
        Progress {
            round: self.setting.round.number(),
            stage: self.stage,
            name: step.map_or(RESULT, |step| step.name),
            answered: self.expected - self.missing - self.silent,
            expected: self.expected,
        }
    }
}
