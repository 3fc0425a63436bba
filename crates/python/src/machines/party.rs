//! A party of a job as a machine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use blindsum_crypto::sign::IdentityKey;
use blindsum_job::frames::of_party;
use blindsum_job::ledger::LedgerFile;
use blindsum_job::machine::{Now, Time};
use blindsum_job::party::{
    self, Absence, Departure, Effect, Input, LinkId, Metrics, Settings, Told, check_update,
};
use blindsum_job::pb::CoordinatorFrame;
use blindsum_job::records::MemoryRecords;
use blindsum_job::{JobError, NoUpdateTaken};
use blindsum_net::party::FileLedger;
use blindsum_protocol::Job;
use prost::Message as _;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::events::Event;
use super::{LARGEST_FRAME, MACHINE, clocks};
use crate::errors::{IntoPyErr, OrRaise};
use crate::gil::released;
use crate::network::{Pem, credentials};
use crate::party::read_policy;
use crate::process::{Homed, begin_work};
use crate::results::{instance, unusable};
use crate::spec::CheckedJob;
use crate::steps::{Step, tag_of};
use crate::system::{entropy, random};
use crate::vectors::{Vector, copied, read_model};
use crate::wait::locked;

/// A party: frames in, frames out.
#[pyclass(frozen, module = "blindsum._native")]
pub struct PartyMachine {
    /// As in its certificate.
    #[pyo3(get)]
    name: String,
    /// In DER.
    certificate: Vec<u8>,
    key: Arc<IdentityKey>,
    desk: Homed<Mutex<Desk>>,
}

/// The machine, and what lies between it and whoever carries its frames.
struct Desk {
    machine: party::PartyMachine,
    records: Arc<MemoryRecords>,
    job: Option<Arc<Job>>,
    link: LinkId,
    /// Whether frames wait for the state that has what they say behind it.
    suspends: bool,
    /// What was said over this connection since the machine was suspended last.
    said: Vec<Vec<u8>>,
    /// What may leave.
    leaving: Vec<Vec<u8>>,
    events: Vec<Event>,
    /// Why the update that was given last was dropped.
    dropped: Option<JobError>,
}

