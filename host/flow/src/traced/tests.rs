use std::time::Duration;

use tidegate_contract::CommitPoint;
use tidegate_record::{BatchBuilder, Change, NewRecord, Patch, PatchBuilder};
use tidegate_telemetry::trace::{Sampler, Span, SpanKind, SpanQueue};

use super::*;
use crate::topology::{Positions, Source};

const CAME: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn topology(apart: &str) -> Arc<Topology> {
    let source = |name: &str, called, positions| Source {
        name: name.into(),
        targets: Vec::new(),
        fixed: true,
        positions,
        called,
        beside: false,
        identities: vec![format!("kafka topic {name}")],
        apart: apart.into(),
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
    of_pipeline(part, "tests", "here")
}

fn of_pipeline(part: f64, pipeline: &str, apart: &str) -> (Traces, SpanQueue) {
    let (tracer, queue) = Tracer::new(Sampler::new(part), 1000);
    let run = ReadingRun::begins();
    (Traces::new(topology(apart), tracer, pipeline, run), queue)
}

type Headers<'h> = &'h [(&'h str, Option<&'h [u8]>)];

fn batch(source: u16, offsets: std::ops::Range<u64>, headers: Headers<'_>) -> Batch {
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

/// Records that came in from partition 0 of a source.
fn entered(
    traces: &Traces,
    source: u16,
    offsets: std::ops::Range<u64>,
    headers: Headers<'_>,
) -> Batch {
    let partition = Partition { source, number: 0 };
    traces.enter(partition, "it", batch(source, offsets, headers))
}

fn spans(queue: &SpanQueue) -> Vec<Span> {
    let mut spans = Vec::new();
    queue.take(&mut spans, usize::MAX);
    spans
}

/// What a patch of an operator makes of the first record.
fn patched(batch: &Batch, changes: &[Change<'_>], emit: u64) -> Batch {
    let mut patch = PatchBuilder::default();
    for change in changes {
        patch.header(*change);
        patch.attribute(*change);
    }
    let mut bytes = Vec::new();
    patch.write(&mut bytes);
    let mut builder = BatchBuilder::default();
    let record = batch.view().get(0).unwrap();
    let patch = Patch::parse(&bytes).unwrap();
    builder.push_patched(&record, &patch, emit).unwrap();
    builder.finish(0)
}

/// What a sink is told of the first record: `traceparent` and `tracestate`.
fn told(traces: &Traces, batch: &Batch) -> Option<(TraceContext, String)> {
    let record = batch.view().get(0).unwrap();
    let sending = traces.sends(0, false, &record)?;
    read(&sending.headers())
}

/// What these headers say to whoever reads them.
fn read(headers: &[(&str, &[u8])]) -> Option<(TraceContext, String)> {
    came_with(headers.iter().map(|(name, value)| (*name, Some(*value))))
}

/// What the dead letter of the first record keeps.
fn letter(traces: &Traces, batch: &Batch) -> Option<(TraceContext, String)> {
    let onward = traces.onward(&batch.view().get(0).unwrap())?;
    read(&onward.headers())
}

#[test]
fn a_record_has_the_same_trace_whoever_reads_it_again() {
    let (first, _first) = traces(0.1);
    let (second, _second) = traces(0.1);
    let records = entered(&first, 0, 0..1000, &[]);
    let again = entered(&second, 0, 0..1000, &[]);
    let traced = first.of_batch(&records);
    assert_eq!(traced, second.of_batch(&again));
    assert!((50..150).contains(&traced.len()), "{}", traced.len());
    for (index, one) in traced {
        let record = records.view().get(index).unwrap();
        assert_eq!(first.of(&record), Some(one));
        assert_eq!((one.came, one.random), (None, false));
    }
    // Another pipeline that reads it in the same trace has a span of its own.
    let (other, _other) = of_pipeline(0.0, "another", "here");
    let came: Headers<'_> = &[("traceparent", Some(CAME.as_bytes()))];
    let (one, two) = (
        entered(&first, 0, 0..1, came),
        entered(&other, 0, 0..1, came),
    );
    let (one, two) = (first.of_batch(&one)[0].1, other.of_batch(&two)[0].1);
    assert_eq!(one.trace, two.trace);
    assert_ne!(one.entry, two.entry);
    // What cannot be read again is another each time.
    let (one, _one) = traces(1.0);
    let (two, _two) = traces(1.0);
    assert_ne!(entered(&one, 2, 0..9, &[]), entered(&two, 2, 0..9, &[]));
}

#[test]
fn records_of_inputs_that_only_have_the_same_name_are_in_different_traces() {
    let (here, _here) = of_pipeline(1.0, "tests", "here");
    let (there, _there) = of_pipeline(1.0, "tests", "there");
    let of = |traces: &Traces, number, identity: &str| {
        let partition = Partition { source: 0, number };
        let batch = traces.enter(partition, identity, batch(0, 0..100, &[]));
        let traced = traces.of_batch(&batch);
        let ids = traced.iter().map(|(_, one)| (one.trace, one.entry));
        ids.collect::<Vec<_>>()
    };
    // Another machine, another partition, a topic that was made anew.
    let one = of(&here, 0, "kafka topic a (id 1)");
    for other in [
        of(&there, 0, "kafka topic a (id 1)"),
        of(&here, 1, "kafka topic a (id 1)"),
        of(&here, 0, "kafka topic a (id 2)"),
    ] {
        assert!(
            one.iter()
                .all(|(trace, entry)| { other.iter().all(|(of, at)| of != trace && at != entry) })
        );
    }
    assert_eq!(one, of(&here, 0, "kafka topic a (id 1)"));
}

#[test]
fn a_record_goes_on_with_the_trace_that_it_came_with() {
    let (traces, _queue) = traces(0.0);
    let came = TraceContext::parse(CAME.as_bytes()).unwrap();
    let headers: Headers<'_> = &[
        ("traceparent", Some(CAME.as_bytes())),
        ("tracestate", Some(b"a=1")),
    ];
    let of_topic = entered(&traces, 0, 7..8, headers);
    let of_topic = traces.of_batch(&of_topic)[0].1;
    assert_eq!(
        (of_topic.trace, of_topic.came, of_topic.state),
        (came.trace, Some(came.span), "a=1")
    );
    assert_ne!(of_topic.entry, came.span);
    // Who made the id does not say that it is random, and nobody else does.
    assert!(!of_topic.random);
    // A request has its span already.
    let of_request = entered(&traces, 1, 7..8, headers);
    assert_eq!(traces.of_batch(&of_request)[0].1.entry, came.span);
}

#[test]
fn what_is_not_recorded_is_so_for_whoever_reads_on() {
    let (none, queue) = traces(0.0);
    let unsampled = CAME.replace("-01", "-00");
    let came: Headers<'_> = &[
        ("traceparent", Some(unsampled.as_bytes())),
        ("tracestate", Some(b"a=1")),
    ];
    for source in [0, 1] {
        let records = entered(&none, source, 7..8, came);
        assert_eq!(none.of_batch(&records), []);
        // As it came, whatever an operator makes of it.
        let changed = patched(
            &records,
            &[Change::Remove {
                name: "traceparent",
            }],
            1,
        );
        let expected = TraceContext::parse(unsampled.as_bytes()).unwrap();
        assert_eq!(told(&none, &changed), Some((expected, "a=1".into())));
    }
    // Of what begins here and is left out nothing is noted and nothing said.
    let plain = entered(&none, 0, 7..8, &[]);
    assert!(!plain.view().has_notes());
    assert_eq!(told(&none, &plain), None);
    assert_eq!(spans(&queue), []);
    // Whoever reads on follows what came.
    let (all, _queue) = traces(1.0);
    let read_on = entered(&all, 0, 7..8, came);
    assert_eq!(all.of_batch(&read_on), []);
}

#[test]
fn no_operator_decides_of_a_trace() {
    let (none, queue) = traces(0.0);
    let forged = CAME.replace("4bf92f35", "bad00bad");
    let forges = [Change::Set {
        name: "traceparent",
        value: Some(forged.as_bytes()),
    }];
    // Neither that there is one,
    let plain = patched(&entered(&none, 0, 7..8, &[]), &forges, 1);
    assert_eq!(none.of_batch(&plain), []);
    assert_eq!(told(&none, &plain), None);
    // Nor over a dead letter that is sent again.
    assert_eq!(letter(&none, &plain), None);
    assert_eq!(none.host_names(), ["traceparent", "tracestate"]);
    assert_eq!(spans(&queue), []);
    // nor that there is none, nor which, in no piece, and not after a cut.
    let came: Headers<'_> = &[("traceparent", Some(CAME.as_bytes()))];
    let (all, queue) = traces(1.0);
    for headers in [came, &[]] {
        let records = entered(&all, 0, 7..8, headers);
        let own = all.of_batch(&records)[0].1;
        let removes = [Change::Remove {
            name: "traceparent",
        }];
        for changes in [forges, removes] {
            let piece = patched(&records, &changes, 9);
            let stored = Batch::from_bytes(piece.into_bytes()).unwrap();
            assert_eq!(all.of_batch(&stored), [(0, own)]);
            let (header, _) = told(&all, &stored).unwrap();
            assert_eq!((header.trace, header.sampled), (own.trace, true));
            let (kept, _) = letter(&all, &stored).unwrap();
            assert_eq!(kept, own.context());
        }
    }
    drop(queue);
}

#[test]
fn a_header_that_is_wrong_is_none() {
    let (all, _queue) = traces(1.0);
    let plain = entered(&all, 0, 7..8, &[]);
    let plain = all.of_batch(&plain);
    let twice: [(&str, Option<&[u8]>); 2] = [("traceparent", Some(CAME.as_bytes())); 2];
    let hostile: [Headers<'_>; 5] = [
        &[
            ("traceparent", Some(b"00-zz")),
            ("tracestate", Some(b"a=1")),
        ],
        &[("traceparent", None)],
        &[("traceparent", Some(&[0xff; 100_000]))],
        &[("tracestate", Some(b"a=1"))],
        &twice,
    ];
    for headers in hostile {
        let records = entered(&all, 0, 7..8, headers);
        assert_eq!(all.of_batch(&records), plain);
        let (header, state) = told(&all, &records).unwrap();
        assert_eq!((header.trace, state.as_str()), (plain[0].1.trace, ""));
        // Nor does it make a trace of a request that has none.
        assert_eq!(all.of_batch(&entered(&all, 1, 7..8, headers)), []);
    }
}

#[test]
fn without_a_tracer_nothing_is_traced() {
    let traces = Traces::new(topology("here"), Tracer::default(), "tests", None);
    let (other, _queue) = self::traces(1.0);
    let headers: Headers<'_> = &[("traceparent", Some(CAME.as_bytes()))];
    for records in [
        entered(&traces, 0, 0..8, headers),
        // From a run that traced.
        entered(&other, 0, 0..8, headers),
    ] {
        let record = records.view().get(0).unwrap();
        assert_eq!(traces.of_batch(&records), []);
        assert_eq!(traces.of(&record), None);
        assert!(traces.sends(0, false, &record).is_none());
        assert!(traces.onward(&record).is_none());
    }
    assert!(traces.host_names().is_empty(), "headers go as they are");
}

#[test]
fn whoever_reads_a_sink_is_told_the_span_that_wrote_it() {
    let (mut traces, queue) = traces(1.0);
    let headers: Headers<'_> = &[
        ("traceparent", Some(CAME.as_bytes())),
        ("tracestate", Some(b"a=1")),
    ];
    let records = entered(&traces, 0, 7..8, headers);
    let record = records.view().get(0).unwrap();
    let received = traces.received(&records);
    traces.took(received, std::time::Instant::now());
    let sending = traces.sends(0, false, &record).unwrap();
    let (told, state) = read(&sending.headers()).unwrap();
    assert_eq!(state, "a=1");
    traces.sent(sending, (0, record.id()), true, false);
    let spans = spans(&queue);
    assert_eq!(
        (spans[0].kind, spans[1].kind),
        (SpanKind::Consumer, SpanKind::Producer)
    );
    assert_eq!(spans[0].name(), "receive topic");
    assert_eq!(spans[1].parent, Some(spans[0].context.span));
    assert_eq!(
        (told.trace, told.span),
        (spans[1].context.trace, spans[1].context.span)
    );
    assert!(!format!("{spans:?}").contains("secret"));
}

