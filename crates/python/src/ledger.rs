//! The ledger of a party's data, for its owner.

use std::path::PathBuf;
use std::sync::Arc;

use blindsum_job::hex;
use blindsum_job::ledger::Ledger;
use blindsum_net::party::FileLedger;
use blindsum_protocol::Spent;
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::gil::released;

/// A release: the hash of its job, the round, seconds since 1970 in UTC, and the parties whose noise it counts on.
type Charged = (String, u64, u64, usize);

/// The ledger of a unit in a folder: its releases, and ε of all of them at each δ.
#[pyfunction]
pub fn ledger(
    py: Python<'_>,
    folder: PathBuf,
    unit: &str,
    witness: Option<PathBuf>,
    deltas: Vec<f64>,
) -> PyResult<(Vec<Charged>, Vec<f64>)> {
    let read = || {
        let ledger = Ledger::open(unit, Arc::new(FileLedger::of(&folder, unit, witness)))?;
        ledger.releases()
    };
    let releases = released(py, read).or_raise(py)?;
    let none = Spent::default();
    let spent = releases.iter().fold(none, |spent, it| spent.plus(&it.cost));
    let epsilon = |delta| spent.epsilon(delta).unwrap_or(f64::INFINITY);
    let charged = releases
        .iter()
        .map(|it| (hex(&it.job), it.round, it.time, it.honest));
    Ok((charged.collect(), deltas.into_iter().map(epsilon).collect()))
}
