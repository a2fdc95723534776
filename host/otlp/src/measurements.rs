//! What is measured, told again and again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tidegate_telemetry::metrics::PointCounts;
use tidegate_telemetry::plain;
use tidegate_telemetry::trace::nanoseconds;
use tokio::time::Instant;

use crate::away::{Away, SAID};
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
    counts: Arc<PointCounts>,
}

impl Measurements {
    pub(crate) fn new(
        post: Post,
        away: Away,
        resource: Resource,
        interval: Duration,
        gather: Gather,
        counts: Arc<PointCounts>,
    ) -> Measurements {
        Measurements {
            post,
            away,
            resource,
            interval,
            gather,
            counts,
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
            if let Some((message, points)) = self.message() {
                let sent = end.send_before(&self.post, message).await;
                self.settle(points, sent);
            }
            due = Instant::now() + self.interval;
        }
        if let Some((message, points)) = self.message() {
            let sent = end.send(&self.post, message).await;
            self.settle(points, Some(sent));
        }
    }

    /// What is measured now, and in how many points.
    fn message(&self) -> Option<(Bytes, u64)> {
        let exposition = (self.gather)()?;
        let now = nanoseconds(SystemTime::now());
        let families = exposition.families();
        Some(metrics::message(&self.resource, families, now))
    }

    /// What became of so many points; none is known of those that were let go of.
    fn settle(&mut self, points: u64, sent: Option<Result<Bytes, Trouble>>) {
        let refused = match sent {
            None => points,
            Some(Ok(answer)) => {
                self.away.is_back();
                let (refused, why) = metrics::refused(&answer).unwrap_or_default();
                if refused > 0 {
                    let why = &*plain(&why, SAID);
                    tracing::debug!(points = refused, why, "the collector has refused points");
                }
                refused.min(points)
            }
            Some(Err(trouble)) => {
                self.away.is_away(&trouble);
                points
            }
        };
        self.counts.exported.add(points - refused);
        self.counts.failed.add(refused);
    }
}
