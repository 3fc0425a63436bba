//! A server that computes with a coordinator.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blindsum_monitor::{Settings, Shown};
use blindsum_net::follower::{self, FollowerConfig};
use blindsum_net::{Limits, NetError, Reload};
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::errors::OrRaise;
use crate::gil::released;
use crate::network::{Pem, credentials};
use crate::process::{Homed, begin_work};
use crate::spec::{CheckedJob, read_fields};
use crate::wait::{abandonable, locked, patiently};

/// The second or the third server of a job, which runs on threads of its own.
#[pyclass(frozen, module = "blindsum._native")]
pub struct Follower {
    /// Where it listens, `HOST:PORT`.
    #[pyo3(get)]
    address: String,
    /// Where metrics and health are answered, `HOST:PORT`; `None` if nowhere.
    #[pyo3(get)]
    metrics: Option<String>,
    running: Homed<Running>,
}

/// What has threads and connections.
struct Running {
    reload: Reload,
    stop: Arc<Notify>,
    ended: Mutex<Receiver<Result<(), NetError>>>,
    runtime: Runtime,
}

/// What it is called in errors.
const SERVER: &str = "server";

/// Starts such a server; parties can connect when this returns.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn follow(
    py: Python<'_>,
    job: &CheckedJob,
    servers: Vec<String>,
    place: u8,
    listen: String,
    pem: Pem,
    state_dir: PathBuf,
    limits: &Bound<'_, PyAny>,
    results: Option<PathBuf>,
    metrics: Option<String>,
) -> PyResult<Follower> {
    begin_work(py)?;
    let settings = Settings {
        metrics,
        ..Settings::default()
    };
    let limits: Limits = read_fields(limits, "limits")?;
    let config = FollowerConfig {
        job: job.job().spec().clone(),
        servers,
        place,
        listen,
        credentials: credentials(pem).or_raise(py)?,
        state_dir,
        results,
        limits,
    };
    let system = |error: std::io::Error| NetError::System(error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("blindsum-server")
        .enable_all()
        .build()
        .map_err(system)
        .or_raise(py)?;
    let handle = runtime.handle().clone();
    let started = abandonable(py, move || {
        handle.block_on(async {
            let opened = settings.open().await?;
            let server = follower::Follower::start(config).await?;
            let shown = opened.show(&server.watched());
            Ok::<_, NetError>((server, shown))
        })
    })?;
    let (server, shown) = started.or_raise(py)?;
    let metrics = shown.metrics().map(|address| address.to_string());
    let (address, reload) = (server.address().to_string(), server.reload());
    let (sender, ended) = channel();
    let stop = Arc::new(Notify::new());
    runtime.spawn(watch_over(server, shown, stop.clone(), sender));
    Ok(Follower {
        address,
        metrics,
        running: Homed::new(
            SERVER,
            Running {
                reload,
                stop,
                ended: Mutex::new(ended),
                runtime,
            },
        ),
    })
}

/// Runs until the server is told to stop or its job is over.
async fn watch_over(
    mut server: follower::Follower,
    shown: Shown,
    stop: Arc<Notify>,
    ended: Sender<Result<(), NetError>>,
) {
    tokio::select! {
        () = stop.notified() => {}
        () = server.finished() => {}
    }
    // Nobody may listen any more.
    let _ = ended.send(server.stop().await);
    drop(shown);
}

#[pymethods]
impl Follower {
    /// Waits for the end; whether it has come.
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let running = self.running.at_home(py)?;
        let timeout = Duration::try_from_secs_f64(timeout.max(0.0)).unwrap_or(Duration::MAX);
        let ended = patiently(py, Some(timeout), |at_most| {
            match locked(&running.ended).recv_timeout(at_most) {
                Ok(ended) => Some(ended),
                Err(RecvTimeoutError::Timeout) => None,
                // It was told already.
                Err(RecvTimeoutError::Disconnected) => Some(Ok(())),
            }
        })?;
        match ended {
            None => Ok(false),
            Some(ended) => ended.or_raise(py).map(|()| true),
        }
    }

    /// Reads certificate, key, CA and revocation list again.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.at_home(py)?;
        released(py, || running.reload.reload());
        Ok(())
    }

    /// Ends the server; `wait` says when that is done.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.at_home(py)?;
        running.stop.notify_one();
        Ok(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Without waiting for its threads: this may run while the interpreter exits.
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }
}
