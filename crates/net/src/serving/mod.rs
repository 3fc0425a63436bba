//! What a coordinator and other servers do alike for who connects to them: `listener` takes connections, `places` says
//! how many, `refusals` what the log says of who is not let in, `files` makes room for them, `pace` limits how often one peer comes and speaks, `memory` what is received of
//! all of them at once. `only_grpc` answers who is no client.

mod files;
mod listener;
mod memory;
mod only_grpc;
mod pace;
mod places;
mod refusals;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::membership::Leases;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::transport::Server;

use crate::chunks::CHUNK;
use crate::io_words;
use crate::limits::Limits;
use crate::observers::Observers;
use crate::servers::Servers;
use crate::tls::{Accepting, Renewed};
use crate::wire::LARGEST_PIECE;
use crate::{NetError, seconds};

pub(crate) use files::make_room;
pub(crate) use listener::{Peer, unknown};
pub(crate) use memory::{Memory, Turn};
use only_grpc::OnlyGrpc;
pub(crate) use pace::{Pace, Paces};
pub(crate) use places::Calling;
pub(crate) use refusals::{Refusal, Refusals};

/// Time between two looks at the certificate at the other end of a connection that stays.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

pub(crate) async fn listen(address: &str) -> Result<TcpListener, NetError> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "the port is in use; stop the other program or choose another port"
            }
            std::io::ErrorKind::PermissionDenied => "ports below 1024 need privileges",
            std::io::ErrorKind::AddrNotAvailable => {
                "name one that it has, or 0.0.0.0 for all of them"
            }
            _ => "the host must be a name or an address of this machine",
        };
        let error = io_words(&error);
        NetError::Listen {
            address: address.into(),
            reason: format!("{error}: {advice}"),
        }
    })
}

/// Serves connections until it is time to stop, and then gives goodbyes a moment to go out.
pub(crate) async fn serve<A, S>(
    listener: TcpListener,
    side: Arc<Renewed<A>>,
    servers: Option<Arc<Servers>>,
    limits: Limits,
    service: S,
    observers: Observers,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), NetError>
where
    A: Accepting,
    S: tower::Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + 'static,
{
    let (sender, connections) = mpsc::channel(16);
    let accepting = async {
        let (side, limits) = (side.clone(), limits.clone());
        listener::accept_all(listener, side, servers, limits, sender, observers).await;
        std::future::pending().await
    };
    let watching = side.clone().watch();
    let keepalive = seconds(limits.keepalive);
    // A party that lives gives signs of life often enough for its lease.
    let pings = keepalive.min(Leases::sign_every(seconds(limits.lease)));
    let mut stop = stopping.clone();
    let serving = Server::builder()
        .http2_keepalive_interval(Some(pings))
        .http2_keepalive_timeout(Some(keepalive))
        .max_frame_size(Some(LARGEST_PIECE))
        .initial_stream_window_size(Some(2 * CHUNK as u32))
        .initial_connection_window_size(Some(4 * CHUNK as u32))
        .max_concurrent_streams(Some(8))
        .http2_max_header_list_size(Some(16 * 1024))
        .serve_with_incoming_shutdown(
            OnlyGrpc(service),
            ReceiverStream::new(connections),
            async move {
                let _ = stop.wait_for(|stopping| *stopping).await;
            },
        );
    let late = async {
        let _ = stopping.wait_for(|stopping| *stopping).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    tokio::select! {
        served = serving => served.map_err(|e| NetError::System(crate::plain::cause_words(&e))),
        () = accepting => Ok(()),
        () = watching => Ok(()),
        () = late => Ok(()),
    }
}
