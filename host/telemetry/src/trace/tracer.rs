//! Where spans go: one bounded queue, into which nobody waits to put one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::context::TraceContext;
use super::drawn::drawn;
use super::quota::Quota;
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
    /// Traces of others that were not recorded, though they asked for it: there were too many.
    pub unforced: Counter,
}

/// Takes spans. A copy is the same; the usual one is off, and costs nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    queue: SyncSender<Span>,
    sampler: Sampler,
    counts: Arc<SpanCounts>,
    /// Spans that wait, and those that there is room for.
    waiting: Arc<AtomicUsize>,
    most: usize,
    /// What clients of the gateway may have recorded, and whoever writes what each source reads.
    of_requests: Quota,
    of_sources: Mutex<BTreeMap<String, Arc<Quota>>>,
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
        let most = room.max(1);
        let (queue, spans) = sync_channel(most);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counts = Arc::new(SpanCounts::default());
        let tracer = Tracer(Some(Arc::new(Inner {
            queue,
            sampler,
            counts: counts.clone(),
            waiting: waiting.clone(),
            most,
            of_requests: Quota::new(sampler.most_forced(), counts.clone()),
            of_sources: Mutex::default(),
        })));
        let queue = SpanQueue {
            spans,
            counts,
            waiting,
        };
        (tracer, queue)
    }

    /// How many spans may wait.
    pub fn most(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| inner.most)
    }

    /// Room for a span, before anything of it is made: where there is none, the span is counted as one that found none. None
    /// too while spans are of no use.
    pub fn room(&self) -> Option<Room> {
        let inner = self.0.as_ref()?;
        if inner.waiting.fetch_add(1, Ordering::Relaxed) < inner.most {
            return Some(Room(Some(inner.clone())));
        }
        inner.waiting.fetch_sub(1, Ordering::Relaxed);
        inner.counts.made.add(1);
        inner.counts.full.add(1);
        None
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

    /// Takes a span, if there is room; otherwise it is counted. Who makes many asks for the [`Room`] first.
    pub fn record(&self, span: Span) {
        if let Some(room) = self.room() {
            room.take(span);
        }
    }

    /// A span that nothing else has: below another, or at the root of a trace of its own that the sampler decides on.
    /// None while spans are of no use, or where the system gives no randomness.
    pub fn begin(&self, parent: Option<&TraceContext>) -> Option<TraceContext> {
        self.begin_if(parent, |_| true)
    }

    /// The same for a request of a client. One that says that it is recorded is, if the sampler takes it, or if there are
    /// not too many that it does not take.
    pub fn begin_request(&self, client: Option<&TraceContext>) -> Option<TraceContext> {
        self.begin_if(client, Quota::takes)
    }

    /// What whoever writes what a source reads may have recorded: all readers of it share that.
    pub fn quota(&self, source: &str) -> Option<Arc<Quota>> {
        let inner = self.0.as_ref()?;
        // It is whole after any panic: an insertion is its only change.
        let mut of_sources = inner
            .of_sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let made = || {
            Arc::new(Quota::new(
                inner.sampler.most_forced(),
                inner.counts.clone(),
            ))
        };
        Some(
            of_sources
                .entry(source.to_owned())
                .or_insert_with(made)
                .clone(),
        )
    }

    fn begin_if(
        &self,
        parent: Option<&TraceContext>,
        forced: impl Fn(&Quota) -> bool,
    ) -> Option<TraceContext> {
        let inner = self.0.as_ref()?;
        let (own, span) = drawn()?;
        let trace = parent.map_or(own, |parent| parent.trace);
        Some(TraceContext {
            trace,
            span,
            sampled: match parent {
                // The own draw, which nobody else can choose.
                Some(parent) => {
                    parent.sampled && (inner.sampler.takes(own) || forced(&inner.of_requests))
                }
                None => inner.sampler.takes(trace),
            },
            random: parent.is_none_or(|parent| parent.random),
        })
    }
}

