//! The coordinator of a job as a machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::actor::{Now, Time};
use blindsum_job::frames::of_coordinator;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame, RefusalCode, Refused};
use blindsum_job::server::{
    Choice, Effect, Input, JobServer, LinkId, MemoryShelves, Parts, Peer, Say, Settings,
};
use blindsum_job::session::{Count, Session};
use blindsum_job::store::MemoryStore;
use blindsum_job::{JobError, Model, chunks, seconds};
use blindsum_net::{Room, Task};
use blindsum_protocol::{InitialModel, Job};
use bytes::Bytes;
use prost::Message as _;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;

use super::{MACHINE, clocks};
use crate::coordinator::text;
use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::released;
use crate::process::{Home, begin_work};
use crate::results::instance;
use crate::spec::read_job;
use crate::system::entropy;
use crate::vectors::read_model;
use crate::wait::locked;

/// The largest frame of a party, in bytes: a chunk, and what names it.
const LARGEST_FRAME: usize = chunks::CHUNK + 4096;

/// How long a coordinator waits, and for what, as Python writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
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
    home: Home,
    desk: Mutex<Desk>,
}

/// The machine, and what lies between it and whoever carries its frames.
struct Desk {
    machine: JobServer,
    connections: BTreeMap<LinkId, Connection>,
    /// The number of the latest connection.
    latest: u64,
    leaving: Vec<(u64, Bytes)>,
    events: Vec<Event>,
}

/// One connection, and the bytes that went over it.
struct Connection {
    session: Session,
    count: Arc<Count>,
}

/// What a coordinator tells.
enum Event {
    LinkEnded(u64, String),
    JobOver(Result<(), JobError>),
}

