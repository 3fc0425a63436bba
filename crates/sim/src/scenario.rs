//! The scenario of a simulation: the job, and everything that goes wrong on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use blindsum_protocol::{Job, PartyId, Plan, RoundKind, floor_of_fraction};
use serde::{Deserialize, Serialize};

use crate::agenda::Time;
use crate::liars::Liars;
use crate::network::{Network, time};
use crate::seeds::{choose, stream};
use crate::{SimError, report};

/// The scenario of a simulation. Plain data; [`crate::Simulation::new`] checks every rule once.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The job.
    pub job: Arc<Job>,
    /// The seed of every random number of the run.
    pub seed: u64,
    /// Rounds to run, at least 1. The first one that aborts is the last.
    pub rounds: u32,
    /// Number of the first round, for runs that continue another one.
    pub first_round: u64,
    /// Fraction of the parties that vanish before the input stage of every round, chosen by the seed: they answer every
    /// stage before it and never send a vector. Rounded down to whole parties, as a job's `dropout`.
    pub drop: f64,
    /// More parties that vanish in every round, chosen by the seed.
    pub drop_at: Vec<DropAt>,
    /// What happens to one party in one stage.
    pub events: Vec<Event>,
    /// Parties that lie.
    pub liars: Option<Liars>,
    /// The network.
    pub network: Network,
    /// Number of threads. Results do not depend on it; measured times are most accurate with 1.
    pub threads: usize,
}

impl Scenario {
    /// One round of `job` in which nothing goes wrong, on one thread.
    pub fn new(job: Arc<Job>) -> Self {
        Self {
            job,
            seed: 0,
            rounds: 1,
            first_round: 1,
            drop: 0.0,
            drop_at: Vec::new(),
            events: Vec::new(),
            liars: None,
            network: Network::default(),
            threads: 1,
        }
    }
}

/// A stage of the protocol, by its number or by its name. The stage after the last one, in which parties
/// take the result, is called `result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stage {
    /// The number of the stage, from 0 on.
    Number(u8),
    /// The name of the stage, as in [`Plan::stages`](blindsum_protocol::Plan::stages) of the round or of the key set-up
    /// before it.
    Name(String),
}

impl FromStr for Stage {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text
            .parse()
            .map_or_else(|_| Stage::Name(text.into()), Stage::Number))
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Number(number) => number.fmt(f),
            Stage::Name(name) => name.fmt(f),
        }
    }
}

impl Stage {
    /// The kind of round that the stage is of, and its number there.
    fn resolve(&self, field: &'static str, job: &Job) -> Result<(RoundKind, u8), SimError> {
        let setup = job.key_setup_plan().map_or_else(Vec::new, Plan::stages);
        if let Stage::Name(name) = self
            && let Some(number) = setup.iter().position(|stage| stage == name)
        {
            return Ok((RoundKind::KeySetup, number as u8));
        }
        let stages = job.plan().stages();
        let number = match self {
            Stage::Number(number) => Some(usize::from(*number)).filter(|n| *n <= stages.len()),
            Stage::Name(name) if name == report::RESULT => Some(stages.len()),
            Stage::Name(name) => stages.iter().position(|stage| stage == name),
        };
        let number = number.and_then(|n| u8::try_from(n).ok());
        let found = number.map(|number| (RoundKind::Sum, number));
        found.ok_or_else(|| {
            let names = [&stages[..], &setup].concat().join(", ");
            let rule = format!("stage {self} must be one of {names}, or its number from 0 on");
            SimError::scenario(field, rule)
        })
    }
}

/// A number of parties that vanish instead of answering a stage. Written `STAGE:COUNT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropAt {
    /// The stage.
    pub stage: Stage,
    /// How many parties vanish.
    pub count: u32,
}

impl FromStr for DropAt {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Self, SimError> {
        let refused = || SimError::scenario("drop_at", format!("{text:?} must be STAGE:COUNT"));
        let (stage, count) = text.rsplit_once(':').ok_or_else(refused)?;
        let Ok(stage) = stage.parse();
        Ok(Self {
            stage,
            count: count.parse().map_err(|_| refused())?,
        })
    }
}

