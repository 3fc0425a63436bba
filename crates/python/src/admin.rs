//! A connection to the admin address of a coordinator.

use std::sync::{Arc, Mutex};

use blindsum_net::admin::{self, AdminError};
use blindsum_net::{Credentials, NetError};
use pyo3::prelude::*;
use tokio::runtime::Runtime;

use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::network::{Pem, credentials};
use crate::process::Home;
use crate::wait::{abandonable, locked};

/// Orders of an operator. Each call makes a connection of its own: orders are rare, and a coordinator may be started again
/// between two of them.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Admin(Arc<Line>);

/// What it is called in errors.
const ADMIN: &str = "connection to a coordinator";

/// Where the coordinator is, and what makes connections to it.
struct Line {
    url: String,
    credentials: Credentials,
    server_name: Option<String>,
    home: Home,
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
    Ok(Admin(Arc::new(Line {
        url,
        credentials,
        server_name,
        home: Home::here(),
        runtime,
    })))
}

impl IntoPyErr for AdminError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        match self {
            AdminError::Net(error) => error.into_py_err(py),
            AdminError::Refused { code, reason } => raise(py, "OrderError", (code, reason)),
            other => raise(py, "BlindsumError", (other.to_string(),)),
        }
    }
}

impl Line {
    /// Connects and asks.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Runtime, &mut admin::Admin) -> Result<T, AdminError>,
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
        let mut admin = runtime.block_on(connect)?;
        question(runtime, &mut admin)
    }
}

#[pymethods]
impl Admin {
    /// One job, or all where the name is empty, as a JSON array.
    fn describe(&self, py: Python<'_>, job: String) -> PyResult<String> {
        self.0.home.check(py, ADMIN)?;
        let line = self.0.clone();
        let ask = move || line.ask(|runtime, admin| runtime.block_on(admin.describe(&job)));
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
        self.0.home.check(py, ADMIN)?;
        let line = self.0.clone();
        let ask = move || {
            line.ask(|runtime, admin| runtime.block_on(admin.order(&job, &command, &reason)))
        };
        abandonable(py, ask)?.or_raise(py)
    }

    /// Adds a job, its specification as JSON; gives what was done.
    fn add(&self, py: Python<'_>, spec: String, reason: String) -> PyResult<String> {
        self.0.home.check(py, ADMIN)?;
        let line = self.0.clone();
        let ask = move || line.ask(|runtime, admin| runtime.block_on(admin.add(&spec, &reason)));
        abandonable(py, ask)?.or_raise(py)
    }

    /// Makes the coordinator read its files again; gives what it did, a line each.
    fn reload(&self, py: Python<'_>, reason: String) -> PyResult<String> {
        self.0.home.check(py, ADMIN)?;
        let line = self.0.clone();
        let ask = move || line.ask(|runtime, admin| runtime.block_on(admin.reload(&reason)));
        abandonable(py, ask)?.or_raise(py)
    }
}
