//! A connection that counts its bytes and remembers why it broke.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::counts::Counts;
use crate::plain::io_words;
use crate::tls::{tls_error, words};

/// What went through a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
    /// Where the bytes of all connections are counted, if they are.
    all: Option<Arc<Counts>>,
    /// The first error of reading or writing.
    error: OnceLock<Broken>,
    /// The key exchange of TLS; empty before the handshake.
    key_exchange: OnceLock<&'static str>,
}

/// Why a connection broke.
#[derive(Debug)]
struct Broken {
    reason: String,
    /// What the other side's TLS said last, where it did.
    alert: Option<AlertDescription>,
}

impl blindsum_job::coordinator::Traffic for Traffic {
    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn key_exchange(&self) -> &str {
        self.key_exchange()
    }
}

impl Traffic {
    /// Of a connection whose bytes are also counted with those of others.
    pub fn counted(all: Arc<Counts>) -> Self {
        let all = Some(all);
        Self {
            all,
            ..Self::default()
        }
    }

    /// Whether nothing has come from the other side since the handshake.
    pub fn has_read_nothing(&self) -> bool {
        self.read.load(Ordering::Relaxed) == 0
    }

    /// Why the connection broke, where it did.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(|broken| broken.reason.as_str())
    }

    /// The last TLS alert of the other side, if it ended the connection.
    pub fn alert(&self) -> Option<AlertDescription> {
        self.error.get()?.alert
    }

    /// The key exchange of TLS; empty before the handshake.
    pub fn key_exchange(&self) -> &'static str {
        self.key_exchange.get().copied().unwrap_or_default()
    }

    /// The keys of the connection were agreed on.
    pub fn agreed(&self, key_exchange: &'static str) {
        // There is one handshake.
        let _ = self.key_exchange.set(key_exchange);
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
            if let Some(all) = &self.traffic.all {
                all.send(written);
            }
        }
        self.note(result);
    }

    fn note<T>(&self, result: &Poll<io::Result<T>>) {
        if let Poll::Ready(Err(error)) = result {
            let alert = match tls_error(error) {
                Some(rustls::Error::AlertReceived(alert)) => Some(*alert),
                _ => None,
            };
            let reason = match (tls_error(error), error.kind()) {
                (Some(error), _) => words(error),
                // Else a library's own words, with a link to its documentation.
                (None, io::ErrorKind::UnexpectedEof) => {
                    "the connection was closed at the other end without a goodbye".into()
                }
                (None, _) => io_words(error),
            };
            let _ = self.traffic.error.set(Broken { reason, alert });
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
        if let Some(all) = &self.traffic.all {
            all.receive(read);
        }
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
