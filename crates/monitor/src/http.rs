//! The HTTP side: one request a connection, few connections at once, and 404 for every page that is not there.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::health;
use crate::numbers::Numbers;

/// Connections at once, and the time that each may take.
const AT_ONCE: usize = 16;
const TIME: Duration = Duration::from_secs(10);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What somebody reads who asks for another page.
const PAGES: &str = "404: there are /metrics, /livez, /readyz, and /readyz/JOB for each job.\n";

/// Answers until it is aborted.
pub(crate) async fn serve(listener: TcpListener, numbers: Arc<Numbers>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Ok(place) = places.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: those in use come back in time.
                warn!(%error, "cannot take a connection for metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let numbers = numbers.clone();
        tokio::spawn(async move {
            if tokio::time::timeout(TIME, converse(stream, numbers))
                .await
                .is_err()
            {
                debug!("a connection for metrics took too long");
            }
            drop(place);
        });
    }
}

/// Reads one request and answers it.
async fn converse(stream: TcpStream, numbers: Arc<Numbers>) {
    let answering = service_fn(move |request: Request<_>| {
        let response = respond(&numbers, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false);
    let served = server.serve_connection(TokioIo::new(stream), answering);
    if let Err(error) = served.await {
        debug!(%error, "a connection for metrics broke");
    }
}

fn respond(numbers: &Numbers, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let watched = numbers.watched();
    let of_job = path.strip_prefix("/readyz/");
    let (status, kind, text) = match (path, of_job) {
        (_, Some(job)) => match health::ready_job(watched, job) {
            Some(health) => (health.status(), TEXT, health.text),
            None => (
                StatusCode::NOT_FOUND,
                TEXT,
                format!("404: there is no job {job:?} here\n"),
            ),
        },
        ("/metrics", None) => match numbers.page() {
            Ok(page) => (StatusCode::OK, OPEN_METRICS, page),
            Err(error) => {
                let text = format!("500: the page of metrics cannot be written: {error}\n");
                (StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
            }
        },
        ("/livez", None) => (StatusCode::OK, TEXT, "alive\n".into()),
        ("/readyz", None) => {
            let health = health::ready(watched);
            (health.status(), TEXT, health.text)
        }
        _ => (StatusCode::NOT_FOUND, TEXT, PAGES.into()),
    };
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let (status, kind, text) = match is_read || status == StatusCode::NOT_FOUND {
        true => (status, kind, text),
        false => (
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "405: only GET and HEAD; nothing can be changed here\n".into(),
        ),
    };
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
