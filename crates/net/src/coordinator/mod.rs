//! The coordinator: lets parties in, runs the rounds of its jobs, keeps the models.
//!
//! What a job does is decided in [`blindsum_job::coordinator`]. Here are its clock, threads, sockets and files. `service`
//! and `session` speak with one party each: `reading` reads what it sends. `driver` hands what they read to the job, and
//! carries out what the job asks for.

mod admin;
mod calls;
mod checked;
mod configured;
mod control;
mod driver;
mod file;
mod first_model;
mod hosting;
mod keys;
mod open_calls;
mod origin;
mod reading;
mod reloading;
mod service;
mod session;
mod shared;
mod watched;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use blindsum_encode::Reals;
use blindsum_protocol::{Job, JobSpec, ServerIndex};
use tokio::sync::{broadcast, watch};
use tracing::info;

pub use crate::address::{check_address, check_apart};
use crate::audit::{Audit, Entry};
use crate::computing::ComputingService;
use crate::limits::Limits;
use crate::membership::{Membership, Place};
use crate::observers::Observers;
use crate::relay::Spools;
use crate::report::{JobState, JobStatus};
use crate::servers::Servers;
use crate::serving::{listen, make_room, serve};
use crate::store::{SqliteStore, StoreReader};
use crate::tls::{CoordinatorSide, Credentials, Reload, Renewed};
use crate::watched::{Kept, Watched};
use crate::{NetError, seconds};
pub use admin::{Description, Ended};
pub use blindsum_job::coordinator::Choice;
pub use calls::{CallControl, PendingCall};
use checked::{CheckedJob, check_jobs, check_settings};
pub use configured::Also;
pub use control::Control;
pub use file::ConfigFile;
use hosting::{Host, Jobs, Tasks};
pub use origin::{ModelOrigin, Origin};
pub use reloading::Reloaded;
use service::{Router, Service};
use shared::Shared;

/// The configuration of a coordinator.
pub struct Config {
    /// The address to listen on, as in `0.0.0.0:9443`; with port 0 the system chooses a free one.
    pub listen: String,
    /// The coordinator's certificate and key, and the CA of its parties.
    pub credentials: Credentials,
    /// The SQLite file for jobs, rounds and models. Without it they are lost when the coordinator ends.
    pub store: Option<PathBuf>,
    /// The file of the audit trail, if one is wanted.
    pub audit: Option<PathBuf>,
    /// The jobs.
    pub jobs: Vec<JobConfig>,
    /// The public URLs of the three servers, in order, this coordinator first: for jobs whose servers compute
    /// together. Empty if there is no such job.
    pub servers: Vec<String>,
    /// The membership manager, which holds the leases of parties.
    pub membership: Membership,
    /// Limits for parties.
    pub limits: Limits,
    /// Whether to stop once every job is done or has failed.
    pub stop_when_done: bool,
    /// Which parties take part where more are ready than a round takes.
    pub choice: Choice,
    /// How many parties a choice by turns or at random changes at once, at least.
    pub change: u32,
    /// The address of the admin interface for operators; `None` switches it off.
    pub admin: Option<String>,
}

/// The configuration of one job.
pub struct JobConfig {
    /// The job's specification.
    pub spec: JobSpec,
    /// The model from which round 1 starts, `[dim]`; `None` means zeros. It is rounded to the precision of the job.
    pub initial_model: Option<Reals>,
    /// A folder for the results that the coordinator learns, a file for each round; `None` stores none. A job whose
    /// servers alone learn results requires it.
    pub results: Option<PathBuf>,
    /// Whether a host begins the rounds, by [`Control::call`], and the coordinator none by itself.
    pub hosted: bool,
}

/// A running coordinator. Dropping it stops it without notice; [`Coordinator::stop`] notifies the parties.
pub struct Coordinator {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    hosts: Vec<String>,
    side: Arc<Renewed<CoordinatorSide>>,
    host: Arc<Host>,
    control: Control,
    stopping: watch::Sender<bool>,
    stop_when_done: bool,
    audit: Audit,
    watched: Watched,
}

