//! What signals tell the daemon to do: to drain, to stop at once, to read its configuration again.

use std::io;
use std::time::Duration;

use blindsum_net::Reload;
use blindsum_net::coordinator::Control;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::args::Args;
use crate::logs;

/// By whom an order is that comes as a signal, in what is recorded.
const BY: &str = "signal";

/// The signals that end the daemon.
pub struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    /// Takes SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    /// The system refuses that.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The name of the next of them.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// The daemon was told to stop by this signal. A coordinator that gets SIGTERM lets its rounds end first, unless a
    /// second signal comes.
    pub async fn heed(&mut self, signal: &'static str, control: Option<&Control>) {
        let Some(control) = control.filter(|_| signal == "SIGTERM") else {
            return info!(signal, "stopping immediately");
        };
        info!(
            signal,
            "draining: rounds under way end, and none begins; a second signal stops immediately"
        );
        tokio::select! {
            () = control.drain(BY, "SIGTERM", None) => info!("drained: no round is under way"),
            signal = self.next() => info!(signal, "stopping immediately"),
        }
    }
}

/// Waits until every job has drained by an order; for ever where there is nobody to give one.
pub async fn drained(control: Option<&Control>) {
    match control {
        Some(control) => control.is_drained().await,
        None => std::future::pending().await,
    }
}

/// Takes SIGHUP from now on.
///
/// # Errors
/// The system refuses that.
pub fn hangup() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// What is read again on SIGHUP.
pub struct Again {
    /// Of a coordinator: its certificates, limits and jobs.
    pub control: Option<Control>,
    /// The certificates.
    pub files: Reload,
    /// The command line, which says where the configuration is.
    pub args: Args,
    /// The filter of the log of a server; a coordinator knows its own.
    pub level: String,
}

/// Reads certificates and the filter of the log again whenever SIGHUP comes, and of a coordinator what it takes over of its configuration; that ends
/// nothing. The log says what was done.
pub async fn reread_on(mut hangup: Signal, mut again: Again) {
    while hangup.recv().await.is_some() {
        let Some(control) = &again.control else {
            info!("SIGHUP: reading certificates again");
            logs::read_again(&again.args, &mut again.level);
            again.files.reload();
            continue;
        };
        info!("SIGHUP: reading certificates, limits and jobs again");
        let told = control.reload_again().await;
        // A filter that was just taken over must not hide that it was.
        for done in &told.done {
            warn!("reloaded: {done}");
        }
        for left in told.left.iter().chain(&told.wrong) {
            warn!("not reloaded: {left}");
        }
    }
}

/// The runtime hands out signals that have come before it wakes timers.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
