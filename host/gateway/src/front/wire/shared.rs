//! A wire that several hold.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::ReadBufCursor;
use tokio::io::AsyncWrite as _;

use super::Wire;

/// A wire as hyper, the service and the connection's own task hold it. All of them run in one task, so that the lock is
/// free whenever it is asked for.
#[derive(Clone)]
pub(in crate::front) struct Shared(Arc<Mutex<Wire>>);

impl Shared {
    pub(in crate::front) fn new(wire: Wire) -> Shared {
        Shared(Arc::new(Mutex::new(wire)))
    }

    pub(in crate::front) fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl hyper::rt::Read for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.wire().poll_read(cx, out)
    }
}

impl hyper::rt::Write for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_write(cx, bytes);
        wire.wrote(polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_flush(cx);
        if polled.is_ready() {
            wire.flushed += 1;
        }
        wire.wrote(polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_shutdown(cx);
        wire.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire().stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_write_vectored(cx, bytes);
        wire.wrote(polled)
    }
}
