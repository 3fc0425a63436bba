//! What a coordinator's store remembers, read also while it is used.

use std::path::PathBuf;

use blindsum_net::Model;
use blindsum_net::store::{ShownFault, StoreReader};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{OrRaise, raise};
use crate::gil::released;
use crate::results::{instance, read_only};
use crate::spec::{CheckedJob, plain};

/// Every job of a store, by name.
#[pyfunction]
pub fn stored_jobs(py: Python<'_>, store: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let jobs = StoreReader::open(&store).or_raise(py)?.jobs();
    plain(py, &jobs.or_raise(py)?)
}

/// A job of a store; `None` where the store does not have it.
#[pyfunction]
pub fn stored_job(py: Python<'_>, store: PathBuf, job: &str) -> PyResult<Option<CheckedJob>> {
    let spec = StoreReader::open(&store)
        .or_raise(py)?
        .spec(job)
        .or_raise(py)?;
    spec.map(|spec| CheckedJob::of(py, spec)).transpose()
}

/// The latest rounds of a job in a store, oldest first.
#[pyfunction]
pub fn stored_rounds<'py>(
    py: Python<'py>,
    store: PathBuf,
    job: &str,
    most: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let store = StoreReader::open(&store).or_raise(py)?;
    let mut rounds = store.rounds(job, most).or_raise(py)?;
    rounds.reverse();
    plain(py, &rounds)
}

/// What members of a job did wrong, with what shows it: `blindsum.stores.StoredFault`, oldest first.
#[pyfunction]
pub fn stored_faults<'py>(
    py: Python<'py>,
    store: PathBuf,
    job: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let faults = released(py, || StoreReader::open(&store)?.faults(job)).or_raise(py)?;
    let fault = |fault: ShownFault| {
        instance!(py, "blindsum.stores", "StoredFault",
            round: fault.round,
            culprit: fault.culprit,
            accuser: fault.accuser,
            what: fault.what,
            evidence: PyBytes::new(py, fault.evidence.bytes()),
            length: fault.evidence.length(),
            times: fault.times)
    };
    faults.into_iter().map(fault).collect()
}

/// A version of a job's model, where the store still has it. An error where the coordinator never had it.
#[pyfunction]
pub fn stored_model<'py>(
    py: Python<'py>,
    store: PathBuf,
    job: &str,
    version: u64,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let read = released(py, || StoreReader::open(&store)?.model(job, version));
    // One that a party is to give first is not there yet.
    let model = read.or_raise(py)?.filter(|model| !model.is_awaited());
    if model.as_ref().is_some_and(Model::is_hidden) {
        let text = format!("version {version} of the model of job {job}: only the parties have it");
        return Err(raise(py, "HiddenModelError", (text,)));
    }
    Ok(model.map(|model| read_only(py, model.values())))
}

/// The versions of a job's model that a store has, oldest first.
#[pyfunction]
pub fn stored_versions(py: Python<'_>, store: PathBuf, job: &str) -> PyResult<Vec<u64>> {
    released(py, || StoreReader::open(&store)?.versions(job)).or_raise(py)
}

/// Writes a copy of a store to a new file.
#[pyfunction]
pub fn back_up_store(py: Python<'_>, store: PathBuf, to: PathBuf) -> PyResult<()> {
    released(py, || StoreReader::open(&store)?.back_up(&to)).or_raise(py)
}