/// Room for one span. It is free again once it is dropped.
pub struct Room(Option<Arc<Inner>>);

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

impl Room {
    /// The span goes there.
    pub fn take(mut self, span: Span) {
        let Some(inner) = self.0.take() else {
            return;
        };
        inner.counts.made.add(1);
        // Nobody takes them any more if it does not go.
        if inner.queue.try_send(span).is_err() {
            inner.waiting.fetch_sub(1, Ordering::Relaxed);
            inner.counts.full.add(1);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            inner.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Where spans wait for whoever exports them.
#[derive(Debug)]
pub struct SpanQueue {
    spans: Receiver<Span>,
    counts: Arc<SpanCounts>,
    waiting: Arc<AtomicUsize>,
}

impl SpanQueue {
    /// Moves what waits to `batch`, until that has so many.
    pub fn take(&self, batch: &mut Vec<Span>, most: usize) {
        while batch.len() < most
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
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
    fn room_is_counted_before_a_span_is_made_and_is_free_again() {
        let (tracer, queue) = Tracer::new(Sampler::new(1.0), 2);
        let (one, two) = (tracer.room().unwrap(), tracer.room().unwrap());
        assert!(tracer.room().is_none());
        let counts = tracer.counts().unwrap();
        assert_eq!((counts.made.get(), counts.full.get()), (1, 1));
        drop(one);
        two.take(span(&tracer));
        assert_eq!((counts.made.get(), counts.full.get()), (2, 1));
        tracer.record(span(&tracer));
        assert!(tracer.room().is_none(), "both wait");
        let mut taken = Vec::new();
        queue.take(&mut taken, 1);
        assert!(tracer.room().is_some());
        assert!(Tracer::default().room().is_none());
    }

    #[test]
    fn a_span_is_below_its_parent_and_as_its_parent_is_sampled() {
        let (tracer, _queue) = Tracer::new(Sampler::new(0.0), 1);
        let root = tracer.begin(None).unwrap();
        assert!(!root.sampled);
        assert!(root.random);
        let parent = TraceContext {
            sampled: true,
            random: false,
            ..root
        };
        let child = tracer.begin(Some(&parent)).unwrap();
        assert_eq!((child.trace, child.sampled), (parent.trace, true));
        assert_ne!(child.span, parent.span);
        assert!(!child.random, "the id is another's");
        assert!(Tracer::default().begin(Some(&parent)).is_none());
    }

    #[test]
    fn clients_have_no_more_recorded_than_they_may_and_what_the_sampler_takes_is_not_counted() {
        let client = |tracer: &Tracer| TraceContext {
            sampled: true,
            ..tracer.begin(None).unwrap()
        };
        let recorded = |sampler, times| {
            let (tracer, _queue) = Tracer::new(sampler, 1);
            let client = client(&tracer);
            let begun = (0..times).filter(|_| tracer.begin_request(Some(&client)).unwrap().sampled);
            (begun.count(), tracer.counts().unwrap().unforced.get())
        };
        assert_eq!(recorded(Sampler::new(0.0).forced(0), 50), (0, 50));
        assert_eq!(recorded(Sampler::new(1.0).forced(0), 50), (50, 0));
        assert_eq!(recorded(Sampler::new(0.0).forced(1_000_000), 50), (50, 0));
        let (tracer, _queue) = Tracer::new(Sampler::new(0.0).forced(0), 1);
        let client = client(&tracer);
        // What goes on below a span that is recorded already is as that is.
        assert!(tracer.begin(Some(&client)).unwrap().sampled);
        let (one, same) = (tracer.quota("a").unwrap(), tracer.quota("a").unwrap());
        assert!(Arc::ptr_eq(&one, &same) && !one.takes());
        assert!(!Arc::ptr_eq(&one, &tracer.quota("b").unwrap()));
    }
}
