//! A coordinator of one job.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use blindsum_monitor::{Settings, Shown};
use blindsum_net::coordinator::{self, Choice, Config, Control, JobConfig};
use blindsum_net::orders::{Command, Order, OrderError};
use blindsum_net::report::JobStatus;
use blindsum_net::{Limits, Membership, NetError, Reload, Room, Task};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::calls::{PendingRound, read_call};
use crate::errors::{OrRaise, raise};
use crate::feed::{Feed, News};
use crate::gil::released;
use crate::network::{Pem, credentials};
use crate::process::{Homed, begin_work};
use crate::results::instance;
use crate::spec::{CheckedJob, plain, read_fields};
use crate::steps::Step;
use crate::vectors::read_model;
use crate::wait::{abandonable, patiently};

/// What it is called in errors.
const COORDINATOR: &str = "coordinator";

/// By whom orders are that the program gives which runs the coordinator, in what is recorded.
const PROGRAM: &str = "program";

/// A coordinator that runs on threads of its own.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Coordinator {
    /// Where it listens, `HOST:PORT`.
    #[pyo3(get)]
    address: String,
    /// Where operators can connect, `HOST:PORT`, if anywhere.
    #[pyo3(get)]
    admin: Option<String>,
    /// The host names and addresses that its certificate is for.
    #[pyo3(get)]
    hosts: Vec<String>,
    /// Where the model comes from that the job starts from, its version and its hash.
    #[pyo3(get)]
    starts_from: (String, u64, String, String),
    /// Where metrics and health are answered, `HOST:PORT`; `None` if nowhere.
    #[pyo3(get)]
    metrics: Option<String>,
    /// Where the dashboard is, `HOST:PORT`; `None` if nowhere.
    #[pyo3(get)]
    dashboard: Option<String>,
    job: String,
    sums_fit_64_bits: bool,
    served: Homed<Served>,
}

/// What has threads and connections.
struct Served {
    reload: Reload,
    control: Control,
    stop: Arc<Notify>,
    /// Where a drain is asked for: why, and how long a round may last.
    drains: mpsc::UnboundedSender<(String, Option<f64>)>,
    feed: Arc<Feed>,
    runtime: Runtime,
}