#[test]
fn what_a_sink_refuses_when_it_is_flushed_is_a_failure_in_its_trace() {
    let (mut traces, queue) = traces(1.0);
    let records = entered(&traces, 0, 0..3, &[]);
    let give = |traces: &mut Traces| {
        for record in records.view().records() {
            let sending = traces.sends(0, false, &record).unwrap();
            traces.sent(sending, (0, record.id()), true, true);
        }
    };
    give(&mut traces);
    assert_eq!(spans(&queue), [], "nothing of it is settled");
    let refused = records.view().get(1).unwrap();
    let own = traces.of(&refused).unwrap();
    let told = traces.settled(0, "out", [refused.id()].into_iter());
    assert_eq!(told, [(refused.id(), own.trace)].into());
    let settled = spans(&queue);
    let ends: Vec<_> = settled
        .iter()
        .map(|span| (span.name(), span.error()))
        .collect();
    let well = ("send out", None);
    let expected = [
        well,
        ("dead-letter out", Some("dead-letter")),
        ("send out", Some("refused")),
        well,
    ];
    assert_eq!(ends, expected);
    assert_eq!(settled[1].parent, Some(own.entry));
    assert_eq!(settled[1].context.trace, own.trace);
    // What comes to nothing is no success either.
    give(&mut traces);
    traces.discarded();
    let discarded = spans(&queue);
    assert_eq!(discarded.len(), 3);
    assert!(
        discarded
            .iter()
            .all(|span| span.error() == Some("discarded"))
    );
    assert!(traces.settled(0, "out", [].into_iter()).is_empty());
}

