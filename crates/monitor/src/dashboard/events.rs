//! Events that the server sends: how jobs stand, whenever that changes.

use std::convert::Infallible;
use std::time::Duration;

use blindsum_net::watched::Watched;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::{ReceiverStream, WatchStream};
use tokio_stream::{Stream, StreamExt};

use super::state::{Rounds, state};
use crate::http::Body;

/// Time between two events where much happens, and where nothing does.
const AT_LEAST: Duration = Duration::from_millis(250);
const AT_MOST: Duration = Duration::from_secs(5);

/// The stream of one window.
pub(super) fn stream(watched: Watched) -> Response<Body> {
    let (events, taken) = mpsc::channel(1);
    tokio::spawn(tell(watched, events));
    let frames = ReceiverStream::new(taken).map(|event| Ok::<_, Infallible>(Frame::data(event)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Sends events until nobody takes them.
async fn tell(watched: Watched, events: mpsc::Sender<Bytes>) {
    let (mut changes, mut jobs) = (all_changes(&watched), watched.jobs().len());
    let mut rounds = Rounds::default();
    loop {
        // One may have been added.
        if watched.jobs().len() != jobs {
            (changes, jobs) = (all_changes(&watched), watched.jobs().len());
        }
        rounds.renew(&watched).await;
        // JSON has no line breaks in it: an event is one line.
        let event = format!("event: state\ndata: {}\n\n", state(&watched, &rounds));
        if events.send(event.into()).await.is_err() {
            return;
        }
        tokio::select! {
            () = events.closed() => return,
            () = sleep(AT_LEAST) => {}
        }
        tokio::select! {
            () = events.closed() => return,
            // Also where nothing has changed: whoever reads knows then that the connection stands.
            _ = timeout(AT_MOST, changes.next()) => {}
        }
    }
}

type Changes = Box<dyn Stream<Item = ()> + Send + Unpin>;

/// Something for each change of any job.
fn all_changes(watched: &Watched) -> Changes {
    let mut merged: Changes = Box::new(tokio_stream::pending());
    for job in watched.jobs() {
        let of_job = WatchStream::from_changes(job.status.clone()).map(|_| ());
        merged = Box::new(merged.merge(of_job));
    }
    merged
}
