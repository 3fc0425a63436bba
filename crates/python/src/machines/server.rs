//! The coordinator of a job as a machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::calls::{CallEnd, CallError, CallId};
use blindsum_job::coordinator::{
    Choice, CoordinatorMachine, Input, LinkId, MemoryShelves, Parts, Peer, Settings,
};
use blindsum_job::machine::Time;
use blindsum_job::session::{Count, Session};
use blindsum_job::store::MemoryStore;
use blindsum_job::{JobError, Model, seconds};
use blindsum_net::{Room, Task};
use blindsum_protocol::{InitialModel, Job};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::desk::{Connection, Desk, Event};
use super::{MACHINE, clocks};
use crate::calls::{call_end, read_call};
use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::released;
use crate::process::{Homed, begin_work};
use crate::results::instance;
use crate::spec::{CheckedJob, plain};
use crate::steps::Step;
use crate::system::entropy;
use crate::vectors::read_model;
use crate::wait::locked;

/// How long a coordinator waits, and for what: `blindsum.machines.Waits`.
#[derive(FromPyObject)]
struct Waits {
    patience: f64,
    reconnect_grace: f64,
    chunk_timeout: f64,
    failed_rounds: u32,
    models_kept: u32,
}

/// A coordinator: frames in, frames out.
#[pyclass(frozen, module = "blindsum._native")]
pub struct ServerMachine {
    anchor: Arc<TrustAnchor>,
    job: Arc<Job>,
    store: Arc<MemoryStore>,
    desk: Homed<Mutex<Desk>>,
}

