//! Records that leave the pipeline, and the cuts that they leave it with.

use std::time::{Duration, Instant};

use tidegate_record::{Batch, BatchBuilder, Change, Patch, PatchBuilder, RecordView};
use tidegate_telemetry::trace::{
    MOST_LINKS, Span, SpanKind, TRACEPARENT, TraceContext, TraceId, names,
};

use super::named::place;
use super::{Traced, Traces, state};

/// Traced records that have left the pipeline since a cut.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    few: Vec<TraceContext>,
    more: usize,
}

impl Finished {
    fn add(&mut self, one: TraceContext) {
        match self.few.len() < MOST_LINKS {
            true => self.few.push(one),
            false => self.more += 1,
        }
    }
}

impl Traces {
    /// A record that is traced goes to a sink: its span, and, where the sink has headers and it can be, the record with the header that
    /// names that span.
    pub(crate) fn sends(
        &self,
        traced: &Traced,
        sink: usize,
        answers: bool,
        has_headers: bool,
        record: &RecordView<'_>,
    ) -> Option<(Span, Option<Batch>)> {
        let context = self.tracer.begin(Some(&traced.context()))?;
        let named = &self.named.sinks[sink];
        let (kind, what, name) = match answers {
            true => (SpanKind::Internal, "answer", &named.answer),
            false => (SpanKind::Producer, "send", &named.send),
        };
        let mut span = Span::untimed(context, Some(traced.entry), kind, name.clone())
            .with(names::MESSAGING_OPERATION, what)
            .with(names::SINK, named.name.clone())
            .with(names::RECORD, place(record.id()));
        span.state = state(record);
        let named = has_headers.then(|| renamed(record, &context.traceparent()));
        Some((span, named.flatten()))
    }

    /// It was taken, or was not.
    pub(crate) fn sent(&mut self, mut span: Span, began: Instant, taken: bool) {
        if !taken {
            span.fail("refused");
        }
        let span = span.lasting(began, Instant::now());
        self.finished.add(span.context);
        self.tracer.record(span);
    }

    /// A record has ended as a dead letter, or without an answer: its trace, for the log.
    pub(crate) fn dead(
        &mut self,
        record: &RecordView<'_>,
        stage: &str,
        is_letter: bool,
        attempts: u32,
    ) -> Option<TraceId> {
        let traced = self.of(record)?;
        let context = self.tracer.begin(Some(&traced.context()))?;
        let what = match is_letter {
            true => "dead-letter",
            false => "unanswered",
        };
        let mut span = Span::new(
            context,
            Some(traced.entry),
            SpanKind::Internal,
            format!("{what} {stage}"),
        )
        .with(names::STAGE, stage.to_owned())
        .with(names::ATTEMPT, attempts)
        .with(names::ERROR_TYPE, what)
        .with(names::RECORD, place(record.id()));
        span.state = state(record);
        span.fail(what);
        self.finished.add(span.context);
        self.tracer.record(span);
        Some(traced.trace)
    }

    /// What a cut is the end of, once it is begun.
    pub(crate) fn take_finished(&mut self) -> Finished {
        std::mem::take(&mut self.finished)
    }

    /// A cut holds: a trace of its own, with links to the records that it is the end of.
    pub(crate) fn cut(&self, finished: Finished, cut: &Cut) {
        if finished.few.is_empty() {
            return;
        }
        let Some(context) = self.tracer.begin(None) else {
            return;
        };
        let ended = Instant::now();
        let began = ended.checked_sub(cut.time).unwrap_or(ended);
        let mut span = Span::new(
            TraceContext {
                sampled: true,
                ..context
            },
            None,
            SpanKind::Internal,
            "cut",
        )
        .lasting(began, ended)
        .with(names::CUT, cut.number)
        .with(names::WORKER, cut.worker)
        .with(names::CUT_RECORDS, cut.records)
        .with(names::CUT_IN_FLIGHT, cut.in_flight);
        for one in finished.few {
            span.link(one);
        }
        span.leave_out_links(finished.more);
        self.tracer.record(span);
    }
}

/// A cut, to be told.
pub(crate) struct Cut {
    pub number: u64,
    pub worker: usize,
    pub records: u64,
    pub in_flight: u64,
    pub time: Duration,
}

/// A record with another span named in its header; none if it cannot be made.
fn renamed(record: &RecordView<'_>, traceparent: &str) -> Option<Batch> {
    let mut patch = PatchBuilder::default();
    patch.header(Change::Set {
        name: TRACEPARENT,
        value: Some(traceparent.as_bytes()),
    });
    let mut bytes = Vec::new();
    patch.write(&mut bytes);
    let patch = Patch::parse(&bytes).ok()?;
    let mut batch = BatchBuilder::default();
    batch.push_patched(record, &patch, record.id().emit).ok()?;
    Some(batch.finish(0))
}
