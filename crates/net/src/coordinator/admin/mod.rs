//! The admin interface: operators see how jobs stand and give orders, over mutual TLS at an address of its own.
//!
//! `listener` lets in whoever shows the certificate of an operator, and nobody else. `service` answers. `describe` is what
//! operators see of a job, `rounds` are those that they begin.

mod describe;
mod listener;
mod rounds;
mod service;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;

use super::Control;
use crate::observers::Observers;
use crate::pb::admin_server::AdminServer;
use crate::tls::{CoordinatorSide, Renewed};
use crate::{Limits, NetError, seconds};
pub use describe::{Description, Ended};
use service::Service;

/// The time for answers that are under way when the coordinator stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves operators until the coordinator stops.
pub(super) async fn serve(
    listener: TcpListener,
    side: Arc<Renewed<CoordinatorSide>>,
    control: Control,
    limits: Limits,
    observers: Observers,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), NetError> {
    let service = Service::new(control, side.anchor().clone());
    let connections = listener::accept(listener, side, &limits, observers);
    let keepalive = seconds(limits.keepalive);
    let mut stop = stopping.clone();
    let serving = Server::builder()
        .http2_keepalive_interval(Some(keepalive))
        .http2_keepalive_timeout(Some(keepalive))
        .max_concurrent_streams(Some(8))
        .http2_max_header_list_size(Some(16 * 1024))
        .serve_with_incoming_shutdown(AdminServer::new(service), connections, async move {
            let _ = stop.wait_for(|stopping| *stopping).await;
        });
    tokio::select! {
        served = serving => served.map_err(|e| NetError::System(crate::plain::cause_words(&e))),
        // Whoever watches hears of the end by the end of the connection. An answer that is under way goes out first, such as
        // that to the order to drain.
        () = async {
            let _ = stopping.wait_for(|stopping| *stopping).await;
            tokio::time::sleep(LAST_ANSWERS).await;
        } => Ok(()),
    }
}