/// A coordinator that is starting.
pub type Started = Pin<Box<dyn Future<Output = Result<Coordinator, NetError>> + Send>>;

/// Runs a coordinator until `shutdown` ends, or until its jobs are over if the configuration says so. Calls `ready`
/// with the address once parties can connect.
///
/// # Errors
/// A configuration that cannot be used, or a job that failed.
pub async fn run(
    config: Config,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), NetError> {
    let mut coordinator = Coordinator::start(config).await?;
    ready(coordinator.address());
    tokio::select! {
        () = shutdown => info!("stopping"),
        () = coordinator.finished() => info!("every job is over"),
    }
    coordinator.stop().await
}

impl Coordinator {
    /// Checks all that [`start`](Self::start) does, except that the address can be listened on and the store be written. Gives
    /// the number of jobs.
    ///
    /// # Errors
    /// The first error found.
    pub fn check(config: Config) -> Result<usize, NetError> {
        check_settings(&config)?;
        if let Some(trail) = &config.audit {
            Audit::check(trail)?;
        }
        let judged = judge(
            &config.limits,
            config.credentials,
            config.membership,
            config.jobs,
            &config.servers,
        )?;
        if let Some(path) = config.store.filter(|path| path.exists()) {
            let reader = StoreReader::open(&path)?;
            for checked in &judged.jobs {
                reader.check_job(&checked.job)?;
            }
        }
        Ok(judged.jobs.len())
    }

    /// Checks everything, opens the store, listens.
    ///
    /// # Errors
    /// The first error found. Nothing runs then.
    pub fn start(config: Config) -> Started {
        // Boxed, all that it runs is compiled here once, and not in each crate that waits for it.
        Box::pin(Self::begin(config))
    }

    async fn begin(config: Config) -> Result<Self, NetError> {
        check_settings(&config)?;
        let limits = config.limits.clone();
        let Judged {
            side,
            servers,
            place,
            jobs,
        } = judge(
            &limits,
            config.credentials,
            config.membership,
            config.jobs,
            &config.servers,
        )?;
        let file = Arc::new(match &config.store {
            Some(path) => SqliteStore::open(path, limits.models_kept)?,
            None => SqliteStore::in_memory(limits.models_kept)?,
        });
        let clock = side.clock().clone();
        let (audit, store) = Audit::open(config.audit.as_deref(), clock, file.clone())?;
        make_room(&limits);
        let listener = listen(&config.listen).await?;
        let address = listener.local_addr().map_err(NetError::system)?;
        let admin = match &config.admin {
            Some(admin) => Some(listen(admin).await?),
            None => None,
        };
        let (stopping, stop) = watch::channel(false);
        let shared = Shared {
            spools: Arc::new(Spools::new(limits.relay_memory, config.store.as_deref())),
            observers: Observers {
                audit: audit.clone(),
                counts: Arc::default(),
            },
            store,
            side: side.clone(),
            limits: RwLock::new(limits.clone()),
            servers: servers.clone(),
            choice: (config.choice, config.change),
            stopping: stop.clone(),
        };
        let (served, tasks, mut acceptors) = (Jobs::default(), Tasks::default(), BTreeMap::new());
        let host = Arc::new(Host {
            shared,
            place,
            jobs: served.clone(),
            tasks: tasks.clone(),
            closed: Default::default(),
        });
        let count = jobs.len();
        for checked in jobs {
            let name = checked.job.spec().job.clone();
            let acceptor = host.take_up(checked).await?;
            acceptors.extend(acceptor.map(|it| (name, it)));
        }
        let observers = host.shared.observers.clone();
        let kept = Kept {
            store: file,
            spools: host.shared.spools.clone(),
        };
        let (shown, counts) = (watched::shown(&served), observers.counts.clone());
        let watched = Watched::new(shown, Some(kept), counts, &side, stop.clone());
        let anchor = side.anchor().clone();
        let service = Service::new(served, limits.clone(), anchor, observers.clone());
        let hosts = side.current().hosts.clone();
        let computing = ComputingService::new(acceptors, None, side.anchor().clone(), &limits);
        let router = Router::new(service, computing);
        let control = Control::new(&host, Reload::of(side.clone()));
        let admin = match admin {
            Some(listener) => {
                let address = listener.local_addr().map_err(NetError::system)?;
                let stop = stopping.subscribe();
                let (control, limits) = (control.clone(), limits.clone());
                let observers = host.shared.observers.clone();
                let served = admin::serve(listener, side.clone(), control, limits, observers, stop);
                tasks.spawn(served);
                info!(%address, "operators are accepted");
                Some(address)
            }
            None => None,
        };
        tasks.spawn(serve(
            listener,
            side.clone(),
            servers,
            limits,
            router,
            observers,
            stop,
        ));
        audit.note(|| Entry::Started {
            version: env!("CARGO_PKG_VERSION"),
            address: address.to_string(),
        });
        info!(%address, hosts = %hosts.join(", "), jobs = count, "coordinator listening");
        Ok(Self {
            address,
            admin,
            hosts,
            side,
            host,
            control,
            stopping,
            stop_when_done: config.stop_when_done,
            audit,
            watched,
        })
    }