#[pymethods]
impl ServerMachine {
    /// A job that begins, or goes on from its store.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        job: &CheckedJob,
        ca: &str,
        revoked: Option<&str>,
        store: Option<&[u8]>,
        model: Option<&Bound<'_, PyAny>>,
        waits: Waits,
        hosted: bool,
        now: f64,
        wall: f64,
    ) -> PyResult<Self> {
        begin_work(py)?;
        let job = job.job().clone();
        let anchor = Arc::new(TrustAnchor::from_pem(ca, revoked).or_raise(py)?);
        Room::now().check(&job, Task::Coordinator).or_raise(py)?;
        let store = match store {
            None => MemoryStore::new(waits.models_kept),
            Some(bytes) => {
                let read = released(py, || {
                    MemoryStore::from_bytes(&job, bytes, waits.models_kept)
                });
                read.or_raise(py)?
            }
        };
        let store = Arc::new(store);
        let kind = job.spec().initial;
        if model.is_some() && kind != InitialModel::Coordinator {
            let rule = format!("the job has initial = {kind}: give no model");
            return Err(raise(py, "InputError", ("model", rule)));
        }
        let initial = model.map(read_model).transpose()?;
        let initial = initial.map(|values| {
            let first = Model::first(&job, values);
            first.map_err(|error| raise(py, "InputError", ("model", error.to_string())))
        });
        let parts = Parts {
            job: job.clone(),
            initial: initial.transpose()?,
            store: store.clone(),
            anchor: anchor.clone(),
            own: None,
            results: None,
            shelves: Arc::new(MemoryShelves),
            settings: Settings {
                patience: seconds(waits.patience),
                reconnect_grace: seconds(waits.reconnect_grace),
                chunk_timeout: seconds(waits.chunk_timeout),
                failed_rounds: waits.failed_rounds,
                choice: Choice::First,
                change: 1,
            },
            hosted,
        };
        let (now, entropy) = (clocks(py, now, wall)?, entropy()?);
        let desk = released(py, || {
            let mut desk = Desk {
                machine: CoordinatorMachine::open(parts, now, entropy)?,
                connections: BTreeMap::new(),
                latest: 0,
                calls: 0,
                taken: None,
                leaving: Vec::new(),
                events: Vec::new(),
            };
            desk.carry_out(now);
            Ok(desk)
        });
        Ok(Self {
            anchor,
            job,
            store,
            desk: Homed::new(
                MACHINE,
                Mutex::new(desk.map_err(|error: JobError| error.into_py_err(py))?),
            ),
        })
    }

    /// A connection of whoever holds the key of this certificate, in DER: its number.
    fn connected(
        &self,
        py: Python<'_>,
        certificate: &[u8],
        address: String,
        now: f64,
        wall: f64,
    ) -> PyResult<u64> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        let party = self
            .anchor
            .verify_party(certificate, now.unix_millis / 1000);
        let refused = |error: blindsum_crypto::certificate::CertificateError| {
            raise(py, "IdentityError", (error.to_string(),))
        };
        let party = party.map_err(refused)?;
        let count = Arc::<Count>::default();
        let peer = Peer {
            name: party.name.into(),
            address,
            certificate: certificate.into(),
            key: party.key,
            traffic: count.clone(),
            role: None,
        };
        let mut desk = locked(desk);
        desk.latest += 1;
        let link = LinkId(desk.latest);
        let session = Session::new(link, peer);
        desk.connections.insert(link, Connection { session, count });
        Ok(link.0)
    }

    /// A connection has ended.
    fn lost(&self, py: Python<'_>, link: u64, reason: String, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || locked(desk).lost(LinkId(link), reason, true, now));
        Ok(())
    }

    /// A frame of a party.
    fn receive(
        &self,
        py: Python<'_>,
        link: u64,
        frame: &[u8],
        now: f64,
        wall: f64,
    ) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || locked(desk).receive(LinkId(link), frame, now));
        Ok(())
    }

    /// Time has passed.
    fn tick(&self, py: Python<'_>, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || {
            let mut desk = locked(desk);
            desk.machine.tick(now);
            desk.carry_out(now);
        });
        Ok(())
    }

    /// The host begins a round.
    #[allow(clippy::too_many_arguments)]
    fn begin(
        &self,
        py: Python<'_>,
        parties: Vec<String>,
        model: Option<&Bound<'_, PyAny>>,
        tag: Option<Step>,
        join_within: Option<f64>,
        deadline: Option<f64>,
        now: f64,
        wall: f64,
    ) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        let call = read_call(tag, parties, model, join_within, deadline)?;
        let taken = released(py, || {
            let mut desk = locked(desk);
            desk.calls += 1;
            let id = CallId(desk.calls);
            desk.give(Input::Call { id, call }, now);
            let job = self.job.spec().job.clone();
            let stopping = CallError::Stopping { job };
            desk.taken.take().unwrap_or(Err(stopping))
        });
        taken.or_raise(py)
    }

    /// The host knows that a party of its round has failed.
    fn report_failed(
        &self,
        py: Python<'_>,
        party: &str,
        reason: String,
        now: f64,
        wall: f64,
    ) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        let name = party.into();
        let failed = Input::PartyFailed { name, reason };
        released(py, || locked(desk).give(failed, now));
        Ok(())
    }

    /// The host wants no result of its round any more.
    fn call_off(&self, py: Python<'_>, reason: String, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || {
            let mut desk = locked(desk);
            let id = CallId(desk.calls);
            desk.give(Input::CallOff { id, reason }, now);
        });
        Ok(())
    }

    /// The coordinator stops: everybody is told.
    fn stop(&self, py: Python<'_>, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || locked(desk).give(Input::Stop, now));
        Ok(())
    }

    /// When to tick, on the clock that never goes back; none where there is no need.
    #[getter]
    fn wake(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let desk = self.desk.at_home(py)?;
        let wake = locked(desk).machine.wake();
        Ok(wake.map(|Time(wake)| wake.as_secs_f64()))
    }

    /// Where the job stands.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let desk = self.desk.at_home(py)?;
        let status = locked(desk).machine.status().clone();
        plain(py, &*status)
    }

    /// All that must not be forgotten.
    #[getter]
    fn store<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.desk.at_home(py)?;
        let name = &self.job.spec().job;
        let bytes = released(py, || self.store.to_bytes(name)).or_raise(py)?;
        Ok(PyBytes::new(py, &bytes.unwrap_or_default()))
    }

    /// What is to be sent, in this order, as `blindsum.machines.Outgoing`; each frame is given once.
    fn frames<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let desk = self.desk.at_home(py)?;
        let leaving = std::mem::take(&mut locked(desk).leaving).into_iter();
        let outgoing = |(link, frame): (u64, Bytes)| {
            let frame = PyBytes::new(py, &frame);
            instance!(py, "blindsum.machines", "Outgoing", link: link, frame: frame)
        };
        leaving.map(outgoing).collect()
    }

    /// What has happened; each event is given once.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let desk = self.desk.at_home(py)?;
        let events = std::mem::take(&mut locked(desk).events).into_iter();
        let fits = self.job.encoding().sums_fit_64_bits();
        let event = |event| match event {
            Event::CallEnded(end) => called(py, end, fits),
            Event::LinkEnded(link, reason) => instance!(py, "blindsum.machines", "LinkEnded",
                link: link, reason: reason),
            Event::JobOver(result) => {
                let error = result
                    .err()
                    .map(|error| error.into_py_err(py).into_value(py));
                instance!(py, "blindsum.machines", "JobOver", error: error)
            }
        };
        events.map(event).collect()
    }
}

/// How a round ended that the host began, as `blindsum.machines.RoundOver`.
fn called(py: Python<'_>, end: CallEnd, fits: bool) -> PyResult<Bound<'_, PyAny>> {
    let (tag, is_sum) = match &end {
        CallEnd::Sum(sum) => (sum.tag, true),
        CallEnd::Lost(lost) => (lost.tag, false),
    };
    let end = Some(call_end(py, end, fits)?);
    let (result, error) = match is_sum {
        true => (end, None),
        false => (None, end),
    };
    instance!(py, "blindsum.machines", "RoundOver", tag: tag, result: result, error: error)
}
