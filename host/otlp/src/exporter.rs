//! The thread that sends what waits.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidegate_telemetry::metrics::Exposition;
use tidegate_telemetry::plain;
use tidegate_telemetry::trace::{Span, SpanCounts, SpanQueue};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::Post;
use crate::measurements::Measurements;
use crate::options::{Collector, OtlpError, Resource};
use crate::spans;
use crate::trouble::{Trouble, wait};

/// Spans of one message.
const MOST_SPANS: usize = 512;
/// How often the queue is looked at: whoever makes spans wakes nobody.
const LOOKS: Duration = Duration::from_millis(50);
/// How long spans wait for more of them.
const LINGERS: Duration = Duration::from_secs(1);
/// How often a message is sent before it is given up.
const TRIES: u32 = 5;
/// Most bytes of what a collector says that are shown.
const SAID: usize = 256;

/// Sends, on a thread of its own, until it is finished with.
#[derive(Debug)]
pub struct Exporter {
    end: watch::Sender<Option<Instant>>,
    thread: Option<JoinHandle<()>>,
}

/// What is sent, and where.
pub struct Exports {
    /// Spans.
    pub traces: Option<(Collector, SpanQueue)>,
    /// What is measured, how often.
    pub metrics: Option<(Collector, Duration, Gather)>,
}

/// Says what is measured now; none while there is nothing. Never waits for anything that takes long.
pub type Gather = Box<dyn Fn() -> Option<Exposition> + Send>;

/// The time by which everything has ended, once it is known.
pub(crate) type End = watch::Receiver<Option<Instant>>;

impl Exporter {
    /// Begins to send.
    pub fn start(resource: Resource, exports: Exports) -> Result<Exporter, OtlpError> {
        let (end, ends) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()?;
        let traces = match exports.traces {
            Some((collector, queue)) => Some(Traces {
                away: Away::new("traces", &collector),
                post: Post::new(collector)?,
                counts: queue.counts().clone(),
                resource: resource.clone(),
                queue,
            }),
            None => None,
        };
        let metrics = match exports.metrics {
            Some((collector, interval, gather)) => {
                let away = Away::new("metrics", &collector);
                let post = Post::new(collector)?;
                Some(Measurements::new(post, away, resource, interval, gather))
            }
            None => None,
        };
        let thread = std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                let ends_too = ends.clone();
                let traces = async {
                    if let Some(traces) = traces {
                        traces.run(ends).await;
                    }
                };
                let metrics = async {
                    if let Some(metrics) = metrics {
                        metrics.run(ends_too).await;
                    }
                };
                runtime.block_on(async { tokio::join!(traces, metrics) });
                // A name that is still looked up keeps nobody waiting.
                runtime.shutdown_background();
            })?;
        Ok(Exporter {
            end,
            thread: Some(thread),
        })
    }

    /// Sends what waits, for so long at most. What is left then counts as failed.
    pub fn finish(mut self, within: Duration) {
        self.end_within(within);
    }

    fn end_within(&mut self, within: Duration) {
        self.end.send_replace(Some(Instant::now() + within));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the exporter panicked");
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end_within(Duration::ZERO);
    }
}

/// Sleeps, or until the end is known.
pub(crate) async fn rest(end: &mut End, time: Duration) {
    if end.borrow_and_update().is_some() {
        sleep(time).await;
        return;
    }
    tokio::select! {
        () = sleep(time) => {}
        // An error means that nobody can say more.
        changed = end.changed() => if changed.is_err() { sleep(time).await },
    }
}

struct Traces {
    post: Post,
    queue: SpanQueue,
    counts: Arc<SpanCounts>,
    resource: Resource,
    away: Away,
}

