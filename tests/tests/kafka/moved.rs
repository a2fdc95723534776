//! Pipelines that change over a restart: what waits and where reading stands is gone on with, or the start is refused.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{Done, Partition, Source, SourceEvent};
use tidegate_tests::{Workspace, root, until};

use crate::{broker, consume, produce, tickets, topic};

const MINUTES: Duration = Duration::from_secs(180);

/// What of a pipeline changes.
#[derive(Clone, Copy)]
struct Shape<'a> {
    name: &'a str,
    source: &'a str,
    delivery: &'a str,
    /// Further tables.
    more: &'a str,
}

const AS_IT_WAS: Shape<'_> = Shape {
    name: "moved",
    source: "in",
    delivery: "",
    more: "",
};

const LOG: Shape<'_> = Shape {
    delivery: "delivery = \"at-least-once\"",
    ..AS_IT_WAS
};

/// What is read: a topic, or a file.
fn kind(input: &str) -> String {
    match input.strip_prefix("file:") {
        Some(path) => format!("type = \"file\"\npaths = [\"{path}\"]"),
        None => format!(
            "type = \"kafka\"\nbrokers = [\"{}\"]\ntopic = \"{input}\"\ngroup = \"{input}-group\"",
            broker()
        ),
    }
}

fn asks_a_model() -> String {
    format!(
        r#"
[model.support]
path = {:?}
sequences = 2
[[stage]]
name = "answer"
model = "support"
prompt = "{{text}}"
max-tokens = 32
max-in-flight = 40
into = "attributes"
"#,
        root().join("examples/support-bot/model")
    )
}

fn pipeline(shape: Shape<'_>, input: &str, stages: &str, output: &str) -> String {
    let Shape {
        name,
        source,
        delivery,
        more,
    } = shape;
    format!(
        r#"
[pipeline]
name = "{name}-{output}"
cut-interval = "20ms"
state = "state"
{delivery}
[source.{source}]
{kind}
{stages}
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
[dead-letters]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
{more}
"#,
        kind = kind(input),
        broker = broker(),
    )
}

fn finish(workspace: &Workspace, pipeline: &str) -> Output {
    workspace.pipeline(pipeline);
    workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"])
}

#[track_caller]
fn ends_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[track_caller]
fn is_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for word in words {
        assert!(said.contains(word), "{word} in: {said}");
    }
}

/// How often each record is in a topic.
fn times(output: &str) -> BTreeMap<u64, usize> {
    let mut times = BTreeMap::new();
    for (_, value) in consume(output) {
        let value: Value = serde_json::from_str(&value).unwrap();
        *times.entry(value["n"].as_u64().unwrap()).or_default() += 1;
    }
    times
}

fn once(records: usize) -> BTreeMap<u64, usize> {
    (0..records as u64).map(|n| (n, 1)).collect()
}

/// Runs until answers come, ends, and leaves others waiting.
fn leave_some_waiting(workspace: &Workspace, pipeline: &str, told: bool) {
    workspace.pipeline(pipeline);
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("answers come while others are in flight", MINUTES, || {
        let said = workspace.read("stderr.log");
        assert!(
            running.ended().is_none(),
            "{}",
            String::from_utf8_lossy(&said)
        );
        let status = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let status: Result<Value, _> = serde_json::from_slice(&status.stdout);
        status.is_ok_and(|status| {
            let records = &status["records"];
            records["in_flight"].as_u64() > Some(10) && records["out"].as_u64() > Some(0)
        })
    });
    match told {
        true => assert!(running.terminate(MINUTES).success()),
        false => running.kill(),
    }
}

#[test]
fn what_waits_in_a_changelog_is_gone_on_with_as_it_was_and_refused_otherwise() {
    let (input, output) = (topic("moved"), topic("moved-out"));
    produce(&input, &tickets(40));
    let stages = asks_a_model();
    let pipeline = |shape| pipeline(shape, &input, &stages, &output);
    let workspace = Workspace::new(&pipeline(AS_IT_WAS));
    leave_some_waiting(&workspace, &pipeline(AS_IT_WAS), true);
    let changelog = format!("{input}-group-changelog");
    let waits = ["records wait in changelog topic", &changelog, "finish"];
    is_refused(&finish(&workspace, &pipeline(LOG)), &waits);
    let beside_a_file = Shape {
        more: "[sink.file]\ntype = \"file\"\npath = \"out.jsonl\"\n",
        ..AS_IT_WAS
    };
    is_refused(&finish(&workspace, &pipeline(beside_a_file)), &waits);
    let renamed = Shape {
        source: "other",
        ..AS_IT_WAS
    };
    let named = ["partition 0 of source other", "read as source in"];
    is_refused(&finish(&workspace, &pipeline(renamed)), &named);
    // As it was it goes on, and each way of committing takes over from the other where nothing waits.
    let mut records = 40;
    for shape in [AS_IT_WAS, LOG, AS_IT_WAS, renamed, beside_a_file] {
        ends_well(&finish(&workspace, &pipeline(shape)));
        assert_eq!(times(&output), once(records));
        produce(&input, &tickets(records + 5)[records..]);
        records += 5;
    }
}

