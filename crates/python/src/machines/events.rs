//! What machines tell their callers, as the classes of `blindsum.machines`.

use std::sync::Arc;

use blindsum_job::party::{Begun, Over, RoundResult, Told};
use blindsum_job::{JobError, Model};
use blindsum_protocol::Job;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::IntoPyErr;
use crate::results::{instance, read_only, round_result};
use crate::spec::CheckedJob;

/// What a party tells its caller.
pub enum Event {
    Joined(Arc<Job>),
    Begun(Begun),
    Ended(u64, Box<RoundResult>, bool),
    Lost(u64, JobError),
    Refused(JobError),
    Reconnect(String),
    Held(String),
    JobDone(Option<Model>, String),
    Failed(JobError),
}

impl Event {
    /// What was told; nothing where it is for nobody. Sums of the job fit into 64 bits, or not.
    pub fn of(told: Told, fits: bool) -> Option<Self> {
        Some(match told {
            Told::Joined(job) => Self::Joined(job),
            Told::Round(begun) => Self::Begun(begun),
            Told::Refused(error) => Self::Refused(error),
            Told::Ended(round, Ok(result)) => Self::Ended(round, result, fits),
            Told::Ended(round, Err(error)) => Self::Lost(round, error),
            Told::Held(reason) => Self::Held(reason),
            Told::Over(Over::JobDone { model, reason }) => Self::JobDone(model, reason),
            Told::Over(Over::Failed(error)) => Self::Failed(error),
            // Whoever gave the update is told at once.
            Told::Dropped(_) | Told::Over(Over::Left) => return None,
        })
    }

    /// The instance of a class of `blindsum.machines`.
    pub fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let exception = |error: JobError| error.into_py_err(py).into_value(py);
        match self {
            Self::Joined(job) => {
                let class = py.import("blindsum.spec")?.getattr("JobSpec")?;
                let spec = class.call_method1("_of", (CheckedJob::new(job),))?;
                instance!(py, "blindsum.machines", "Joined", spec: spec)
            }
            Self::Begun(begun) => instance!(py, "blindsum.machines", "RoundBegins",
                number: begun.number,
                model: read_only(py, begun.model.values()),
                model_version: begun.model.version(),
                parties: PyTuple::new(py, begun.parties)?,
                needs_update: begun.needs_update,
                tag: begun.tag.map(|tag| tag.number)),
            Self::Ended(number, result, fits) => instance!(py, "blindsum.machines", "RoundEnded",
                number: number, result: round_result(py, *result, fits)?),
            Self::Lost(number, error) => instance!(py, "blindsum.machines", "RoundLost",
                number: number, error: exception(error)),
            Self::Refused(error) => {
                instance!(py, "blindsum.machines", "RoundRefused", error: exception(error))
            }
            Self::Reconnect(reason) => {
                instance!(py, "blindsum.machines", "Reconnect", reason: reason)
            }
            Self::Held(reason) => instance!(py, "blindsum.machines", "Held", reason: reason),
            Self::JobDone(model, reason) => instance!(py, "blindsum.machines", "JobDone",
                model: model.map(|model| read_only(py, model.values())),
                reason: reason),
            Self::Failed(error) => {
                instance!(py, "blindsum.machines", "Failed", error: exception(error))
            }
        }
    }
}
