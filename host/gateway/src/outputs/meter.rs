//! A connection that may send only so much.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes that a client may send in a window: it has nothing to say but pings and goodbye.
const MOST: usize = 16 << 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts what is read.
#[derive(Debug)]
pub(super) struct Metered<T> {
    inner: T,
    since: Instant,
    bytes: usize,
    /// When the client was heard last.
    pub(super) heard: Instant,
    /// It has sent too much.
    pub(super) flooded: bool,
}

impl<T> Metered<T> {
    pub(super) fn new(inner: T) -> Metered<T> {
        let now = Instant::now();
        Metered {
            inner,
            since: now,
            bytes: 0,
            heard: now,
            flooded: false,
        }
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            let now = Instant::now();
            if now - self.since > WINDOW {
                (self.since, self.bytes) = (now, 0);
            }
            self.heard = now;
            self.bytes += read;
            if self.bytes > MOST {
                self.flooded = true;
                return Poll::Ready(Err(io::Error::other("the client sends too much")));
            }
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
