//! The end of a run, as those know it who send: one point in time by which everything is over.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::client::Post;
use crate::trouble::Trouble;

/// When everything is over, once that is known.
#[derive(Clone, Debug)]
pub(crate) struct End(watch::Receiver<Option<Instant>>);

impl End {
    /// Not known, and how it becomes known.
    pub(crate) fn new() -> (watch::Sender<Option<Instant>>, End) {
        let (known, end) = watch::channel(None);
        (known, End(end))
    }

    /// By when. Where nobody is left who could say it, by now.
    pub(crate) fn by(&self) -> Option<Instant> {
        let by = *self.0.borrow();
        by.or_else(|| self.0.has_changed().is_err().then(Instant::now))
    }

    /// Whether it has come.
    pub(crate) fn is_over(&self) -> bool {
        self.by().is_some_and(|by| Instant::now() >= by)
    }

    /// Until it is known.
    pub(crate) async fn known(&mut self) -> Instant {
        loop {
            if let Some(by) = self.by() {
                return by;
            }
            // What an error means is known to `by`.
            let _ = self.0.changed().await;
        }
    }

    /// Until it has come.
    pub(crate) async fn over(&mut self) {
        sleep_until(self.known().await).await;
    }

    /// So long, or until the end is known: nobody rests after that.
    pub(crate) async fn rest(&mut self, time: Duration) {
        // A deadline out of reach is no reason to fail.
        let _ = tokio::time::timeout(time, self.known()).await;
    }

    /// Between two tries: so long, but only until the end is known, and after that not past it.
    pub(crate) async fn pause(&mut self, time: Duration) {
        match self.by() {
            None => self.rest(time).await,
            Some(by) => sleep_until(by.min(Instant::now() + time)).await,
        }
    }

    /// Sends within the time that is left.
    pub(crate) async fn send(&mut self, post: &Post, message: Bytes) -> Result<Bytes, Trouble> {
        tokio::select! {
            biased;
            sent = post.send(message) => sent,
            () = self.over() => Err(Trouble::lasting("the run has ended")),
        }
    }

    /// Sends, unless the end becomes known: whoever sends then has something newer to say.
    pub(crate) async fn send_before(
        &mut self,
        post: &Post,
        message: Bytes,
    ) -> Option<Result<Bytes, Trouble>> {
        tokio::select! {
            biased;
            sent = post.send(message) => Some(sent),
            _ = self.known() => None,
        }
    }
}
