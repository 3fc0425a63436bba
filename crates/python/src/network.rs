//! What party and coordinator have in common: credentials, errors, logs.

use std::io::IsTerminal;
use std::path::PathBuf;

use blindsum_net::{
    CredentialFiles, Credentials, JobError, NetError, Passphrase, StoreError, check_log_levels,
};
use blindsum_protocol::{Culprit, Fault};
use pyo3::prelude::*;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::errors::{IntoPyErr, OrRaise, raise};

/// Files of certificate, key, CA and revocation list, all PEM, and the passphrase of the key.
pub type Pem = (PathBuf, PathBuf, PathBuf, Option<PathBuf>, Option<String>);

/// Credentials out of PEM files, which are read again when they change.
pub fn credentials(pem: Pem) -> Result<Credentials, NetError> {
    let (certificate, key, ca, revoked, passphrase) = pem;
    let files = CredentialFiles {
        certificate,
        key,
        ca,
        revoked,
    };
    files.read_with(passphrase.map(Passphrase::new))
}

/// Writes logs to stderr from now on. `filter` is one of off, error, warn, info, debug, trace, or a list like
/// `warn,blindsum_net=debug`.
#[pyfunction]
pub fn log_to_stderr(py: Python<'_>, filter: &str) -> PyResult<()> {
    let refused = |rule: String| raise(py, "ConfigError", ("log", rule));
    check_log_levels("log", filter).or_raise(py)?;
    let filter: Result<Targets, ParseError> = filter.parse();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .with_filter(filter.map_err(|e| refused(e.to_string()))?);
    tracing_subscriber::registry()
        .with(lines)
        .try_init()
        .map_err(|e| refused(e.to_string()))
}

impl IntoPyErr for NetError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        let text = self.to_string();
        match self {
            NetError::Config { field, rule } => raise(py, "ConfigError", (field, rule)),
            NetError::Job(error) => error.into_py_err(py),
            NetError::Credential { .. } => raise(py, "IdentityError", (text,)),
            NetError::Listen { .. } | NetError::Unreachable { .. } | NetError::Tls { .. } => {
                raise(py, "NetworkError", (text,))
            }
            NetError::Timeout { .. } => raise(py, "WaitTimeoutError", (text,)),
            NetError::Memory { .. } => raise(py, "MemoryLimitError", (text,)),
            NetError::Left | NetError::Ended { .. } => raise(py, "SessionClosedError", (text,)),
            _ => raise(py, "BlindsumError", (text,)),
        }
    }
}

impl IntoPyErr for JobError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        let text = self.to_string();
        match self {
            JobError::Spec(error) => error.into_py_err(py),
            JobError::Refused { .. } => raise(py, "NetworkError", (text,)),
            JobError::Store(error) => error.into_py_err(py),
            JobError::State { .. } => raise(py, "StoreError", (text,)),
            JobError::Policy(error) => raise(py, "PolicyError", (error.to_string(),)),
            JobError::Coordinator(_)
            | JobError::ModelMismatch { .. }
            | JobError::ResultMismatch { .. } => {
                raise(py, "Fault", (Culprit::Server.to_string(), text))
            }
            // Nobody has done wrong: one of the clocks is.
            JobError::OutOfTime { .. } => raise(py, "Fault", (Culprit::Nobody.to_string(), text)),
            JobError::Fault { fault, .. } => <Fault as IntoPyErr>::into_py_err(fault, py),
            JobError::RoundAborted { round, reason } => {
                raise(py, "RoundAborted", (round, reason, false))
            }
            JobError::Dropped { round, reason } => raise(py, "RoundAborted", (round, reason, true)),
            JobError::Missed { round, reason } => raise(py, "ResultMissed", (round, reason)),
            JobError::Model(_) => raise(py, "ModelError", (text,)),
            JobError::Unknown { round, reason, .. } => raise(py, "RoundUnknown", (round, reason)),
            JobError::Submission { round, why } => {
                raise(py, "SubmitError", (round, why.as_str(), why.to_string()))
            }
            JobError::Input(rule) => raise(py, "InputError", (format!("update: {rule}"),)),
            _ => raise(py, "BlindsumError", (text,)),
        }
    }
}

impl IntoPyErr for StoreError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        raise(py, "StoreError", (self.to_string(),))
    }
}
