//! A connection that counts its bytes and remembers why it broke.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What went through a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
    /// The first error of reading or writing.
    error: OnceLock<String>,
}

impl blindsum_job::server::Traffic for Traffic {
    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Traffic {
    /// Why the connection broke, where it did.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }
}

/// A stream that reports to a [`Traffic`].
pub(crate) struct Watched<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S> Watched<S> {
    pub fn new(stream: S, traffic: Arc<Traffic>) -> Self {
        Self { stream, traffic }
    }

    fn written(&self, result: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = result {
            let written = *written as u64;
            self.traffic.written.fetch_add(written, Ordering::Relaxed);
        }
        self.note(result);
    }

    fn note<T>(&self, result: &Poll<io::Result<T>>) {
        if let Poll::Ready(Err(error)) = result {
            let text = match error.kind() {
                // Else a library's own words, with a link to its documentation.
                io::ErrorKind::UnexpectedEof => {
                    "the connection was closed at the other end without a goodbye".into()
                }
                _ => error.to_string(),
            };
            let _ = self.traffic.error.set(text);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = buf.filled().len().saturating_sub(before) as u64;
        self.traffic.read.fetch_add(read, Ordering::Relaxed);
        self.note(&result);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.written(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.written(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