impl Traces {
    async fn run(mut self, mut end: End) {
        let mut batch = Vec::with_capacity(MOST_SPANS);
        let mut since = Instant::now();
        loop {
            let by = *end.borrow();
            if batch.is_empty() {
                since = Instant::now();
            }
            self.queue.take(&mut batch, MOST_SPANS);
            let is_due = batch.len() >= MOST_SPANS || since.elapsed() >= LINGERS || by.is_some();
            if !batch.is_empty() && is_due {
                self.export(std::mem::take(&mut batch), &mut end).await;
                continue;
            }
            if by.is_some() {
                return;
            }
            rest(&mut end, LOOKS).await;
        }
    }

    /// Sends spans until they are taken, refused, given up, or the time is over.
    async fn export(&mut self, batch: Vec<Span>, end: &mut End) {
        let count = batch.len() as u64;
        let message = spans::message(&self.resource, &batch);
        // Their memory is not needed while the collector is waited for.
        drop(batch);
        let mut tries = 0;
        let trouble = loop {
            tries += 1;
            match send_by(&self.post, message.clone(), end).await {
                Ok(answer) => {
                    let refused = spans::refused(&answer);
                    self.taken(count, refused);
                    return;
                }
                Err(trouble) if trouble.passes && tries < TRIES && !is_over(end) => {
                    let wait = wait(tries, &trouble);
                    self.away.is_away(&trouble);
                    rest(end, self.jittered(wait, end)).await;
                }
                Err(trouble) => break trouble,
            }
        };
        self.away.is_away(&trouble);
        self.counts.failed.add(count);
        tracing::debug!(
            spans = count,
            tries,
            why = trouble.why,
            "spans are given up"
        );
    }

    /// Not in step with others who lost the same collector, and not past the end.
    fn jittered(&self, wait: Duration, end: &End) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let drawn = now.map_or(0, |now| now.subsec_nanos() % 256);
        let wait = wait.mul_f64(0.75 + f64::from(drawn) / 1024.0);
        match *end.borrow() {
            Some(by) => wait.min(by.saturating_duration_since(Instant::now())),
            None => wait,
        }
    }

    fn taken(&mut self, count: u64, refused: Option<(u64, String)>) {
        self.away.is_back();
        let (refused, why) = refused.unwrap_or_default();
        let refused = refused.min(count);
        self.counts.exported.add(count - refused);
        self.counts.failed.add(refused);
        if refused > 0 {
            let why = &*plain(&why, SAID);
            tracing::debug!(spans = refused, why, "the collector has refused spans");
        }
    }
}

fn is_over(end: &End) -> bool {
    end.borrow().is_some_and(|by| Instant::now() >= by)
}

/// Sends within the time that is left.
pub(crate) async fn send_by(post: &Post, message: Bytes, end: &mut End) -> Result<Bytes, Trouble> {
    let sending = post.send(message);
    tokio::pin!(sending);
    if end.borrow_and_update().is_none() {
        tokio::select! {
            result = &mut sending => return result,
            changed = end.changed() => if changed.is_err() { return sending.await },
        }
    }
    let by = (*end.borrow()).unwrap_or_else(Instant::now);
    let sent = timeout_at(by, sending).await;
    sent.unwrap_or_else(|_| Err(Trouble::lasting("the run has ended")))
}

/// Whether a collector takes what it is sent: said once when it does not, and once when it does again.
pub(crate) struct Away {
    what: &'static str,
    url: String,
    is_away: bool,
}

impl Away {
    fn new(what: &'static str, collector: &Collector) -> Away {
        Away {
            what,
            url: collector.url(),
            is_away: false,
        }
    }

    pub(crate) fn is_back(&mut self) {
        if std::mem::take(&mut self.is_away) {
            let (what, collector) = (self.what, &self.url);
            tracing::info!(what, collector, "the collector takes what it is sent again");
        }
    }

    pub(crate) fn is_away(&mut self, trouble: &Trouble) {
        if !std::mem::replace(&mut self.is_away, true) {
            let (what, collector) = (self.what, &self.url);
            let why = &*plain(&trouble.why, SAID);
            tracing::warn!(
                what,
                collector,
                why,
                "the collector takes nothing; the stream goes on without it"
            );
        }
    }
}
