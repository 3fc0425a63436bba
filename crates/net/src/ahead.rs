//! Reading ahead: takes all bytes that a socket has at once, for a reader that asks for small pieces. TLS asks for 4
//! KiB at a time, and each piece would be a system call.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Bytes that are taken at once.
const AHEAD: usize = 64 * 1024;

/// A stream of which more is read than was asked for. A connection over which nothing comes holds no memory for it.
pub(crate) struct Ahead<S> {
    stream: S,
    read: BytesMut,
}

impl<S> Ahead<S> {
    pub fn new(stream: S) -> Self {
        let read = BytesMut::new();
        Self { stream, read }
    }
}

impl<S: AsyncRead + Unpin> Ahead<S> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.reserve(AHEAD);
        let filled = pin!(self.stream.read_buf(&mut self.read)).poll(cx);
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
        filled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ahead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            if buf.remaining() >= AHEAD {
                return Pin::new(&mut self.stream).poll_read(cx, buf);
            }
            ready!(self.poll_fill(cx))?;
        }
        let now = self.read.len().min(buf.remaining());
        buf.put_slice(self.read.get(..now).unwrap_or_default());
        self.read.advance(now);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ahead<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_was_read_ahead_comes_in_order_and_then_no_memory_is_held() {
        let (mut writer, reader) = duplex(3 * AHEAD);
        let sent: Vec<u8> = (0..2 * AHEAD + 5).map(|i| (i % 251) as u8).collect();
        writer.write_all(&sent).await.unwrap();
        let mut ahead = Ahead::new(reader);
        let mut came = Vec::new();
        for length in [1, 4096, 5, AHEAD, 7].into_iter().cycle() {
            let mut piece = vec![0; length.min(sent.len() - came.len())];
            ahead.read_exact(&mut piece).await.unwrap();
            came.extend(piece);
            if came.len() == sent.len() {
                break;
            }
        }
        assert_eq!(came, sent);
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, ahead.read_u8()).await;
        assert!(waiting.is_err());
        assert_eq!(ahead.read.capacity(), 0);
        drop(writer);
        assert_eq!(ahead.read(&mut [0; 9]).await.unwrap(), 0);
    }
}
