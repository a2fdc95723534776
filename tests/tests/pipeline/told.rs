//! What a run tells a collector, and that the stream never waits for it.

use std::collections::BTreeSet;
use std::io::Write;

use opentelemetry_proto::tonic::metrics::v1::metric;
use serde_json::Value;
use tidegate_tests::Workspace;
use tidegate_tests::collector::{Collector, Does, attribute, hex};

/// Lines from a file to a file, through an operator; with a collector, or without.
fn pipeline(telemetry: &str) -> String {
    format!(
        r#"
[pipeline]
name = "told"
workers = 1
summary = "summary.json"
{telemetry}
[source.lines]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#
    )
}

fn traces(url: &str, more: &str) -> String {
    format!("[telemetry.traces]\nendpoint = \"{url}\"\nsample = 1.0\n{more}\n")
}

fn lines(count: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    for n in 0..count {
        writeln!(lines, "{{\"n\":{n},\"text\":\"mail a{n}@example.com\"}}").unwrap();
    }
    lines
}

/// Runs it to its end, and gives what its log says, a JSON object a line.
fn run(workspace: &Workspace, variables: &[(&str, &str)]) -> Vec<Value> {
    let arguments = [
        "run",
        "--quiet",
        "--log",
        "info",
        "--log-format",
        "json",
        "pipeline.toml",
    ];
    let mut command = workspace.command(&arguments);
    command.envs(variables.iter().copied());
    let run = command.output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{said}");
    let lines = said.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What became of the spans: made, exported, without room, failed.
fn spans(log: &[Value]) -> [u64; 4] {
    let line = log.iter().find(|line| line["message"] == "spans").unwrap();
    ["made", "exported", "full", "failed"].map(|name| line[name].as_u64().unwrap())
}

#[test]
fn a_burst_past_a_collector_that_stalls_loses_no_record_and_counts_every_span() {
    const RECORDS: usize = 200_000;
    let collector = Collector::start(Does::Stall);
    let more = "queue = 64\ntimeout = \"100ms\"";
    let workspace = Workspace::new(&pipeline(&traces(&collector.url, more)));
    workspace.write("in.jsonl", lines(RECORDS));
    let [made, exported, full, failed] = spans(&run(&workspace, &[]));
    let summary = workspace.json("summary.json");
    assert_eq!(summary["records"]["out"], RECORDS, "{summary}");
    let written = workspace.read("out.jsonl");
    assert_eq!(
        written.iter().filter(|byte| **byte == b'\n').count(),
        RECORDS
    );
    // Read, through the operator, and written.
    assert!(made >= 3 * RECORDS as u64, "{made}");
    assert_eq!((exported, full + failed), (0, made));
    assert!(full > 0 && failed > 0, "{full} {failed}");

    // One that takes them has exactly those that are said to be exported, and in their parts.
    let collector = Collector::start(Does::Refuse(1));
    let workspace = Workspace::new(&pipeline(&traces(&collector.url, "queue = 64")));
    workspace.write("in.jsonl", lines(2000));
    let [made, exported, full, failed] = spans(&run(&workspace, &[]));
    assert_eq!(exported + full + failed, made);
    assert_eq!(collector.spans().len() as u64, exported);
    let messages = collector.resources().len() as u64;
    assert!(messages > 0 && failed == messages, "{messages} {failed}");
}

#[test]
fn whatever_a_collector_does_a_run_ends_as_it_does_without_one() {
    let run_with = |telemetry: &str| {
        let workspace = Workspace::new(&pipeline(telemetry));
        workspace.write("in.jsonl", lines(1000));
        let log = run(&workspace, &[]);
        (workspace.read("out.jsonl"), log)
    };
    let (expected, _) = run_with("");
    assert!(!expected.is_empty());
    // Where nobody listens. A port that was free a moment ago may be another test's collector by now.
    let (written, log) = run_with(&traces("http://127.0.0.1:9", ""));
    assert_eq!(written, expected);
    let [made, exported, full, failed] = spans(&log);
    assert_eq!((exported, full + failed), (0, made));
    let away = log.iter().filter(|line| {
        line["message"] == "the collector takes nothing; the stream goes on without it"
    });
    assert_eq!(away.count(), 1, "{log:?}");
    for does in [
        Does::Answer(500),
        Does::Answer(503),
        Does::Answer(400),
        Does::BreakOff,
    ] {
        let collector = Collector::start(does);
        let (written, log) = run_with(&traces(&collector.url, "timeout = \"1s\""));
        assert_eq!(written, expected, "{does:?}");
        let [made, exported, full, failed] = spans(&log);
        assert_eq!(exported + full + failed, made, "{does:?}");
        assert!(!collector.heads().is_empty(), "{does:?}");
    }
}

#[test]
fn a_file_of_the_same_name_elsewhere_has_other_traces() {
    let collector = Collector::start(Does::Take);
    for _ in 0..2 {
        let workspace = Workspace::new(&pipeline(&traces(&collector.url, "")));
        workspace.write("in.jsonl", lines(20));
        run(&workspace, &[]);
    }
    let spans = collector.spans();
    let first = spans.iter().filter(|span| span.name == "receive lines");
    let ids: Vec<_> = first
        .map(|span| (hex(&span.trace_id), hex(&span.span_id)))
        .collect();
    let traces: BTreeSet<_> = ids.iter().map(|(trace, _)| trace).collect();
    let entries: BTreeSet<_> = ids.iter().map(|(_, entry)| entry).collect();
    assert_eq!((ids.len(), traces.len(), entries.len()), (40, 40, 40));
}

#[test]
fn a_records_spans_lines_and_metrics_are_told_with_what_the_environment_has() {
    let collector = Collector::start(Does::Take);
    let telemetry = r#"
[telemetry.traces]
sample = 1.0
[telemetry.metrics]
interval = "1s"
[[stage]]
name = "judge"
operator = "{operators}/drop-abuse.wasm"
config = { words = ["kaputt"], action = "dead-letter" }
"#;
    let workspace = Workspace::new(&pipeline(telemetry));
    let mut input = lines(3);
    input.extend(b"{\"n\":3,\"text\":\"kaputt\"}\n");
    workspace.write("in.jsonl", input);
    // Without the variable it is said what is lacking, at its line.
    let lacking = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    let said = String::from_utf8(lacking.stderr).unwrap();
    assert!(
        !lacking.status.success() && said.contains("telemetry.traces: has no endpoint"),
        "{said}"
    );
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=s%20ecret"),
    ];
    let mut check = workspace.command(&["check", "pipeline.toml"]);
    let check = check.envs(variables).output().unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    let place = format!(
        "to {}/v1/traces (OTEL_EXPORTER_OTLP_ENDPOINT)",
        collector.url
    );
    assert!(said.contains(&place) && !said.contains("ecret"), "{said}");
    let log = run(&workspace, &variables);
    let spans = collector.spans();
    let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
    assert_eq!(
        (count("receive lines"), count("process judge")),
        (4, 4),
        "{spans:#?}"
    );
    let heads = collector.heads();
    assert!(
        heads.iter().all(|head| head.contains("x-key: s ecret\r\n")),
        "{heads:?}"
    );
    // Each record is a trace of its own; its batch is found by links.
    let received =
        |span: &&opentelemetry_proto::tonic::trace::v1::Span| span.name == "receive lines";
    let mut traces: Vec<_> = spans
        .iter()
        .filter(received)
        .map(|span| hex(&span.trace_id))
        .collect();
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), 4);
    let links: usize = (spans.iter())
        .filter(|span| span.name == "process judge")
        .map(|span| span.links.len())
        .sum();
    assert_eq!(links, 6, "{spans:#?}");
    // A line about a record leads to its trace.
    let dead = log
        .iter()
        .find(|line| line["message"] == "record is a dead letter");
    let trace = dead.unwrap()["trace_id"].as_str().unwrap();
    let letter = spans
        .iter()
        .find(|span| span.name == "dead-letter judge")
        .unwrap();
    assert_eq!(hex(&letter.trace_id), trace);
    assert_eq!(
        attribute(letter, "error.type").as_deref(),
        Some("dead-letter")
    );
    assert!(!format!("{spans:?}").contains("kaputt"));
    let metrics = collector.metrics();
    let read = metrics
        .iter()
        .rev()
        .find(|metric| metric.name == "tidegate_in_records_total");
    let read = read.unwrap_or_else(|| panic!("{metrics:#?}"));
    assert_eq!(read.unit, "{records}");
    assert!(
        matches!(&read.data, Some(metric::Data::Sum(sum)) if sum.is_monotonic),
        "{read:#?}"
    );
}
