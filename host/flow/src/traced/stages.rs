//! Records that are read, and batches of operators.

use std::time::Instant;

use tidegate_contract::OperatorVersion;
use tidegate_record::Batch;
use tidegate_telemetry::trace::{Room, Span, SpanKind, Text, names};

use super::named::place;
use super::{Traced, Traces};

/// Traced records of a batch that was read.
pub(crate) struct Received {
    spans: Vec<(Span, Room)>,
}

/// Traced records of a batch that an operator has answered for.
pub(crate) struct Batched<'a> {
    pub stage: usize,
    pub batch: &'a Batch,
    pub version: &'a OperatorVersion,
    pub traced: &'a [(usize, Traced<'a>)],
    /// Counted from 1.
    pub attempt: u32,
    pub began: Instant,
    pub ended: Instant,
}

impl Traces {
    /// A batch came: the first span of each record that is traced. Where callers wait, the request has it.
    pub(crate) fn received(&self, batch: &Batch) -> Received {
        let view = batch.view();
        let first = view.get(0).filter(|_| self.tracer.is_on());
        let named = first.and_then(|first| {
            let source = usize::from(first.id().source);
            let called = self.topology.sources.get(source)?.called;
            self.named.sources.get(source).filter(|_| !called)
        });
        let Some(named) = named else {
            return Received { spans: Vec::new() };
        };
        let span = |(index, traced): (usize, Traced<'_>)| {
            let id = view.get(index)?.id();
            let room = self.tracer.room()?;
            let (context, kind) = (traced.context(), SpanKind::Consumer);
            let mut span = Span::untimed(context, traced.came, kind, named.receive.clone())
                .with(names::MESSAGING_OPERATION, "receive")
                .with(names::SOURCE, named.name.clone())
                .with(names::MESSAGING_PARTITION, id.partition.to_string())
                .with(names::MESSAGING_BATCH, view.len())
                .with(names::RECORD, place(id));
            match &named.topic {
                Some(topic) => {
                    span.set(names::MESSAGING_SYSTEM, "kafka");
                    span.set(names::MESSAGING_DESTINATION, topic.clone());
                    span.set(names::MESSAGING_OFFSET, id.offset);
                }
                None => span.set(names::MESSAGING_SYSTEM, "tidegate"),
            }
            traced.state.clone_into(&mut span.state);
            Some((span, room))
        };
        let traced = self.of_batch(batch).into_iter();
        Received {
            spans: traced.filter_map(span).collect(),
        }
    }

    /// What came has gone on, or waits.
    pub(crate) fn took(&self, received: Received, began: Instant) {
        let ended = Instant::now();
        for (span, room) in received.spans {
            room.take(span.lasting(began, ended));
        }
    }

    /// An operator has answered for a batch: a span for each record of it that is traced, in the record's own trace. The
    /// first has links to the others, and these to it, so that whoever looks at one finds the batch.
    pub(crate) fn operated(&self, of: &Batched<'_>, outcome: impl Fn(usize) -> &'static str) {
        let named = &self.named.stages[of.stage];
        let component = Text::name(&of.version.digest);
        let revision = Text::name(&of.version.revision.digest);
        let view = of.batch.view();
        let mut first: Option<(Span, Room)> = None;
        for (index, traced) in of.traced {
            let Some(record) = view.get(*index) else {
                continue;
            };
            let Some(room) = self.tracer.room() else {
                continue;
            };
            let Some(context) = self.tracer.begin(Some(&traced.context())) else {
                return;
            };
            let (kind, name) = (SpanKind::Internal, named.process.clone());
            let mut span = Span::untimed(context, Some(traced.entry), kind, name)
                .lasting(of.began, of.ended)
                .with(names::STAGE, named.name.clone())
                .with(names::COMPONENT, component.clone())
                .with(names::REVISION, revision.clone())
                .with(names::BATCH_RECORDS, of.batch.len())
                .with(names::BATCH_TRACED, of.traced.len())
                .with(names::ATTEMPT, of.attempt)
                .with(names::RECORD, place(record.id()));
            let outcome = outcome(*index);
            span.set(names::OUTCOME, outcome);
            if outcome == "failed" {
                span.fail(outcome);
            }
            traced.state.clone_into(&mut span.state);
            match &mut first {
                None => first = Some((span, room)),
                Some((first, _)) => {
                    first.link(span.context);
                    span.link(first.context);
                    room.take(span);
                }
            }
        }
        if let Some((first, room)) = first {
            room.take(first);
        }
    }
}