#[pymethods]
impl PartyMachine {
    /// A party that begins, or goes on from a state.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        job: String,
        pem: Pem,
        policy: &Bound<'_, PyAny>,
        state: Option<&[u8]>,
        mark: Option<u64>,
        mask_memory: usize,
        ledger: Option<PathBuf>,
        ledger_witness: Option<PathBuf>,
        initial: Option<&Bound<'_, PyAny>>,
        now: f64,
        wall: f64,
    ) -> PyResult<Self> {
        begin_work(py)?;
        let (identity, certificate) = credentials(pem).and_then(|c| c.party()).or_raise(py)?;
        let (name, key) = (identity.name.clone(), identity.key.clone());
        let records = match state {
            None => MemoryRecords::default(),
            Some(state) => released(py, || MemoryRecords::unseal(&key, state)).or_raise(py)?,
        };
        let (records, now, entropy) = (Arc::new(records), clocks(py, now, wall)?, entropy()?);
        let policy = read_policy(policy)?;
        let ledger = ledger.map(|folder| {
            let file = FileLedger::of(&folder, &policy.privacy.privacy_unit, ledger_witness);
            Arc::new(file) as Arc<dyn LedgerFile>
        });
        let settings = Settings {
            job,
            policy,
            ledger,
            mask_memory,
            location: String::new(),
            job_memory: Arc::default(),
            initial: initial.map(read_model).transpose()?.map(Arc::new),
        };
        let desk = released(py, || {
            let (kept, to_keep) = (records.clone(), records.clone());
            let machine = match mark {
                None => party::PartyMachine::open(settings, identity, Some(kept), now, entropy),
                Some(mark) => {
                    party::PartyMachine::resume(settings, identity, kept, mark, now, entropy)
                }
            };
            let mut desk = Desk {
                machine,
                records: to_keep,
                job: None,
                link: LinkId::default(),
                suspends: mark.is_some(),
                said: Vec::new(),
                leaving: Vec::new(),
                events: Vec::new(),
                dropped: None,
            };
            desk.carry_out(now);
            desk
        });
        Ok(Self {
            name,
            certificate,
            key,
            desk: Homed::new(MACHINE, Mutex::new(desk)),
        })
    }

    /// The certificate, in DER.
    #[getter]
    fn certificate<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.certificate)
    }

    /// The job, once it is known.
    #[getter]
    fn job(&self, py: Python<'_>) -> PyResult<Option<CheckedJob>> {
        let desk = self.desk.at_home(py)?;
        let desk = locked(desk);
        Ok(desk.job.clone().map(CheckedJob::new))
    }

    /// There is a new connection.
    fn connected(&self, py: Python<'_>, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || {
            let mut desk = locked(desk);
            desk.link.0 += 1;
            desk.forget_said();
            let linked = Input::Linked(desk.link);
            desk.give(now, linked);
        });
        Ok(())
    }

    /// The connection has ended.
    fn lost(&self, py: Python<'_>, reason: String, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || {
            let mut desk = locked(desk);
            desk.forget_said();
            let lost = Input::Lost(desk.link, reason);
            desk.give(now, lost);
        });
        Ok(())
    }

    /// A frame of the coordinator.
    fn receive(&self, py: Python<'_>, frame: &[u8], now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        let read = released(py, || {
            let frame = read_frame(frame)?;
            let mut desk = locked(desk);
            let came = Input::Frame(desk.link, frame);
            desk.give(now, came);
            Ok(())
        });
        read.map_err(|error: JobError| error.into_py_err(py))
    }

    /// The caller waits for a round, of this tag or of any.
    fn want_round(&self, py: Python<'_>, tag: Option<Step>, now: f64, wall: f64) -> PyResult<()> {
        self.give(
            py,
            tag_of(tag).map_or(Input::WantRound, Input::WantTag),
            now,
            wall,
        )
    }

    /// Checks the update and hands a copy of it over.
    #[allow(clippy::too_many_arguments)]
    fn submit(
        &self,
        py: Python<'_>,
        number: u64,
        update: &Bound<'_, PyAny>,
        weight: u32,
        metrics: Metrics,
        now: f64,
        wall: f64,
    ) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        let vector = Vector::borrow(update)?;
        let values = vector.values()?;
        let copy = released(py, || copied(values)).or_raise(py)?;
        let submitted = released(py, || {
            let mut desk = locked(desk);
            let Some(job) = desk.job.clone() else {
                let why = NoUpdateTaken::NotBegun;
                return Err(JobError::Submission { round: number, why });
            };
            let (round, update) = (number, check_update(&job, copy, weight, &metrics)?);
            desk.give(now, Input::Submit { round, update });
            desk.dropped.take().map_or(Ok(()), Err)
        });
        match submitted {
            Ok(()) => Ok(()),
            Err(JobError::Input(rule)) => Err(unusable(py, values, &rule)),
            Err(error) => Err(error.into_py_err(py)),
        }
    }

    /// The caller has taken the result of a round.
    fn took(&self, py: Python<'_>, number: u64, now: f64, wall: f64) -> PyResult<()> {
        self.give(py, Input::Took(number), now, wall)
    }

    /// The caller gives no update.
    fn abandon(
        &self,
        py: Python<'_>,
        number: u64,
        refused: Option<String>,
        now: f64,
        wall: f64,
    ) -> PyResult<()> {
        let why = refused.map_or(Absence::SitsOut, Absence::Unusable);
        self.give(py, Input::Abandon { round: number, why }, now, wall)
    }

    /// The caller leaves the job.
    fn leave(&self, py: Python<'_>, now: f64, wall: f64) -> PyResult<()> {
        self.give(py, Input::Leave(Departure::Closed), now, wall)
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

    /// When to tick, on the clock that never goes back; none where there is no need.
    #[getter]
    fn wake(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let desk = self.desk.at_home(py)?;
        let wake = locked(desk).machine.wake();
        Ok(wake.map(|Time(wake)| wake.as_secs_f64()))
    }

    /// Whether nothing more will come of it.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        let desk = self.desk.at_home(py)?;
        Ok(locked(desk).machine.is_over())
    }

    /// What is to be sent, in this order; each frame is given once.
    fn frames<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let desk = self.desk.at_home(py)?;
        let leaving = std::mem::take(&mut locked(desk).leaving).into_iter();
        Ok(leaving.map(|frame| PyBytes::new(py, &frame)).collect())
    }

    /// What has happened; each event is given once.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let desk = self.desk.at_home(py)?;
        let events = std::mem::take(&mut locked(desk).events).into_iter();
        events.map(|event| event.into_python(py)).collect()
    }

    /// All that must survive, sealed, and its mark: a `blindsum.machines.Suspended`. What was said may leave now.
    fn suspend<'py>(&self, py: Python<'py>, now: f64, wall: f64) -> PyResult<Bound<'py, PyAny>> {
        let desk = self.desk.at_home(py)?;
        let (now, mut rng) = (clocks(py, now, wall)?, random()?);
        let sealed = released(py, || {
            let mut desk = locked(desk);
            let is_live = desk.suspends && !desk.machine.is_over();
            let before = desk.machine.mark();
            desk.give(now, Input::Suspend);
            if is_live && desk.machine.mark() == before {
                let reason = "the party was not suspended; its events have the reason".into();
                return Err(JobError::System(reason));
            }
            let mut said = std::mem::take(&mut desk.said);
            desk.leaving.append(&mut said);
            // Where nothing lives any more, no state before this one may come to life again either.
            let mark = desk.machine.mark() + u64::from(!is_live);
            let mark = desk.suspends.then_some(mark);
            Ok((desk.records.seal(&self.key, &mut rng)?, mark))
        });
        let (state, mark) = sealed.map_err(|error| error.into_py_err(py))?;
        instance!(py, "blindsum.machines", "Suspended", state: PyBytes::new(py, &state), mark: mark)
    }
}

