//! What party and coordinator have in common: credentials, errors, logs.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use blindsum_net::logs::{Feed, Lines, change, to_feed, to_stderr};
use blindsum_net::{CredentialFiles, Credentials, JobError, NetError, Passphrase, StoreError};
use blindsum_protocol::{Culprit, Fault};
use pyo3::prelude::*;

use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::released;

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
/// `warn,blindsum_net=debug`; `format` is text or json.
#[pyfunction]
pub fn log_to_stderr(py: Python<'_>, filter: &str, format: &str) -> PyResult<()> {
    let lines = Lines::of("log_format", format, std::io::stderr().is_terminal()).or_raise(py)?;
    to_stderr("log", filter, lines).or_raise(py)
}

/// The lines that [`next_log_line`] gives.
static FEED: OnceLock<Feed> = OnceLock::new();

/// Gives lines of the log to [`next_log_line`] from now on.
#[pyfunction]
pub fn log_to_feed(py: Python<'_>, filter: &str) -> PyResult<()> {
    let feed = to_feed("log", filter).or_raise(py)?;
    // There is one log in a process.
    let _ = FEED.set(feed);
    Ok(())
}

/// The next line: its level, the part of the program, its text, and how many were left out before it; `None` where none
/// came in time.
#[pyfunction]
pub fn next_log_line(
    py: Python<'_>,
    timeout: f64,
) -> Option<(&'static str, &'static str, String, u64)> {
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
    let line = released(py, || FEED.get().and_then(|feed| feed.next(timeout)))?;
    Some((line.level, line.part, line.text, line.left_out))
}

/// Changes which lines are logged from now on.
#[pyfunction]
pub fn change_log(py: Python<'_>, filter: &str) -> PyResult<()> {
    change("log", filter).or_raise(py)
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
            JobError::Policy(error) => raise(py, "PolicyError", (error.field(), error.to_string())),
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
            JobError::OtherTag {
                round,
                wanted,
                offered,
            } => raise(py, "OtherTag", (round, text, wanted, offered)),
            JobError::AboutOther { round, tag } => raise(py, "OtherContent", (round, text, tag)),
            JobError::Missed { round, reason } => raise(py, "ResultMissed", (round, reason)),
            JobError::Model(_) => raise(py, "ModelError", (text,)),
            JobError::Unknown { round, reason, .. } => raise(py, "RoundUnknown", (round, reason)),
            JobError::Submission { round, why } => {
                raise(py, "SubmitError", (round, why.as_str(), why.to_string()))
            }
            JobError::Input(rule) => raise(py, "InputError", ("update", rule)),
            JobError::Initial(rule) => raise(py, "InputError", ("initial", rule)),
            _ => raise(py, "BlindsumError", (text,)),
        }
    }
}

impl IntoPyErr for StoreError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        raise(py, "StoreError", (self.to_string(),))
    }
}
