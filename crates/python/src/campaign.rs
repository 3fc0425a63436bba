//! Campaigns of the simulator: whole jobs in which everything goes wrong that may.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use blindsum_sim::{Broken, Campaign, CampaignError, Kind, Tally};
use pyo3::prelude::*;

use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::with_python;
use crate::spec::CheckedJob;
use crate::wait::{interruptible, locked};

/// Runs episodes of a job until so many things have happened; gives what was done, by name. `kinds` are those of the
/// episodes; none of them means all. `progress(steps)` is called after each episode.
#[pyfunction]
pub fn campaign(
    py: Python<'_>,
    job: &CheckedJob,
    steps: u64,
    seed: u64,
    kinds: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(&'static str, u64)>> {
    let mut campaign = Campaign::new(job.job().spec().clone(), steps, seed);
    if !kinds.is_empty() {
        let known = |name: &String| kind(py, name);
        campaign.kinds = kinds.iter().map(known).collect::<PyResult<_>>()?;
    }
    let (stop, failed) = (AtomicBool::new(false), Mutex::new(None));
    let mut watch = |tally: &Tally| {
        if stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let Some(callback) = &progress else {
            return ControlFlow::Continue(());
        };
        match with_python(|py| callback.call1(py, (tally.steps,))) {
            Some(Ok(_)) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
            Some(Err(error)) => {
                *locked(&failed) = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let interrupt = || stop.store(true, Ordering::Relaxed);
    let result = interruptible(py, interrupt, || campaign.run(&mut watch))?;
    match locked(&failed).take() {
        Some(error) => Err(error),
        None => result.map(|tally| named(&tally)).or_raise(py),
    }
}

fn kind(py: Python<'_>, name: &str) -> PyResult<Kind> {
    let known = Kind::ALL.into_iter().find(|kind| kind.as_str() == name);
    known.ok_or_else(|| {
        let names = Kind::ALL.map(Kind::as_str).join(", ");
        raise(
            py,
            "ConfigError",
            ("kinds", format!("{name:?} is none of {names}")),
        )
    })
}

fn named(tally: &Tally) -> Vec<(&'static str, u64)> {
    vec![
        ("steps", tally.steps),
        ("episodes", tally.episodes),
        ("rounds", tally.rounds),
        ("results", tally.results),
        ("kills", tally.kills),
        ("cuts", tally.cuts),
        ("ended", tally.ended),
        ("rollbacks", tally.rollbacks),
        ("restored", tally.restored),
        ("lies", tally.lies),
        ("shown", tally.shown),
        ("leases", tally.leases),
        ("releases", tally.releases),
        ("spoilt", tally.spoilt),
    ]
}

impl IntoPyErr for CampaignError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        match self {
            CampaignError::Sim(error) => error.into_py_err(py),
            CampaignError::Broken(broken) => {
                let Broken {
                    seed, kind, what, ..
                } = *broken;
                let kind = kind.as_str();
                raise(py, "PromiseBroken", (seed, kind, what, broken.story))
            }
        }
    }
}