/// What happens to one party in one stage of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The round, counted from 0 in this run.
    pub round: u32,
    /// The party's rank.
    pub party: u32,
    /// The stage.
    pub stage: Stage,
    /// What happens.
    pub what: Happening,
}

/// What happens to a party.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Happening {
    /// It vanishes instead of answering.
    Drop,
    /// It vanishes in the middle of its upload: so many servers beside the coordinator, the first ones, have their part
    /// of its vector, and nobody else has anything.
    DropUploading(u8),
    /// Its process is killed after it has made its answer and before it sends it. Another process goes on from the
    /// sealed snapshot. Before the party's vector is sent there is no snapshot, and the round loses the party.
    Restart,
    /// It sends its answer late, by this many seconds of virtual time.
    Delay(f64),
}

/// What one round has in store for each party.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    vanishing: BTreeMap<PartyId, u8>,
    restarts: BTreeSet<(PartyId, u8)>,
    uploads: BTreeMap<(PartyId, u8), usize>,
    delays: BTreeMap<(PartyId, u8), Time>,
}

impl Script {
    /// Whether the party vanishes instead of answering this stage, or has vanished before.
    pub(crate) fn is_gone(&self, party: PartyId, stage: u8) -> bool {
        self.vanishing
            .get(&party)
            .is_some_and(|from| *from <= stage)
    }

    /// Whether the party restarts when it has made this answer.
    pub(crate) fn restarts(&self, party: PartyId, stage: u8) -> bool {
        self.restarts.contains(&(party, stage))
    }

    /// How many servers beside the coordinator get their part of this answer before the party vanishes; none where it
    /// does not vanish in between.
    pub(crate) fn uploads(&self, party: PartyId, stage: u8) -> Option<usize> {
        self.uploads.get(&(party, stage)).copied()
    }

    /// How late the party sends this answer.
    pub(crate) fn delay(&self, party: PartyId, stage: u8) -> Time {
        self.delays.get(&(party, stage)).copied().unwrap_or(0)
    }

    /// The same with other ranks; whoever has none is left out.
    pub(crate) fn renamed(&self, rank: impl Fn(PartyId) -> Option<PartyId>) -> Self {
        let at = |(party, stage): &(PartyId, u8)| rank(*party).map(|party| (party, *stage));
        let vanishing = self.vanishing.iter();
        let uploads = self.uploads.iter();
        let delays = self.delays.iter();
        Self {
            vanishing: vanishing
                .filter_map(|(party, stage)| Some((rank(*party)?, *stage)))
                .collect(),
            restarts: self.restarts.iter().filter_map(at).collect(),
            uploads: uploads
                .filter_map(|(key, servers)| Some((at(key)?, *servers)))
                .collect(),
            delays: delays
                .filter_map(|(key, delay)| Some((at(key)?, *delay)))
                .collect(),
        }
    }

    fn vanish(&mut self, party: PartyId, stage: u8) {
        let from = self.vanishing.entry(party).or_insert(stage);
        *from = stage.min(*from);
    }
}

impl Scenario {
    /// Checks every rule for a cohort of `parties`.
    pub(crate) fn check(&self, parties: usize) -> Result<(), SimError> {
        if self.rounds == 0 {
            return Err(SimError::scenario("rounds", "1 <= rounds = 0"));
        }
        if self.first_round.checked_add(self.rounds.into()).is_none() {
            return Err(SimError::scenario(
                "first_round",
                format!("first_round = {} + rounds < 2^64", self.first_round),
            ));
        }
        if !(1..=1024).contains(&self.threads) {
            return Err(SimError::scenario(
                "threads",
                format!("1 <= threads = {} <= 1024", self.threads),
            ));
        }
        if !(0.0..=1.0).contains(&self.drop) {
            return Err(SimError::scenario(
                "drop",
                format!("0 <= drop = {} <= 1", self.drop),
            ));
        }
        let counts: usize = self.drop_at.iter().map(|drop| drop.count as usize).sum();
        let dropped = self.dropped_before_input(parties) + counts;
        if dropped > parties {
            let rule = format!("parties that drop = {dropped} <= parties = {parties} must hold");
            return Err(SimError::scenario("drop_at", rule));
        }
        if let Some(liars) = &self.liars {
            liars.check(&self.job, parties)?;
        }
        self.network.check()?;
        self.events
            .iter()
            .try_for_each(|event| self.check_event(event, parties))?;
        (0..self.rounds).try_for_each(|round| self.script(RoundKind::Sum, round, parties).map(drop))
    }

