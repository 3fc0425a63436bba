//! A job that trains a model: rounds whose updates depend on the model that the rounds before them led to.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_encode::{EncodeError, Reals};
use blindsum_job::Model;
use blindsum_protocol::{Best, Job};

use crate::progress::Progress;
use crate::report::RoundReport;
use crate::rounds::Rounds;
use crate::scenario::{Happening, Stage};
use crate::simulation::{RoundResult, Simulation};
use crate::state::TrainingState;
use crate::{Hooks, Inputs, SimError};

/// The rounds of a simulation, with the model of the job.
pub struct Training {
    job: Arc<Job>,
    rounds: Rounds,
    model: Model,
    best: Option<(Best, Model)>,
}

impl Training {
    /// Begins the job with these values, or with zeros.
    ///
    /// # Errors
    /// Those of [`Rounds::new`], and a model that does not fit the job.
    pub fn new(simulation: &Simulation, first: Option<Reals>) -> Result<Self, SimError> {
        let job = simulation.scenario().job.clone();
        let model = match first {
            None => Model::initial(&job),
            Some(values) => Model::first(&job, values).map_err(|error| model_error(&error))?,
        };
        let rounds = Rounds::new(simulation)?;
        Ok(Self {
            job,
            rounds,
            model,
            best: None,
        })
    }

    /// Goes on from a state of the same job with the same number of parties.
    ///
    /// # Errors
    /// Those of [`Rounds::new`], and a state that does not fit the job.
    pub fn resume(simulation: &Simulation, state: &TrainingState) -> Result<Self, SimError> {
        let job = simulation.scenario().job.clone();
        let restored = |version, bytes: &[u8]| {
            Model::restored(&job, version, bytes).map_err(|rule| SimError::scenario("state", rule))
        };
        let model = restored(state.version, &state.model)?;
        let best = match &state.best {
            None => None,
            Some((best, bytes)) => Some((best.clone(), restored(best.version, bytes)?)),
        };
        let mut rounds = Rounds::new(simulation)?;
        rounds.restore(state, &model)?;
        Ok(Self {
            job,
            rounds,
            model,
            best,
        })
    }

    /// What another process needs to go on.
    pub fn state(&self) -> TrainingState {
        let model = self.model.to_bytes().to_vec();
        let best = self.best.as_ref();
        let best = best.map(|(best, model)| (best.clone(), model.to_bytes().to_vec()));
        self.rounds.state(self.model.version(), model, best)
    }

    /// The best value so far of the metric that may end the job, and the model that it is of.
    pub fn best(&self) -> Option<(&Best, &Model)> {
        self.best.as_ref().map(|(best, model)| (best, model))
    }

    /// Why a metric ends the job, for people; `None` where none does.
    pub fn ended(&self) -> Option<String> {
        let plateau = self.job.spec().stop.plateau()?;
        let (best, _) = self.best()?;
        plateau.is_over(Some(best)).then(|| plateau.reason(best))
    }

    /// The model that the next round starts from.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What happens to parties in the next round: see [`Rounds::expect`].
    ///
    /// # Errors
    /// Those of [`Rounds::expect`].
    pub fn expect(
        &mut self,
        events: impl IntoIterator<Item = (u32, Stage, Happening)>,
    ) -> Result<(), SimError> {
        self.rounds.expect(events)
    }

    /// Runs the next round, of the parties with these ranks, ascending; where it has a sum, the model is the next one.
    /// `number` is what the round is called where it has the best value of a metric.
    ///
    /// # Errors
    /// Those of [`Rounds::next_of`], and a model that would not be finite.
    pub fn next_of(
        &mut self,
        number: u64,
        ranks: Vec<usize>,
        inputs: &dyn Inputs,
        hooks: &mut dyn Hooks,
        progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<(RoundReport, RoundResult), SimError> {
        let (report, result) = self.rounds.next_of(ranks, inputs, hooks, progress)?;
        if let Some(mean) = &result.mean {
            let mean = Reals::Double(mean.clone()).in_precision(self.job.encoding().precision());
            let reached = self.rounds.reached();
            let next = self.model.after(&mean, reached, self.job.spec());
            let next = next.map_err(|error| model_error(&error))?;
            let before = std::mem::replace(&mut self.model, next);
            self.measured(number, &report, before);
        }
        Ok((report, result))
    }

    /// A round that started from the model `before` has a sum.
    fn measured(&mut self, number: u64, report: &RoundReport, before: Model) {
        let Some(plateau) = self.job.spec().stop.plateau() else {
            return;
        };
        let metric = report.metrics.get(&plateau.metric);
        let value = metric.and_then(|metric| metric.value);
        let known = self.best.as_ref().map(|(best, _)| best.clone());
        let best = plateau.after(known, number, before.version(), value);
        self.best = match (best, self.best.take()) {
            (Some(best), Some((known, model))) if known.version == best.version => {
                Some((best, model))
            }
            (Some(best), _) => Some((best, before)),
            (None, _) => None,
        };
    }
}

fn model_error(error: &EncodeError) -> SimError {
    SimError::scenario("model", error.to_string())
}
