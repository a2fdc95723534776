//! What becomes of records, as spans.
//!
//! A record's trace is the one that it came with, in its header `traceparent`, or one that follows from where it came
//! from: its source, partition and offset. So a restart, and whoever reads the partition next, goes on with it. The spans
//! of stages and sinks are below the record's first one, which was made when it was read; of a source of callers that is
//! the span of the request. Nothing of a record's key or value is part of any.

mod ended;
mod model;
mod named;
mod stages;

use std::sync::Arc;

use tidegate_record::{Batch, Origin, Pairs, RecordId, RecordView};
use tidegate_telemetry::trace::{
    Digest, Sampler, SpanId, TRACEPARENT, TRACESTATE, TraceContext, TraceId, Tracer, trace_state,
};

use self::named::Named;
use crate::topology::{Positions, Topology};

pub(crate) use self::ended::{Cut, Finished};
pub(crate) use self::model::Asking;
pub(crate) use self::stages::Batched;

/// Spans that follow from a record, beside its first one.
#[derive(Clone, Copy)]
enum Of {
    Entry = 1,
    Model,
}

/// A record that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traced {
    pub trace: TraceId,
    /// The span that it came with.
    pub came: Option<SpanId>,
    /// The span that those of stages and sinks are below.
    pub entry: SpanId,
}

impl Traced {
    /// The span that others are below, as others name it.
    pub(crate) fn context(&self) -> TraceContext {
        self.span(self.entry)
    }

    fn span(&self, span: SpanId) -> TraceContext {
        TraceContext {
            trace: self.trace,
            span,
            sampled: true,
        }
    }

    /// A span that is the same whenever it is asked for, and another wherever else the trace comes by.
    fn derived(&self, series: Digest, id: RecordId, of: Of, more: [u64; 2]) -> SpanId {
        let trace = u128::from_be_bytes(self.trace.bytes());
        let digest = series.with((trace >> 64) as u64).with(trace as u64);
        let digest = digest.with(id.offset).with(id.emit);
        digest.with(of as u64).with(more[0]).with(more[1]).span()
    }
}

/// The records of a partition, from a source of this digest.
fn series(source: Digest, id: RecordId) -> Digest {
    source
        .with(u64::from(id.partition))
        .with(u64::from(id.origin == Origin::Timer))
}

/// The partition of the record that was looked at last, and its series: the next is mostly of the same.
#[derive(Default)]
pub(crate) struct LastSeries(Option<(u16, u32, Origin, Digest)>);

/// Whoever makes spans of what a worker does.
pub(crate) struct Traces {
    tracer: Tracer,
    topology: Arc<Topology>,
    /// One for each source of this pipeline and what it reads.
    sources: Vec<Digest>,
    named: Named,
    /// Those that are finished since the last cut.
    finished: Finished,
}

impl Traces {
    pub(crate) fn new(topology: Arc<Topology>, tracer: Tracer, pipeline: &str) -> Traces {
        let of = |source: &crate::topology::Source| {
            let identities = source.identities.iter().map(String::as_str);
            let names: Vec<&str> = [pipeline, source.name.as_str()]
                .into_iter()
                .chain(identities)
                .collect();
            let digest = Digest::of(&names);
            // What cannot be read again is another each time, though its offsets are the same.
            match source.positions == Positions::Nobody && !source.called {
                true => {
                    let once = tracer.begin(None).map(|once| once.span.bytes());
                    digest.with(once.map_or(0, u64::from_be_bytes))
                }
                false => digest,
            }
        };
        Traces {
            sources: topology.sources.iter().map(of).collect(),
            named: Named::new(&topology),
            finished: Finished::default(),
            tracer,
            topology,
        }
    }

    /// The trace of a record, if it is recorded.
    pub(crate) fn of(&self, record: &RecordView<'_>) -> Option<Traced> {
        let sampler = self.tracer.sampler()?;
        self.in_series(sampler, self.series(record.id())?, record)
    }

    /// The same of one of many records, one after another.
    #[inline]
    pub(crate) fn of_next(
        &self,
        record: &RecordView<'_>,
        before: &mut LastSeries,
    ) -> Option<Traced> {
        let sampler = self.tracer.sampler()?;
        let id = record.id();
        let of = (id.source, id.partition, id.origin);
        let series = match before.0 {
            Some((source, partition, origin, series)) if (source, partition, origin) == of => {
                series
            }
            _ => {
                let series = self.series(id)?;
                before.0 = Some((id.source, id.partition, id.origin, series));
                series
            }
        };
        self.in_series(sampler, series, record)
    }

    fn series(&self, id: RecordId) -> Option<Digest> {
        let source = self.sources.get(usize::from(id.source))?;
        Some(series(*source, id))
    }

    /// Those records of a batch, from one partition, that are traced, with their places in it.
    pub(crate) fn of_batch(&self, batch: &Batch) -> Vec<(usize, Traced)> {
        let Some(sampler) = self.tracer.sampler() else {
            return Vec::new();
        };
        let view = batch.view();
        let first = view.get(0).and_then(|first| self.series(first.id()));
        let Some(series) = first else {
            return Vec::new();
        };
        let mut traced = Vec::new();
        for (index, record) in view.records().enumerate() {
            if let Some(one) = self.in_series(sampler, series, &record) {
                traced.push((index, one));
            }
        }
        traced
    }

    /// Most records have no headers and are not recorded: that is seen from their offset alone.
    #[inline]
    fn in_series(
        &self,
        sampler: &Sampler,
        series: Digest,
        record: &RecordView<'_>,
    ) -> Option<Traced> {
        if !record.headers().is_empty() {
            return self.with_headers(sampler, series, record);
        }
        let trace = sampler.takes_of(series, record.offset())?;
        self.traced(series, trace, None, record)
    }

    fn with_headers(
        &self,
        sampler: &Sampler,
        series: Digest,
        record: &RecordView<'_>,
    ) -> Option<Traced> {
        let came = came_with(record.headers());
        let trace = match &came {
            Some(came) => sampler.follows(came).then_some(came.trace),
            None => sampler.takes_of(series, record.offset()),
        };
        self.traced(series, trace?, came, record)
    }

    #[cold]
    fn traced(
        &self,
        series: Digest,
        trace: TraceId,
        came: Option<TraceContext>,
        record: &RecordView<'_>,
    ) -> Option<Traced> {
        let id = record.id();
        let came = came.map(|came| came.span);
        let called = self.topology.sources.get(usize::from(id.source))?.called;
        let traced = Traced {
            trace,
            came,
            entry: came.unwrap_or(SpanId::new([1; 8])?),
        };
        match (called, came) {
            // The request has its own span, or is not traced.
            (true, came) => came.map(|_| traced),
            (false, _) => {
                let whole = RecordId { emit: 0, ..id };
                let entry = traced.derived(series, whole, Of::Entry, [0; 2]);
                Some(Traced { entry, ..traced })
            }
        }
    }
}

/// The context that headers bring; none if they bring none, or several.
fn came_with(headers: Pairs<'_>) -> Option<TraceContext> {
    let mut named = headers.filter(|header| header.name == TRACEPARENT);
    let only = named.next()?;
    match named.next() {
        None => TraceContext::parse(only.value?),
        Some(_) => None,
    }
}

/// What other systems keep with a record's trace.
fn state(record: &RecordView<'_>) -> String {
    let state = record.headers().last(TRACESTATE);
    let text = state.and_then(|state| trace_state(state.value?));
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
