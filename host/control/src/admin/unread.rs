//! A connection whose peer reads nothing is ended: what it has asked for would otherwise keep its place for as long as it likes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream that fails once its peer has taken no byte for so long while some wait for it.
pub(super) struct Unread<S> {
    stream: S,
    patience: Duration,
    /// Runs while bytes wait.
    until: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Unread<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Unread<S> {
        Unread {
            stream,
            patience,
            until: Box::pin(sleep(patience)),
            waits: false,
        }
    }

    fn held<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !std::mem::replace(&mut self.waits, true) {
            self.until.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("its peer has read nothing for {:?}", self.patience),
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.held(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.held(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.held(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// A peer that takes so many bytes, and then no more.
    struct Takes(usize);

    impl AsyncWrite for Takes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = self.0.min(bytes.len());
            self.0 -= taken;
            match taken {
                0 => Poll::Pending,
                taken => Poll::Ready(Ok(taken)),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_peer_that_reads_is_written_to_and_one_that_reads_nothing_is_given_up() {
        let mut stream = Unread::new(Takes(100), Duration::from_millis(50));
        let mut written = 0;
        let failed = loop {
            let write = poll_fn(|context| Pin::new(&mut stream).poll_write(context, &[1; 30]));
            match write.await {
                Ok(bytes) => written += bytes,
                Err(error) => break error,
            }
        };
        assert_eq!((written, failed.kind()), (100, io::ErrorKind::TimedOut));
        assert_eq!(failed.to_string(), "its peer has read nothing for 50ms");
    }
}
