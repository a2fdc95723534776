//! Tokens to a topic, beside the transactions: whoever reads along ends with the answers that were committed, wherever the
//! pipeline was killed, and though each of its lives answers in other words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_codec::tokens::{OwnedWhat, State, TokenReader, parse_token_event};
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{Lane, Source, SourceEvent};
use tidegate_tests::mock::{self, Call};
use tidegate_tests::{Running, Workspace, root, script_reader, until};

use crate::{broker, produce, topic};

const PATIENCE: Duration = Duration::from_secs(120);
const RECORDS: usize = 60;
const KILLS: usize = 4;

/// A message: key, value and headers.
struct Message {
    key: String,
    value: Vec<u8>,
    headers: BTreeMap<String, String>,
}

/// Everything in a topic of one partition that is committed, in order.
fn read(topic: &str) -> Vec<Message> {
    let mut options = KafkaSourceOptions::new(0, broker(), topic, format!("{topic}-reader"));
    options.until_end = true;
    let mut source = KafkaSource::open(options).unwrap();
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().into()).unwrap();
    let mut messages = Vec::new();
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "{topic} was not read to its end");
        let wait = Duration::from_millis(100);
        match source.poll(1000, 1 << 20, wait).unwrap() {
            SourceEvent::Records { batch, .. } => {
                messages.extend(batch.view().records().map(|record| {
                    Message {
                        key: text(record.key()),
                        value: record.value().unwrap_or_default().to_vec(),
                        headers: record
                            .headers()
                            .map(|pair| (pair.name.to_owned(), text(pair.value)))
                            .collect(),
                    }
                }));
            }
            SourceEvent::End(_) => return messages,
            _ => {}
        }
    }
}

fn pipeline(input: &str, output: &str) -> String {
    format!(
        r#"
[pipeline]
name = "{input}"
cut-interval = "20ms"
delivery = "exactly-once"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}-group"
instance = "one"
properties = {{ "session.timeout.ms" = 6000, "heartbeat.interval.ms" = 500 }}
[model.mock]
path = {model:?}
[[stage]]
name = "ask"
model = "mock"
prompt = "{{n}}"
into = "member"
max-in-flight = 16
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
[dead-letters]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
"#,
        broker = broker(),
        model = root().join("examples/support-bot/model"),
    )
}

fn start(workspace: &Workspace, tokens: &str) -> Running {
    let log = File::options()
        .create(true)
        .append(true)
        .open(workspace.path("stderr.log"))
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-with-mock"));
    command
        .args(["pipeline.toml", "calls.jsonl", "7", "8"])
        .current_dir(workspace.path(""))
        .env("TIDEGATE_STATE_KEY", "22".repeat(32))
        .env(mock::TOKENS_TO, tokens)
        .env(mock::DRIFTS, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Running::spawn(command)
}

#[test]
fn whoever_reads_tokens_ends_with_the_committed_answers_wherever_the_pipeline_was_killed() {
    let (input, output, tokens) = (topic("in"), topic("out"), topic("tokens"));
    let records: Vec<(String, String)> = (0..RECORDS)
        .map(|n| (format!("k{n}"), format!("{{\"n\":{n}}}")))
        .collect();
    produce(&input, &records);
    let workspace = Workspace::new(&pipeline(&input, &output));
    let calls = || Call::read(&workspace.path("calls.jsonl")).len();
    let words = || String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned();
    for kill in 0..KILLS {
        let before = calls();
        let mut running = start(&workspace, &tokens);
        until("answers are under way", PATIENCE, || {
            assert!(running.ended().is_none(), "{}", words());
            calls() >= before + 10
        });
        std::thread::sleep(Duration::from_millis(40 * kill as u64));
        running.kill();
    }
    let mut running = start(&workspace, &tokens);
    until("every answer is committed", PATIENCE, || {
        assert!(running.ended().is_none(), "{}", words());
        read(&output).len() >= RECORDS
    });
    until("it hears signals", PATIENCE, || running.hears_term());
    assert!(running.terminate(PATIENCE).success(), "{}", words());

    let mut reader = TokenReader::default();
    let mut events = Vec::new();
    let mut attempts: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for message in read(&tokens) {
        let event = parse_token_event(&message.value).unwrap();
        assert_eq!(message.key, event.request, "one answer, one partition");
        events.push(String::from_utf8(message.value).unwrap());
        if matches!(event.what, OwnedWhat::Text { .. }) {
            let seen = attempts.entry(event.request.clone()).or_default();
            seen.insert(event.attempt);
        }
        reader.take(&event);
    }
    let answers = read(&output);
    assert_eq!(answers.len(), RECORDS, "exactly once");
    let scripted = script_reader::read(&events);
    for message in &answers {
        let request = &message.headers["token-request"];
        assert_eq!(reader.state(request), Some(State::Complete), "{request}");
        let joined = reader.answer(request).unwrap();
        assert_eq!(message.headers["token-attempt"], joined.attempt.to_string());
        let value: serde_json::Value = serde_json::from_slice(&message.value).unwrap();
        let [choice] = joined.choices.as_slice() else {
            panic!("one answer was asked for: {joined:?}");
        };
        assert_eq!(value["answer"], choice.lanes[&Lane::Content], "{request}");
        assert_eq!(choice.finish.as_deref(), Some("end"));
        // The reader of the guide ends with the same.
        let shown = &scripted[request];
        assert_eq!(shown.state, "whole", "{request}");
        assert_eq!(value["answer"], shown.lanes["0/content"], "{request}");
    }
    assert_eq!(reader.requests().count(), RECORDS);
    let replaced = attempts.values().filter(|seen| seen.len() > 1).count();
    assert!(replaced > 0, "no answer was shown that a kill took back");
}
