//! The address at which programs ask for metrics and health.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use blindsum_net::NetError;
use blindsum_net::watched::Watched;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::http::serve;
use crate::listening::Listening;
use crate::numbers::Numbers;
use crate::pages::respond;

/// Connections at once, and the time that each may take.
const AT_ONCE: usize = 16;
const TIME: Duration = Duration::from_secs(10);

/// An address that was taken for metrics and health, on which nobody answers yet.
pub(crate) struct Metrics(Listening);

/// Answers scrapes and health checks. Dropping it ends it.
pub(crate) struct Monitor {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Metrics {
    /// Listens at `HOST:PORT`; with port 0 the system chooses a free one. Connections wait until [`show`](Self::show).
    ///
    /// # Errors
    /// [`NetError::Config`] if it is no address, [`NetError::Listen`] if it cannot be listened on.
    pub async fn listen(address: &str) -> Result<Self, NetError> {
        Listening::at("metrics", address).await.map(Self)
    }

    /// Answers with what this server shows, from now on.
    pub fn show(self, watched: Watched) -> Monitor {
        let address = self.0.address();
        if !address.ip().is_loopback() {
            warn!(%address, "metrics and health are shown to everybody who reaches this address: they name jobs and no party");
        }
        info!(%address, "metrics at /metrics, health at /livez and /readyz");
        let numbers = Arc::new(Numbers::new(watched));
        let answer = move |_, request: ::http::Request<_>| {
            let response = respond(&numbers, request.method(), request.uri().path());
            async move { response }
        };
        let listener = self.0.into_listener();
        let task = tokio::spawn(serve(listener, AT_ONCE, Some(TIME), answer));
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
