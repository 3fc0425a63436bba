//! What an operator's programs see of a coordinator, or of another server: numbers for Prometheus, whether it lives and is
//! ready, and the same for the service manager of the system.
//!
//! It listens on an address of its own, speaks plain HTTP, and changes nothing: [`Watched`](blindsum_net::watched::Watched)
//! says what there is. `http` answers requests, `numbers` writes the page of metrics (`totals` those of jobs, `now` those of
//! this moment, `process` those of the process), `health` says who is ready, and [`service`] speaks with systemd.
//! `docs/metrics.md` describes every metric.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod health;
mod http;
mod now;
mod numbers;
mod process;
pub mod service;
mod totals;

use std::net::SocketAddr;
use std::sync::Arc;

use blindsum_net::NetError;
use blindsum_net::coordinator::check_address;
use blindsum_net::watched::Watched;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use numbers::Numbers;

/// An address that was taken for metrics and health, on which nobody answers yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// A monitor that answers. Dropping it ends it.
pub struct Monitor {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// Listens for scrapes and health checks at `HOST:PORT`; with port 0 the system chooses a free one. Connections wait until
/// [`Listening::show`].
///
/// # Errors
/// [`NetError::Config`] if it is no address, [`NetError::Listen`] if it cannot be listened on.
pub async fn listen(address: &str) -> Result<Listening, NetError> {
    check_address("metrics", address)?;
    let failed = |error: std::io::Error| NetError::Listen {
        address: address.into(),
        reason: format!("{error} (metrics: choose a free port of this machine)"),
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if !address.ip().is_loopback() {
        warn!(%address, "metrics and health are shown to everybody who reaches this address: they name jobs and no party");
    }
    Ok(Listening { listener, address })
}

impl Listening {
    /// Answers with what this server shows, from now on.
    pub fn show(self, watched: Watched) -> Monitor {
        let address = self.address;
        info!(%address, "metrics at /metrics, health at /livez and /readyz");
        let task = tokio::spawn(http::serve(self.listener, Arc::new(Numbers::new(watched))));
        Monitor { address, task }
    }
}

impl Monitor {
    /// The address at which it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
