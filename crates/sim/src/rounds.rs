//! Rounds of one job, one after the other: what parties and servers keep between them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_encode::{Reach, UpdateHistory};
use blindsum_job::Model;
use blindsum_math::words::Words;
use blindsum_protocol::{Best, JobMemory, MemoryVault, PartyId};

use crate::liars::Equivocator;
use crate::memories::Memories;
use crate::progress::Progress;
use crate::report::{Report, RoundReport};
use crate::scenario::{Event, Happening, Stage};
use crate::simulation::{Bound, Environment, RoundResult, Run, Simulation, reached};
use crate::sparse::Sparsifiers;
use crate::state::TrainingState;
use crate::workers::Workers;
use crate::{Hooks, Inputs, Scenario, Scratch, SimError};

/// Makes a cohort of as many parties as the job has and runs the scenario: see [`Simulation::run`].
///
/// # Errors
/// Those of [`Simulation::new`] and [`Simulation::run`].
pub fn run(
    scenario: Scenario,
    inputs: &dyn Inputs,
    hooks: &mut dyn Hooks,
    progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
) -> Result<Run, SimError> {
    Simulation::new(scenario)?.run(inputs, hooks, progress)
}

impl Simulation {
    /// Runs the rounds; the first one that aborts is the last. `progress` is called from time to time and may stop the
    /// run.
    ///
    /// # Errors
    /// Inputs that do not fit the job, a round whose parameters do not fit the cohort, a run that was stopped, or a
    /// machine that breaks a law that it must keep (such as a restarted client that sends something else).
    pub fn run(
        &self,
        inputs: &dyn Inputs,
        hooks: &mut dyn Hooks,
        progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<Run, SimError> {
        let mut rounds = Rounds::new(self)?;
        let (mut reports, mut last) = (Vec::new(), None);
        for _ in 0..self.scenario().rounds {
            let (report, result) = rounds.next(inputs, hooks, progress)?;
            let has_sum = result.sum.is_some();
            reports.push(report);
            last = Some(result);
            if !has_sum {
                break;
            }
        }
        let spec = self.scenario().job.spec();
        let report = Report::new(
            spec.protocol.name(),
            self.cohort().len(),
            spec.dim,
            self.scenario().rounds,
            reports,
        );
        match (report, last) {
            (Some(report), Some(last)) => Ok(Run { report, last }),
            _ => Err(SimError::scenario("rounds", "1 <= rounds = 0")),
        }
    }
}

/// The rounds of a simulation, run one at a time. A round without a sum does not end them: the next one begins with the same
/// model, as in a job.
pub struct Rounds {
    simulation: Simulation,
    workers: Workers<Scratch>,
    /// Rounds that were run.
    done: u32,
    /// Rounds that were begun again without a party that was lost, beside the first time.
    begun_again: u64,
    /// What rounds are bound to in place of a model: a hash over all sums.
    model: [u8; 32],
    history: Option<UpdateHistory>,
    /// How far the updates of the last round went, where bounds follow from that.
    reached: Vec<Reach>,
    sparsifiers: Sparsifiers,
    vaults: Vec<Arc<MemoryVault>>,
    memory: Arc<JobMemory>,
    liars: BTreeMap<PartyId, Arc<JobMemory>>,
    lying_coordinator: Option<Equivocator>,
}

impl Rounds {
    /// Begins the rounds of this simulation. How many rounds its scenario has does not matter.
    ///
    /// # Errors
    /// Threads that cannot be started, or a job whose sparse rounds break a rule.
    pub fn new(simulation: &Simulation) -> Result<Self, SimError> {
        let (scenario, cohort) = (simulation.scenario(), simulation.cohort());
        let liars = scenario.liars;
        Ok(Self {
            workers: Workers::new(scenario.threads)?,
            done: 0,
            begun_again: 0,
            model: [0; 32],
            history: scenario.job.new_history(),
            reached: Vec::new(),
            sparsifiers: Sparsifiers::new(&scenario.job, cohort.len())?,
            vaults: (0..cohort.len()).map(|_| Arc::default()).collect(),
            memory: Arc::default(),
            liars: liars.map_or_else(BTreeMap::new, |liars| {
                liars.memories(&scenario.job, cohort.len(), scenario.seed)
            }),
            lying_coordinator: liars.and_then(|liars| liars.coordinator()),
            simulation: simulation.with(cohort.clone()),
        })
    }

