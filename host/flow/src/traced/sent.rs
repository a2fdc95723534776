//! Records that go to a sink: their spans, and what whoever reads on is told.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tidegate_record::{Batch, BatchBuilder, Change, Patch, PatchBuilder, RecordId, RecordView};
use tidegate_telemetry::trace::{
    Room, Span, SpanId, SpanKind, TRACEPARENT, TRACESTATE, TraceContext, TraceId, names,
};

use super::Traces;
use super::named::place;

/// A record that is given to a sink.
pub(crate) struct Sending {
    span: Option<(Span, Room)>,
    /// The record with the header of its trace, where the sink has headers.
    named: Option<Batch>,
    began: Instant,
}

impl Sending {
    /// The record as the sink is given it, if that is another than it is.
    pub(crate) fn record(&self) -> Option<RecordView<'_>> {
        self.named.as_ref()?.view().get(0)
    }
}

/// A span of what its sink has, and may yet refuse.
pub(super) struct Open {
    id: RecordId,
    span: Span,
    room: Room,
}

impl Traces {
    /// A record goes to a sink. Where the sink has headers, the one that names the trace is written from what was decided
    /// when the record came in, whatever operators have written there; what is not recorded is told so.
    pub(crate) fn sends(
        &self,
        sink: usize,
        answers: bool,
        has_headers: bool,
        record: &RecordView<'_>,
    ) -> Option<Sending> {
        let noted = self.noted(record);
        if noted.is_none() && !(has_headers && self.tracer.is_on()) {
            return None;
        }
        let mut told: Option<TraceContext>;
        let mut span = None;
        match noted.filter(|traced| traced.sampled) {
            Some(traced) => {
                told = Some(traced.context());
                if let Some(room) = self.tracer.room() {
                    let context = self.tracer.begin(told.as_ref())?;
                    told = Some(context);
                    let named = &self.named.sinks[sink];
                    let (kind, what, name) = match answers {
                        true => (SpanKind::Internal, "answer", &named.answer),
                        false => (SpanKind::Producer, "send", &named.send),
                    };
                    let mut made = Span::untimed(context, Some(traced.entry), kind, name.clone())
                        .with(names::MESSAGING_OPERATION, what)
                        .with(names::SINK, named.name.clone())
                        .with(names::RECORD, place(record.id()));
                    traced.state.clone_into(&mut made.state);
                    span = Some((made, room));
                }
            }
            // What began elsewhere goes on as it came; of what begins here and is left out nobody else begins it.
            None if has_headers => {
                told = match noted {
                    Some(traced) => Some(traced.context()),
                    None => self.tracer.begin(None).map(|context| TraceContext {
                        sampled: false,
                        ..context
                    }),
                };
            }
            None => return None,
        }
        let state = noted.map_or("", |traced| traced.state);
        let told = told.filter(|_| has_headers);
        Some(Sending {
            span,
            named: told.and_then(|told| named(record, Some((&told, state)))),
            began: Instant::now(),
        })
    }

    /// A record as its dead letter keeps it, which may be sent again: with the trace that was decided in place of what operators
    /// have written there. None if that is the record as it is.
    pub(crate) fn kept(&self, record: &RecordView<'_>) -> Option<Batch> {
        let noted = self.noted(record);
        if !self.tracer.is_on() || (noted.is_none() && record.headers().is_empty()) {
            return None;
        }
        let context = noted.map(|traced| (traced.context(), traced.state));
        named(
            record,
            context.as_ref().map(|(context, state)| (context, *state)),
        )
    }

    /// The sink has it, or has refused it. What it may yet refuse ends when that is known, as far as there is room.
    pub(crate) fn sent(
        &mut self,
        sending: Sending,
        (sink, id): (usize, RecordId),
        taken: bool,
        settles_late: bool,
    ) {
        let Some((mut span, room)) = sending.span else {
            return;
        };
        span = span.lasting(sending.began, Instant::now());
        if taken && settles_late && self.open[sink].len() < self.most_open {
            return self.open[sink].push(Open { id, span, room });
        }
        if !taken {
            span.fail("refused");
        }
        self.finished.add(span.context);
        room.take(span);
    }

    /// A sink was flushed: what it was given is settled, and these it has refused. Their traces, as far as they are known.
    pub(crate) fn settled(
        &mut self,
        sink: usize,
        name: &str,
        refused: impl Iterator<Item = RecordId>,
    ) -> HashMap<RecordId, TraceId> {
        let mut traces = HashMap::new();
        if self.open[sink].is_empty() {
            return traces;
        }
        let refused: HashSet<RecordId> = refused.collect();
        let now = Instant::now();
        for Open { id, mut span, room } in std::mem::take(&mut self.open[sink]) {
            if refused.contains(&id) {
                span.fail("refused");
                traces.insert(id, span.context.trace);
                self.refused(&span, id, name);
            }
            self.finished.add(span.context);
            room.take(span.ending(now));
        }
        traces
    }

    /// It ends as a dead letter, below the span that the one of its sink is below.
    fn refused(&mut self, sent: &Span, id: RecordId, stage: &str) {
        if let Some(room) = self.tracer.room()
            && let Some(context) = self.tracer.begin(Some(&sent.context))
        {
            let mut span = dead_letter(context, sent.parent, "dead-letter", stage, id, 1);
            span.state.clone_from(&sent.state);
            self.finished.add(span.context);
            room.take(span);
        }
    }

    /// What sinks were given since they were last flushed came to nothing: it comes again.
    pub(crate) fn discarded(&mut self) {
        for Open { mut span, room, .. } in self.open.iter_mut().flat_map(|open| open.drain(..)) {
            span.fail("discarded");
            room.take(span);
        }
    }
}

/// The span of what ends so.
pub(super) fn dead_letter(
    context: TraceContext,
    parent: Option<SpanId>,
    what: &'static str,
    stage: &str,
    id: RecordId,
    attempts: u32,
) -> Span {
    let name = format!("{what} {stage}");
    let mut span = Span::new(context, parent, SpanKind::Internal, name)
        .with(names::STAGE, stage.to_owned())
        .with(names::ATTEMPT, attempts)
        .with(names::ERROR_TYPE, what)
        .with(names::RECORD, place(id));
    span.fail(what);
    span
}

/// A record without any header of a trace: for a sink that it is too large for with one.
pub(crate) fn unnamed(record: &RecordView<'_>) -> Option<Batch> {
    named(record, None)
}

/// A record with this trace in its headers, and with no other there; none if it cannot be made.
fn named(record: &RecordView<'_>, trace: Option<(&TraceContext, &str)>) -> Option<Batch> {
    let change = |name, value| match value {
        Some(value) => Change::Set {
            name,
            value: Some(value),
        },
        None => Change::Remove { name },
    };
    let parent = trace.map(|(context, _)| context.traceparent());
    let state = trace.map(|(_, state)| state.as_bytes());
    let mut patch = PatchBuilder::default();
    patch.header(change(TRACEPARENT, parent.as_deref().map(str::as_bytes)));
    patch.header(change(TRACESTATE, state.filter(|state| !state.is_empty())));
    let mut bytes = Vec::new();
    patch.write(&mut bytes);
    let patch = Patch::parse(&bytes).ok()?;
    let mut batch = BatchBuilder::default();
    batch.push_patched(record, &patch, record.id().emit).ok()?;
    Some(batch.finish(0))
}
