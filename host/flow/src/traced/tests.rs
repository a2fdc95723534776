use std::time::Duration;

use tidegate_contract::CommitPoint;
use tidegate_record::{BatchBuilder, NewRecord};
use tidegate_telemetry::trace::{Sampler, Span, SpanKind, SpanQueue};

use super::*;
use crate::topology::Source;

const CAME: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn topology() -> Arc<Topology> {
    let source = |name: &str, called, positions| Source {
        name: name.into(),
        targets: Vec::new(),
        fixed: true,
        positions,
        called,
        beside: false,
        identities: vec![format!("kafka topic {name}")],
    };
    Arc::new(Topology {
        sources: vec![
            source("topic", false, Positions::Cuts),
            source("requests", true, Positions::Nobody),
            source("pipe", false, Positions::Nobody),
        ],
        stages: Vec::new(),
        sinks: vec!["out".into()],
        commit_point: CommitPoint::Log,
        batch: 8,
        batch_bytes: 1 << 20,
        cut_interval: Duration::ZERO,
        callers: None,
        drain: Duration::ZERO,
    })
}

fn traces(part: f64) -> (Traces, SpanQueue) {
    let (tracer, queue) = Tracer::new(Sampler::new(part), 1000);
    (Traces::new(topology(), tracer, "tests"), queue)
}

fn batch(source: u16, offsets: std::ops::Range<u64>, headers: &[(&str, Option<&[u8]>)]) -> Batch {
    let mut batch = BatchBuilder::default();
    for offset in offsets {
        let record = NewRecord {
            id: RecordId {
                source,
                offset,
                ..RecordId::default()
            },
            value: Some(b"secret"),
            headers,
            ..NewRecord::default()
        };
        batch.push(&record).unwrap();
    }
    batch.finish(0)
}

fn spans(queue: &SpanQueue) -> Vec<Span> {
    let mut spans = Vec::new();
    queue.take(&mut spans, usize::MAX);
    spans
}

#[test]
fn a_record_has_the_same_trace_whoever_reads_it_again() {
    let (first, _first) = traces(0.1);
    let (second, _second) = traces(0.1);
    let records = batch(0, 0..1000, &[]);
    let traced = first.of_batch(&records);
    assert_eq!(traced, second.of_batch(&records));
    assert!((50..150).contains(&traced.len()), "{}", traced.len());
    let mut before = LastSeries::default();
    for (index, one) in traced {
        let record = records.view().get(index).unwrap();
        assert_eq!(first.of(&record), Some(one));
        assert_eq!(first.of_next(&record, &mut before), Some(one));
        assert_eq!(one.came, None);
    }
    // Another pipeline that reads it in the same trace has a span of its own.
    let (tracer, _other) = Tracer::new(Sampler::new(0.0), 1);
    let other = Traces::new(topology(), tracer, "another");
    let headers: [(&str, Option<&[u8]>); 1] = [("traceparent", Some(CAME.as_bytes()))];
    let came = batch(0, 0..1, &headers);
    let (one, two) = (first.of_batch(&came)[0].1, other.of_batch(&came)[0].1);
    assert_eq!(one.trace, two.trace);
    assert_ne!(one.entry, two.entry);
    // What cannot be read again is another each time.
    let records = batch(2, 0..1000, &[]);
    assert_ne!(first.of_batch(&records), second.of_batch(&records));
}

#[test]
fn a_record_goes_on_with_the_trace_that_it_came_with() {
    let (traces, _queue) = traces(0.0);
    let came = TraceContext::parse(CAME.as_bytes()).unwrap();
    let headers: [(&str, Option<&[u8]>); 1] = [("traceparent", Some(CAME.as_bytes()))];
    let of_topic = traces.of_batch(&batch(0, 7..8, &headers))[0].1;
    assert_eq!(
        (of_topic.trace, of_topic.came),
        (came.trace, Some(came.span))
    );
    assert_ne!(of_topic.entry, came.span);
    // A request has its span already.
    let of_request = traces.of_batch(&batch(1, 7..8, &headers))[0].1;
    assert_eq!(of_request.entry, came.span);
    let unsampled = CAME.replace("-01", "-00");
    let headers: [(&str, Option<&[u8]>); 1] = [("traceparent", Some(unsampled.as_bytes()))];
    assert_eq!(traces.of_batch(&batch(0, 7..8, &headers)), []);
}

