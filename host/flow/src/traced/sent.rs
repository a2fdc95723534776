//! Records that go to a sink: their spans, and what whoever reads on is told.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tidegate_record::{RecordId, RecordView};
use tidegate_telemetry::trace::{
    Room, Span, SpanId, SpanKind, TRACEPARENT, TRACESTATE, TraceContext, TraceId, names,
};

use super::named::place;
use super::{Traced, Traces};

/// The headers that say where a trace goes on.
const OF_TRACE: [&str; 2] = [TRACEPARENT, TRACESTATE];

/// A record that is given to a sink.
pub(crate) struct Sending<'r> {
    span: Option<(Span, Room)>,
    onward: Onward<'r>,
    began: Instant,
}

impl Sending<'_> {
    /// What whoever reads on is told.
    pub(crate) fn headers(&self) -> Vec<(&str, &[u8])> {
        self.onward.headers()
    }
}

/// Where the trace of a record goes on.
pub(crate) struct Onward<'r> {
    parent: String,
    state: &'r str,
}

impl<'r> Onward<'r> {
    fn new(context: &TraceContext, traced: &Traced<'r>) -> Onward<'r> {
        Onward {
            parent: context.traceparent(),
            state: traced.state,
        }
    }

    /// It as headers.
    pub(crate) fn headers(&self) -> Vec<(&str, &[u8])> {
        let mut headers = vec![(TRACEPARENT, self.parent.as_bytes())];
        if !self.state.is_empty() {
            headers.push((TRACESTATE, self.state.as_bytes()));
        }
        headers
    }
}

/// A span of what its sink has, and may yet refuse.
pub(super) struct Open {
    id: RecordId,
    span: Span,
    room: Room,
}

impl Traces {
    /// Names of the headers that are the host's: no operator says where a trace goes on.
    pub(crate) fn host_names(&self) -> &'static [&'static str] {
        match self.tracer.is_on() {
            true => &OF_TRACE,
            false => &[],
        }
    }

    /// A record goes to a sink. What began elsewhere and is not recorded goes on as it came; of what begins here and is
    /// not recorded nothing is said.
    pub(crate) fn sends<'r>(
        &self,
        sink: usize,
        answers: bool,
        record: &RecordView<'r>,
    ) -> Option<Sending<'r>> {
        let traced = self.noted(record)?;
        let mut told = traced.context();
        let mut span = None;
        if traced.sampled
            && let Some(room) = self.tracer.room()
        {
            told = self.tracer.begin(Some(&told))?;
            let named = &self.named.sinks[sink];
            let (kind, what, name) = match answers {
                true => (SpanKind::Internal, "answer", &named.answer),
                false => (SpanKind::Producer, "send", &named.send),
            };
            let mut made = Span::untimed(told, Some(traced.entry), kind, name.clone())
                .with(names::MESSAGING_OPERATION, what)
                .with(names::SINK, named.name.clone())
                .with(names::RECORD, place(record.id()));
            traced.state.clone_into(&mut made.state);
            span = Some((made, room));
        }
        Some(Sending {
            span,
            onward: Onward::new(&told, &traced),
            began: Instant::now(),
        })
    }

    /// Where the trace of a record goes on that its dead letter keeps, which may be sent again.
    pub(crate) fn onward<'r>(&self, record: &RecordView<'r>) -> Option<Onward<'r>> {
        let traced = self.noted(record)?;
        Some(Onward::new(&traced.context(), &traced))
    }

    /// The sink has it, or has refused it. What it may yet refuse ends when that is known, as far as there is room.
    pub(crate) fn sent(
        &mut self,
        sending: Sending<'_>,
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
