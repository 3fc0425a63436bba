//! A job that trains a model: rounds whose updates depend on the model that the rounds before them led to.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_encode::{EncodeError, Reals};
use blindsum_job::Model;
use blindsum_protocol::Job;

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
        Ok(Self { job, rounds, model })
    }

    /// Goes on from a state of the same job with the same number of parties.
    ///
    /// # Errors
    /// Those of [`Rounds::new`], and a state that does not fit the job.
    pub fn resume(simulation: &Simulation, state: &TrainingState) -> Result<Self, SimError> {
        let job = simulation.scenario().job.clone();
        let model = Model::restored(&job, state.version, &state.model)
            .map_err(|rule| SimError::scenario("state", rule))?;
        let mut rounds = Rounds::new(simulation)?;
        rounds.restore(state, &model)?;
        Ok(Self { job, rounds, model })
    }

    /// What another process needs to go on.
    pub fn state(&self) -> TrainingState {
        let model = self.model.to_bytes().to_vec();
        self.rounds.state(self.model.version(), model)
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
    ///
    /// # Errors
    /// Those of [`Rounds::next_of`], and a model that would not be finite.
    pub fn next_of(
        &mut self,
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
            self.model = next.map_err(|error| model_error(&error))?;
        }
        Ok((report, result))
    }
}

fn model_error(error: &EncodeError) -> SimError {
    SimError::scenario("model", error.to_string())
}