#[test]
fn a_header_that_is_wrong_is_none() {
    let (all, _queue) = traces(1.0);
    let plain = all.of_batch(&batch(0, 7..8, &[]));
    let twice: [(&str, Option<&[u8]>); 2] = [("traceparent", Some(CAME.as_bytes())); 2];
    type Headers<'h> = &'h [(&'h str, Option<&'h [u8]>)];
    let hostile: [Headers<'_>; 4] = [
        &[("traceparent", Some(b"00-zz"))],
        &[("traceparent", None)],
        &[("traceparent", Some(&[0xff; 100_000]))],
        &twice,
    ];
    for headers in hostile {
        assert_eq!(all.of_batch(&batch(0, 7..8, headers)), plain);
        // Nor does it make a trace of a request that has none.
        assert_eq!(all.of_batch(&batch(1, 7..8, headers)), []);
    }
}

#[test]
fn without_a_tracer_nothing_is_traced() {
    let traces = Traces::new(topology(), Tracer::default(), "tests");
    let headers: [(&str, Option<&[u8]>); 1] = [("traceparent", Some(CAME.as_bytes()))];
    let records = batch(0, 0..8, &headers);
    assert_eq!(traces.of_batch(&records), []);
    assert_eq!(traces.of(&records.view().get(0).unwrap()), None);
}

#[test]
fn whoever_reads_a_sink_is_told_the_span_that_wrote_it_and_nothing_else_is_changed() {
    let (traces, queue) = traces(1.0);
    let kept: (&str, Option<&[u8]>) = ("kept", Some(b"as it is"));
    let headers = [("traceparent", Some(CAME.as_bytes())), kept];
    let records = batch(0, 7..8, &headers);
    let record = records.view().get(0).unwrap();
    let one = traces.of(&record).unwrap();
    let received = traces.received(&records);
    let mut traces = traces;
    traces.took(received, std::time::Instant::now());
    let (span, named) = traces.sends(&one, 0, false, true, &record).unwrap();
    let named = named.unwrap();
    let sent = named.view().get(0).unwrap();
    let header = sent.headers().last("traceparent").unwrap();
    let told = TraceContext::parse(header.value.unwrap()).unwrap();
    assert_eq!(
        (told.trace, told.span),
        (span.context.trace, span.context.span)
    );
    assert_eq!((sent.id(), sent.value()), (record.id(), record.value()));
    assert_eq!(sent.headers().count(), 2);
    assert_eq!(sent.headers().last("kept").unwrap().value, kept.1);
    traces.sent(span, std::time::Instant::now(), true);
    // One without headers is given the record itself.
    assert!(
        traces
            .sends(&one, 0, false, false, &record)
            .unwrap()
            .1
            .is_none()
    );
    let spans = spans(&queue);
    assert_eq!(
        (spans[0].kind, spans[1].kind),
        (SpanKind::Consumer, SpanKind::Producer)
    );
    assert_eq!(spans[0].name(), "receive topic");
    assert_eq!(spans[1].parent, Some(spans[0].context.span));
    assert!(!format!("{spans:?}").contains("secret"));
}

#[test]
fn a_cut_is_linked_to_a_bounded_number_of_what_it_ends() {
    let (mut traces, queue) = traces(1.0);
    let records = batch(0, 0..200, &[]);
    for record in records.view().records() {
        let one = traces.of(&record).unwrap();
        let (span, _) = traces.sends(&one, 0, false, false, &record).unwrap();
        traces.sent(span, std::time::Instant::now(), true);
    }
    let cut = Cut {
        number: 7,
        worker: 0,
        records: 200,
        in_flight: 0,
        time: Duration::from_millis(3),
    };
    let finished = traces.take_finished();
    traces.cut(finished, &cut);
    let nothing = traces.take_finished();
    traces.cut(nothing, &cut);
    let spans = spans(&queue);
    assert_eq!(spans.len(), 201);
    let (links, left_out) = spans[200].links();
    assert_eq!((spans[200].name(), links.len(), left_out), ("cut", 128, 72));
}
