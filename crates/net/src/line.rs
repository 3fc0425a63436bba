//! Frames on their way from a session to its connection. Only a few may wait, so that a slow receiver delays its sender
//! and nobody else. They can be dropped if they are of no use any more.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;

use crate::wire::Sent;

/// Frames that the connection has not taken yet.
#[derive(Clone)]
pub(crate) struct Waiting(Arc<Mutex<mpsc::Receiver<Sent>>>);

impl Waiting {
    /// Drops all of them.
    pub fn clear(&self) {
        let mut frames = self.frames();
        while frames.try_recv().is_ok() {}
    }

    fn frames(&self) -> MutexGuard<'_, mpsc::Receiver<Sent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session's end of a line.
pub(crate) struct Line {
    pub frames: mpsc::Sender<Sent>,
    pub waiting: Waiting,
    taken: oneshot::Receiver<Infallible>,
}

/// The connection's end of a line: a stream of frames that ends with the session.
pub(crate) struct Taking {
    waiting: Waiting,
    _taken: oneshot::Sender<Infallible>,
}

/// A line on which so many frames may wait.
pub(crate) fn line(ahead: usize) -> (Line, Taking) {
    let (frames, receiver) = mpsc::channel(ahead);
    let waiting = Waiting(Arc::new(Mutex::new(receiver)));
    let (_taken, taken) = oneshot::channel();
    let line = Line {
        frames,
        waiting: waiting.clone(),
        taken,
    };
    (line, Taking { waiting, _taken })
}

impl Line {
    /// Ends the stream; whether the connection takes what is left of it, each frame in this time.
    pub async fn end(self, timeout: Duration) -> bool {
        let left = self.frames.max_capacity() - self.frames.capacity();
        // One more is in the hands of the connection.
        let timeout = timeout.saturating_mul(left as u32 + 1);
        drop(self.frames);
        tokio::time::timeout(timeout, self.taken).await.is_ok()
    }
}

impl Stream for Taking {
    type Item = Sent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Sent>> {
        self.waiting.frames().poll_recv(cx)
    }
}

impl Drop for Taking {
    /// Nobody takes anything any more, and the session hears of it.
    fn drop(&mut self) {
        self.waiting.frames().close();
        self.waiting.clear();
    }
}
