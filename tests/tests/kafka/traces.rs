//! One trace over two processes and the topic between them.

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tidegate_tests::Workspace;
use tidegate_tests::collector::{Collector, Does, attribute, hex};

use crate::{broker, topic};

const RECORDS: usize = 20;

fn pipeline(name: &str, collector: &Collector, source: &str, sink: &str) -> String {
    format!(
        r#"
[pipeline]
name = "{name}"
[telemetry.traces]
endpoint = "{}"
sample = {}
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
        // The second follows the first, and has none of its own.
        if name == "first" { "1.0" } else { "0.0" }
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
        "first",
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
        "second",
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
