//! Training in the simulator, round by round, and the models that follow from means.

use std::sync::{Arc, Mutex};

use blindsum_encode::Reals;
use blindsum_job::Model;
use blindsum_net::{Room, Task};
use blindsum_protocol::{Best, Job, PartySet};
use blindsum_sim::{
    Cohort, DropAt, Given, Happening, PartyEnd, Progress, Scenario, SimError, Simulation, Stage,
    Training, TrainingState,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::errors::{OrRaise, raise};
use crate::gil::released;
use crate::results::read_only;
use crate::simulation::{Watcher, check_values};
use crate::spec::{CheckedJob, plain};
use crate::vectors::{Vector, read_model};
use crate::wait::{interruptible, locked};

/// A state as Python keeps it: version and bytes of the model, rounds run and begun again, the hash that rounds are bound
/// to, what each party has not sent yet, and the best value of a metric with the bytes of its model.
type Saved = (
    u64,
    Vec<u8>,
    u32,
    u64,
    Vec<u8>,
    Vec<Vec<u8>>,
    Option<(SavedBest, Vec<u8>)>,
);

/// The best value of a metric: its name, the round, the version of the model, the value, and the rounds since then without a better
/// one.
type SavedBest = (String, u64, u64, f64, u32);

/// What became of a round.
#[pyclass(frozen, get_all, module = "blindsum._native")]
pub struct TrainedRound {
    /// The report, plain data.
    report: Py<PyAny>,
    /// The mean, where there is a sum.
    mean: Option<Py<PyArray1<f64>>>,
    /// Ranks of the parties whose updates are in it.
    survivors: Vec<usize>,
    /// How the round ended for each party, by rank: empty where it took the result.
    ends: Vec<String>,
}

/// A job that trains a model in this process.
#[pyclass(module = "blindsum._native")]
pub struct TrainingSimulation {
    job: Arc<Job>,
    inner: Mutex<Training>,
    parties: usize,
}

#[pymethods]
impl TrainingSimulation {
    /// Begins, or goes on from what `state` gave. `drop` and `drop_at` are as for `simulate`.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        job: &CheckedJob,
        model: Option<Bound<'_, PyAny>>,
        state: Option<Saved>,
        drop: f64,
        drop_at: Vec<String>,
        latency: f64,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let job = job.job().clone();
        let parties = job.spec().parties as usize;
        let room = Room::now().check(&job, Task::Simulation { parties });
        room.or_raise(py)?;
        let drop_at: Result<Vec<DropAt>, SimError> =
            drop_at.iter().map(|text| text.parse()).collect();
        let mut scenario = Scenario::new(job.clone());
        scenario.drop = drop;
        scenario.drop_at = drop_at.or_raise(py)?;
        scenario.network.latency = latency;
        scenario.seed = seed;
        scenario.threads = threads;
        let first = model.as_ref().map(read_model).transpose()?;
        let begun = released(py, || {
            let cohort = Arc::new(Cohort::of(job.spec(), parties, seed)?);
            let simulation = Simulation::with_cohort(scenario, cohort)?;
            match state {
                None => Training::new(&simulation, first),
                Some(saved) => Training::resume(&simulation, &read(saved)?),
            }
        });
        Ok(Self {
            job,
            inner: Mutex::new(begun.or_raise(py)?),
            parties,
        })
    }

    /// Runs the round `number`, of the parties with these ranks. `updates`, `weights` and `metrics` are those of all, by rank. `events` are what happens to parties: a rank, a stage,
    /// and the seconds by which the answer of that stage is late; infinity is for ever.
    #[allow(clippy::too_many_arguments)]
    fn round(
        &self,
        py: Python<'_>,
        number: u64,
        ranks: Vec<usize>,
        updates: Vec<Bound<'_, PyAny>>,
        weights: Vec<u32>,
        metrics: Vec<Vec<Option<f64>>>,
        events: Vec<(u32, String, f64)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<TrainedRound> {
        let vectors: Vec<Vector<'_>> = updates
            .iter()
            .map(Vector::borrow)
            .collect::<PyResult<_>>()?;
        let values: Vec<_> = vectors
            .iter()
            .map(Vector::values)
            .collect::<PyResult<_>>()?;
        check_values(py, &self.job, &values)?;
        let inputs = Given::new(values, weights).with_metrics(metrics);
        let watcher = Watcher::new(progress, 1, 0);
        let work = || {
            let mut training = locked(&self.inner);
            training.expect(events.into_iter().map(happening))?;
            training.next_of(
                number,
                ranks,
                &inputs,
                &mut (),
                &mut |progress: &Progress| watcher.see(progress),
            )
        };
        let result = interruptible(py, || watcher.stop(), work)?;
        let (report, mut result) = match watcher.error() {
            Some(error) => return Err(error),
            None => result.or_raise(py)?,
        };
        let mean = result.mean.take();
        let survivors = result.outcome.as_ref().map(|outcome| &outcome.survivors);
        let survivors =
            survivors.map(|set: &PartySet| set.iter().map(|party| party.rank()).collect());
        Ok(TrainedRound {
            report: plain(py, &report)?.unbind(),
            mean: mean.map(|mean| mean.into_pyarray(py).unbind()),
            survivors: survivors.unwrap_or_default(),
            ends: result
                .ends
                .iter()
                .map(|end| self.end(end, result.outcome.is_ok()))
                .collect(),
        })
    }

    /// The model that the next round starts from, read-only.
    fn model<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        read_only(py, locked(&self.inner).model().values())
    }

    /// Its version: the number of sums that are in it.
    fn version(&self) -> u64 {
        locked(&self.inner).model().version()
    }

    /// The best value so far of the metric that may end the job, with its model, read-only.
    fn best<'py>(&self, py: Python<'py>) -> Option<(SavedBest, Bound<'py, PyAny>)> {
        let training = locked(&self.inner);
        let (best, model) = training.best()?;
        Some((saved_best(best), read_only(py, model.values())))
    }

    /// Why a metric ends the job, for people; `None` where none does.
    fn ended(&self) -> Option<String> {
        locked(&self.inner).ended()
    }

    /// How many parties there are.
    #[getter]
    fn parties(&self) -> usize {
        self.parties
    }

    /// What another process needs to go on.
    fn state(&self, py: Python<'_>) -> Saved {
        let state = released(py, || locked(&self.inner).state());
        let chain = state.chain.to_vec();
        let (version, model) = (state.version, state.model);
        (
            version,
            model,
            state.done,
            state.begun_again,
            chain,
            state.leftovers,
            state.best.map(|(best, model)| (saved_best(&best), model)),
        )
    }
}

