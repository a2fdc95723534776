//! One trace over two processes and the topic between them.

use std::collections::BTreeSet;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{Source as _, SourceEvent};
use tidegate_tests::collector::{Collector, Does, attribute, hex};
use tidegate_tests::{Workspace, until};

use crate::{broker, topic};

const RECORDS: usize = 20;

fn pipeline(
    (name, sample): (&str, &str),
    collector: &Collector,
    source: &str,
    sink: &str,
) -> String {
    format!(
        r#"
[pipeline]
name = "{name}"
[telemetry.traces]
endpoint = "{}"
sample = {sample}
[source.in]
{source}
[[stage]]
name = "redact-{name}"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
{sink}
[dead-letters]
type = "file"
path = "dead.jsonl"
"#,
        collector.url,
    )
}

fn of<'s>(spans: &'s [Span], kind: SpanKind, name: &'s str) -> impl Iterator<Item = &'s Span> {
    let kind = i32::from(kind);
    (spans.iter()).filter(move |span| span.kind == kind && span.name == name)
}

#[test]
fn a_record_is_one_trace_from_its_producer_to_its_consumer_and_its_batch_is_linked() {
    let between = topic("between");
    let kafka = |more: &str| {
        format!(
            "type = \"kafka\"\nbrokers = [\"{}\"]\ntopic = \"{between}\"\n{more}",
            broker()
        )
    };
    let collector = Collector::start(Does::Take);
    let first = pipeline(
        // The second follows the first, and has none of its own.
        ("first", "1.0"),
        &collector,
        "type = \"file\"\npaths = [\"in.jsonl\"]",
        &kafka(""),
    );
    let first = Workspace::new(&first);
    let lines: String = (0..RECORDS)
        .map(|n| format!("{{\"n\":{n},\"text\":\"a\"}}\n"))
        .collect();
    first.write("in.jsonl", lines);
    first.run_pipeline();
    let source = kafka(&format!("group = \"{between}-group\""));
    let second = pipeline(
        ("second", "0.0"),
        &collector,
        &source,
        "type = \"file\"\npath = \"out.jsonl\"",
    );
    let second = Workspace::new(&second);
    let run = second.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert_eq!(second.json_lines("out.jsonl").len(), RECORDS);

    let spans = collector.spans();
    let receive = format!("receive {between}");
    let mut batches = 0;
    for sent in of(&spans, SpanKind::Producer, "send out").filter(|sent| {
        let trace = &sent.trace_id;
        of(&spans, SpanKind::Consumer, "receive in").any(|first| first.trace_id == *trace)
    }) {
        let trace = hex(&sent.trace_id);
        let received: Vec<_> = of(&spans, SpanKind::Consumer, &receive)
            .filter(|received| received.parent_span_id == sent.span_id)
            .collect();
        let [received] = received[..] else {
            // What the second process sends goes to a file.
            assert!(attribute(sent, "tidegate.record").is_some());
            continue;
        };
        assert_eq!(hex(&received.trace_id), trace);
        assert_eq!(
            attribute(received, "messaging.system").as_deref(),
            Some("kafka")
        );
        let process = of(&spans, SpanKind::Internal, "process redact-second")
            .find(|process| process.parent_span_id == received.span_id)
            .unwrap_or_else(|| panic!("{spans:#?}"));
        assert_eq!(hex(&process.trace_id), trace);
        // Every record of the batch leads to the others.
        let records: usize = attribute(process, "tidegate.batch.traced")
            .unwrap()
            .parse()
            .unwrap();
        match process.links.len() {
            1 => {
                let first = &process.links[0];
                let found = of(&spans, SpanKind::Internal, "process redact-second");
                let found = found.filter(|one| one.span_id == first.span_id);
                assert_eq!(found.count(), 1);
            }
            links => assert_eq!(links, records - 1),
        }
        batches += 1;
    }
    assert_eq!(batches, RECORDS, "{spans:#?}");
}

/// The trace of a producer, and the span that it sent this record with.
fn given(n: usize) -> (String, String) {
    (format!("{:032x}", n + 0xa1), format!("{:016x}", n + 0xb1))
}

