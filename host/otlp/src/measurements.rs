//! What is measured, told again and again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate_telemetry::trace::nanoseconds;
use tokio::time::Instant;

use crate::away::Away;
use crate::client::Post;
use crate::end::End;
use crate::exporter::Gather;
use crate::metrics;
use crate::options::Resource;
use crate::trouble::Trouble;

/// Tells what is measured.
pub(crate) struct Measurements {
    post: Post,
    away: Away,
    resource: Resource,
    interval: Duration,
    gather: Gather,
    /// Nanoseconds since the Unix epoch.
    since: u64,
}

impl Measurements {
    pub(crate) fn new(
        post: Post,
        away: Away,
        resource: Resource,
        interval: Duration,
        gather: Gather,
    ) -> Measurements {
        Measurements {
            post,
            away,
            resource,
            interval,
            gather,
            since: nanoseconds(SystemTime::now()),
        }
    }

    /// Until the end is known, and once more then. One that was not taken is not sent again: the next says all that it
    /// said. So one that is being sent when the end becomes known is let go of for the last.
    pub(crate) async fn run(mut self, mut end: End) {
        let mut due = Instant::now() + self.interval;
        while end.by().is_none() {
            end.rest(due.saturating_duration_since(Instant::now()))
                .await;
            if end.by().is_some() {
                break;
            }
            if let Some(message) = self.message() {
                let sent = end.send_before(&self.post, message).await;
                self.settle(sent);
            }
            due = Instant::now() + self.interval;
        }
        if let Some(message) = self.message() {
            let sent = end.send(&self.post, message).await;
            self.settle(Some(sent));
        }
    }

    /// What is measured now.
    fn message(&self) -> Option<Bytes> {
        let exposition = (self.gather)()?;
        let times = (self.since, nanoseconds(SystemTime::now()));
        Some(metrics::message(
            &self.resource,
            exposition.families(),
            times,
        ))
    }

    fn settle(&mut self, sent: Option<Result<Bytes, Trouble>>) {
        match sent {
            None => {}
            Some(Ok(_)) => self.away.is_back(),
            Some(Err(trouble)) => self.away.is_away(&trouble),
        }
    }
}
