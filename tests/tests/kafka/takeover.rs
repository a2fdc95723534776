//! Members of a group that are killed or told to end: others have their partitions soon.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_tests::{Running, Workspace, until};

use crate::{broker, produce, topic_with};

const PARTITIONS: i32 = 4;
const MINUTE: Duration = Duration::from_secs(60);

/// From a topic to a file, as a member of the topic's group.
fn member(topic: &str, source: &str) -> (Workspace, Running) {
    let broker = broker();
    let workspace = Workspace::new(&format!(
        r#"
[pipeline]
name = "member"
cut-interval = "20ms"
summary = "summary.json"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{topic}"
group = "{topic}-group"
{source}
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "file"
path = "out.jsonl"
"#
    ));
    let running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    (workspace, running)
}

/// Writes this record to the topic many times over, under keys that meet every partition.
fn produce_everywhere(topic: &str, number: u64) {
    let record = |key: u64| {
        let value = format!("{{\"n\":{number},\"key\":{key},\"text\":\"\"}}");
        (key.to_string(), value)
    };
    produce(topic, &(0..40).map(record).collect::<Vec<_>>());
}

/// The keys under which a member has written this record.
fn keys(workspace: &Workspace, number: u64) -> BTreeSet<u64> {
    let written = String::from_utf8(workspace.read("out.jsonl")).unwrap();
    let lines = written.lines().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        (value["n"] == number)
            .then(|| value["key"].as_u64())
            .flatten()
    });
    lines.collect()
}

/// Two members of which each has partitions.
fn two_members(topic: &str, source: &str) -> [(Workspace, Running); 2] {
    let mut first = member(topic, source);
    produce_everywhere(topic, 0);
    until("the first has every partition", 2 * MINUTE, || {
        assert!(first.1.ended().is_none(), "{}", said(&first.0));
        keys(&first.0, 0).len() == 40
    });
    let mut second = member(topic, source);
    let mut number = 1;
    until("both have partitions", 2 * MINUTE, || {
        assert!(second.1.ended().is_none(), "{}", said(&second.0));
        number += 1;
        produce_everywhere(topic, number);
        std::thread::sleep(Duration::from_millis(200));
        !keys(&second.0, number).is_empty()
    });
    [first, second]
}

fn said(workspace: &Workspace) -> String {
    String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned()
}

/// Waits until a member has written all of a record that is new.
fn until_it_has_all(topic: &str, workspace: &Workspace, patience: Duration) {
    produce_everywhere(topic, 1_000_000);
    until("the other has every partition", patience, || {
        keys(workspace, 1_000_000).len() == 40
    });
}

#[test]
fn the_partitions_of_a_killed_member_are_read_by_another_within_20_s() {
    let topic = topic_with("killed", PARTITIONS, &[]);
    let [mut first, second] = two_members(&topic, "");
    first.1.kill();
    // With librdkafka's own 45 s it would take longer than this, which leaves a busy machine some time.
    until_it_has_all(&topic, &second.0, Duration::from_secs(30));
}

#[test]
fn the_partitions_of_a_member_that_is_told_to_end_are_free_at_once() {
    let topic = topic_with("told", PARTITIONS, &[]);
    // Longer than the test may take: nobody waits for it.
    let source = "properties = { \"session.timeout.ms\" = 240000 }";
    let [mut first, second] = two_members(&topic, source);
    let ended = first.1.terminate(MINUTE);
    assert!(ended.success(), "{ended}: {}", said(&first.0));
    until_it_has_all(&topic, &second.0, MINUTE);
}

#[test]
fn a_named_member_that_is_told_to_end_keeps_its_place_until_its_session_is_over() {
    let topic = topic_with("named", PARTITIONS, &[]);
    let named = |name: &str, session: u32| {
        format!("instance = \"{name}\"\nproperties = {{ \"session.timeout.ms\" = {session} }}")
    };
    let (first, mut running) = member(&topic, &named("one", 240_000));
    produce_everywhere(&topic, 0);
    until("it reads", 2 * MINUTE, || keys(&first, 0).len() == 40);
    let ended = running.terminate(MINUTE);
    assert!(ended.success(), "{ended}: {}", said(&first));
    // Another name gets nothing of it; the same name goes on at once.
    produce_everywhere(&topic, 1);
    let (other, _other_running) = member(&topic, &named("two", 240_000));
    let (again, _again_running) = member(&topic, &named("one", 240_000));
    until("all is read", 2 * MINUTE, || {
        keys(&again, 1).union(&keys(&other, 1)).count() == 40
    });
    assert!(!keys(&again, 1).is_empty());
}
