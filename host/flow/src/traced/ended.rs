//! Records that have left the pipeline, and the cuts that they leave it with.

use std::time::{Duration, Instant};

use tidegate_contract::{Partition, Rejected};
use tidegate_record::{RecordId, RecordView};
use tidegate_telemetry::trace::{MOST_LINKS, Span, SpanId, SpanKind, TraceContext, TraceId, names};

use super::sent::dead_letter;
use super::{Traced, Traces};

/// Traced records that have left the pipeline since a cut.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    few: Vec<TraceContext>,
    more: usize,
}

impl Finished {
    pub(super) fn add(&mut self, one: TraceContext) {
        match self.few.len() < MOST_LINKS {
            true => self.few.push(one),
            false => self.more += 1,
        }
    }
}

impl Traces {
    /// A record has ended as a dead letter, or without an answer: its trace, for the log.
    pub(crate) fn dead(
        &mut self,
        record: &RecordView<'_>,
        stage: &str,
        is_letter: bool,
        attempts: u32,
    ) -> Option<TraceId> {
        let traced = self.of(record)?;
        let what = match is_letter {
            true => "dead-letter",
            false => "unanswered",
        };
        Some(self.ended(
            &traced,
            record.id(),
            Some(traced.entry),
            (what, stage, attempts),
        ))
    }

    /// Input has ended as a dead letter before it was a record: its trace, for the log. Nothing else of this process is in
    /// that.
    pub(crate) fn rejected(
        &mut self,
        id: RecordId,
        identity: &str,
        rejected: &Rejected,
        stage: &str,
    ) -> Option<TraceId> {
        let partition = Partition {
            source: id.source,
            number: id.partition,
        };
        let note = self.enter_rejected(partition, identity, rejected)?;
        let traced = Traced::read(&note).filter(|traced| traced.sampled)?;
        Some(self.ended(&traced, id, traced.came, ("dead-letter", stage, 1)))
    }

    fn ended(
        &mut self,
        traced: &Traced<'_>,
        id: RecordId,
        parent: Option<SpanId>,
        (what, stage, attempts): (&'static str, &str, u32),
    ) -> TraceId {
        if let Some(room) = self.tracer.room()
            && let Some(context) = self.tracer.begin(Some(&traced.context()))
        {
            let mut span = dead_letter(context, parent, what, stage, id, attempts);
            traced.state.clone_into(&mut span.state);
            self.finished.add(span.context);
            room.take(span);
        }
        traced.trace
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
        let Some((room, context)) = self.tracer.room().zip(self.tracer.begin(None)) else {
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
        room.take(span);
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
