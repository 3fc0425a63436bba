//! The simulator.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use blindsum_net::{Room, Task};
use blindsum_protocol::Job;
use blindsum_sim::{
    Cohort, DropAt, Given, Inputs, Liars, Progress, Run, Scenario, SimError, Simulation, Synthetic,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::{released, with_python};
use crate::spec::{CheckedJob, plain};
use crate::vectors::{Vector, position_not_finite, sums_array};
use crate::wait::{interruptible, locked};

/// What became of a simulation.
#[pyclass(frozen, get_all, module = "blindsum._native")]
pub struct Simulated {
    /// The report, plain data.
    report: Py<PyAny>,
    /// The mean, where updates were given and there is a sum.
    mean: Option<Py<PyArray1<f64>>>,
    /// The exact sums of integers, where there is a mean.
    sums: Option<Py<PyAny>>,
}

/// Runs `rounds` rounds of a job. `updates` are flat arrays, one per party; `None` makes random ones.
/// `progress(round, rounds, text)` is called now and then.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn simulate(
    py: Python<'_>,
    job: &CheckedJob,
    updates: Option<Vec<Bound<'_, PyAny>>>,
    weights: Option<Vec<u32>>,
    metrics: Option<Vec<Vec<Option<f64>>>>,
    drop: f64,
    drop_at: Vec<String>,
    latency: f64,
    liars: u32,
    lie: &str,
    rounds: u32,
    seed: u64,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Simulated> {
    let job = job.job().clone();
    let parties = updates.as_ref().map(Vec::len);
    let parties = parties.unwrap_or(job.spec().parties as usize);
    let room = Room::now().check(&job, Task::Simulation { parties });
    room.or_raise(py)?;
    let drop_at: Result<Vec<DropAt>, SimError> = drop_at.iter().map(|text| text.parse()).collect();
    let mut scenario = Scenario::new(job.clone());
    scenario.drop_at = drop_at.or_raise(py)?;
    scenario.drop = drop;
    scenario.network.latency = latency;
    if liars > 0 {
        let kind = lie.parse().or_raise(py)?;
        scenario.liars = Some(Liars { count: liars, kind });
    }
    scenario.rounds = rounds;
    scenario.seed = seed;
    scenario.threads = threads;
    let watcher = Watcher::new(progress, scenario.first_round, rounds);
    let Some(updates) = updates else {
        let inputs = Synthetic::new(&job, seed);
        let run = execute(py, scenario, parties, &inputs, &watcher)?;
        return Ok(Simulated {
            report: plain(py, &run.report)?.unbind(),
            mean: None,
            sums: None,
        });
    };
    let vectors: Vec<Vector<'_>> = updates
        .iter()
        .map(Vector::borrow)
        .collect::<PyResult<_>>()?;
    let values: Vec<_> = vectors
        .iter()
        .map(Vector::values)
        .collect::<PyResult<_>>()?;
    check_values(py, &job, &values)?;
    let inputs = Given::new(values, weights.unwrap_or_default());
    let inputs = inputs.with_metrics(metrics.unwrap_or_default());
    let mut run = execute(py, scenario, parties, &inputs, &watcher)?;
    let mean = run.last.mean.take();
    let mean = mean.map(|mean| mean.into_pyarray(py).unbind());
    let fit = job.encoding().sums_fit_64_bits();
    let sums = run.last.sums.take();
    let sums = sums.map(|sums| sums_array(py, sums, fit)).transpose()?;
    Ok(Simulated {
        report: plain(py, &run.report)?.unbind(),
        mean,
        sums: sums.map(Bound::unbind),
    })
}

/// Refuses what is not a finite number before anything runs, naming party and coordinate.
pub fn check_values(
    py: Python<'_>,
    job: &Job,
    vectors: &[blindsum_encode::Values<'_>],
) -> PyResult<()> {
    for (party, values) in vectors.iter().enumerate() {
        if let Some(index) = released(py, || position_not_finite(*values)) {
            let field = format!("updates[{party}]");
            let rule = format!("coordinate {index} is not a finite number");
            return Err(raise(py, "InputError", (field, rule, index)));
        }
    }
    let least = job.least_roster();
    if vectors.len() < least {
        let rule = format!("{} parties, a round needs {least}", vectors.len());
        return Err(raise(py, "InputError", ("updates", rule)));
    }
    Ok(())
}

fn execute(
    py: Python<'_>,
    scenario: Scenario,
    parties: usize,
    inputs: &(dyn Inputs + Sync),
    watcher: &Watcher,
) -> PyResult<Run> {
    let work = || {
        let cohort = Arc::new(Cohort::of(scenario.job.spec(), parties, scenario.seed)?);
        let simulation = Simulation::with_cohort(scenario, cohort)?;
        simulation.run(inputs, &mut (), &mut |progress: &Progress| {
            watcher.see(progress)
        })
    };
    let result = interruptible(py, || watcher.stop(), work)?;
    match watcher.error() {
        Some(error) => Err(error),
        None => result.or_raise(py),
    }
}

/// Passes progress on to Python, and stops the run where that raises.
pub struct Watcher {
    callback: Option<Py<PyAny>>,
    first_round: u64,
    rounds: u32,
    error: Mutex<Option<PyErr>>,
    stop: AtomicBool,
}

impl Watcher {
    /// Tells `callback` of rounds from `first_round` on.
    pub fn new(callback: Option<Py<PyAny>>, first_round: u64, rounds: u32) -> Self {
        Self {
            callback,
            first_round,
            rounds,
            error: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Stops the run.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What the callback raised.
    pub fn error(&self) -> Option<PyErr> {
        locked(&self.error).take()
    }

    /// Called with progress.
    pub fn see(&self, progress: &Progress) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let Some(callback) = &self.callback else {
            return ControlFlow::Continue(());
        };
        // A key set-up has the number of the round before it.
        let done = progress.round.saturating_sub(self.first_round);
        let text = format!(
            "{}: {} of {}",
            progress.name, progress.answered, progress.expected
        );
        match with_python(|py| callback.call1(py, (done, self.rounds, text))) {
            Some(Ok(_)) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
            Some(Err(error)) => {
                *locked(&self.error) = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl IntoPyErr for SimError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        match self {
            SimError::Spec(error) => error.into_py_err(py),
            SimError::Scenario { field, rule } => raise(py, "ConfigError", (field, rule)),
            SimError::Inputs { party, field, rule } => {
                // What the caller calls it.
                let given = match field {
                    "weight" => "weights",
                    _ => "updates",
                };
                raise(py, "InputError", (format!("{given}[{}]", party.0), rule))
            }
            SimError::Round(fault) => fault.into_py_err(py),
            SimError::Crypto(error) => error.into_py_err(py),
            other => raise(py, "BlindsumError", (other.to_string(),)),
        }
    }
}