impl PartyMachine {
    fn give(&self, py: Python<'_>, input: Input, now: f64, wall: f64) -> PyResult<()> {
        let desk = self.desk.at_home(py)?;
        let now = clocks(py, now, wall)?;
        released(py, || locked(desk).give(now, input));
        Ok(())
    }
}

impl Desk {
    fn give(&mut self, now: Now, input: Input) {
        self.machine.handle(now, input);
        self.carry_out(now);
    }

    /// Does what the machine asks for, until it waits for somebody else.
    fn carry_out(&mut self, now: Now) {
        while let Some(effect) = self.machine.poll_working(now) {
            match effect {
                Effect::Send(link, say) if link == self.link => {
                    let frames = of_party(say).into_iter();
                    let frames = frames.map(|frame| frame.encode_to_vec());
                    match self.suspends {
                        true => self.said.extend(frames),
                        false => self.leaving.extend(frames),
                    }
                }
                // A transport of the caller's own goes to the coordinator only.
                Effect::Upload { round, role, .. } => {
                    let reason = format!("the party has no way to the {role}");
                    let refused = Input::UploadRefused {
                        round,
                        role,
                        reason,
                    };
                    self.machine.handle(now, refused);
                }
                Effect::Reconnect(link, reason) if link == self.link => {
                    self.forget_said();
                    self.events.push(Event::Reconnect(reason));
                }
                // Of a connection that has ended.
                Effect::Send(..) | Effect::Reconnect(..) => {}
                Effect::Tell(told) => self.tell(told),
            }
        }
    }

    fn tell(&mut self, told: Told) {
        if let Told::Dropped(error) = told {
            self.dropped = Some(error);
            return;
        }
        if let Told::Joined(job) = &told {
            self.job = Some(job.clone());
        }
        let job = self.job.as_ref();
        let fits = job.is_some_and(|job| job.encoding().sums_fit_64_bits());
        self.events.extend(Event::of(told, fits));
    }

    /// The connection is over: what it did not carry yet is not sent.
    fn forget_said(&mut self) {
        self.said.clear();
        self.leaving.clear();
    }
}

fn read_frame(bytes: &[u8]) -> Result<CoordinatorFrame, JobError> {
    let wrong = |reason: String| JobError::Coordinator(format!("a frame: {reason}"));
    if bytes.len() > LARGEST_FRAME {
        let length = bytes.len();
        return Err(wrong(format!("{length} bytes, more than {LARGEST_FRAME}")));
    }
    CoordinatorFrame::decode(bytes).map_err(|error| wrong(error.to_string()))
}
