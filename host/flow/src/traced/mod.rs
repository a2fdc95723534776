//! What becomes of records, as spans, and what is noted with each where it comes in.
//!
//! A record's trace is the one that it came with, in its header `traceparent`, or one that follows from where it came
//! from: what its input is, its partition and its offset. So a restart, and whoever reads the partition next, goes on with
//! it. That is decided once, where the record comes in, and noted with it ([`note`]): no operator can name another. The
//! spans of stages and sinks are below the record's first one, which was made when it was read; of a source of callers
//! that is the span of the request. Nothing of a record's key or value is part of any.

mod ended;
mod model;
mod named;
mod note;
mod sent;
mod stages;

use std::sync::Arc;

use tidegate_contract::{Partition, Rejected};
use tidegate_record::{Batch, RecordId, RecordView};
use tidegate_telemetry::trace::{
    Digest, Quota, Sampler, SpanId, TraceContext, TraceId, Tracer, came_with,
};

use self::named::Named;
use self::sent::Open;
use crate::topology::{Source, Topology};

pub(crate) use self::ended::{Cut, Finished};
pub(crate) use self::model::Asking;
pub(crate) use self::note::{ReadingRun, Traced};
pub(crate) use self::sent::{Onward, Sending};
pub(crate) use self::stages::Batched;

/// Spans that follow from a record, beside its first one.
#[derive(Clone, Copy)]
enum Of {
    Entry = 1,
    Model,
}

fn with_trace(digest: Digest, trace: TraceId) -> Digest {
    let trace = u128::from_be_bytes(trace.bytes());
    digest.with((trace >> 64) as u64).with(trace as u64)
}

impl Traced<'_> {
    /// The span of a request to a model: the same whenever it is asked for, and another wherever else the trace comes by.
    fn of_model(&self, id: RecordId, stage: usize, attempt: u32) -> SpanId {
        let entry = u64::from_be_bytes(self.entry.bytes());
        let digest = with_trace(Digest::default().with(entry), self.trace);
        let digest = digest.with(id.offset).with(id.emit).with(Of::Model as u64);
        digest.with(stage as u64).with(u64::from(attempt)).span()
    }
}

/// Whoever makes spans of what a worker does.
pub(crate) struct Traces {
    tracer: Tracer,
    topology: Arc<Topology>,
    /// Noted with what is read once; none if it could not be drawn.
    run: Option<ReadingRun>,
    /// One for each source: what tells its records from those of all others but their partitions.
    sources: Vec<Digest>,
    /// One for each source: what others may have recorded of it. Of callers that was decided with their request.
    quotas: Vec<Option<Arc<Quota>>>,
    named: Named,
    /// Spans of what sinks may yet refuse, by sink, and how many there are at most.
    open: Vec<Vec<Open>>,
    most_open: usize,
    /// Those that are finished since the last cut.
    finished: Finished,
}

impl Traces {
    pub(crate) fn new(
        topology: Arc<Topology>,
        tracer: Tracer,
        pipeline: &str,
        run: Option<ReadingRun>,
    ) -> Traces {
        let of = |source: &Source| {
            let digest = Digest::of(&[pipeline, source.name.as_str(), source.apart.as_str()]);
            // Its offsets are those of another run too.
            match source.is_read_once() {
                true => digest.with(run.map_or(0, ReadingRun::number)),
                false => digest,
            }
        };
        Traces {
            run,
            sources: topology.sources.iter().map(of).collect(),
            quotas: (topology.sources.iter())
                .map(|source| match source.called {
                    true => None,
                    false => tracer.quota(&source.name),
                })
                .collect(),
            named: Named::new(&topology),
            open: topology.sinks.iter().map(|_| Vec::new()).collect(),
            most_open: tracer.most() / 4,
            finished: Finished::default(),
            tracer,
            topology,
        }
    }

    /// The records of a partition, which is this.
    fn series(&self, partition: Partition, identity: &str) -> Option<Digest> {
        let source = self.sources.get(usize::from(partition.source))?;
        let series = source.with(u64::from(partition.number));
        Some(series.with_text(identity))
    }

    fn quota(&self, partition: Partition) -> Option<&Quota> {
        let quota = self.quotas.get(usize::from(partition.source))?;
        quota.as_deref()
    }