    /// The address at which parties can connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which operators can connect, if there is one.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The host names and addresses of the coordinator's certificate. Parties must connect to one of them.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Gives a way to make the coordinator read its certificate, its key, the CA and the revocation list again, if they
    /// come from files. It also does so by itself, within seconds of a change of one of the files.
    pub fn reload(&self) -> Reload {
        Reload::of(self.side.clone())
    }

    /// Gives a way to give orders to the coordinator's jobs.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The model that a job starts from; `None` if the job is not served here.
    pub fn starts_from(&self, job: &str) -> Option<ModelOrigin> {
        self.host.jobs.get(job).map(|job| job.start)
    }

    /// The latest status of a job, and every change of it. The status at the start counts as a change.
    pub fn status(&self, job: &str) -> Option<watch::Receiver<JobStatus>> {
        self.host.jobs.get(job).map(|job| job.status)
    }

    /// Subscribes to the end of every round of a job. The latest status may skip ends of short rounds; this does not.
    /// A status comes here before it is the latest.
    pub fn ends(&self, job: &str) -> Option<broadcast::Receiver<Arc<JobStatus>>> {
        self.host.jobs.get(job).map(|job| job.ends.subscribe())
    }

    /// The latest status of every job, and every change of it.
    pub fn jobs(&self) -> Vec<watch::Receiver<JobStatus>> {
        let jobs = self.host.jobs.all().into_iter();
        jobs.map(|job| job.status).collect()
    }

    /// Waits until every job is over, all survivors of its last round have confirmed the result, and all parties of
    /// that round have been told of the end and have left; or until the time for that is over (`limits.farewell`).
    /// Never ends if the configuration says that the coordinator goes on.
    pub async fn finished(&mut self) {
        if !self.stop_when_done {
            return std::future::pending().await;
        }
        // A job may be added, or go on by an order, while others are waited for.
        loop {
            while let Some(mut job) = self.host.running() {
                let over = |status: &JobStatus| status.state != JobState::Running;
                tokio::select! {
                    _ = job.status.wait_for(over) => {}
                    () = job.handle.events.closed() => {}
                }
            }
            self.say_farewell().await;
            if self.host.close().await {
                return;
            }
        }
    }

    /// Waits until parties have confirmed the last results and have left, for as long as the limits allow.
    async fn say_farewell(&self) {
        let jobs = self.host.jobs.all();
        let confirmed = async {
            for job in &jobs {
                let mut status = job.status.clone();
                let heard =
                    // guard: nobody-leaves-before-the-result, who-lost-the-last-round-hears-its-end
                    |status: &JobStatus| status.unconfirmed.is_empty() && status.lost.is_empty();
                let settled = |status: &JobStatus| {
                    status.connected.is_empty() && (status.state.has_broken_off() || heard(status))
                };
                let _ = status.wait_for(settled).await;
            }
        };
        let farewell = seconds(self.host.shared.limits().farewell);
        // guard: nobody-stays-for-ever
        let _ = tokio::time::timeout(farewell, confirmed).await;
        // Those that are here hear that the job is done, and leave, however short the time for the others is.
        for job in &jobs {
            let mut status = job.status.clone();
            let left = status.wait_for(|status| status.connected.is_empty());
            let _ = tokio::time::timeout(Duration::from_secs(5), left).await;
        }
    }

