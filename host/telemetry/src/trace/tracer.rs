//! Where spans go: one bounded queue, into which nobody waits to put one.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::context::TraceContext;
use super::ids::Digest;
use super::sampler::Sampler;
use super::span::Span;
use crate::meters::Counter;

/// What became of spans. In the end `made = exported + full + failed`.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Spans that were made.
    pub made: Counter,
    /// Those that a collector has taken.
    pub exported: Counter,
    /// Those for which the queue had no room.
    pub full: Counter,
    /// Those that no collector has taken in time, or that it refused.
    pub failed: Counter,
}

/// Takes spans. A copy is the same; the usual one is off, and costs nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    queue: SyncSender<Span>,
    sampler: Sampler,
    counts: Arc<SpanCounts>,
    /// Of traces that follow from nothing.
    random: Digest,
    next: AtomicU64,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sampler = self.0.as_ref().map(|inner| inner.sampler);
        f.debug_tuple("Tracer").field(&sampler).finish()
    }
}

impl Tracer {
    /// One that has room for so many spans, and where they are taken from.
    pub fn new(sampler: Sampler, room: usize) -> (Tracer, SpanQueue) {
        let (queue, spans) = sync_channel(room.max(1));
        let counts = Arc::new(SpanCounts::default());
        let random = RandomState::new();
        let random = Digest::default()
            .with(random.hash_one(0))
            .with(random.hash_one(1));
        let tracer = Tracer(Some(Arc::new(Inner {
            queue,
            sampler,
            counts: counts.clone(),
            random,
            next: AtomicU64::new(0),
        })));
        (tracer, SpanQueue { spans, counts })
    }

    /// Whether spans are of any use.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// What became of the spans, if there are any.
    pub fn counts(&self) -> Option<&SpanCounts> {
        self.0.as_ref().map(|inner| &*inner.counts)
    }

    /// Whether what is recorded of a trace that begins here is wanted.
    #[inline]
    pub fn sampler(&self) -> Option<&Sampler> {
        self.0.as_ref().map(|inner| &inner.sampler)
    }

    /// Takes a span. What there is no room for is counted.
    pub fn record(&self, span: Span) {
        let Some(inner) = &self.0 else {
            return;
        };
        inner.counts.made.add(1);
        if inner.queue.try_send(span).is_err() {
            inner.counts.full.add(1);
        }
    }

    /// A span that nothing else has: below another, or at the root of a trace of its own that the sampler decides on.
    /// None while spans are of no use.
    pub fn begin(&self, parent: Option<&TraceContext>) -> Option<TraceContext> {
        let inner = self.0.as_ref()?;
        let number = inner.next.fetch_add(1, Ordering::Relaxed);
        let own = inner.random.with(number);
        let trace = parent.map_or(own.trace(), |parent| parent.trace);
        Some(TraceContext {
            trace,
            span: own.with(1).span(),
            sampled: match parent {
                Some(parent) => inner.sampler.follows(parent),
                None => inner.sampler.takes(trace),
            },
        })
    }
}

/// Where spans wait for whoever exports them.
#[derive(Debug)]
pub struct SpanQueue {
    spans: Receiver<Span>,
    counts: Arc<SpanCounts>,
}

impl SpanQueue {
    /// Moves what waits to `batch`, until that has so many.
    pub fn take(&self, batch: &mut Vec<Span>, most: usize) {
        while batch.len() < most
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
    }

    /// What becomes of them: whoever takes them counts.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }
}

impl Drop for SpanQueue {
    /// Nobody takes what is left.
    fn drop(&mut self) {
        let mut left = Vec::new();
        self.take(&mut left, usize::MAX);
        self.counts.failed.add(left.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SpanKind;

    fn span(tracer: &Tracer) -> Span {
        let context = tracer.begin(None).unwrap();
        Span::new(context, None, SpanKind::Internal, "one")
    }

    #[test]
    fn every_span_is_taken_or_counted_and_nobody_waits() {
        let (tracer, queue) = Tracer::new(Sampler::new(1.0), 1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| tracer.record(span(&tracer))));
            }
        });
        let mut taken = Vec::new();
        queue.take(&mut taken, usize::MAX);
        let counts = tracer.counts().unwrap();
        assert_eq!((counts.made.get(), taken.len()), (200_000, 1000));
        assert_eq!(counts.full.get(), 199_000);
        tracer.record(span(&tracer));
        drop(queue);
        tracer.record(span(&tracer));
        assert_eq!(counts.made.get(), 200_002);
        assert_eq!((counts.full.get(), counts.failed.get()), (199_001, 1));
    }

    #[test]
    fn a_span_is_below_its_parent_and_as_its_parent_is_sampled() {
        let (tracer, _queue) = Tracer::new(Sampler::new(0.0), 1);
        let root = tracer.begin(None).unwrap();
        assert!(!root.sampled);
        let parent = TraceContext {
            sampled: true,
            ..root
        };
        let child = tracer.begin(Some(&parent)).unwrap();
        assert_eq!((child.trace, child.sampled), (parent.trace, true));
        assert_ne!(child.span, parent.span);
        assert!(Tracer::default().begin(Some(&parent)).is_none());
    }
}
