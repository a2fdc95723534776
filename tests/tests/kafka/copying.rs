//! From topic to topic: what brokers refuse, and where a group begins.

use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

use crate::{broker, consume, produce, topic, topic_with};

/// From a topic to a topic, through nothing.
fn copying(input: &str, output: &str, dead: &str, source: &str) -> String {
    let broker = broker();
    format!(
        r#"
[pipeline]
name = "copying"
cut-interval = "20ms"
summary = "summary.json"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}-group"
{source}
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
properties = {{ "compression.type" = "none" }}
[dead-letters]
type = "kafka"
brokers = ["{broker}"]
topic = "{dead}"
properties = {{ "compression.type" = "none" }}
"#
    )
}

#[test]
fn records_that_the_brokers_refuse_are_dead_letters_and_the_run_goes_on() {
    let input = topic("in");
    let output = topic_with(
        "out",
        1,
        &[("max.message.bytes", "4000"), ("cleanup.policy", "compact")],
    );
    let dead = topic_with("dead", 1, &[("max.message.bytes", "1500")]);
    let mut records: Vec<(String, String)> = (0..50)
        .map(|n| ("k".into(), format!("{{\"n\":{n},\"text\":\"\"}}")))
        .collect();
    // Too large for the output; with a key too large for the dead letters; no record at all, and as large.
    let long = "long ".repeat(2000);
    records[7].1 = format!("{{\"n\":7,\"text\":\"{long}\"}}");
    records[20].0 = long.clone();
    records[31].1 = format!("no JSON {long}");
    produce(&input, &records);
    let workspace = Workspace::new(&copying(&input, &output, &dead, ""));
    // The second run meets none of them again.
    for runs in 1..=2 {
        let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "run {runs}: {said}");
    }
    let summary = workspace.json("summary.json");
    let count = |name: &str| summary["records"][name].as_u64().unwrap();
    assert_eq!(
        (count("in"), count("out"), count("dead")),
        (50, 47, 3),
        "{summary}"
    );
    let numbers: Vec<u64> = consume(&output)
        .iter()
        .map(|(_, value)| {
            let value: Value = serde_json::from_str(value).unwrap();
            value["n"].as_u64().unwrap()
        })
        .collect();
    let expected: Vec<u64> = (0..50).filter(|n| ![7, 20, 31].contains(n)).collect();
    assert_eq!(numbers, expected);
    let letters: Vec<Value> = consume(&dead)
        .iter()
        .map(|(_, value)| serde_json::from_str(value).unwrap())
        .collect();
    let mut seen: Vec<(u64, &str)> = letters
        .iter()
        .map(|letter| {
            let offset = letter["offset"].as_u64().unwrap();
            (offset, letter["stage"].as_str().unwrap())
        })
        .collect();
    seen.sort();
    assert_eq!(seen, [(7, "out"), (20, "out"), (31, "decode")]);
    for letter in &letters {
        let lengths: Vec<u64> = letter["cut"]
            .as_object()
            .unwrap()
            .values()
            .map(|length| length.as_u64().unwrap())
            .collect();
        assert!(lengths.iter().any(|length| *length >= 10_000), "{letter}");
    }
}

#[test]
fn killed_on_an_idle_topic_it_skips_nothing_that_comes_after_its_latest_start() {
    let (input, output, dead) = (topic("in"), topic("out"), topic("dead"));
    let old = |n: u32| ("k".to_owned(), format!("{{\"n\":{n},\"text\":\"old\"}}"));
    produce(&input, &(0..5).map(old).collect::<Vec<_>>());
    let source = "start = \"latest\"\ninstance = \"one\"";
    let workspace = Workspace::new(&copying(&input, &output, &dead, source));
    let mut running = workspace.start(&["run", "--quiet", "--log", "info", "pipeline.toml"]);
    until("the group begins", Duration::from_secs(60), || {
        assert!(running.ended().is_none());
        String::from_utf8_lossy(&workspace.read("stderr.log")).contains("the group is new")
    });
    running.kill();
    produce(&input, &(5..25).map(old).collect::<Vec<_>>());
    let last = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&last.stderr);
    assert!(last.status.success(), "{said}");
    let numbers: Vec<u64> = consume(&output)
        .iter()
        .map(|(_, value)| {
            let value: Value = serde_json::from_str(value).unwrap();
            value["n"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(numbers, (5..25).collect::<Vec<u64>>());
}