#[test]
fn a_run_until_now_finishes_what_a_killed_one_left_waiting() {
    let (input, output) = (topic("moved-now"), topic("moved-now-out"));
    produce(&input, &tickets(40));
    let pipeline = pipeline(AS_IT_WAS, &input, &asks_a_model(), &output);
    let workspace = Workspace::new(&pipeline);
    leave_some_waiting(&workspace, &pipeline, false);
    // At once: the killed member has its partitions until its session ends.
    ends_well(&finish(&workspace, &pipeline));
    assert_eq!(times(&output), once(40));
}

#[test]
fn what_waits_in_the_log_is_gone_on_with_as_it_was_and_refused_otherwise() {
    let (input, output) = (topic("moved-log"), topic("moved-log-out"));
    produce(&input, &tickets(40));
    let stages = asks_a_model();
    let pipeline = |shape| pipeline(shape, &input, &stages, &output);
    let workspace = Workspace::new(&pipeline(LOG));
    // One that is told to end waits for its answers.
    leave_some_waiting(&workspace, &pipeline(LOG), false);
    let waits = ["in the commit log of this state directory", "finish"];
    is_refused(&finish(&workspace, &pipeline(AS_IT_WAS)), &waits);
    ends_well(&finish(&workspace, &pipeline(LOG)));
    let before = times(&output);
    assert_eq!(before.len(), 40);
    produce(&input, &tickets(45)[40..]);
    ends_well(&finish(&workspace, &pipeline(AS_IT_WAS)));
    let after = times(&output);
    assert_eq!(after.len(), 45);
    assert!(before.iter().all(|(n, times)| after[n] == *times));
}

fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

#[test]
fn a_file_goes_on_where_it_was_whatever_commits_and_is_called() {
    let output = topic("moved-file");
    let pipeline = |shape| pipeline(shape, "file:in.jsonl", "", &output);
    let workspace = Workspace::new(&pipeline(AS_IT_WAS));
    let renamed = Shape {
        name: "renamed",
        ..AS_IT_WAS
    };
    let mut records = 0;
    for shape in [AS_IT_WAS, LOG, AS_IT_WAS, renamed, AS_IT_WAS, LOG, renamed] {
        records += 10;
        workspace.write("in.jsonl", lines(0..records));
        ends_well(&finish(&workspace, &pipeline(shape)));
        assert_eq!(times(&output), once(records as usize));
    }
    // Its source under another name is another one.
    let other = Shape {
        source: "other",
        ..renamed
    };
    is_refused(
        &finish(&workspace, &pipeline(other)),
        &["was read as source in", "old name"],
    );
    // While nobody knows what waits, it is as it was.
    workspace.pipeline(&pipeline(renamed));
    workspace.write("in.jsonl", lines(0..records + 10));
    let mut running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    until("more is out", MINUTES, || {
        times(&output).len() == records as usize + 10
    });
    running.kill();
    let words = ["changelog topic renamed-", "finish"];
    is_refused(&finish(&workspace, &pipeline(LOG)), &words);
    is_refused(&finish(&workspace, &pipeline(AS_IT_WAS)), &words);
    ends_well(&finish(&workspace, &pipeline(renamed)));
    assert_eq!(times(&output), once(records as usize + 10));
}

/// Sets the group's position, as an administrator's tool does.
fn set_position(input: &str, position: u64) {
    let group = format!("{input}-group");
    let options = KafkaSourceOptions::new(0, broker(), input, group);
    let mut source = KafkaSource::open(options).unwrap();
    let partition = Partition {
        source: 0,
        number: 0,
    };
    until("the partition is assigned", MINUTES, || {
        let event = source.poll(1, 1, Duration::from_millis(100)).unwrap();
        matches!(event, SourceEvent::Assigned(_))
    });
    source.poll(1, 1, Duration::from_millis(100)).unwrap();
    let done = Done {
        partition,
        position,
        waits: false,
        metadata: String::new(),
    };
    source.commit(&[done]).unwrap();
    source.close().unwrap();
}

#[test]
fn a_position_that_somebody_sets_is_where_reading_goes_on_whatever_commits() {
    for shape in [AS_IT_WAS, LOG] {
        let (input, output) = (topic("reset"), topic("reset-out"));
        produce(&input, &tickets(20));
        let text = pipeline(shape, &input, "", &output);
        let workspace = Workspace::new(&text);
        ends_well(&finish(&workspace, &text));
        assert_eq!(times(&output), once(20));
        set_position(&input, 15);
        ends_well(&finish(&workspace, &text));
        let again = times(&output);
        assert!(
            again
                .iter()
                .all(|(n, times)| *times == 1 + usize::from(*n >= 15))
        );
        produce(&input, &tickets(30)[20..]);
        set_position(&input, 25);
        ends_well(&finish(&workspace, &text));
        let last = times(&output);
        assert!(last.keys().all(|n| !(20..25).contains(n)), "{last:?}");
        assert_eq!(last.len(), 25);
    }
}
