//! Pipelines on Kafka, against a real broker: nothing is lost through SIGKILL with answers in flight; and what
//! several processes promise while they, the broker and the operators are taken away.
//!
//! Needs a broker: `cargo xtask test` starts one; by hand, `cargo xtask kafka` and `TIDEGATE_KAFKA=host:port`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod audit;
mod chaos;
mod check;
mod copying;
mod letters;
mod members;
mod moved;
mod own;
mod partitions;
mod stopping;
mod takeover;
mod tokens;
mod traces;
mod until;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::Value;
use tidegate_connect::kafka::{KafkaSink, KafkaSinkOptions, KafkaSource, KafkaSourceOptions};
use tidegate_contract::{HostHeaders, Sink, Source, SourceEvent};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};
use tidegate_tests::{Workspace, root, until};

pub(crate) fn broker() -> String {
    std::env::var("TIDEGATE_KAFKA").expect(
        "this test needs a broker: run cargo xtask test, or cargo xtask kafka and set TIDEGATE_KAFKA",
    )
}

/// A new topic of one partition.
pub(crate) fn topic(name: &str) -> String {
    topic_with(name, 1, &[])
}

/// A topic of its own for a test, with these partitions and settings.
pub(crate) fn topic_with(name: &str, partitions: i32, settings: &[(&str, &str)]) -> String {
    topic_at(&broker(), name, partitions, settings)
}

/// The same on a broker of the test's own.
pub(crate) fn topic_at(
    brokers: &str,
    name: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let name = format!("tidegate-{name}-{}-{}", std::process::id(), now.as_nanos());
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()
        .unwrap();
    let mut new = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    for (name, value) in settings {
        new = new.set(name, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let made = runtime
        .block_on(admin.create_topics([&new], &AdminOptions::new()))
        .unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    // Brokers know it a little later than the controller.
    until("the topic is there", Duration::from_secs(60), || {
        let asked = admin
            .inner()
            .fetch_metadata(Some(&name), Duration::from_secs(5));
        asked.is_ok_and(|metadata| {
            let found = metadata.topics().iter().find(|found| found.name() == name);
            found.is_some_and(|found| {
                found.error().is_none() && found.partitions().len() == partitions as usize
            })
        })
    });
    name
}

pub(crate) fn produce(topic: &str, records: &[(String, String)]) {
    produce_to(&broker(), topic, records);
}

pub(crate) fn produce_to(brokers: &str, topic: &str, records: &[(String, String)]) {
    let mut builder = BatchBuilder::default();
    for (offset, (key, value)) in records.iter().enumerate() {
        builder
            .push(&NewRecord {
                id: RecordId {
                    offset: offset as u64,
                    ..RecordId::default()
                },
                key: Some(key.as_bytes()),
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            })
            .unwrap();
    }
    let mut sink = KafkaSink::open(KafkaSinkOptions::new(brokers, topic, "support-bot")).unwrap();
    sink.recover(&[]).unwrap();
    for record in builder.finish(0).view().records() {
        sink.write(record.public(), HostHeaders::default()).unwrap();
    }
    sink.flush().unwrap();
}

/// Key and value of everything in a topic, in the order of its one partition.
pub(crate) fn consume(topic: &str) -> Vec<(String, String)> {
    let mut options = KafkaSourceOptions::new(0, broker(), topic, format!("{topic}-reader"));
    options.until_end = true;
    let mut source = KafkaSource::open(options).unwrap();
    let mut records = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < end, "{topic} was not read to its end");
        match source
            .poll(1000, 1 << 20, Duration::from_millis(100))
            .unwrap()
        {
            SourceEvent::Records { batch, .. } => {
                for record in batch.view().records() {
                    let text = |bytes: Option<&[u8]>| {
                        String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap()
                    };
                    records.push((text(record.key()), text(record.value())));
                }
            }
            SourceEvent::End(_) => return records,
            _ => {}
        }
    }
}

fn pipeline(input: &str, output: &str) -> String {
    format!(
        r#"
[pipeline]
name = "on-kafka"
cut-interval = "50ms"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}-group"
instance = "one"
[model.support]
path = {model:?}
sequences = 8
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[[stage]]
name = "answer"
model = "support"
prompt = """
Customer:{{space}}
Product:{{space}}
Order:{{space}}

{{text}}"""
max-tokens = 24
max-in-flight = 16
into = "attributes"
[[stage]]
name = "shape"
operator = "{{operators}}/shape-answer.wasm"
config = {{ keep = ["n"] }}
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#,
        broker = broker(),
        model = root().join("examples/support-bot/model"),
    )
    .replace("{space}", " ")
}

pub(crate) fn tickets(count: usize) -> Vec<(String, String)> {
    (0..count)
        .map(|n| {
            let key = format!("k{}", n % 5);
            (
                key,
                format!("{{\"n\":{n},\"text\":\"Where is my parcel? Mail u{n}@example.com\"}}"),
            )
        })
        .collect()
}

#[test]
fn killed_with_answers_in_flight_nothing_is_lost_and_keys_keep_their_order() {
    let (input, output) = (topic("in"), topic("out"));
    let count = 60;
    produce(&input, &tickets(count));
    let workspace = Workspace::new(&pipeline(&input, &output));
    for kills in 1..=2usize {
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        until(
            "answers come while others are in flight",
            Duration::from_secs(120),
            || {
                assert!(
                    running.ended().is_none(),
                    "{}",
                    String::from_utf8_lossy(&workspace.read("stderr.log"))
                );
                let status = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
                let status: Result<Value, _> = serde_json::from_slice(&status.stdout);
                status.is_ok_and(|status| {
                    let records = &status["records"];
                    records["in_flight"].as_u64() > Some(0)
                        && records["out"].as_u64() >= Some(kills as u64 * 5)
                })
            },
        );
        running.kill();
    }
    let last = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    assert!(
        last.status.success(),
        "{}",
        String::from_utf8_lossy(&last.stderr)
    );
    let answers = consume(&output);
    let mut first_seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (key, value) in &answers {
        // Nothing restores what was redacted, and shape-answer keeps no text of the customer's.
        assert!(!value.contains("@example.com"), "{value}");
        let value: Value = serde_json::from_str(value).unwrap();
        let n = value["n"].as_u64().unwrap();
        assert_eq!(*key, format!("k{}", n % 5));
        if all.insert(n) {
            first_seen.entry(key.clone()).or_default().push(n);
        }
    }
    assert_eq!(
        all,
        (0..count as u64).collect(),
        "{} answers",
        answers.len()
    );
    for (key, numbers) in first_seen {
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
    assert!(workspace.read("dead.jsonl").is_empty());
}

#[test]
fn a_finished_group_reads_nothing_again() {
    let (input, output) = (topic("in"), topic("out"));
    produce(&input, &tickets(8));
    let workspace = Workspace::new(&pipeline(&input, &output));
    for _ in 0..2 {
        let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
    assert_eq!(consume(&output).len(), 8);
}

#[test]
fn check_says_what_kafka_guarantees() {
    let workspace = Workspace::new(&pipeline("in", "out"));
    let output = workspace.run(&["check", "--json", "pipeline.toml"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["guarantee"], "at least once", "{report}");
}
