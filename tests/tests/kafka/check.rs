//! `tidegate check` of pipelines on Kafka.

use std::process::Output;

use serde_json::Value;
use tidegate_tests::Workspace;

use crate::{broker, topic_with};

fn pipeline(brokers: &str, input: &str, output: &str, properties: &str) -> Workspace {
    Workspace::new(&format!(
        r#"
[pipeline]
name = "checked"
[source.in]
type = "kafka"
brokers = ["{brokers}"]
topic = "{input}"
properties = {{ {properties} }}
[sink.out]
type = "kafka"
brokers = ["{brokers}"]
topic = "{output}"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#
    ))
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn check(workspace: &Workspace, arguments: &[&str]) -> Output {
    let mut all = vec!["check"];
    all.extend(arguments);
    all.push("pipeline.toml");
    workspace.run(&all)
}

#[test]
fn a_property_that_librdkafka_does_not_know_is_named_with_its_line() {
    let properties = "\"fetch.wait.max.sm\" = 50, \"fetch.max.bytes\" = -1, \"linger.ms\" = 5";
    let workspace = pipeline("127.0.0.1:1", "in", "out", properties);
    let checked = check(&workspace, &[]);
    assert_eq!(checked.status.code(), Some(2));
    let said = text(&checked.stderr);
    let place = "pipeline.toml:8:16: source.in.properties.fetch.wait.max.sm";
    assert!(said.contains(place), "{said}");
    assert!(
        said.contains("did you mean \"fetch.wait.max.ms\"?"),
        "{said}"
    );
    assert!(said.contains("outside allowed range"), "{said}");
    assert!(said.contains("belongs to a sink"), "{said}");
    assert!(said.contains("3 mistakes"), "{said}");
    // A run says the same before it begins.
    let run = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains(place));
}

#[test]
fn brokers_are_asked_about_every_topic() {
    let input = topic_with("checked", 3, &[]);
    let workspace = pipeline(&broker(), &input, "no-such-topic", "");
    let checked = check(&workspace, &["--connect"]);
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stdout);
    let (broker, found) = (broker(), "3 partitions, the group has a position in 0");
    let line = format!("source in: topic {input} at {broker}: {found}");
    assert!(said.contains(&line), "{said}");
    let line = format!("sink out: topic no-such-topic at {broker}: the topic does not exist");
    assert!(said.contains(&line), "{said}");
    let why = text(&checked.stderr);
    assert!(why.contains("no-such-topic of sink out"), "{why}");
    let json = check(&workspace, &["--connect", "--json"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["topics"][0]["partitions"], 3, "{report}");
    assert_eq!(
        report["topics"][1]["missing"], "the topic does not exist",
        "{report}"
    );
    // Not asked, not told.
    let json = check(&workspace, &["--json"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["topics"], Value::Null);
}

#[test]
fn brokers_that_do_not_answer_are_waited_for_so_long() {
    let workspace = pipeline("127.0.0.1:1", "in", "out", "");
    let checked = check(&workspace, &["--connect"]);
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stdout);
    assert!(
        said.contains("source in: topic in at 127.0.0.1:1: "),
        "{said}"
    );
    assert!(said.contains("Connection refused"), "{said}");
}
