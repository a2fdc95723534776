//! Records that are read, and batches of operators.

use std::time::Instant;

use tidegate_contract::OperatorVersion;
use tidegate_record::Batch;
use tidegate_telemetry::trace::{Span, SpanKind, names};

use super::{Traced, Traces, state};

/// Traced records of a batch that was read.
pub(crate) struct Received {
    spans: Vec<Span>,
}

/// Traced records of a batch that an operator has answered for.
pub(crate) struct Batched<'a> {
    pub stage: usize,
    pub batch: &'a Batch,
    pub version: &'a OperatorVersion,
    pub traced: &'a [(usize, Traced)],
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
        let source = first.and_then(|first| {
            let source = self.topology.sources.get(usize::from(first.id().source));
            source.filter(|source| !source.called)
        });
        let Some(source) = source else {
            return Received { spans: Vec::new() };
        };
        let topic = source.identities.first();
        let topic = topic.and_then(|identity| identity.strip_prefix("kafka topic "));
        let span = |(index, traced): (usize, Traced)| {
            let record = view.get(index)?;
            let id = record.id();
            let name = format!("receive {}", topic.unwrap_or(&source.name));
            let mut span = Span::new(traced.context(), traced.came, SpanKind::Consumer, name)
                .with(names::MESSAGING_OPERATION, "receive")
                .with(names::SOURCE, source.name.clone())
                .with(names::MESSAGING_PARTITION, id.partition.to_string())
                .with(names::MESSAGING_BATCH, view.len())
                .with(names::RECORD, id.to_string());
            match topic {
                Some(topic) => {
                    span.set(names::MESSAGING_SYSTEM, "kafka");
                    span.set(names::MESSAGING_DESTINATION, topic.to_owned());
                    span.set(names::MESSAGING_OFFSET, id.offset);
                }
                None => span.set(names::MESSAGING_SYSTEM, "tidegate"),
            }
            span.state = state(&record);
            Some(span)
        };
        let traced = self.of_batch(batch).into_iter();
        Received {
            spans: traced.filter_map(span).collect(),
        }
    }

    /// What came has gone on, or waits.
    pub(crate) fn took(&self, received: Received, began: Instant) {
        let ended = Instant::now();
        for span in received.spans {
            self.tracer.record(span.lasting(began, ended));
        }
    }

    /// An operator has answered for a batch: a span for each record of it that is traced, in the record's own trace. The
    /// first has links to the others, and these to it, so that whoever looks at one finds the batch.
    pub(crate) fn operated(&self, of: &Batched<'_>, outcome: impl Fn(usize) -> &'static str) {
        let stage = &self.topology.stages[of.stage].name;
        let view = of.batch.view();
        let mut first: Option<Span> = None;
        for (index, traced) in of.traced {
            let Some(record) = view.get(*index) else {
                continue;
            };
            let Some(context) = self.tracer.begin(Some(&traced.context())) else {
                return;
            };
            let name = format!("process {stage}");
            let mut span = Span::new(context, Some(traced.entry), SpanKind::Internal, name)
                .lasting(of.began, of.ended)
                .with(names::STAGE, stage.clone())
                .with(names::COMPONENT, of.version.digest.clone())
                .with(names::REVISION, of.version.revision.digest.clone())
                .with(names::BATCH_RECORDS, of.batch.len())
                .with(names::BATCH_TRACED, of.traced.len())
                .with(names::ATTEMPT, of.attempt)
                .with(names::RECORD, record.id().to_string());
            let outcome = outcome(*index);
            span.set(names::OUTCOME, outcome);
            if outcome == "failed" {
                span.fail(outcome);
            }
            span.state = state(&record);
            match &mut first {
                None => first = Some(span),
                Some(first) => {
                    first.link(span.context);
                    span.link(first.context);
                    self.tracer.record(span);
                }
            }
        }
        if let Some(first) = first {
            self.tracer.record(first);
        }
    }
}
