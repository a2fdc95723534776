//! Private values through redaction, a model, and their return: nobody but their user ever reads them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Value, json};
use tidegate_tests::{Workspace, until};

use crate::client::{Got, PATIENCE, Served};
use crate::conversations::Conversation;
use crate::echo::{Echo, Form, Said, name};

const CONVERSATIONS: u64 = 500;
const CLIENTS: u64 = 8;

fn pipeline(echo: &Echo) -> String {
    format!(
        r#"
[pipeline]
name = "private"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
cache = {{ ttl = "1h" }}
[model.far]
type = "openai"
url = "http://{}/v1"
context = 32768
attempts = 1
[source.chat]
type = "gateway"
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ fields = {{ "metadata.customer" = "NAME" }} }}
[[stage]]
name = "forbid"
operator = "{{operators}}/drop-abuse.wasm"
config = {{ words = ["FORBID"], action = "dead-letter" }}
[[stage]]
name = "answer"
model = "far"
messages = true
max-tokens = 16000
order = "none"
max-in-flight-per-key = 64
tokens = ["restore"]
[[stage]]
name = "restore"
operator = "{{operators}}/restore-pii.wasm"
[sink.reply]
type = "gateway"
[sink.kept]
type = "file"
path = "kept.jsonl"
[sink.asked]
type = "file"
path = "asked.jsonl"
inputs = ["redact"]
"#,
        echo.address
    )
}

/// What a user has read.
fn read(got: &Got, stream: bool) -> Said {
    let mut said = Said::default();
    let mut take = |message: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        said.content += &text(&message["content"]);
        said.reasoning += &text(&message["reasoning_content"]);
        said.arguments += &text(&message["tool_calls"][0]["function"]["arguments"]);
    };
    if stream {
        let events = got.events();
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{got:?}");
        for event in &events[..events.len() - 1] {
            let event: Value = serde_json::from_str(event).unwrap();
            assert!(event["error"].is_null(), "{event}");
            take(&event["choices"][0]["delta"]);
        }
    } else {
        take(&got.json()["choices"][0]["message"]);
    }
    said
}

/// The same text, or of JSON the same value.
fn same(form: Form, found: &Said, expected: &Said) {
    let value = |text: &str| {
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    match form {
        Form::Prose => assert_eq!(found, expected),
        Form::Json => assert_eq!(value(&found.content), value(&expected.content)),
        Form::Call => assert_eq!(value(&found.arguments), value(&expected.arguments)),
    }
}

fn ask(served: &Served, conversation: &Conversation, number: u64) -> Got {
    let stream = number.is_multiple_of(2);
    let key = format!("key-{number}");
    let mut headers = vec![("content-type", "application/json")];
    if number.is_multiple_of(5) {
        headers.push(("idempotency-key", &key));
    }
    let body = conversation.request(stream).to_string();
    let got = served.send("POST", "/v1/chat/completions", &headers, &body);
    if conversation.refused {
        assert_ne!(got.status, 200, "{got:?}");
    } else {
        assert_eq!(got.status, 200, "{body}: {got:?}");
        same(
            conversation.form,
            &read(&got, stream),
            &conversation.answer(),
        );
    }
    got
}

/// Every private value of all conversations.
fn all(conversations: &[Conversation]) -> Regex {
    let values = conversations
        .iter()
        .flat_map(|conversation| &conversation.private);
    let values: Vec<String> = values.map(|value| regex::escape(value)).collect();
    let all = RegexBuilder::new(&values.join("|"))
        .size_limit(1 << 28)
        .build();
    all.unwrap()
}

fn has_none(values: &Regex, what: &str, bytes: &[u8]) {
    if let Some(found) = values.find(bytes) {
        let from = found.start().saturating_sub(200);
        let to = (found.end() + 200).min(bytes.len());
        panic!(
            "{:?} stands in {what}: {}",
            String::from_utf8_lossy(found.as_bytes()),
            String::from_utf8_lossy(&bytes[from..to])
        );
    }
}

/// Looks through every file of a directory, as it is now.
fn look_through(values: &Regex, directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            look_through(values, &path);
        } else if let Ok(bytes) = std::fs::read(&path) {
            has_none(values, &path.display().to_string(), &bytes);
        }
    }
}

