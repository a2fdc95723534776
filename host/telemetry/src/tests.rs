//! Events and what the meters, the summary and the metrics say after them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::events::*;
use crate::metrics::{Exposition, Kind, Since, Unit, table};
use crate::{Meters, SlotSummary, Summary};

/// What is logged by one thread: of each line, the spans that it stands in.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<(Vec<&'static str>, Vec<String>)>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().0.push(span.metadata().name());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let (spans, lines) = &mut *self.0.lock().unwrap();
        lines.push(spans.join(":"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().0.pop();
    }
}

#[test]
fn what_is_logged_of_a_trial_is_marked_and_the_stream_has_no_mark() {
    // With one alone, tracing asks only the thread that comes by first whether anybody listens: that may be another test.
    let _another = Dispatch::new(Lines::default());
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        for meters in [Meters::new("a", ["b"]).beside(), Meters::new("a", ["b"])] {
            let _marked = meters.marks();
            RecordDead {
                trace: None,
                stage: "b",
                source: "tickets",
                partition: 0,
                offset: 17,
                reason: "not JSON",
            }
            .emit(&meters);
        }
    });
    assert_eq!(lines.0.lock().unwrap().1, ["trial", ""]);
}

/// A small run: ten read, one undecodable, one split into three, two dropped, one dead at the model.
fn run() -> Meters {
    let meters = Meters::new("support-bot", ["redact", "answer"]);
    RecordsRead {
        source: "tickets",
        partition: 0,
        records: 9,
        rejected: 1,
    }
    .emit(&meters);
    let dead = RecordDead {
        trace: None,
        stage: "decode",
        source: "tickets",
        partition: 0,
        offset: 17,
        reason: "not JSON",
    };
    dead.emit(&meters);
    BatchProcessed {
        stage: 0,
        rest: false,
        records: 9,
        output: 9,
        dropped: 2,
        retried: 1,
        split: 2,
        time: Duration::from_micros(30),
    }
    .emit(&meters);
    ModelAsked {
        stage: 1,
        records: 9,
    }
    .emit(&meters);
    meters.add_tokens(80);
    for _ in 0..8 {
        ModelAnswered {
            trace: None,
            stage: 1,
            prompt_tokens: 20,
            tokens: 10,
            finish: "end",
            queued: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        }
        .emit(&meters);
    }
    ModelFailed {
        trace: None,
        stage: 1,
        attempt: 1,
        again: true,
        reason: "the device failed: lost",
    }
    .emit(&meters);
    ModelFailed {
        trace: None,
        stage: 1,
        attempt: 2,
        again: false,
        reason: "the device failed: lost",
    }
    .emit(&meters);
    RecordDead {
        trace: None,
        stage: "answer",
        ..dead
    }
    .emit(&meters);
    RecordsWritten {
        sink: "answers",
        records: 8,
    }
    .emit(&meters);
    CutCommitted {
        cut: 1,
        worker: 0,
        records: 10,
        in_flight: 0,
        time: Duration::from_millis(1),
    }
    .emit(&meters);
    Deployed {
        slot: "redact",
        old: "1.0.0",
        new: "2.0.0",
        digest: "sha256:0",
        revision: "sha256:r",
        tasks: 4,
        longest_wait: Duration::from_micros(1500),
    }
    .emit(&meters);
    meters.add_swap_wait(Duration::from_micros(900));
    meters
}

#[test]
fn every_record_is_accounted_for() {
    let records = run().snapshot().records;
    assert_eq!(records.input, 10);
    assert_eq!(
        records.input + records.split,
        records.output + records.dropped + records.dead + records.in_flight
    );
    assert_eq!(records.in_flight, 0);
    assert_eq!(records.retried, 2);
}

#[test]
fn a_record_that_goes_two_ways_counts_for_each() {
    let meters = Meters::new("x", []);
    RecordsRead {
        source: "a",
        partition: 0,
        records: 5,
        rejected: 0,
    }
    .emit(&meters);
    RecordsFannedOut {
        records: 5,
        readers: 2,
    }
    .emit(&meters);
    for sink in ["one", "two"] {
        RecordsWritten { sink, records: 5 }.emit(&meters);
    }
    let records = meters.snapshot().records;
    assert_eq!(records.input + records.split, records.output);
}

#[test]
fn a_record_whose_caller_is_told_that_there_is_no_answer_is_dropped() {
    let meters = Meters::new("x", ["answer"]);
    RecordsRead {
        source: "chat",
        partition: 0,
        records: 2,
        rejected: 0,
    }
    .emit(&meters);
    for elsewhere in [false, true] {
        RecordUnanswered {
            trace: None,
            stage: "answer",
            source: "chat",
            partition: 0,
            offset: 3,
            reason: "503 Service Unavailable",
            elsewhere,
        }
        .emit(&meters);
    }
    let records = meters.snapshot().records;
    assert_eq!(
        (records.dropped, records.dead, records.in_flight),
        (2, 0, 0)
    );
    assert_eq!(meters.stages()[0].records_dropped.get(), 2);
    assert_eq!(meters.unanswered_elsewhere.get(), 1);
}

