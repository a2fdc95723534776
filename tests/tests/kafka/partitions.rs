//! One process with many partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use tidegate_tests::{Workspace, operator, until};

use crate::{broker, consume, topic, topic_with};

const PARTITIONS: i32 = 500;
const MINUTES: Duration = Duration::from_secs(300);

/// Writes a record to every partition.
fn produce_everywhere(topic: &str, turn: u32) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", broker())
        .create()
        .unwrap();
    for partition in 0..PARTITIONS {
        let value = format!("{{\"partition\":{partition},\"turn\":{turn},\"text\":\"\"}}");
        let record = BaseRecord::<str, str>::to(topic)
            .partition(partition)
            .payload(&value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(60)).unwrap();
}

#[test]
fn one_process_runs_five_hundred_partitions_each_with_an_instance_of_its_own() {
    let input = topic_with("many", PARTITIONS, &[]);
    let output = topic("out");
    produce_everywhere(&input, 0);
    let broker = broker();
    let workspace = Workspace::new(&format!(
        r#"
[pipeline]
name = "many"
workers = 1
delivery = "exactly-once"
cut-interval = "100ms"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}-group"
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#
    ));
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    let mut come_out = |records: u64| {
        until("a record of every partition is out", MINUTES, || {
            let said = || String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned();
            assert!(running.ended().is_none(), "{}", said());
            let status = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
            let status: Result<Value, _> = serde_json::from_slice(&status.stdout);
            status.is_ok_and(|status| status["records"]["out"].as_u64() >= Some(records))
        });
    };
    come_out(PARTITIONS as u64);
    // Another revision, of which every task starts an instance beside the one that it has.
    let mut other = std::fs::read(operator("redact-pii")).unwrap();
    other.extend([0, 3, 1, b'v', 1]);
    workspace.write("other.wasm", other);
    let deploy = ["deploy", "--json", "--pipeline", "pipeline.toml"];
    let deployed = workspace.run(&[&deploy[..], &["--slot", "redact", "other.wasm"]].concat());
    let said = String::from_utf8_lossy(&deployed.stderr);
    assert!(deployed.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&deployed.stdout).unwrap();
    assert_eq!(report["tasks"], PARTITIONS, "{report}");
    produce_everywhere(&input, 1);
    come_out(2 * PARTITIONS as u64);
    assert!(running.terminate(MINUTES).success());
    let mut seen: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for (_, value) in consume(&output) {
        let value: Value = serde_json::from_str(&value).unwrap();
        let number = |name: &str| value[name].as_u64().unwrap();
        *seen
            .entry((number("turn"), number("partition")))
            .or_default() += 1;
    }
    let all = (0..2).flat_map(|turn| (0..PARTITIONS as u64).map(move |one| ((turn, one), 1)));
    assert_eq!(seen, all.collect(), "each exactly once");
    assert!(workspace.read("dead.jsonl").is_empty());
}