#[pymethods]
impl ServerMachine {
    /// A job that begins, or goes on from its store.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        spec: &str,
        ca: &str,
        revoked: Option<&str>,
        store: Option<&[u8]>,
        model: Option<&Bound<'_, PyAny>>,
        waits: &str,
        now: f64,
        wall: f64,
    ) -> PyResult<Self> {
        begin_work(py)?;
        let waits: Waits = serde_json::from_str(waits)
            .map_err(|error| raise(py, "ConfigError", ("waits", error.to_string())))?;
        let job = Arc::new(read_job(spec).or_raise(py)?);
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
            let rule = format!("model: the job says initial = {kind}: give no model");
            return Err(raise(py, "InputError", (rule,)));
        }
        let initial = model.map(read_model).transpose()?;
        let initial = initial.map(|values| {
            let first = Model::first(&job, values);
            first.map_err(|error| raise(py, "InputError", (format!("model: {error}"),)))
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
        };
        let (now, entropy) = (clocks(py, now, wall)?, entropy()?);
        let desk = released(py, || {
            let mut desk = Desk {
                machine: JobServer::open(parts, now, entropy)?,
                connections: BTreeMap::new(),
                latest: 0,
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
            home: Home::here(),
            desk: Mutex::new(desk.map_err(|error: JobError| error.into_py_err(py))?),
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
        self.home.check(py, MACHINE)?;
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
        let mut desk = locked(&self.desk);
        desk.latest += 1;
        let link = LinkId(desk.latest);
        let session = Session::new(link, peer);
        desk.connections.insert(link, Connection { session, count });
        Ok(link.0)
    }

    /// A connection has ended.
    fn lost(&self, py: Python<'_>, link: u64, reason: String, now: f64, wall: f64) -> PyResult<()> {
        self.home.check(py, MACHINE)?;
        let now = clocks(py, now, wall)?;
        released(py, || {
            locked(&self.desk).lost(LinkId(link), reason, true, now)
        });
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
        self.home.check(py, MACHINE)?;
        let now = clocks(py, now, wall)?;
        released(py, || locked(&self.desk).receive(LinkId(link), frame, now));
        Ok(())
    }

    /// Time has passed.
    fn tick(&self, py: Python<'_>, now: f64, wall: f64) -> PyResult<()> {
        self.home.check(py, MACHINE)?;
        let now = clocks(py, now, wall)?;
        released(py, || {
            let mut desk = locked(&self.desk);
            desk.machine.tick(now);
            desk.carry_out(now);
        });
        Ok(())
    }

    /// The coordinator stops: everybody is told.
    fn stop(&self, py: Python<'_>, now: f64, wall: f64) -> PyResult<()> {
        self.home.check(py, MACHINE)?;
        let now = clocks(py, now, wall)?;
        released(py, || locked(&self.desk).give(Input::Stop, now));
        Ok(())
    }

    /// When to tick, on the clock that never goes back; none where there is no need.
    #[getter]
    fn wake(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.home.check(py, MACHINE)?;
        let wake = locked(&self.desk).machine.wake();
        Ok(wake.map(|Time(wake)| wake.as_secs_f64()))
    }

    /// Where the job stands, JSON.
    #[getter]
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        self.home.check(py, MACHINE)?;
        text(&*locked(&self.desk).machine.status())
    }

    /// All that must not be forgotten.
    #[getter]
    fn store<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.home.check(py, MACHINE)?;
        let name = &self.job.spec().job;
        let bytes = released(py, || self.store.to_bytes(name)).or_raise(py)?;
        Ok(PyBytes::new(py, &bytes.unwrap_or_default()))
    }

    /// What is to be sent, in this order, as `blindsum.machines.Outgoing`; each frame is given once.
    fn frames<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.home.check(py, MACHINE)?;
        let leaving = std::mem::take(&mut locked(&self.desk).leaving).into_iter();
        let outgoing = |(link, frame): (u64, Bytes)| {
            let frame = PyBytes::new(py, &frame);
            instance!(py, "blindsum.machines", "Outgoing", link: link, frame: frame)
        };
        leaving.map(outgoing).collect()
    }

    /// What has happened; each event is given once.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.home.check(py, MACHINE)?;
        let events = std::mem::take(&mut locked(&self.desk).events).into_iter();
        let event = |event| match event {
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

impl Desk {
    fn give(&mut self, input: Input, now: Now) {
        self.machine.handle(now, input);
        self.carry_out(now);
    }

    fn receive(&mut self, link: LinkId, bytes: &[u8], now: Now) {
        let Some(connection) = self.connections.get(&link) else {
            return;
        };
        connection.count.came(bytes.len());
        match read_frame(bytes) {
            Ok(frame) => self.hear(link, frame, now),
            Err(refused) => self.end(link, refused, now),
        }
    }

    fn hear(&mut self, link: LinkId, frame: PartyFrame, now: Now) {
        let gate = self.machine.gate();
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        match connection.session.hear(&gate, frame) {
            Ok(None) => {}
            Ok(Some(input)) => self.give(input, now),
            Err(refused) => self.end(link, refused, now),
        }
    }

    /// The party is let in; what it said meanwhile is heard.
    fn admit(&mut self, link: LinkId, now: Now) {
        let connection = self.connections.get_mut(&link);
        let waiting = connection.map(|connection| connection.session.admit());
        for frame in waiting.unwrap_or_default() {
            self.hear(link, frame, now);
        }
    }

    /// A connection has ended; whoever carries it hears so, where it was the coordinator that ended it.
    fn lost(&mut self, link: LinkId, reason: String, returns: bool, now: Now) {
        let Some(Connection { session, .. }) = self.connections.remove(&link) else {
            return;
        };
        if !returns {
            self.events.push(Event::LinkEnded(link.0, reason.clone()));
        }
        if session.is_known() {
            let lost = Input::Lost {
                link,
                reason,
                returns,
            };
            self.give(lost, now);
        }
    }

    /// Does what the machine asks for, until it waits for somebody else.
    fn carry_out(&mut self, now: Now) {
        while let Some(effect) = self.machine.poll() {
            match effect {
                Effect::Work(task) => {
                    let ticket = task.ticket;
                    task.run();
                    self.machine.worked(now, ticket);
                }
                Effect::Admit(link) => self.admit(link, now),
                Effect::Send(link, say) => self.say(link, say, now),
                Effect::Refuse(link, last) => {
                    let reason = last.reason.clone();
                    self.send(link, &last.into());
                    self.connections.remove(&link);
                    self.events.push(Event::LinkEnded(link.0, reason));
                }
                Effect::Close(link, last) => self.end(link, last, now),
                Effect::Cut(link, last) => {
                    self.leaving.retain(|(of, _)| *of != link.0);
                    self.end(link, last, now);
                }
                // It is the caller who knows which of its connections live.
                // It gives no orders.
                Effect::Lease(_) | Effect::Ordered { .. } => {}
                // A transport of the caller's own has no lines between servers.
                Effect::Letter { to, .. } => {
                    let reason = "there is no line to it".into();
                    let lost = Input::LineLost { to, reason };
                    self.machine.handle(now, lost);
                }
                Effect::Over(result) => self.events.push(Event::JobOver(result)),
            }
        }
    }

    fn end(&mut self, link: LinkId, last: Refused, now: Now) {
        let reason = last.reason.clone();
        self.send(link, &last.into());
        self.lost(link, reason, false, now);
    }

    fn say(&mut self, link: LinkId, say: Say, now: Now) {
        let round = match &say {
            Say::Message { round, .. } => *round,
            Say::Shared(frame) => return self.send_bytes(link, frame.encoded().clone()),
            Say::Frame(_) | Say::Model { .. } => 0,
        };
        match of_coordinator(say) {
            Ok(frames) => frames.iter().for_each(|frame| self.send(link, frame)),
            Err(error) => {
                let reason = error.to_string();
                self.give(Input::Unreadable { round, reason }, now);
            }
        }
    }

    fn send(&mut self, link: LinkId, frame: &CoordinatorFrame) {
        self.send_bytes(link, frame.encode_to_vec().into());
    }

    fn send_bytes(&mut self, link: LinkId, bytes: Bytes) {
        if let Some(connection) = self.connections.get(&link) {
            connection.count.sent(bytes.len());
            self.leaving.push((link.0, bytes));
        }
    }
}

fn read_frame(bytes: &[u8]) -> Result<PartyFrame, Refused> {
    let wrong = |reason: String| Refused::new(RefusalCode::RefusalBadFrame, reason);
    if bytes.len() > LARGEST_FRAME {
        let length = bytes.len();
        return Err(wrong(format!(
            "a frame of {length} bytes, more than {LARGEST_FRAME}"
        )));
    }
    PartyFrame::decode(bytes).map_err(|error| wrong(format!("a frame: {error}")))
}
