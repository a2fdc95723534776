//! Runs that are told to end while answers are in flight.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tidegate_tests::{Running, Workspace, until};

use crate::{consume, pipeline, produce, produce_to, tickets, topic};

const MINUTE: Duration = Duration::from_secs(60);
const COUNT: usize = 60;

/// A run with one sequence for all tickets, so that much waits for an answer.
fn busy() -> (Workspace, Running, String) {
    let (input, output) = (topic("busy-in"), topic("busy-out"));
    produce(&input, &tickets(COUNT));
    let file = pipeline(&input, &output)
        .replace("sequences = 8", "sequences = 1")
        .replace("max-in-flight = 16", "max-in-flight = 60");
    let workspace = Workspace::new(&file);
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("something is in flight", 2 * MINUTE, || {
        assert!(running.ended().is_none(), "{}", said(&workspace));
        let status = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let status: Result<serde_json::Value, _> = serde_json::from_slice(&status.stdout);
        status.is_ok_and(|status| status["records"]["in_flight"].as_u64() > Some(0))
    });
    (workspace, running, output)
}

fn said(workspace: &Workspace) -> String {
    String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned()
}

fn signal(running: &Running) {
    let id = running.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status();
    assert!(told.is_ok_and(|told| told.success()));
}

#[test]
fn a_run_that_is_told_to_end_ends_in_time_and_the_next_one_answers_the_rest() {
    let (workspace, mut running, output) = busy();
    let ended = running.terminate(MINUTE);
    assert!(ended.success(), "{ended}: {}", said(&workspace));
    let last = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    assert!(last.status.success());
    let mut numbers: Vec<u64> = consume(&output)
        .iter()
        .filter_map(|(_, value)| {
            let value: serde_json::Value = serde_json::from_str(value).ok()?;
            value["n"].as_u64()
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, (0..COUNT as u64).collect::<Vec<_>>());
}

/// A pipeline on these brokers.
fn on(brokers: &str, input: &str, output: &str) -> Workspace {
    Workspace::new(&format!(
        r#"
[pipeline]
name = "told-early"
[source.in]
type = "kafka"
brokers = ["{brokers}"]
topic = "{input}"
group = "{input}"
[sink.out]
type = "kafka"
brokers = ["{brokers}"]
topic = "{output}"
"#
    ))
}

/// Whether the state directory says that a host listens.
fn listens(workspace: &Workspace) -> bool {
    !workspace.read("state/admin.json").is_empty()
}

#[test]
fn a_run_that_waits_for_brokers_ends_when_it_is_told_to() {
    let workspace = on("127.0.0.1:1", "in", "out");
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    until("it can be asked", MINUTE, || listens(&workspace));
    let ended = running.terminate(MINUTE / 2);
    assert_eq!(ended.code(), Some(0), "{}", said(&workspace));
    assert!(!listens(&workspace), "admin.json is left behind");
}

#[test]
fn a_run_that_waits_for_brokers_and_is_told_twice_does_not_end_in_order() {
    // A broker that takes connections and says nothing: a run that has one waits, whatever it waits for.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    mute.set_nonblocking(true).expect("a listener");
    let address = mute.local_addr().expect("its address").to_string();
    let workspace = on(&address, "in", "out");
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    let mut held = Vec::new();
    until("it asks the broker", MINUTE, || {
        held.extend(mute.accept().ok());
        !held.is_empty() && listens(&workspace)
    });
    signal(&running);
    until("it was heard", MINUTE, || {
        said(&workspace).contains("once more")
    });
    signal(&running);
    let ended = running.wait(MINUTE / 2);
    assert_eq!(ended.code(), Some(1), "{}", said(&workspace));
    assert!(!listens(&workspace), "admin.json is left behind");
}

#[test]
fn a_run_that_is_told_to_end_while_it_begins_ends_in_order() {
    let (input, output) = (topic("early-in"), topic("early-out"));
    let workspace = on(&crate::broker(), &input, &output);
    for after in [0, 20, 100, 300, 700, 1500] {
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        until("it hears signals", MINUTE, || running.hears_term());
        std::thread::sleep(Duration::from_millis(after));
        let ended = running.terminate(MINUTE);
        let said = said(&workspace);
        assert_eq!(ended.code(), Some(0), "after {after} ms: {said}");
        assert!(!listens(&workspace), "after {after} ms: {said}");
    }
}

/// A run whose sink's brokers were taken away after it had begun, with five records that wait for them, and all brokers.
/// It cannot end in order: its sinks would wait for two minutes.
fn held_up() -> (
    Workspace,
    Running,
    [MockCluster<'static, DefaultProducerContext>; 2],
) {
    // librdkafka's own stand-ins: they can be taken away.
    let (from, to) = (MockCluster::new(1).unwrap(), MockCluster::new(1).unwrap());
    from.create_topic("in", 1, 1).unwrap();
    to.create_topic("out", 1, 1).unwrap();
    let (brokers, others) = (from.bootstrap_servers(), to.bootstrap_servers());
    let workspace = Workspace::new(&format!(
        r#"
[pipeline]
name = "held-up"
cut-interval = "20ms"
[source.in]
type = "kafka"
brokers = ["{brokers}"]
topic = "in"
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[sink.out]
type = "kafka"
brokers = ["{others}"]
topic = "out"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#
    ));
    let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
    // Nothing while it starts: it would wait for its brokers then, and read nothing.
    let read = || {
        let status = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).ok()?;
        (status["state"] == "running").then_some(status["records"]["in"].as_u64()?)
    };
    until("it runs", 2 * MINUTE, || {
        assert!(running.ended().is_none(), "{}", said(&workspace));
        read() == Some(0)
    });
    // Whether it reads or not: what it writes from now on waits.
    to.broker_down(1).unwrap();
    produce_to(&brokers, "in", &tickets(5));
    until("it has read", 2 * MINUTE, || read() == Some(5));
    (workspace, running, [from, to])
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (workspace, mut running, _brokers) = held_up();
    signal(&running);
    until("it was heard", MINUTE, || {
        said(&workspace).contains("once more")
    });
    signal(&running);
    let ended = running.wait(MINUTE);
    assert_eq!(ended.code(), Some(1), "{}", said(&workspace));
    assert!(!said(&workspace).contains("not stopped within"));
}

#[test]
fn a_stop_that_brokers_hold_up_ends_by_itself() {
    let (workspace, mut running, _brokers) = held_up();
    let ended = running.terminate(MINUTE);
    assert_eq!(ended.code(), Some(1), "{}", said(&workspace));
    assert!(said(&workspace).contains("not stopped within 28 s"));
}
