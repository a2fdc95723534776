//! What is measured, told again and again.

use std::time::{Duration, SystemTime};

use tidegate_telemetry::trace::nanoseconds;
use tokio::time::Instant;

use crate::client::Post;
use crate::exporter::{Away, End, Gather, rest, send_by};
use crate::metrics;
use crate::options::Resource;

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

    /// Until the end, and once more then. One that was not taken is not sent again: the next says all that it said.
    pub(crate) async fn run(mut self, mut end: End) {
        let mut due = Instant::now() + self.interval;
        loop {
            rest(&mut end, due.saturating_duration_since(Instant::now())).await;
            let ends = end.borrow().is_some();
            if ends || Instant::now() >= due {
                self.tell(&mut end).await;
                due = Instant::now() + self.interval;
            }
            if ends {
                return;
            }
        }
    }

    async fn tell(&mut self, end: &mut End) {
        let Some(exposition) = (self.gather)() else {
            return;
        };
        let times = (self.since, nanoseconds(SystemTime::now()));
        let message = metrics::message(&self.resource, exposition.families(), times);
        match send_by(&self.post, message, end).await {
            Ok(_) => self.away.is_back(),
            Err(trouble) => self.away.is_away(&trouble),
        }
    }
}