    pub(crate) fn check_event(&self, event: &Event, parties: usize) -> Result<(), SimError> {
        if event.round >= self.rounds {
            let rule = format!("round = {} < rounds = {}", event.round, self.rounds);
            return Err(SimError::scenario("events.round", rule));
        }
        if event.party as usize >= parties {
            let rule = format!("party = {} < parties = {parties}", event.party);
            return Err(SimError::scenario("events.party", rule));
        }
        let (kind, stage) = event.stage.resolve("events.stage", &self.job)?;
        let answers =
            kind == RoundKind::KeySetup || usize::from(stage) < self.job.plan().answers().count();
        match event.what {
            Happening::Drop => Ok(()),
            _ if !answers => Err(SimError::scenario(
                "events.stage",
                "nothing is sent in the stage result",
            )),
            Happening::Delay(seconds) if !(0.0..=1e6).contains(&seconds) => {
                Err(SimError::scenario(
                    "events.what",
                    format!("0 <= delay = {seconds} <= 1000000 seconds"),
                ))
            }
            Happening::DropUploading(servers) => {
                let (parts, is_input) = (
                    self.job.servers().filter(|role| role.place().is_some()),
                    kind == RoundKind::Sum && self.job.plan().input_stage() == Some(stage),
                );
                let most = if is_input { parts.count() } else { 0 };
                if most == 0 || usize::from(servers) > most {
                    let rule = format!(
                        "{servers} parts of an answer, where the stage {} has {most}",
                        event.stage
                    );
                    return Err(SimError::scenario("events.what", rule));
                }
                Ok(())
            }
            Happening::Delay(_) | Happening::Restart => Ok(()),
        }
    }

    /// What the round, counted from 0 in this run, or the key set-up before it, has in store for each party.
    pub(crate) fn script(
        &self,
        kind: RoundKind,
        round: u32,
        parties: usize,
    ) -> Result<Script, SimError> {
        let label = match kind {
            RoundKind::Sum => "drop",
            RoundKind::KeySetup => "drop in key set-up",
        };
        let mut rng = stream(label, &[self.seed, self.first_round + u64::from(round)]);
        let mut script = Script::default();
        let mut present: Vec<PartyId> = (0..parties as u32).map(PartyId).collect();
        let before_input = self.dropped_before_input(parties);
        let input = self.job.plan().input_stage();
        let before = input.map(|stage| ((RoundKind::Sum, stage), before_input));
        let mut drops: Vec<_> = before.into_iter().collect();
        for drop in &self.drop_at {
            drops.push((
                drop.stage.resolve("drop_at", &self.job)?,
                drop.count as usize,
            ));
        }
        let of_kind = drops.into_iter().filter(|((of, _), _)| *of == kind);
        for ((_, stage), count) in of_kind {
            for party in choose(&mut rng, present.clone(), count) {
                script.vanish(party, stage);
            }
            present.retain(|party| !script.vanishing.contains_key(party));
        }
        for event in self.events.iter().filter(|event| event.round == round) {
            let party = PartyId(event.party);
            let (of, stage) = event.stage.resolve("events.stage", &self.job)?;
            if of != kind {
                continue;
            }
            match event.what {
                Happening::Drop => script.vanish(party, stage),
                Happening::DropUploading(servers) => {
                    script.uploads.insert((party, stage), servers.into());
                }
                Happening::Restart => {
                    script.restarts.insert((party, stage));
                }
                Happening::Delay(seconds) => {
                    script.delays.insert((party, stage), time(seconds));
                }
            }
        }
        Ok(script)
    }

    fn dropped_before_input(&self, parties: usize) -> usize {
        floor_of_fraction(self.drop, parties)
    }
}
