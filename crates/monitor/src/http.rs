//! The HTTP side: one request a connection, and few connections at once.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{debug, warn};

/// What an answer is made of.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);

/// A body that is there as a whole.
pub(crate) fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

/// Answers until it is aborted: so many connections at once, each for so long at most.
pub(crate) async fn serve<A, R>(
    listener: TcpListener,
    at_once: usize,
    time: Option<Duration>,
    answer: A,
) where
    A: Fn(SocketAddr, Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(at_once));
    // Those under way end with this, also where they would go on for ever.
    let mut conversations = JoinSet::new();
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: those in use come back in time.
                warn!(%error, "cannot take a connection for metrics or the dashboard");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while conversations.try_join_next().is_some() {}
        let conversation = converse(stream, from, answer.clone());
        conversations.spawn(async move {
            match time {
                None => conversation.await,
                Some(time) => {
                    if tokio::time::timeout(time, conversation).await.is_err() {
                        debug!(%from, "a connection for metrics took too long");
                    }
                }
            }
            drop(place);
        });
    }
}

/// Reads one request and answers it.
async fn converse<A, R>(stream: TcpStream, from: SocketAddr, answer: A)
where
    A: Fn(SocketAddr, Request<Incoming>) -> R,
    R: Future<Output = Response<Body>>,
{
    let answering = service_fn(move |request| {
        let answering = answer(from, request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false);
    server.timer(TokioTimer::new()).header_read_timeout(HEAD);
    if let Err(error) = server
        .serve_connection(TokioIo::new(stream), answering)
        .await
    {
        debug!(%from, %error, "a connection for metrics or the dashboard broke");
    }
}
