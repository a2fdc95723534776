//! Spans, sent as they come.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidegate_telemetry::plain;
use tidegate_telemetry::trace::{Span, SpanCounts, SpanQueue};
use tokio::time::Instant;

use crate::away::{Away, SAID};
use crate::client::Post;
use crate::end::End;
use crate::options::Resource;
use crate::spans;
use crate::trouble::wait;

/// Spans of one message.
const MOST_SPANS: usize = 512;
/// How often the queue is looked at: whoever makes spans wakes nobody.
const LOOKS: Duration = Duration::from_millis(50);
/// How long spans wait for more of them.
const LINGERS: Duration = Duration::from_secs(1);
/// How often a message is sent before it is given up.
const TRIES: u32 = 5;

/// Sends spans.
pub(crate) struct Traces {
    post: Post,
    away: Away,
    resource: Resource,
    queue: SpanQueue,
    counts: Arc<SpanCounts>,
}

/// Spans that were taken from the queue. They count as failed unless somebody says what became of them.
struct Batch {
    spans: Vec<Span>,
    /// Those whose message is made.
    sent: u64,
    counts: Arc<SpanCounts>,
}

impl Batch {
    fn new(counts: &Arc<SpanCounts>) -> Batch {
        Batch {
            spans: Vec::new(),
            sent: 0,
            counts: counts.clone(),
        }
    }

    /// Their message. Their memory is not needed while the collector is waited for.
    fn message(&mut self, resource: &Resource) -> Bytes {
        let spans = std::mem::take(&mut self.spans);
        self.sent = spans.len() as u64;
        spans::message(resource, &spans)
    }

    /// The collector has taken them, but for so many.
    fn taken(mut self, refused: u64) {
        let refused = refused.min(self.sent);
        self.counts.exported.add(self.sent - refused);
        self.sent = refused;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.counts.failed.add(self.sent + self.spans.len() as u64);
    }
}

impl Traces {
    pub(crate) fn new(post: Post, away: Away, resource: Resource, queue: SpanQueue) -> Traces {
        Traces {
            post,
            away,
            resource,
            counts: queue.counts().clone(),
            queue,
        }
    }

    /// Until the end, or until nothing is left after it is known.
    pub(crate) async fn run(mut self, mut end: End) {
        let mut batch = Batch::new(&self.counts);
        let mut since = Instant::now();
        while !end.is_over() {
            let ends = end.by().is_some();
            if batch.spans.is_empty() {
                since = Instant::now();
            }
            self.queue.take(&mut batch.spans, MOST_SPANS);
            let is_due = batch.spans.len() >= MOST_SPANS || since.elapsed() >= LINGERS || ends;
            if !batch.spans.is_empty() && is_due {
                let full = std::mem::replace(&mut batch, Batch::new(&self.counts));
                self.export(full, &mut end).await;
            } else if ends {
                return;
            } else {
                end.rest(LOOKS).await;
            }
        }
    }

    /// Sends spans until they are taken, refused, given up, or the time is over.
    async fn export(&mut self, mut batch: Batch, end: &mut End) {
        let message = batch.message(&self.resource);
        let mut tries = 0;
        let trouble = loop {
            tries += 1;
            match end.send(&self.post, message.clone()).await {
                Ok(answer) => {
                    self.away.is_back();
                    let (refused, why) = spans::refused(&answer).unwrap_or_default();
                    if refused > 0 {
                        let why = &*plain(&why, SAID);
                        tracing::debug!(spans = refused, why, "the collector has refused spans");
                    }
                    return batch.taken(refused);
                }
                Err(trouble) if trouble.passes && tries < TRIES && !end.is_over() => {
                    self.away.is_away(&trouble);
                    end.pause(jittered(wait(tries, &trouble))).await;
                }
                Err(trouble) => break trouble,
            }
        };
        self.away.is_away(&trouble);
        let (spans, why) = (batch.sent, trouble.why);
        tracing::debug!(spans, tries, why, "spans are given up");
    }
}

/// Not in step with others who lost the same collector.
fn jittered(wait: Duration) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let drawn = now.map_or(0, |now| now.subsec_nanos() % 256);
    wait.mul_f64(0.75 + f64::from(drawn) / 1024.0)
}