    /// What happens to parties in the next round, by rank, in place of the scenario's events.
    ///
    /// # Errors
    /// A party or a stage that the job does not have, or a delay that is no time.
    pub fn expect(
        &mut self,
        events: impl IntoIterator<Item = (u32, Stage, Happening)>,
    ) -> Result<(), SimError> {
        let event = |(party, stage, what)| Event {
            round: self.done,
            party,
            stage,
            what,
        };
        let events = events.into_iter().map(event).collect();
        self.simulation.set_events(self.done, events)
    }

    /// Takes the place of the rounds that this state is of.
    pub(crate) fn restore(&mut self, state: &TrainingState, model: &Model) -> Result<(), SimError> {
        let scenario = self.simulation.scenario();
        self.sparsifiers
            .restore(&scenario.job, &state.leftovers)
            .map_err(|error| SimError::scenario("state", error.to_string()))?;
        self.history = model.history().cloned();
        self.done = state.done;
        self.begun_again = state.begun_again;
        self.model = state.chain;
        Ok(())
    }

    /// What another process needs to go on with this model.
    pub(crate) fn state(
        &self,
        version: u64,
        model: Vec<u8>,
        best: Option<(Best, Vec<u8>)>,
    ) -> TrainingState {
        TrainingState {
            version,
            model,
            done: self.done,
            begun_again: self.begun_again,
            chain: self.model,
            leftovers: self.sparsifiers.to_bytes(),
            best,
        }
    }

    /// How far the updates of the last round went, tensor by tensor.
    pub(crate) fn reached(&self) -> &[Reach] {
        &self.reached
    }

    /// Runs the next round, of all parties. `progress` is called from time to time and may stop it.
    ///
    /// # Errors
    /// Those of [`Simulation::run`].
    pub fn next(
        &mut self,
        inputs: &dyn Inputs,
        hooks: &mut dyn Hooks,
        progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<(RoundReport, RoundResult), SimError> {
        let everybody = (0..self.simulation.cohort().len()).collect();
        self.next_of(everybody, inputs, hooks, progress)
    }

    /// Runs the next round, of the parties with these ranks, ascending.
    ///
    /// # Errors
    /// Those of [`Simulation::run`]; fewer parties than a round needs.
    pub fn next_of(
        &mut self,
        ranks: Vec<usize>,
        inputs: &dyn Inputs,
        hooks: &mut dyn Hooks,
        progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<(RoundReport, RoundResult), SimError> {
        let scenario = self.simulation.scenario();
        inputs.check(&scenario.job, self.simulation.cohort().len())?;
        let index = self.done;
        let everybody: Vec<usize> = (0..self.simulation.cohort().len()).collect();
        let mut around = Environment {
            inputs,
            hooks: match &mut self.lying_coordinator {
                Some(coordinator) => coordinator,
                None => hooks,
            },
            progress,
            workers: &self.workers,
            memories: Memories {
                ranks: &everybody,
                vaults: &self.vaults,
                sparsifiers: &self.sparsifiers,
                servers: &self.memory,
                liars: &self.liars,
            },
        };
        let key_setup = self.simulation.set_up_keys(index, &mut around)?;
        let bound = Bound {
            number: scenario.first_round + u64::from(index) + self.begun_again,
            model: &self.model,
            history: self.history.as_ref(),
        };
        let round = self
            .simulation
            .bind(bound.number, bound.model, bound.history)?;
        let (mut report, result, begun) =
            self.simulation.round_of(ranks, index, bound, &mut around)?;
        self.done += 1;
        self.begun_again += u64::from(begun - 1);
        report.begun = begun;
        report.key_setup = key_setup;
        self.reached = reached(&round, &result)?;
        if let (Some(history), Some(_)) = (&mut self.history, &result.mean) {
            let observed = history.observe(&self.reached);
            observed.map_err(|error| SimError::scenario("clip", error.to_string()))?;
        }
        if let (Ok(outcome), Some(contributors)) = (&result.outcome, &result.contributors) {
            self.sparsifiers
                .commit(&round, inputs, &outcome.survivors, contributors)?;
            report.leftovers = self.sparsifiers.leftovers();
        }
        if let Some(sum) = result.sum.as_ref().map(Words::pack) {
            self.model = kdf::hash("simulated model", &[&self.model, &sum]);
        }
        Ok((report, result))
    }
}