#[test]
fn stages_count_for_themselves() {
    let meters = run();
    let [redact, answer] = meters.stages() else {
        panic!("{:?}", meters.stages());
    };
    assert_eq!(
        (redact.records_in.get(), redact.records_dropped.get()),
        (9, 2)
    );
    assert_eq!(
        (answer.records_out.get(), answer.records_dead.get()),
        (8, 1)
    );
    InstanceLost {
        stage: 7,
        version: "1",
        digest: "sha256:",
        records: 1,
        reason: "no such stage",
    }
    .emit(&meters);
    assert_eq!(redact.instances_lost.get(), 0);
}

fn summary() -> Summary {
    let meters = run();
    let latency = meters.latency_recorder();
    latency.record(Duration::from_millis(4), 90);
    latency.record(Duration::from_millis(40), 10);
    let slot = SlotSummary {
        slot: "redact".into(),
        name: "redact-pii".into(),
        version: "2.0.0".into(),
        digest: format!("sha256:{}", "ab".repeat(32)),
    };
    let mut summary = meters.summary(Some("llvmpipe (Vulkan)".into()), vec![slot]);
    // The clock is the only thing that differs from run to run.
    summary.seconds = 2.0;
    summary.records_per_second = 5.0;
    summary.tokens_per_second = 40.0;
    summary
}

#[test]
fn the_summary_file_has_the_promised_keys() {
    let bytes = summary().to_json();
    assert_eq!(bytes.last(), Some(&b'\n'));
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(json["pipeline"], "support-bot");
    for (key, number) in [
        ("in", 10),
        ("out", 8),
        ("dropped", 2),
        ("dead", 2),
        ("split", 2),
    ] {
        assert_eq!(json["records"][key], number, "{key}");
    }
    for key in ["p50", "p95", "p99", "max"] {
        assert!(json["latency_ms"][key].is_f64(), "{key}");
    }
    assert_eq!(json["tokens"], 80);
    assert_eq!(json["model"]["prompt_tokens"], 160);
    assert_eq!(json["model"]["failed"], 2);
    assert_eq!(json["adapter"], "llvmpipe (Vulkan)");
    assert_eq!(json["slots"][0]["version"], "2.0.0");
    assert_eq!(json["swaps"], 1);
    assert_eq!(json["longest_swap_wait_ms"], 1.5);
    let read: Summary = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(read.records, summary().records);
}

#[test]
fn a_person_reads_a_table() {
    assert_eq!(
        summary().table(),
        "\
support-bot in 2.00 s
  records in    10 (5.00/s)
  records out   8
  dropped       2
  dead letters  2
  from splits   2
  retried       2
  latency       p50 4.00 ms  p95 40.0 ms  p99 40.0 ms  max 40.0 ms
  tokens        80 (40.0/s), of 160 prompt tokens in 10 requests
  adapter       llvmpipe (Vulkan)
  swaps         1, longest wait 1.50 ms
  slot redact   redact-pii 2.0.0 sha256:abababababab
"
    );
}

#[test]
fn a_stage_is_unavailable_from_its_first_task_to_its_last() {
    let meters = Meters::new("p", ["redact"]);
    let fails = |first| {
        StageUnavailable {
            stage: 0,
            first,
            reason: "init: too slow",
        }
        .emit(&meters);
    };
    let unavailable = || meters.stages()[0].unavailable();
    assert!(unavailable().is_none());
    fails(true);
    let since = unavailable().unwrap().since;
    fails(false);
    fails(true);
    let now = unavailable().unwrap();
    assert_eq!((now.tasks, now.since), (2, since));
    assert_eq!(now.reason, "init: too slow");
    StageAvailable { stage: 0 }.emit(&meters);
    assert_eq!(unavailable().unwrap().tasks, 1);
    StageAvailable { stage: 0 }.emit(&meters);
    assert!(unavailable().is_none());
}

#[test]
fn metrics_are_named_by_the_rule() {
    let mut exposition = Exposition::default();
    run().expose(&mut exposition);
    let text = exposition.text();
    for line in [
        "# TYPE tidegate_in_records_total counter\ntidegate_in_records_total 10\n",
        "tidegate_stage_dropped_records_total{stage=\"redact\"} 2\n",
        "# TYPE tidegate_in_flight_records gauge\ntidegate_in_flight_records 0\n",
        "tidegate_stage_seconds_count{stage=\"answer\"} 8\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let mut names = BTreeSet::new();
    for family in table::ALL {
        let name = family.name;
        assert!(names.insert(name), "{name} stands twice");
        // What only grows says so.
        assert_eq!(
            name.ends_with("_total"),
            family.kind == Kind::Counter,
            "{name}"
        );
        assert!(
            name.starts_with("tidegate_") || name.starts_with("process_"),
            "{name}"
        );
        assert!(
            !family.help.ends_with('.') && !family.help.is_empty(),
            "{name}"
        );
        let stem = name.trim_end_matches("_total");
        let unit = match family.unit {
            Unit::Seconds | Unit::Timestamp => "_seconds",
            Unit::Bytes => "_bytes",
            Unit::Ratio => "_ratio",
            Unit::Of(_) | Unit::Truth => "",
        };
        assert!(stem.ends_with(unit), "{name} is measured in {unit}");
        let grows = matches!(family.since, Since::Now) == (family.kind == Kind::Gauge);
        assert!(grows, "{name}: {:?}", family.since);
    }
}
