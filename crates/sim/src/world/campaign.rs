//! A row of episodes, and what is told of it.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_protocol::JobSpec;

use super::World;
use super::contents::{in_a_hurry, of_integers, sized};
use super::faults::{Faults, Kind};
use crate::SimError;

/// What was done in a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Things that happened.
    pub steps: u64,
    /// Jobs.
    pub episodes: u64,
    /// Rounds that count.
    pub rounds: u64,
    /// Results that parties were told.
    pub results: u64,
    /// Machines that were killed.
    pub kills: u64,
    /// Connections that broke.
    pub cuts: u64,
    /// Parties that came back with records of an earlier time.
    pub rollbacks: u64,
    /// Coordinators that came back with a store of an earlier time.
    pub restored: u64,
    /// Frames that said something else than the machine did.
    pub lies: u64,
    /// Rounds that gave no result, in episodes in which only a member lies.
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
        self.rollbacks += other.rollbacks;
        self.restored += other.restored;
        self.lies += other.lies;
        self.spoilt += other.spoilt;
    }
}

/// A promise that was broken, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed} ({}), after {steps} steps: {what}", kind.as_str())]
pub struct Broken {
    /// A campaign that begins with this seed begins with this episode.
    pub seed: u64,
    /// What kind of episode it was.
    pub kind: Kind,
    /// How far it came.
    pub steps: u64,
    /// The promise, and what was seen.
    pub what: String,
    /// What happened last.
    pub story: Vec<String>,
}

/// A row of episodes of one job.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The job. It gets between four and seven parties, a few rounds and short vectors, whatever it says of them. Where
    /// it leaves encoding, model and density at their defaults these are drawn for each episode.
    pub spec: JobSpec,
    /// How many things must have happened before no further episode begins.
    pub steps: u64,
    /// The seed of the first episode; the others have the next ones.
    pub seed: u64,
    /// The kinds of episodes; those of other kinds are left out.
    pub kinds: Vec<Kind>,
}

impl Campaign {
    /// One with episodes of all kinds.
    pub fn new(spec: JobSpec, steps: u64, seed: u64) -> Self {
        let kinds = Kind::ALL.to_vec();
        Self {
            spec,
            steps,
            seed,
            kinds,
        }
    }

    /// Runs it. `watch` sees what was done so far after each episode, and may end it.
    ///
    /// # Errors
    /// A job that cannot be run; the first promise that was broken.
    pub fn run(
        &self,
        watch: &mut dyn FnMut(&Tally) -> ControlFlow<()>,
    ) -> Result<Tally, CampaignError> {
        let mut tally = Tally::default();
        let wanted = |seed: &u64| self.kinds.contains(&Kind::of(*seed));
        for seed in (self.seed..).filter(wanted) {
            let job = Arc::new(sized(&self.spec, seed).map_err(SimError::from)?);
            if job.servers().next().is_some() {
                let protocol = &job.spec().protocol;
                let rule = format!(
                    "campaigns know no servers beside the coordinator, as {protocol} needs"
                );
                return Err(SimError::scenario("protocol", rule).into());
            }
            let episode = World::new(job, seed)?.run().map_err(Box::new)?;
            tally.add(&episode);
            if tally.steps >= self.steps || watch(&tally).is_break() {
                break;
            }
        }
        Ok(tally)
    }
}

/// One job of integers with as many parties, rounds and coordinates as it says, in which nothing goes wrong but that one member lies
/// from the beginning to the end, in all ways that a campaign knows: each of its frames is a lie with the chance `lie`.
///
/// # Errors
/// A job that cannot be run; the first promise that was broken.
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
    /// It cannot be run.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A promise was broken.
    #[error(transparent)]
    Broken(#[from] Box<Broken>),
}