#[test]
fn input_that_is_no_record_has_a_trace_too() {
    let (mut traces, queue) = traces(0.0);
    let id = RecordId {
        offset: 7,
        ..RecordId::default()
    };
    let rejected = |headers: Option<&str>| Rejected {
        offset: 7,
        length: 1,
        preview: vec![0xff],
        reason: "no JSON".into(),
        key: None,
        event_time: None,
        headers: headers.map(|parent| {
            let parent = parent.as_bytes().to_vec();
            vec![("traceparent".to_owned(), Some(parent))]
        }),
        private: 0,
    };
    let came = TraceContext::parse(CAME.as_bytes()).unwrap();
    let trace = traces.rejected(id, "it", &rejected(Some(CAME)), "decode");
    assert_eq!(trace, Some(came.trace));
    let span = spans(&queue).remove(0);
    assert_eq!(
        (span.name(), span.parent),
        ("dead-letter decode", Some(came.span))
    );
    let unsampled = CAME.replace("-01", "-00");
    for headers in [None, Some(unsampled.as_str())] {
        assert_eq!(
            traces.rejected(id, "it", &rejected(headers), "decode"),
            None
        );
    }
    assert_eq!(spans(&queue), []);
}

#[test]
fn a_cut_is_linked_to_a_bounded_number_of_what_it_ends() {
    let (mut traces, queue) = traces(1.0);
    let records = entered(&traces, 0, 0..200, &[]);
    for record in records.view().records() {
        let sending = traces.sends(0, false, &record).unwrap();
        traces.sent(sending, (0, record.id()), true, false);
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

#[test]
fn no_operator_names_a_trace_to_the_audit_where_nothing_is_traced() {
    let traces = Traces::new(topology("here"), Tracer::default(), "tests", None);
    let came: Headers<'_> = &[("traceparent", Some(CAME.as_bytes()))];
    let forged = CAME.replace("4bf92f35", "bad00bad");
    let forges = [Change::Set {
        name: "traceparent",
        value: Some(forged.as_bytes()),
    }];
    let own = TraceContext::parse(CAME.as_bytes()).unwrap().trace;
    for (headers, expected) in [(came, Some(own)), (&[], None)] {
        let records = traces.note_came(entered(&traces, 0, 7..8, headers));
        let changed = patched(&records, &forges, 9);
        let stored = Batch::from_bytes(changed.into_bytes()).unwrap();
        let record = stored.view().get(0).unwrap();
        assert_eq!(Traces::named(&record), expected);
        assert!(traces.of(&record).is_none() && traces.sends(0, false, &record).is_none());
    }
}
