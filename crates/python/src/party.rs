//! A party of a job over the network.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blindsum_net::party::{
    self, Absence, Departure, Holding, Metrics, NextRound, PartyConfig, Policy,
};
use blindsum_net::{JobError, Model, NetError, Reload};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

use crate::errors::{IntoPyErr, OrRaise};
use crate::gil::released;
use crate::network::{Pem, credentials};
use crate::process::{Homed, begin_work, closed};
use crate::results::{instance, read_only, round_result, unusable};
use crate::spec::{CheckedJob, read_fields};
use crate::steps::{Step, tag_of};
use crate::vectors::{Vector, copied, read_model};
use crate::wait::{abandonable, locked, patiently};

/// A policy as Python has it; what is missing takes its default.
pub fn read_policy(rules: &Bound<'_, PyAny>) -> PyResult<Policy> {
    read_fields(rules, "policy")
}

/// A member of a job.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Party {
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    job: Py<CheckedJob>,
    sums_fit_64_bits: bool,
    member: Homed<Member>,
}

/// What has threads and connections.
struct Member {
    reload: Reload,
    holding: Holding,
    /// None after it has left.
    party: Mutex<Option<party::Party>>,
}

/// Connects to a coordinator and learns the job.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn join(
    py: Python<'_>,
    url: String,
    job: String,
    pem: Pem,
    server_name: Option<String>,
    policy: &Bound<'_, PyAny>,
    state_dir: Option<PathBuf>,
    ledger_witness: Option<PathBuf>,
    give_up_after: f64,
    mask_memory: usize,
    servers: Vec<String>,
    location: String,
    initial: Option<&Bound<'_, PyAny>>,
) -> PyResult<Party> {
    begin_work(py)?;
    let mut config = PartyConfig::new(url, job, credentials(pem).or_raise(py)?);
    config.server_name = server_name;
    config.policy = read_policy(policy)?;
    config.state_dir = state_dir;
    config.ledger_witness = ledger_witness;
    config.give_up_after = give_up_after;
    config.mask_memory = mask_memory;
    config.servers = servers;
    config.location = location;
    config.initial = initial.map(read_model).transpose()?.map(Arc::new);
    let party = abandonable(py, move || party::Party::join(config))?.or_raise(py)?;
    let job = Py::new(py, CheckedJob::new(party.job().clone()))?;
    Ok(Party {
        name: party.name().into(),
        job,
        sums_fit_64_bits: party.job().encoding().sums_fit_64_bits(),
        member: Homed::new(
            SESSION,
            Member {
                reload: party.reload(),
                holding: party.holding(),
                party: Mutex::new(Some(party)),
            },
        ),
    })
}

#[pymethods]
impl Party {
    /// The next round, a `Round`; or what came in its place, as a class of the package. `RoundRefused`: this party takes no
    /// part in a round, and others may come. `Held`, with `tells_held`: operators let no round begin, or let rounds begin
    /// again. `NoMoreRounds`: none will come.
    fn next_round<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        tells_held: bool,
        tag: Option<Step>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let member = self.member.at_home(py)?;
        let next = patiently(py, duration(timeout), |at_most| {
            let mut party = locked(&member.party);
            let Some(party) = party.as_mut() else {
                return Some(None);
            };
            match party.wait_tag(tag_of(tag), at_most) {
                Ok(NextRound::Waiting) => None,
                Ok(NextRound::Held(_)) if !tells_held => None,
                found => Some(Some(found)),
            }
        })?;
        match next {
            None => Err(timed_out(py, timeout, "the next round")),
            Some(None) => Err(closed(py)),
            Some(Some(Ok(NextRound::Round(round)))) => {
                let round = Round::new(*round, self.sums_fit_64_bits);
                Ok(Bound::new(py, round)?.into_any())
            }
            Some(Some(Ok(NextRound::Refused(error)))) => {
                let error = error.into_py_err(py);
                match error.is_instance_of::<PyException>(py) {
                    true => {
                        let error = error.into_value(py);
                        instance!(py, "blindsum.machine_events", "RoundRefused", error: error)
                    }
                    // A signal came while the exception was made.
                    false => Err(error),
                }
            }
            Some(Some(Ok(NextRound::Held(reason)))) => {
                instance!(py, "blindsum.machine_events", "Held", reason: reason)
            }
            Some(Some(Ok(NextRound::JobDone | NextRound::Waiting))) => {
                instance!(py, "blindsum.native_events", "NoMoreRounds",)
            }
            Some(Some(Err(error))) => Err(error.into_py_err(py)),
        }
    }

    /// The last model of a job that is over, read-only; `None` before, and where it did not come here.
    fn final_model<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let member = self.member.at_home(py)?;
        let model = released(py, || {
            let mut party = locked(&member.party);
            party
                .as_mut()
                .and_then(|party| party.final_model().cloned())
        });
        Ok(model.map(|model| read_only(py, model.values())))
    }

    /// Why the job was done before its rounds were; empty before the end, and where all rounds were done.
    fn done_early(&self, py: Python<'_>) -> PyResult<String> {
        let member = self.member.at_home(py)?;
        Ok(released(py, || {
            let mut party = locked(&member.party);
            let party = party.as_mut();
            party.map_or_else(String::new, |party| party.done_early().to_owned())
        }))
    }

    /// Why operators of the coordinator let no round begin; empty where nothing holds the job.
    fn held(&self, py: Python<'_>) -> PyResult<String> {
        let member = self.member.at_home(py)?;
        Ok(released(py, || member.holding.reason()))
    }

    /// Reads certificate, key, CA and revocation list again.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        let member = self.member.at_home(py)?;
        released(py, || member.reload.reload());
        Ok(())
    }

    /// Leaves the job and tells the coordinator how: `"closed"`, `"stopped"`, or `"failed"` with a reason. Nothing happens the
    /// second time.
    fn close(&self, py: Python<'_>, kind: &str, reason: String) -> PyResult<()> {
        let member = self.member.at_home(py)?;
        let departure = match kind {
            "closed" => Departure::Closed,
            "stopped" => Departure::Stopped,
            "failed" => Departure::Failed(reason),
            other => {
                let rule = format!("kind: {other:?} must be closed, stopped or failed");
                return Err(PyValueError::new_err(rule));
            }
        };
        released(py, || {
            // Not while the party is locked: another thread may wait for a round, and must hear that it was closed.
            let party = locked(&member.party).take();
            if let Some(party) = party {
                party.leave(departure);
            }
        });
        Ok(())
    }
}

