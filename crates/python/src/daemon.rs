//! The `blindsumd` command of the wheel.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::gil::released;

/// Runs the daemon until it ends, and gives its exit code. `words` is its command line without the program's name.
#[pyfunction]
pub fn daemon(py: Python<'_>, words: Vec<OsString>) -> u8 {
    let words = std::iter::once("blindsumd".into()).chain(words);
    released(py, || blindsum_daemon::main(words))
}