    /// Stops the coordinator: notifies the parties, records rounds under way as aborted, and ends.
    ///
    /// # Errors
    /// The error of the first job that failed.
    pub async fn stop(self) -> Result<(), NetError> {
        self.stopping.send_replace(true);
        let (mut tasks, mut result) = (self.host.tasks.take(), Ok(()));
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.map_err(NetError::system).and_then(|ended| ended);
            result = result.and(ended);
        }
        self.audit.end();
        result
    }
}

/// What a coordinator is made of, checked.
struct Judged {
    side: Arc<Renewed<CoordinatorSide>>,
    servers: Option<Arc<Servers>>,
    place: Place,
    jobs: Vec<CheckedJob>,
}

/// The coordinator's side of TLS, the servers and its jobs, if all of it can be used.
fn judge(
    limits: &Limits,
    credentials: Credentials,
    membership: Membership,
    jobs: Vec<JobConfig>,
    servers: &[String],
) -> Result<Judged, NetError> {
    limits
        .check()
        .map_err(|(field, rule)| NetError::config(format!("limits.{field}"), rule))?;
    let side = Arc::new(Renewed::new(credentials.clone(), CoordinatorSide::new)?);
    let place = membership.check(&credentials)?;
    let jobs = check_jobs(jobs, limits)?;
    let servers = match servers.is_empty() {
        true => None,
        false => Some(Arc::new(Servers::new(servers)?)),
    };
    for checked in &jobs {
        check_servers(&checked.job, servers.as_deref())?;
    }
    let is_needed = |checked: &CheckedJob| needed_servers(&checked.job) > 0;
    match &servers {
        Some(servers) if jobs.iter().any(is_needed) => {
            servers.check_own(COORDINATOR, &side.current().hosts)?;
        }
        Some(_) => {
            let rule = "no job here has other servers: leave them out, or give the job protocol = \"mpc3\"";
            return Err(NetError::config("servers", rule));
        }
        None => {}
    }
    Ok(Judged {
        side,
        servers,
        place,
        jobs,
    })
}

/// How many servers a job must be given; 0 where its coordinator is alone.
fn needed_servers(job: &Job) -> usize {
    match (job.computing_servers().next(), job.spec().decryptor()) {
        (Some(_), _) => 3,
        (None, Some(_)) => 2,
        (None, None) => 0,
    }
}

/// Whether the servers are those that a job needs.
fn check_servers(job: &Job, servers: Option<&Servers>) -> Result<(), NetError> {
    let name = &job.spec().job;
    let refused = |rule: String| Err(NetError::config("servers", rule));
    let given = servers.map_or(0, Servers::count);
    match needed_servers(job) {
        3 if given != 3 => refused(format!(
            "must be three URLs, in order: the servers of job {name:?} compute together"
        )),
        2 if given != 2 => refused(format!(
            "must be two URLs, the coordinator's and the decryptor's: job {name:?} has a decryptor of its own"
        )),
        2 => {
            let host = servers.map(|servers| servers.address(DECRYPTOR).host.clone());
            match host == job.spec().decryptor() {
                true => Ok(()),
                false => refused(format!(
                    "the second must be at {:?}, the decryptor of job {name:?}",
                    job.spec().decryptor().unwrap_or_default()
                )),
            }
        }
        _ => Ok(()),
    }
}

/// The place of a server that makes keys and opens sums, behind the coordinator.
const DECRYPTOR: ServerIndex = ServerIndex::ALL[1];

/// The coordinator's place among servers that compute together.
const COORDINATOR: ServerIndex = ServerIndex::ALL[0];
