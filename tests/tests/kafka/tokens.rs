//! Tokens to a topic, beside the transactions: whoever reads along ends with the answers that were committed, wherever the
//! pipeline was killed, and though each of its lives answers in other words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_codec::tokens::{OwnedWhat, State, TokenReader, parse_token_event};
use tidegate_connect::kafka::{KafkaSource, KafkaSourceOptions};
use tidegate_contract::{Lane, Source, SourceEvent};
use tidegate_tests::mock;
use tidegate_tests::{Running, Workspace, root, script_reader, until};

use crate::{broker, produce, topic};

const PATIENCE: Duration = Duration::from_secs(120);
const RECORDS: usize = 120;
const KILLS: usize = 4;
/// Answers that have stopped in the middle and are shown so far, before a kill.
const SHOWN: usize = 4;

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

fn start(workspace: &Workspace, tokens: &str, holds: bool) -> Running {
    let log = File::options()
        .create(true)
        .append(true)
        .open(workspace.path("stderr.log"))
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-with-mock"));
    command
        .args(["pipeline.toml", "calls.jsonl", "7", "16"])
        .current_dir(workspace.path(""))
        .env("TIDEGATE_STATE_KEY", "22".repeat(32))
        .env(mock::TOKENS_TO, tokens)
        .env(mock::DRIFTS, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    if holds {
        command.env(mock::HOLDS, "1");
    }
    Running::spawn(command)
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_micros() as u64
}

/// What a topic of tokens has, for its readers.
#[derive(Default)]
struct Fed {
    reader: TokenReader,
    events: Vec<String>,
    /// Attempts that something was shown of, by request.
    attempts: BTreeMap<String, BTreeSet<u64>>,
}

impl Fed {
    fn of(topic: &str) -> Fed {
        let mut fed = Fed::default();
        for message in read(topic) {
            let event = parse_token_event(&message.value).unwrap();
            assert_eq!(message.key, event.request, "one answer, one partition");
            fed.reader.take(&event);
            fed.events.push(String::from_utf8(message.value).unwrap());
            if matches!(event.what, OwnedWhat::Text { .. }) {
                let seen = fed.attempts.entry(event.request).or_default();
                seen.insert(event.attempt);
            }
        }
        fed
    }

    /// How many answers that have stopped in the middle are shown by an attempt after this instant.
    fn stopped(&self, since: u64) -> usize {
        let shown = |seen: &BTreeSet<u64>| seen.last().is_some_and(|last| *last > since);
        // The number in the prompt is that of the record.
        let is_held = |request: &str| request.rsplit('/').next().is_some_and(mock::is_held);
        let attempts = self.attempts.iter();
        attempts
            .filter(|(request, seen)| is_held(request) && shown(seen))
            .count()
    }
}

/// An answer that was committed.
struct Committed {
    request: String,
    attempt: u64,
    text: String,
}

fn committed(topic: &str) -> Vec<Committed> {
    let committed = |message: Message| {
        let value: serde_json::Value = serde_json::from_slice(&message.value).unwrap();
        Committed {
            request: message.headers["token-request"].clone(),
            attempt: message.headers["token-attempt"].parse().unwrap(),
            text: value["answer"].as_str().unwrap().to_owned(),
        }
    };
    read(topic).into_iter().map(committed).collect()
}

#[test]
fn whoever_reads_tokens_ends_with_the_committed_answers_wherever_the_pipeline_was_killed() {
    let (input, output, tokens) = (topic("in"), topic("out"), topic("tokens"));
    let records: Vec<(String, String)> = (0..RECORDS)
        .map(|n| (format!("k{n}"), format!("{{\"n\":{n}}}")))
        .collect();
    produce(&input, &records);
    let workspace = Workspace::new(&pipeline(&input, &output));
    let words = || String::from_utf8_lossy(&workspace.read("stderr.log")).into_owned();
    let mut began = micros();
    for kill in 0..KILLS {
        let mut running = start(&workspace, &tokens, true);
        // However long it takes: those that have stopped are taken back.
        until(
            "answers have stopped and are shown so far",
            PATIENCE,
            || {
                assert!(running.ended().is_none(), "{}", words());
                Fed::of(&tokens).stopped(began) >= SHOWN
            },
        );
        std::thread::sleep(Duration::from_millis(40 * kill as u64));
        running.kill();
        began = micros();
    }
    let mut running = start(&workspace, &tokens, false);
    until("every answer is committed", PATIENCE, || {
        assert!(running.ended().is_none(), "{}", words());
        read(&output).len() >= RECORDS
    });
    // What the feed had and a kill has taken with it never comes: of an earlier life an answer may have no end.
    let answers = committed(&output);
    let of_last_life = |answer: &&Committed| answer.attempt > began;
    until("all of the last life is there", PATIENCE, || {
        let fed = Fed::of(&tokens);
        let is_whole = |request: &str| fed.reader.state(request) == Some(State::Complete);
        let mut last = answers.iter().filter(of_last_life);
        last.all(|answer| is_whole(&answer.request))
    });
    until("it hears signals", PATIENCE, || running.hears_term());
    assert!(running.terminate(PATIENCE).success(), "{}", words());

    assert_eq!(read(&output).len(), RECORDS, "exactly once");
    let Fed {
        reader,
        events,
        attempts,
    } = Fed::of(&tokens);
    assert!(reader.requests().count() <= RECORDS);
    let scripted = script_reader::read(&events);
    let mut whole = 0;
    for answer in &answers {
        let request = &answer.request;
        let Some(joined) = reader.answer(request) else {
            assert!(!of_last_life(&answer), "{request}");
            continue;
        };
        assert!(joined.attempt <= answer.attempt, "{request}");
        let is_whole = reader.state(request) == Some(State::Complete);
        if !is_whole || joined.attempt < answer.attempt {
            assert!(!of_last_life(&answer), "{request}");
            continue;
        }
        whole += 1;
        let [choice] = joined.choices.as_slice() else {
            panic!("one answer was asked for: {joined:?}");
        };
        assert_eq!(answer.text, choice.lanes[&Lane::Content], "{request}");
        assert_eq!(choice.finish.as_deref(), Some("end"));
        // The reader of the guide ends with the same.
        let shown = &scripted[request];
        assert_eq!(shown.state, "whole", "{request}");
        assert_eq!(answer.text, shown.lanes["0/content"], "{request}");
    }
    assert!(whole >= RECORDS / 8, "{whole} are whole");
    let replaced = attempts.values().filter(|seen| seen.len() > 1).count();
    assert!(replaced >= SHOWN, "{replaced} were taken back by a kill");
}