/// A state out of what Python kept.
fn read(
    (version, model, done, begun_again, chain, leftovers, best): Saved,
) -> Result<TrainingState, SimError> {
    let chain = chain.try_into().map_err(|_| SimError::Scenario {
        field: "state",
        rule: "its hash must have 32 bytes".into(),
    })?;
    Ok(TrainingState {
        version,
        model,
        done,
        begun_again,
        chain,
        leftovers,
        best: best.map(|(best, model)| (read_best(best), model)),
    })
}

fn saved_best(best: &Best) -> SavedBest {
    (
        best.metric.clone(),
        best.round,
        best.version,
        best.value,
        best.without_gain,
    )
}

fn read_best((metric, round, version, value, without_gain): SavedBest) -> Best {
    Best {
        metric,
        round,
        version,
        value,
        without_gain,
    }
}

/// What happens to a party in the next round.
fn happening((party, stage, seconds): (u32, String, f64)) -> (u32, Stage, Happening) {
    let what = match seconds.is_finite() {
        true => Happening::Delay(seconds),
        false => Happening::Drop,
    };
    let Ok(stage) = stage.parse();
    (party, stage, what)
}

impl TrainingSimulation {
    /// How a round ended for a party, for people; empty where it took the result, and where it was still in a round that
    /// ended without a sum: why is the round's own fault.
    fn end(&self, end: &PartyEnd, has_sum: bool) -> String {
        match end {
            PartyEnd::Result { .. } => String::new(),
            PartyEnd::Dropped => "vanished".into(),
            PartyEnd::Waiting if !has_sum => String::new(),
            PartyEnd::Waiting => "was too late".into(),
            PartyEnd::Fault { stage, fault } => {
                let name = self.job.plan().stages().get(usize::from(*stage)).copied();
                format!("{}: {fault}", name.unwrap_or("result"))
            }
        }
    }
}

/// The models that follow one another as a job says, from means that are given: a job in the clear.
#[pyclass(module = "blindsum._native")]
pub struct ModelSteps {
    job: Arc<Job>,
    model: Model,
}

#[pymethods]
impl ModelSteps {
    /// Begins with these values, or with zeros; with the bytes of a model and its version it goes on from there.
    #[new]
    fn new(
        py: Python<'_>,
        job: &CheckedJob,
        first: Option<Bound<'_, PyAny>>,
        state: Option<(u64, Vec<u8>)>,
    ) -> PyResult<Self> {
        let job = job.job().clone();
        let refused = |rule: String| raise(py, "InputError", ("model", rule));
        let model = match (first, state) {
            (_, Some((version, bytes))) => {
                Model::restored(&job, version, &bytes).map_err(refused)?
            }
            (Some(values), None) => Model::first(&job, read_model(&values)?)
                .map_err(|error| refused(error.to_string()))?,
            (None, None) => Model::initial(&job),
        };
        Ok(Self { job, model })
    }

    /// Goes on with the mean of a round, `[dim]`.
    fn apply(&mut self, py: Python<'_>, mean: Bound<'_, PyAny>) -> PyResult<()> {
        let mean: Reals = read_model(&mean)?;
        let mean = mean.in_precision(self.job.encoding().precision());
        let next = released(py, || self.model.in_the_clear(&mean, self.job.spec()));
        self.model = next.map_err(|error| raise(py, "InputError", ("mean", error.to_string())))?;
        Ok(())
    }

    /// The model, read-only.
    fn model<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        read_only(py, self.model.values())
    }

    /// Version and bytes.
    fn state(&self) -> (u64, Vec<u8>) {
        (self.model.version(), self.model.to_bytes().to_vec())
    }
}