    /// Records come in from a partition that is this: which of them are traced is decided, and noted with them, and so is
    /// this run with those that no other can read. Most have no headers and are not recorded: that is seen from their offset
    /// alone.
    pub(crate) fn enter(&self, partition: Partition, identity: &str, batch: Batch) -> Batch {
        let Some(source) = self.topology.sources.get(usize::from(partition.source)) else {
            return batch;
        };
        let run = self.run.filter(|_| source.is_read_once());
        let entering = self.tracer.sampler().and_then(|sampler| {
            Some(Entering {
                sampler,
                series: self.series(partition, identity)?,
                called: source.called,
                quota: self.quota(partition),
            })
        });
        if entering.is_none() && run.is_none() {
            return batch;
        }
        let (mut notes, mut written) = (Vec::new(), Vec::new());
        for (index, record) in batch.view().records().enumerate() {
            let from = notes.len();
            if let Some(run) = run {
                run.write(&mut notes);
            }
            match &entering {
                None => {}
                Some(entering) if record.headers().is_empty() => {
                    entering.plain(record.offset(), &mut notes);
                }
                Some(entering) => {
                    let headers = record.headers().map(|header| (header.name, header.value));
                    entering.decide(record.offset(), headers, &mut notes);
                }
            }
            if notes.len() > from {
                written.push((index, from..notes.len()));
            }
        }
        match written.is_empty() {
            true => batch,
            false => {
                let written = written.into_iter();
                batch.noted(written.map(|(index, range)| (index, &notes[range])))
            }
        }
    }

    /// The note of input that could not become a record.
    fn enter_rejected(
        &self,
        partition: Partition,
        identity: &str,
        rejected: &Rejected,
    ) -> Option<Vec<u8>> {
        let source = self.topology.sources.get(usize::from(partition.source))?;
        let entering = Entering {
            sampler: self.tracer.sampler()?,
            series: self.series(partition, identity)?,
            called: source.called,
            quota: self.quota(partition),
        };
        let headers = rejected.headers.iter().flatten();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_deref()));
        let mut note = Vec::new();
        entering.decide(rejected.offset, headers, &mut note);
        Some(note)
    }

    /// What is noted of a record's trace.
    #[inline]
    fn noted<'r>(&self, record: &RecordView<'r>) -> Option<Traced<'r>> {
        let note = record.note()?;
        self.tracer.is_on().then(|| Traced::read(note)).flatten()
    }

    /// The trace of a record, if it is recorded.
    #[inline]
    pub(crate) fn of<'r>(&self, record: &RecordView<'r>) -> Option<Traced<'r>> {
        self.noted(record).filter(|traced| traced.sampled)
    }

    /// Those records of a batch that are traced, with their places in it.
    pub(crate) fn of_batch<'b>(&self, batch: &'b Batch) -> Vec<(usize, Traced<'b>)> {
        let view = batch.view();
        if !self.tracer.is_on() || !view.has_notes() {
            return Vec::new();
        }
        let records = view.records().enumerate();
        records
            .filter_map(|(index, record)| Some((index, self.of(&record)?)))
            .collect()
    }
}

/// Where records come in.
struct Entering<'t> {
    sampler: &'t Sampler,
    series: Digest,
    called: bool,
    /// What others may have recorded; all of it where there is none.
    quota: Option<&'t Quota>,
}

impl Entering<'_> {
    /// One without headers. Of callers the request has its own span, or is not traced.
    #[inline]
    fn plain(&self, offset: u64, note: &mut Vec<u8>) {
        if !self.called
            && let Some(trace) = self.sampler.takes_of(self.series, offset)
        {
            self.begins(trace, offset, note);
        }
    }

    #[cold]
    fn begins(&self, trace: TraceId, offset: u64, note: &mut Vec<u8>) {
        let traced = Traced {
            trace,
            entry: self.entry(trace, offset),
            came: None,
            sampled: true,
            // Whoever knows where the record is read knows the id.
            random: false,
            state: "",
        };
        traced.write(note);
    }

    fn decide<'h>(
        &self,
        offset: u64,
        headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>,
        note: &mut Vec<u8>,
    ) {
        let Some((came, state)) = came_with(headers) else {
            return self.plain(offset, note);
        };
        let TraceContext {
            trace,
            span,
            random,
            ..
        } = came;
        // The own draw of the record's place, which nobody else can choose, is not one that others force.
        let sampled = came.sampled
            && (self.sampler.takes_of(self.series, offset).is_some()
                || self.quota.is_none_or(Quota::takes));
        let traced = Traced {
            trace,
            // There is no span of this process in what is only passed on, and of callers the request has it.
            entry: match sampled && !self.called {
                true => self.entry(trace, offset),
                false => span,
            },
            came: Some(span),
            sampled,
            random,
            state: &state,
        };
        traced.write(note);
    }

    /// The first span of a record: the same whenever it comes, and another wherever else the trace comes by.
    fn entry(&self, trace: TraceId, offset: u64) -> SpanId {
        let digest = with_trace(self.series, trace).with(offset);
        digest.with(Of::Entry as u64).span()
    }
}

#[cfg(test)]
mod tests;