#[test]
fn no_private_value_of_five_hundred_conversations_leaves_but_to_its_user() {
    let echo = Echo::start();
    let served = Served::said(
        Workspace::new(&pipeline(&echo)),
        &["--log", "debug", "run", "pipeline.toml"],
        &[],
    );
    let conversations: Vec<Conversation> = (0..CONVERSATIONS)
        .map(|number| Conversation::new(number, number))
        .collect();
    let values = all(&conversations);
    let state = served.workspace.path("state");

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // What is on disk only for a while is looked at, too.
        let looking = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                look_through(&values, &state);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let asking: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (served, conversations) = (&served, &conversations);
                scope.spawn(move || {
                    for (number, conversation) in (0..).zip(conversations) {
                        if number % CLIENTS == client {
                            ask(served, conversation, number);
                        }
                    }
                })
            })
            .collect();
        let asked: Vec<_> = asking.into_iter().map(|client| client.join()).collect();
        over.store(true, Ordering::Release);
        looking.join().unwrap();
        for asked in asked {
            asked.unwrap();
        }
    });

    // The same again is not asked of the server, and one that differs in private values alone is no other's.
    let before = echo.asked().len();
    for conversation in conversations.iter().take(24) {
        ask(&served, conversation, 1);
    }
    let stranger: Vec<Conversation> = (0..24)
        .map(|form| Conversation::new(form + 10_000, form))
        .collect();
    for conversation in &stranger {
        ask(&served, conversation, 1);
    }
    let again = echo.asked().len() - before;
    assert!((24..48).contains(&again), "{again} were asked");

    // What the server was asked.
    let by_name: HashMap<&str, &Conversation> = conversations
        .iter()
        .map(|conversation| (&*conversation.name, conversation))
        .collect();
    let asked = echo.asked();
    assert!(asked.len() >= CONVERSATIONS as usize);
    for body in &asked[..before] {
        let conversation = by_name[name(body)];
        let found = conversation.found_in(body);
        assert_eq!(found, None, "{body}\n{}", conversation.messages);
    }
    assert!(asked.iter().any(|body| body.contains("[EMAIL_2]")));

    // What was written, said and counted.
    let count = |is: fn(&Conversation) -> bool| conversations.iter().filter(|all| is(all)).count();
    let refused = count(|conversation| conversation.refused);
    let forbidden = count(|conversation| conversation.forbidden);
    let expected = CONVERSATIONS as usize - refused + 24;
    until("every record is written", PATIENCE, || {
        served.workspace.json_lines("kept.jsonl").len() >= expected
    });
    look_through(&values, &state);
    let letters = served.workspace.json_lines("state/dead-letters.jsonl");
    assert!(forbidden > 0 && refused > forbidden);
    assert_eq!(letters.len(), forbidden);
    has_none(
        &values,
        "what was asked",
        &served.workspace.read("asked.jsonl"),
    );
    has_none(&values, "the metrics", served.metrics().as_bytes());
    let status = served
        .workspace
        .run(&["status", "--json", "--state", "state"]);
    has_none(&values, "the status", &status.stdout);
    let log = served.workspace.read("stderr.log");
    assert!(!log.is_empty());
    has_none(&values, "the log", &log);

    // The sink has them all, in their places.
    for record in served.workspace.json_lines("kept.jsonl") {
        let Some(conversation) = by_name.get(record["metadata"]["name"].as_str().unwrap()) else {
            continue;
        };
        if record["metadata"]["customer"] != json!(conversation.customer) {
            continue;
        }
        // A structured answer is the value itself there.
        let content = match &record["answer"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let said = Said {
            content,
            ..Said::default()
        };
        let expected = conversation.answer();
        match conversation.form {
            Form::Prose => assert_eq!(said.content, expected.content),
            Form::Json => same(Form::Json, &said, &expected),
            Form::Call => {}
        }
    }
}