/// What a party is called in errors.
const SESSION: &str = "session";
/// What a round is called in errors.
const ROUND: &str = "session of the round";

/// A round that the party takes part in.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Round {
    #[pyo3(get)]
    number: u64,
    /// Names of the certified parties.
    #[pyo3(get)]
    parties: Vec<String>,
    #[pyo3(get)]
    model_version: u64,
    /// The step of the host that began it, if one did and chose one.
    #[pyo3(get)]
    tag: Option<u64>,
    model: Model,
    sums_fit_64_bits: bool,
    /// None after it was skipped.
    round: Homed<Mutex<Option<party::RoundHandle>>>,
}

impl Round {
    fn new(round: party::RoundHandle, sums_fit_64_bits: bool) -> Self {
        Self {
            number: round.number(),
            parties: round.parties().to_vec(),
            model_version: round.model().version(),
            tag: round.tag().map(|tag| tag.number),
            model: round.model().clone(),
            sums_fit_64_bits,
            round: Homed::new(ROUND, Mutex::new(Some(round))),
        }
    }
}

#[pymethods]
impl Round {
    /// The model that the round starts from, read-only; empty where the job keeps none.
    fn model<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        read_only(py, self.model.values())
    }

    /// Whether an update must be submitted; not after the round was abandoned.
    fn needs_update(&self, py: Python<'_>) -> PyResult<bool> {
        let handle = self.round.at_home(py)?;
        Ok(released(py, || {
            let mut round = locked(handle);
            round.as_mut().is_some_and(|round| round.needs_update())
        }))
    }

    /// Checks the update and the metrics, and hands a copy of them over: training may go on in the same memory.
    fn submit(
        &self,
        py: Python<'_>,
        update: &Bound<'_, PyAny>,
        weight: u32,
        metrics: Metrics,
    ) -> PyResult<()> {
        let handle = self.round.at_home(py)?;
        let vector = Vector::borrow(update)?;
        let values = vector.values()?;
        let copy = released(py, || copied(values)).or_raise(py)?;
        let submitted = released(py, || {
            let mut round = locked(handle);
            round
                .as_mut()
                .map(|round| round.submit_with(copy, weight, &metrics))
        });
        match submitted {
            None => Err(closed(py)),
            Some(Ok(())) => Ok(()),
            Some(Err(NetError::Job(JobError::Input(rule)))) => Err(unusable(py, values, &rule)),
            Some(Err(error)) => Err(error.into_py_err(py)),
        }
    }

    /// Waits for the result of the round: a `blindsum.RoundResult`.
    fn result<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let handle = self.round.at_home(py)?;
        let result = patiently(py, duration(timeout), |at_most| {
            let mut round = locked(handle);
            let Some(round) = round.as_mut() else {
                return Some(None);
            };
            round.wait_result(at_most).map(Some)
        })?;
        match result {
            None => Err(timed_out(py, timeout, "the result of the round")),
            Some(None) => Err(closed(py)),
            Some(Some(result)) => round_result(py, result.or_raise(py)?, self.sums_fit_64_bits),
        }
    }

    /// Gives no update in the round, because it was refused for this reason, or because there is none.
    fn skip(&self, py: Python<'_>, refused: Option<String>) -> PyResult<()> {
        let handle = self.round.at_home(py)?;
        let why = refused.map_or(Absence::SitsOut, Absence::Unusable);
        released(py, || {
            if let Some(round) = locked(handle).take() {
                round.skip(why);
            }
        });
        Ok(())
    }
}

/// Seconds to wait at most; the longest time where they are too many.
pub fn duration(seconds: Option<f64>) -> Option<Duration> {
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}

fn timed_out(py: Python<'_>, timeout: Option<f64>, what: &'static str) -> PyErr {
    let seconds = timeout.unwrap_or(0.0);
    NetError::Timeout { seconds, what }.into_py_err(py)
}
