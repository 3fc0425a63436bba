//! The jobs of a running coordinator: what it has of each of them, and how it takes up one more.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use blindsum_job::coordinator::{CoordinatorMachine, Counted, Parts};
use blindsum_protocol::Job;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tracing::info;

use super::COORDINATOR;
use super::checked::CheckedJob;
use super::driver::{Driver, JobHandle};
use super::keys::KeyService;
use super::origin::ModelOrigin;
use super::shared::Shared;
use crate::computing::ChannelAcceptor;
use crate::membership::{Members, Place};
use crate::report::{JobState, JobStatus};
use crate::results::ResultFiles;
use crate::system::{Clock, entropy};
use crate::{NetError, Room, Task};

/// A job that is served.
#[derive(Clone)]
pub(crate) struct ServedJob {
    pub job: Arc<Job>,
    pub handle: JobHandle,
    pub status: watch::Receiver<JobStatus>,
    pub ends: broadcast::Sender<Arc<JobStatus>>,
    /// Its counters.
    pub counted: Counted,
    /// The model that it started from here.
    pub start: ModelOrigin,
    /// Whether a host begins its rounds.
    pub hosted: bool,
}

/// The jobs by name. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<RwLock<BTreeMap<String, ServedJob>>>);

impl Jobs {
    pub fn get(&self, name: &str) -> Option<ServedJob> {
        let jobs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        jobs.get(name).cloned()
    }

    /// Those that there are now, by name.
    pub fn all(&self) -> Vec<ServedJob> {
        let jobs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        jobs.values().cloned().collect()
    }

    fn insert(&self, job: ServedJob) {
        let mut jobs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        jobs.insert(job.job.spec().job.clone(), job);
    }
}

/// Tasks, each of which ends with an error where it could not go on.
type Running = JoinSet<Result<(), NetError>>;

/// What runs for a coordinator; nothing once it stops. Clones share it.
#[derive(Clone)]
pub(crate) struct Tasks(Arc<Mutex<Option<Running>>>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(JoinSet::new()))))
    }
}

impl Tasks {
    /// Runs one more; nothing where the coordinator stops.
    pub fn spawn(&self, task: impl Future<Output = Result<(), NetError>> + Send + 'static) {
        if let Some(tasks) = &mut *self.lock() {
            tasks.spawn(task);
        }
    }

    /// All of them. None is run after this.
    pub fn take(&self) -> Running {
        self.lock().take().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What takes jobs up, at the start and later.
pub(crate) struct Host {
    pub shared: Shared,
    pub place: Place,
    pub jobs: Jobs,
    pub tasks: Tasks,
    /// Whether every job is over and the coordinator ends. Orders are given while this is held, so none is accepted that is
    /// not carried out.
    pub closed: tokio::sync::RwLock<bool>,
}

impl Host {
    /// A job whose rounds go on here.
    pub fn running(&self) -> Option<ServedJob> {
        let runs = |job: &ServedJob| {
            job.status.borrow().state == JobState::Running && !job.handle.events.is_closed()
        };
        self.jobs.all().into_iter().find(runs)
    }

    /// Takes no orders from now on, unless a job goes on: true if none does.
    pub async fn close(&self) -> bool {
        let mut closed = self.closed.write().await;
        *closed = self.running().is_none();
        *closed
    }

    /// The memory that the jobs leave.
    pub fn room(&self) -> Room {
        let jobs = self.jobs.all().into_iter();
        jobs.fold(Room::now(), |room, served| {
            room.without(&served.job, Task::Coordinator)
        })
    }

    /// Takes a job up. Servers that compute for it find the coordinator by the acceptor.
    ///
    /// # Errors
    /// The store has the job with another specification, or something else that it needs cannot be opened.
    pub async fn take_up(&self, checked: CheckedJob) -> Result<Option<ChannelAcceptor>, NetError> {
        let name = checked.job.spec().job.clone();
        let given = checked.initial.as_ref().map(|model| *model.hash());
        let members = Members::open(&self.place, &name, &self.shared.limits()).await?;
        let (driver, job, acceptor) = open_job(checked, given, &self.shared, members)?;
        let start = &job.start;
        info!(job = %name, from = start.origin.as_str(), version = start.version, hash = %start.hash, party = %start.party,
            "the model that the job starts from");
        let service = KeyService::of(&job.job, job.handle.clone(), &self.shared)?;
        self.jobs.insert(job);
        self.tasks.spawn(driver.run());
        if let Some(service) = service {
            self.tasks.spawn(service.run());
        }
        Ok(acceptor)
    }
}

/// Takes a job up; nothing but its lines runs before its driver does.
fn open_job(
    checked: CheckedJob,
    given: Option<[u8; 32]>,
    shared: &Shared,
    members: Members,
) -> Result<(Driver, ServedJob, Option<ChannelAcceptor>), NetError> {
    let CheckedJob {
        job,
        initial,
        results,
        hosted,
    } = checked;
    let computing = shared.lines(&job)?;
    let acceptor = computing.as_ref().map(|it| it.lines.acceptor(COORDINATOR));
    let of = job.clone();
    let parts = Parts {
        results: ResultFiles::open(results.as_deref(), &job)?,
        job,
        initial,
        store: shared.store.clone(),
        anchor: shared.side.anchor().clone(),
        own: Some(shared.side.times()),
        shelves: shared.spools.clone(),
        settings: shared.settings(),
        hosted,
    };
    let clock = Clock::new(shared.side.clock().clone());
    let server = CoordinatorMachine::open(parts, clock.now(), entropy()?)?;
    let counted = server.counted();
    let stopping = shared.stopping.clone();
    let (driver, handle, status) = Driver::new(server, clock, computing, members, stopping);
    let start = ModelOrigin::of(&of, given, &status.borrow());
    let job = ServedJob {
        job: of,
        start,
        ends: driver.ends(),
        handle,
        status,
        counted,
        hosted,
    };
    Ok((driver, job, acceptor))
}
