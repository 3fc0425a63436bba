//! Rounds that a program begins which runs a coordinator.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};

use blindsum_job::calls::{Call, CallEnd, CallError, CallLost, CallSum};
use blindsum_job::report::MetricReport;
use blindsum_net::admin::{AdminError, HostControl, HostedRound};
use blindsum_net::coordinator::{CallControl, PendingCall};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tokio::runtime::Handle;

use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::released;
use crate::party::duration;
use crate::process::Homed;
use crate::results::{instance, read_only};
use crate::steps::Step;
use crate::vectors::{read_model, sums_array};
use crate::wait::{locked, patiently};

/// What it is called in errors.
const ROUND: &str = "round";

/// A call as Python gives it.
pub fn read_call(
    step: Option<Step>,
    parties: Vec<String>,
    model: Option<&Bound<'_, PyAny>>,
    join_within: Option<f64>,
    deadline: Option<f64>,
) -> PyResult<Call> {
    Ok(Call {
        tag: step.map(|(number, _)| number),
        about: step.and_then(|(_, about)| about),
        parties,
        model: model.map(read_model).transpose()?,
        join_within,
        deadline,
    })
}

impl IntoPyErr for CallError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Value {
                field: field @ "model",
                rule,
            } => raise(py, "InputError", (field, rule)),
            Self::Value { field, rule } => raise(py, "ConfigError", (field, rule)),
            other => raise(py, "CallError", (other.code(), other.to_string())),
        }
    }
}

/// What came of a call: a `blindsum.HostedResult`, or the exception `blindsum.RoundLost`.
pub fn call_end(py: Python<'_>, end: CallEnd, fits: bool) -> PyResult<Bound<'_, PyAny>> {
    match end {
        CallEnd::Sum(sum) => call_sum(py, *sum, fits),
        CallEnd::Lost(lost) => {
            let CallLost {
                tag,
                round,
                reason,
                lost,
            } = lost;
            let error = raise(py, "RoundLost", (round, reason, tag, lost));
            Ok(error.into_value(py).into_bound(py).into_any())
        }
    }
}

fn call_sum(py: Python<'_>, sum: CallSum, fits: bool) -> PyResult<Bound<'_, PyAny>> {
    let exact = sum
        .sums
        .map(|sums| sums_array(py, sums, fits))
        .transpose()?;
    let (values, shares) = (PyDict::new(py), PyDict::new(py));
    for (name, MetricReport { value, share, .. }) in sum.metrics {
        values.set_item(&name, value)?;
        shares.set_item(&name, share)?;
    }
    instance!(py, "blindsum.hosted", "HostedResult",
        number: sum.round,
        tag: sum.tag,
        mean: sum.mean.map(|mean| read_only(py, &mean)),
        sum: exact,
        total_weight: sum.total_weight,
        survivors: PyTuple::new(py, sum.survivors)?,
        lost: sum.lost,
        metrics: values,
        reported: shares,
        model_version: sum.model_version,
        result: sum.result,
        seconds: sum.seconds,
    )
}

/// What came of a call, and whether exact sums of the job's integers fit into 64 bits.
type Ended = Result<(CallEnd, bool), AdminError>;

/// What makes connections to a coordinator elsewhere.
type Kept = dyn Send + Sync;

/// The coordinator of a round.
enum Control {
    Here(CallControl),
    There(HostControl),
}

/// A round that was called. Its methods may be called from several threads.
#[pyclass(frozen, module = "blindsum._native")]
pub struct PendingRound(Homed<Called>);

/// What has threads and connections.
struct Called {
    ended: Mutex<Receiver<Ended>>,
    control: Control,
    runtime: Handle,
    /// It lives as long as its rounds.
    _line: Option<Arc<Kept>>,
}

impl PendingRound {
    /// One of a coordinator in this process, whose end is heard on this runtime. Sums of the job fit into 64 bits, or not.
    pub fn here(mut pending: PendingCall, runtime: Handle, fits: bool) -> Self {
        let (sender, ended) = channel();
        let control = Control::Here(pending.control());
        runtime.spawn(async move {
            if let Some(end) = pending.end().await {
                // Perhaps nobody wants to hear it.
                let _ = sender.send(Ok((end, fits)));
            }
        });
        Self::with(ended, control, runtime, None)
    }

    /// One of a coordinator elsewhere.
    pub fn there(round: HostedRound, runtime: Handle, line: Arc<Kept>) -> Self {
        let (sender, ended) = channel();
        let control = Control::There(round.control());
        runtime.spawn(async move {
            let _ = sender.send(round.end().await);
        });
        Self::with(ended, control, runtime, Some(line))
    }

    fn with(
        ended: Receiver<Ended>,
        control: Control,
        runtime: Handle,
        line: Option<Arc<Kept>>,
    ) -> Self {
        let called = Called {
            ended: Mutex::new(ended),
            control,
            runtime,
            _line: line,
        };
        Self(Homed::new(ROUND, called))
    }
}

#[pymethods]
impl PendingRound {
    /// What came of the round, once; `None` where it goes on.
    fn end<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let called = self.0.at_home(py)?;
        let found = patiently(py, duration(timeout), |at_most| {
            match locked(&called.ended).recv_timeout(at_most) {
                Ok(end) => Some(Some(end)),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(None),
            }
        })?;
        match found {
            None => Ok(None),
            Some(Some(end)) => {
                let (end, fits) = end.or_raise(py)?;
                call_end(py, end, fits).map(Some)
            }
            Some(None) => {
                let text = "the coordinator has ended, and the outcome of the round is not known here; its \
                    store has it";
                Err(raise(py, "SessionClosedError", (text,)))
            }
        }
    }

    /// The host knows that a party has failed.
    fn report_failed(&self, py: Python<'_>, party: &str, reason: &str) -> PyResult<()> {
        let called = self.0.at_home(py)?;
        released(py, || {
            called.runtime.block_on(async {
                match &called.control {
                    Control::Here(control) => control.report_failed(party, reason).await,
                    Control::There(control) => control.report_failed(party, reason).await,
                }
            });
        });
        Ok(())
    }

    /// The host wants no result any more.
    fn call_off(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        let called = self.0.at_home(py)?;
        released(py, || {
            called.runtime.block_on(async {
                match &called.control {
                    Control::Here(control) => control.call_off(reason).await,
                    Control::There(control) => control.call_off(reason).await,
                }
            });
        });
        Ok(())
    }
}
