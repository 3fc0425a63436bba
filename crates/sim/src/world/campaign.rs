//! A series of episodes, and its report.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_protocol::{JobSpec, PrivacyName, SpecError};

use super::World;
use super::contents::{in_a_hurry, of_integers, sized};
use super::faults::{Faults, Kind};
use crate::SimError;

/// What happened in a campaign, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Events.
    pub steps: u64,
    /// Episodes, each of which is one job.
    pub episodes: u64,
    /// Rounds with a result.
    pub rounds: u64,
    /// Results that parties were told.
    pub results: u64,
    /// Machines that were killed.
    pub kills: u64,
    /// Connections that broke, and lines between servers.
    pub cuts: u64,
    /// Sessions of parties that ended by themselves: a party gave up, was displaced, or was stopped.
    pub ended: u64,
    /// Parties, and servers that compute with the coordinator, that came back with records of an earlier time.
    pub rollbacks: u64,
    /// Coordinators that came back with a store of an earlier time.
    pub restored: u64,
    /// Frames, uploads and letters in which a liar said something else than its machine.
    pub lies: u64,
    /// Faults that are kept with what shows them.
    pub shown: u64,
    /// Leases that ran out, or were lost.
    pub leases: u64,
    /// Results that servers recorded before they opened them.
    pub releases: u64,
    /// Rounds without a result, in episodes in which the only fault is a lying member.
    pub spoilt: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.episodes += other.episodes;
        self.rounds += other.rounds;
        self.results += other.results;
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.ended += other.ended;
        self.rollbacks += other.rollbacks;
        self.restored += other.restored;
        self.lies += other.lies;
        self.shown += other.shown;
        self.leases += other.leases;
        self.releases += other.releases;
        self.spoilt += other.spoilt;
    }
}

/// A promise that was broken, and how to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed} ({}), after {steps} steps: {what}", kind.as_str())]
pub struct Broken {
    /// The seed of the episode. A campaign with this seed begins with this episode.
    pub seed: u64,
    /// The kind of the episode.
    pub kind: Kind,
    /// How many events had happened.
    pub steps: u64,
    /// The promise, and what was seen instead.
    pub what: String,
    /// The latest events.
    pub story: Vec<String>,
}

/// A series of episodes of one job.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The job. Whatever it says, it gets between four and seven parties (five and eight in `pss-malicious`, and where a
    /// rule of `mpc3` is no sum), a few rounds and short vectors. If encoding, model and density have their defaults,
    /// they are drawn for each episode.
    pub spec: JobSpec,
    /// After this many events no further episode begins.
    pub steps: u64,
    /// The seed of the first episode; each later episode has the next number.
    pub seed: u64,
    /// The kinds of episodes to run; others are left out.
    pub kinds: Vec<Kind>,
}

impl Campaign {
    /// A campaign with episodes of all kinds.
    pub fn new(spec: JobSpec, steps: u64, seed: u64) -> Self {
        let kinds = Kind::ALL.to_vec();
        Self {
            spec,
            steps,
            seed,
            kinds,
        }
    }

    /// Runs the campaign. `watch` is told after each episode what happened so far, and may end the campaign.
    ///
    /// # Errors
    /// A job that cannot be run, or the first promise that was broken.
    pub fn run(
        &self,
        watch: &mut dyn FnMut(&Tally) -> ControlFlow<()>,
    ) -> Result<Tally, CampaignError> {
        check_exact(&self.spec)?;
        let mut tally = Tally::default();
        let wanted = |seed: &u64| self.kinds.contains(&Kind::of(*seed));
        for seed in (self.seed..).filter(wanted) {
            let job = Arc::new(sized(&self.spec, seed).map_err(SimError::from)?);
            let episode = World::new(job, seed)?.run().map_err(Box::new)?;
            tally.add(&episode);
            if tally.steps >= self.steps || watch(&tally).is_break() {
                break;
            }
        }
        Ok(tally)
    }
}

/// Sums are compared bit by bit, and nobody knows the noise of a job.
fn check_exact(spec: &JobSpec) -> Result<(), SimError> {
    if spec.privacy.name() == PrivacyName::NoPrivacy {
        return Ok(());
    }
    let rule = "must be none in a campaign, which compares sums bit by bit: nobody knows the noise in them; leave it out";
    Err(SimError::from(SpecError {
        field: "privacy".into(),
        rule: rule.into(),
    }))
}

/// Runs one job of integers, with as many parties, rounds and coordinates as it says. The only thing that goes wrong is
/// one member that lies from beginning to end, in all ways that a campaign knows: each of its frames is a lie with
/// probability `lie`.
///
/// # Errors
/// A job that cannot be run, or the first promise that was broken.
pub fn beside_a_liar(spec: &JobSpec, lie: f64, seed: u64) -> Result<Tally, CampaignError> {
    let job = Arc::new(
        of_integers(&in_a_hurry(spec))
            .validate()
            .map_err(SimError::from)?,
    );
    let faults = Faults {
        lie,
        ..Faults::default()
    };
    let world = World::with(job, seed, Kind::Liar, faults)?;
    Ok(world.run().map_err(Box::new)?)
}

/// Why a campaign ended early.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The campaign cannot be run.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A promise was broken.
    #[error(transparent)]
    Broken(#[from] Box<Broken>),
}