#[test]
fn a_record_that_is_read_again_after_a_kill_keeps_its_producers_trace() {
    const MINUTE: Duration = Duration::from_secs(60);
    let (input, output) = (topic("traced-again"), topic("traced-again-out"));
    let collector = Collector::start(Does::Take);
    let kafka = |topic: &str| {
        format!(
            "type = \"kafka\"\nbrokers = [\"{}\"]\ntopic = \"{topic}\"\n",
            broker()
        )
    };
    let source = format!("{}group = \"{input}\"\ninstance = \"one\"", kafka(&input));
    let file = |cut: &str| {
        let file = pipeline(("second", "0.0"), &collector, &source, &kafka(&output));
        file.replace(
            "[pipeline]",
            &format!("[pipeline]\ncut-interval = \"{cut}\""),
        )
    };
    // No cut comes before the kill.
    let workspace = Workspace::new(&file("60s"));
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    let health = ["health", "--ready", "--pipeline", "pipeline.toml"];
    until("it is ready", MINUTE, || {
        workspace.run(&health).status.success()
    });
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", broker())
        .create()
        .unwrap();
    for n in 0..RECORDS {
        let (trace, span) = given(n);
        let context = format!("00-{trace}-{span}-01");
        let header = Header {
            key: "traceparent",
            value: Some(&context),
        };
        let value = format!("{{\"n\":{n},\"text\":\"a\"}}");
        let record: BaseRecord<'_, str, str> = BaseRecord::to(&input)
            .payload(&*value)
            .headers(OwnedHeaders::new().insert(header));
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(MINUTE).unwrap();
    let receive = format!("receive {input}");
    let lives = |spans: &[Span], n: usize| {
        let (trace, span) = given(n);
        let received = of(spans, SpanKind::Consumer, &receive);
        let received = received.filter(|received| hex(&received.trace_id) == trace);
        let received: Vec<(String, u64)> = received
            .inspect(|received| assert_eq!(hex(&received.parent_span_id), span))
            .map(|received| (hex(&received.span_id), received.start_time_unix_nano))
            .collect();
        received
    };
    until("the first life has read them all", 2 * MINUTE, || {
        let spans = collector.spans();
        (0..RECORDS).all(|n| !lives(&spans, n).is_empty())
    });
    running.kill();
    workspace.pipeline(&file("50ms"));
    let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let spans = collector.spans();
    let mut sent_by = BTreeSet::new();
    for n in 0..RECORDS {
        // Both lives tell of the same step: it is one span, told twice, each with the time at which it was.
        let told = lives(&spans, n);
        let [first, second] = &told[..] else {
            panic!("record {n}: {told:?}");
        };
        assert_eq!(first.0, second.0, "record {n}");
        assert_ne!(first.1, second.1, "record {n}");
        let (trace, _) = given(n);
        let sent = of(&spans, SpanKind::Producer, "send out");
        let sent = sent.filter(|sent| hex(&sent.trace_id) == trace);
        sent_by.extend(sent.map(|sent| (trace.clone(), hex(&sent.span_id))));
    }
    // What is committed came out once, and goes on with that trace.
    let mut options = KafkaSourceOptions::new(0, broker(), &output, format!("{output}-reader"));
    options.until_end = true;
    let mut reader = KafkaSource::open(options).unwrap();
    let mut out = BTreeSet::new();
    let mut ended = false;
    until("the output is read", 2 * MINUTE, || {
        match reader
            .poll(100, 1 << 20, Duration::from_millis(100))
            .unwrap()
        {
            SourceEvent::Records { batch, .. } => {
                for record in batch.view().records() {
                    let context = record.headers().last("traceparent").unwrap().value.unwrap();
                    let context = String::from_utf8(context.to_vec()).unwrap();
                    let parts: Vec<&str> = context.split('-').collect();
                    let sent = (parts[1].to_owned(), parts[2].to_owned());
                    assert!(sent_by.contains(&sent), "{context}");
                    assert!(out.insert(parts[1].to_owned()), "{context} came twice");
                }
            }
            SourceEvent::End(_) => ended = true,
            _ => {}
        }
        ended
    });
    let expected = (0..RECORDS).map(|n| given(n).0);
    assert_eq!(out, expected.collect());
}

#[test]
fn a_record_that_is_not_traced_costs_its_topic_nothing_and_what_came_unrecorded_stays_so() {
    let (input, between) = (topic("left-out"), topic("left-out-between"));
    let kafka = |topic: &str, more: &str| {
        format!(
            "type = \"kafka\"\nbrokers = [\"{}\"]\ntopic = \"{topic}\"\n{more}",
            broker()
        )
    };
    // The first comes without a trace, the second with one that its producer does not record.
    let (trace, span) = given(0);
    let unrecorded = format!("00-{trace}-{span}-00");
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", broker())
        .create()
        .unwrap();
    for headers in [None, Some(&unrecorded)] {
        let mut record: BaseRecord<'_, str, str> = BaseRecord::to(&input)
            .partition(0)
            .payload("{\"text\":\"a\"}");
        if let Some(value) = headers {
            let key = "traceparent";
            let value = Some(value);
            record = record.headers(OwnedHeaders::new().insert(Header { key, value }));
        }
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    let collector = Collector::start(Does::Take);
    let run = |name: (&str, &str), source: &str, sink: &str| {
        let workspace = Workspace::new(&pipeline(name, &collector, source, sink));
        let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        workspace
    };
    let group = |topic: &str| kafka(topic, &format!("group = \"{topic}-group\""));
    run(("leaves-out", "0.0"), &group(&input), &kafka(&between, ""));
    let spans = collector.spans();
    assert!(spans.is_empty(), "{spans:#?}");
    let mut options = KafkaSourceOptions::new(0, broker(), &between, format!("{between}-reader"));
    options.until_end = true;
    let mut reader = KafkaSource::open(options).unwrap();
    let (mut told, mut ended) = (Vec::new(), false);
    until("the output is read", Duration::from_secs(120), || {
        match reader
            .poll(100, 1 << 20, Duration::from_millis(100))
            .unwrap()
        {
            SourceEvent::Records { batch, .. } => {
                for record in batch.view().records() {
                    let headers = record.headers().map(|header| {
                        let value = String::from_utf8_lossy(header.value.unwrap());
                        (header.name.to_owned(), value.into_owned())
                    });
                    told.push(headers.collect::<Vec<_>>());
                }
            }
            SourceEvent::End(_) => ended = true,
            _ => {}
        }
        ended
    });
    told.sort();
    assert_eq!(
        told,
        [vec![], vec![("traceparent".to_owned(), unrecorded.clone())]]
    );
    // Whoever reads on begins a trace of the one, and none of the other.
    let file = "type = \"file\"\npath = \"out.jsonl\"";
    let second = run(("reads-on", "1.0"), &group(&between), file);
    assert_eq!(second.json_lines("out.jsonl").len(), 2);
    let spans = collector.spans();
    let receive = format!("receive {between}");
    let begun: Vec<_> = of(&spans, SpanKind::Consumer, &receive).collect();
    assert_eq!(begun.len(), 1, "{spans:#?}");
    assert!(begun[0].parent_span_id.is_empty());
    assert!(spans.iter().all(|span| hex(&span.trace_id) != trace));
}