/// Starts a coordinator; parties can connect when this returns.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn serve(
    py: Python<'_>,
    job: &CheckedJob,
    listen: String,
    pem: Pem,
    store: Option<PathBuf>,
    audit: Option<PathBuf>,
    model: Option<&Bound<'_, PyAny>>,
    limits: &Bound<'_, PyAny>,
    stop_when_done: bool,
    servers: Vec<String>,
    results: Option<PathBuf>,
    membership: String,
    membership_pem: Option<Pem>,
    metrics: Option<String>,
    admin: Option<String>,
    dashboard: Option<String>,
    dashboard_token_file: Option<PathBuf>,
    choice: (String, u32),
    hosted: bool,
) -> PyResult<Coordinator> {
    begin_work(py)?;
    let settings = Settings {
        metrics,
        dashboard,
        dashboard_token_file,
    };
    coordinator::check_apart(&[
        ("listen", Some(&listen)),
        ("admin", admin.as_deref()),
        ("metrics", settings.metrics.as_deref()),
        ("dashboard", settings.dashboard.as_deref()),
    ])
    .or_raise(py)?;
    let limits: Limits = read_fields(limits, "limits")?;
    let job = job.job();
    // Before the model is copied.
    Room::now().check(job, Task::Coordinator).or_raise(py)?;
    let (spec, sums_fit_64_bits) = (job.spec().clone(), job.encoding().sums_fit_64_bits());
    let initial_model = model.map(read_model).transpose()?;
    let job = spec.job.clone();
    let config = Config {
        listen,
        credentials: credentials(pem).or_raise(py)?,
        store,
        audit,
        jobs: vec![JobConfig {
            spec,
            initial_model,
            results,
            hosted,
        }],
        membership: Membership {
            place: membership,
            credentials: membership_pem.map(credentials).transpose().or_raise(py)?,
        },
        limits,
        stop_when_done,
        servers,
        admin,
        choice: read_choice(&choice.0)
            .map_err(|rule| raise(py, "ConfigError", ("choice", rule)))?,
        change: choice.1,
    };
    let system = |error: std::io::Error| NetError::System(error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("blindsum-coordinator")
        .enable_all()
        .build()
        .map_err(system)
        .or_raise(py)?;
    let handle = runtime.handle().clone();
    let started = abandonable(py, move || {
        handle.block_on(async {
            let opened = settings.open().await?;
            let coordinator = coordinator::Coordinator::start(config).await?;
            let shown = opened.show(&coordinator.watched());
            Ok::<_, NetError>((coordinator, shown))
        })
    })?;
    let (coordinator, shown) = started.or_raise(py)?;
    let metrics = shown.metrics().map(|address| address.to_string());
    let dashboard = shown.dashboard().map(|address| address.to_string());
    let address = coordinator.address().to_string();
    let admin = coordinator.admin().map(|admin| admin.to_string());
    let start = coordinator.starts_from(&job).map(|start| {
        let origin = start.origin.as_str().to_owned();
        (origin, start.version, start.hash.clone(), start.party)
    });
    let starts_from = start.ok_or_else(|| PyRuntimeError::new_err("the job is not served"))?;
    let (hosts, reload) = (coordinator.hosts().to_vec(), coordinator.reload());
    let status = coordinator.status(&job);
    let status = status.zip(coordinator.ends(&job));
    let (status, ends) = status.ok_or_else(|| PyRuntimeError::new_err("the job is not served"))?;
    let feed = Arc::new(Feed::default());
    let stop = Arc::new(Notify::new());
    let (control, (drains, asked)) = (coordinator.control(), mpsc::unbounded_channel());
    let asked = Asked {
        stop: stop.clone(),
        drains: asked,
    };
    runtime.spawn(watch_over(
        coordinator,
        shown,
        status,
        ends,
        asked,
        feed.clone(),
    ));
    Ok(Coordinator {
        address,
        admin,
        hosts,
        starts_from,
        metrics,
        dashboard,
        job,
        sums_fit_64_bits,
        served: Homed::new(
            COORDINATOR,
            Served {
                reload,
                control,
                stop,
                drains,
                feed,
                runtime,
            },
        ),
    })
}

/// How the coordinator is asked to end.
struct Asked {
    /// At once.
    stop: Arc<Notify>,
    /// After the round under way.
    drains: mpsc::UnboundedReceiver<(String, Option<f64>)>,
}

/// Passes statuses on, and every end of a round, until the coordinator is told to stop or is done.
async fn watch_over(
    mut coordinator: coordinator::Coordinator,
    shown: Shown,
    mut status: watch::Receiver<JobStatus>,
    mut ends: broadcast::Receiver<Arc<JobStatus>>,
    mut asked: Asked,
    feed: Arc<Feed>,
) {
    let control = coordinator.control();
    let mut draining: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
    let mut tell = |status: &mut watch::Receiver<JobStatus>| {
        let latest = status.borrow_and_update().clone();
        loop {
            match ends.try_recv() {
                Ok(end) => feed.ended_round(end),
                // So many ended meanwhile that the oldest are lost.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        feed.changed(latest);
    };
    {
        let finished = coordinator.finished();
        tokio::pin!(finished);
        loop {
            tokio::select! {
                biased;
                Ok(()) = status.changed() => tell(&mut status),
                () = asked.stop.notified() => break,
                Some((reason, within)) = asked.drains.recv() => {
                    let control = control.clone();
                    draining = Box::pin(async move {
                        control.drain(PROGRAM, &reason, within).await;
                    });
                }
                () = &mut draining => break,
                () = control.is_drained() => break,
                () = &mut finished => break,
            }
        }
    }
    // It answers while the coordinator stops, too.
    let ended = coordinator.stop().await;
    drop(shown);
    if status.has_changed().unwrap_or(true) {
        tell(&mut status);
    }
    feed.over(ended);
}

#[pymethods]
impl Coordinator {
    /// The next `Status` of the job, `Quiet` if nothing came in time, `Stopped` at the end.
    fn next_status<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        let served = self.served.at_home(py)?;
        let timeout = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX);
        match patiently(py, Some(timeout), |at_most| served.feed.next(at_most))? {
            None => instance!(py, "blindsum.native_events", "Quiet",),
            Some(News::Status(status)) => {
                instance!(py, "blindsum.native_events", "Status", fields: plain(py, &*status)?)
            }
            Some(News::Over(ended)) => {
                ended.or_raise(py)?;
                instance!(py, "blindsum.native_events", "Stopped",)
            }
        }
    }

    /// Reads certificate, key, CA and revocation list again.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        let served = self.served.at_home(py)?;
        released(py, || served.reload.reload());
        Ok(())
    }

    /// Orders something of the job, a command as JSON; gives what was done, for people.
    fn order(&self, py: Python<'_>, command: &str, reason: String) -> PyResult<String> {
        let served = self.served.at_home(py)?;
        let refused =
            |error: OrderError| raise(py, "OrderError", (error.code(), error.to_string()));
        let (command, job) = (Command::read(command).map_err(refused)?, self.job.clone());
        let order = Order {
            command,
            by: PROGRAM.into(),
            reason,
        };
        let (control, runtime) = (served.control.clone(), served.runtime.handle().clone());
        let given = move || runtime.block_on(control.order(&job, order));
        let outcome = abandonable(py, given)?;
        Ok(outcome.map_err(refused)?.to_string())
    }

    /// Begins a round of these parties, where a host begins them.
    #[pyo3(signature = (parties, model, tag, join_within, deadline))]
    fn begin(
        &self,
        py: Python<'_>,
        parties: Vec<String>,
        model: Option<&Bound<'_, PyAny>>,
        tag: Option<Step>,
        join_within: Option<f64>,
        deadline: Option<f64>,
    ) -> PyResult<PendingRound> {
        let served = self.served.at_home(py)?;
        let call = read_call(tag, parties, model, join_within, deadline)?;
        let (control, job) = (served.control.clone(), self.job.clone());
        let runtime = served.runtime.handle().clone();
        let here = runtime.clone();
        let called = move || here.block_on(control.call(&job, call));
        let pending = abandonable(py, called)?.or_raise(py)?;
        Ok(PendingRound::here(pending, runtime, self.sums_fit_64_bits))
    }

    /// Lets the round under way end, begins none, and ends; `next_status` says when that is done. Returns at once.
    fn drain(&self, py: Python<'_>, reason: String, within: Option<f64>) -> PyResult<()> {
        let served = self.served.at_home(py)?;
        // A coordinator that has ended needs no drain.
        let _ = served.drains.send((reason, within));
        Ok(())
    }

    /// Tells the parties and ends; `next_status` says when that is done.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let served = self.served.at_home(py)?;
        served.stop.notify_one();
        Ok(())
    }
}

fn read_choice(name: &str) -> Result<Choice, String> {
    let json = serde_json::Value::String(name.into());
    serde_json::from_value(json)
        .map_err(|_| format!("{name:?} must be \"first\", \"turns\" or \"random\""))
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // Without waiting for its threads: this may run while the interpreter exits.
        if let Some(served) = self.served.take() {
            served.runtime.shutdown_background();
        }
    }
}
