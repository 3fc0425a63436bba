//! A connection to the admin address of a coordinator.

use std::sync::{Arc, Mutex};

use blindsum_net::admin::{self, AdminError};
use blindsum_net::{Credentials, NetError};
use pyo3::prelude::*;
use tokio::runtime::Runtime;

use crate::calls::{PendingRound, read_call};
use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::network::{Pem, credentials};
use crate::process::Homed;
use crate::steps::Step;
use crate::wait::{abandonable, locked};

/// Orders of an operator. Each call makes a connection of its own: orders are rare, and a coordinator may be started again
/// between two of them.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Admin(Homed<Arc<Line>>);

/// What it is called in errors.
const ADMIN: &str = "connection to a coordinator";

/// Where the coordinator is, and what makes connections to it.
pub struct Line {
    url: String,
    credentials: Credentials,
    server_name: Option<String>,
    runtime: Mutex<Option<Runtime>>,
}

/// The admin interface of a coordinator at this address; nothing is connected yet.
#[pyfunction]
pub fn admin_of(
    py: Python<'_>,
    url: String,
    pem: Pem,
    server_name: Option<String>,
) -> PyResult<Admin> {
    admin::check_url(&url).or_raise(py)?;
    let credentials = credentials(pem).or_raise(py)?;
    let runtime = Mutex::new(None);
    let line = Arc::new(Line {
        url,
        credentials,
        server_name,
        runtime,
    });
    Ok(Admin(Homed::new(ADMIN, line)))
}

impl IntoPyErr for AdminError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        match self {
            AdminError::Net(error) => error.into_py_err(py),
            AdminError::Refused { code, reason } => raise(py, "OrderError", (code, reason)),
            AdminError::Call { field, reason, .. } if field == "model" => {
                raise(py, "InputError", (field, reason))
            }
            AdminError::Call {
                code,
                field,
                reason,
            } => match field.is_empty() {
                true => raise(py, "CallError", (code, reason)),
                false => raise(py, "ConfigError", (field, reason)),
            },
            other => raise(py, "BlindsumError", (other.to_string(),)),
        }
    }
}

impl Line {
    /// Connects and asks.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Runtime, admin::Admin) -> Result<T, AdminError>,
    ) -> Result<T, AdminError> {
        let mut made = locked(&self.runtime);
        let runtime = match made.take() {
            Some(runtime) => runtime,
            None => {
                let system = |error: std::io::Error| NetError::System(error.to_string());
                tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()
                    .map_err(system)?
            }
        };
        let runtime = made.insert(runtime);
        let name = self.server_name.as_deref();
        let connect = admin::Admin::connect(&self.url, &self.credentials, name);
        let admin = runtime.block_on(connect)?;
        question(runtime, admin)
    }
}

#[pymethods]
impl Admin {
    /// One job, or all where the name is empty, as a JSON array.
    fn describe(&self, py: Python<'_>, job: String) -> PyResult<String> {
        let line = self.0.at_home(py)?.clone();
        let ask = move || line.ask(|runtime, mut admin| runtime.block_on(admin.describe(&job)));
        abandonable(py, ask)?.or_raise(py)
    }

    /// Orders something of a job, a command as JSON; gives what was done.
    fn order(
        &self,
        py: Python<'_>,
        job: String,
        command: String,
        reason: String,
    ) -> PyResult<String> {
        let line = self.0.at_home(py)?.clone();
        let ask = move || {
            line.ask(|runtime, mut admin| runtime.block_on(admin.order(&job, &command, &reason)))
        };
        abandonable(py, ask)?.or_raise(py)
    }

    /// Adds a job, its specification as JSON; gives what was done. Where it is `hosted`, a host begins its rounds.
    fn add(&self, py: Python<'_>, spec: String, hosted: bool, reason: String) -> PyResult<String> {
        let line = self.0.at_home(py)?.clone();
        let ask = move || {
            line.ask(|runtime, mut admin| runtime.block_on(admin.add(&spec, hosted, &reason)))
        };
        abandonable(py, ask)?.or_raise(py)
    }

    /// Makes the coordinator read its files again; gives what it did, a line each.
    fn reload(&self, py: Python<'_>, reason: String) -> PyResult<String> {
        let line = self.0.at_home(py)?.clone();
        let ask = move || line.ask(|runtime, mut admin| runtime.block_on(admin.reload(&reason)));
        abandonable(py, ask)?.or_raise(py)
    }

    /// Begins a round of these parties, of a job whose rounds a host begins.
    #[pyo3(signature = (job, parties, model, tag, join_within, deadline))]
    #[allow(clippy::too_many_arguments, reason = "Python gives a call so")]
    fn begin(
        &self,
        py: Python<'_>,
        job: String,
        parties: Vec<String>,
        model: Option<&Bound<'_, PyAny>>,
        tag: Option<Step>,
        join_within: Option<f64>,
        deadline: Option<f64>,
    ) -> PyResult<PendingRound> {
        let line = self.0.at_home(py)?.clone();
        let call = read_call(tag, parties, model, join_within, deadline)?;
        let kept = line.clone();
        let begin = move || {
            line.ask(|runtime, admin| {
                let round = runtime.block_on(admin.host(&job, call))?;
                Ok((round, runtime.handle().clone()))
            })
        };
        let (round, runtime) = abandonable(py, begin)?.or_raise(py)?;
        Ok(PendingRound::there(round, runtime, kept))
    }
}
