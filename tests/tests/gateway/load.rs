//! More is asked than the model answers: what is done then, in the order of the file.

use std::io::Read;
use std::net::TcpStream;

use serde_json::{Value, json};
use tidegate_tests::{Workspace, root, until};

use crate::client::{Got, PATIENCE, Served};
use crate::held::{Held, SAYS};

const CHAT: &str = "/v1/chat/completions";
/// Most tokens of an answer, and of one that is shortened.
const WHOLE: u64 = 40;
const SHORT: u64 = 8;

/// A stage that asks a server that answers nobody, and in its place a model that is here.
fn pipeline(large: &str) -> String {
    let steps = format!(
        r#"
[[source.chat.under-load]]
waiting = 1
model = "small"
[[source.chat.under-load]]
waiting = 2
max-tokens = {SHORT}
[[source.chat.under-load]]
waiting = 3
refuse = true
"#
    );
    with_steps(large, &steps)
}

/// The same with these steps.
fn with_steps(large: &str, steps: &str) -> String {
    let small = root().join("examples/support-bot/model");
    format!(
        r#"
[pipeline]
name = "front"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
max-waiting = 10
{steps}
[model.large]
type = "openai"
url = "http://{large}/v1"
model = "held"
timeouts = {{ first = "600s" }}
[model.small]
path = {:?}
[[stage]]
name = "answer"
model = "large"
messages = true
max-tokens = {WHOLE}
[sink.reply]
type = "gateway"
"#,
        small.display().to_string()
    )
}

fn chat(more: &[(&str, Value)]) -> Value {
    let mut body = json!({
        "model": "large",
        "messages": [{"role": "user", "content": "My order came incomplete."}],
    });
    for (name, value) in more {
        body[*name] = value.clone();
    }
    body
}

fn status(served: &Served) -> Value {
    let status = served
        .workspace
        .run(&["status", "--json", "--state", "state"]);
    serde_json::from_slice(&status.stdout).unwrap()
}

/// One more waits for the model that does not answer: tokens by their numbers are for that one alone.
fn hold(served: &Served, waiting: u64) -> TcpStream {
    hold_of(served, "", waiting)
}

/// The same of a user.
fn hold_of(served: &Served, user: &str, waiting: u64) -> TcpStream {
    let json = [("content-type", "application/json")];
    let body = chat(&[("logit_bias", json!({"5": 1})), ("user", user.into())]);
    let stream = served.open("POST", CHAT, &json, &body.to_string());
    until("it waits", PATIENCE, || {
        status(served)["gateway"]["waiting"] == waiting
    });
    stream
}

fn text(got: &Got) -> String {
    assert_eq!(got.status, 200, "{got:?}");
    let message = &got.json()["choices"][0]["message"]["content"];
    message.as_str().unwrap().to_owned()
}

#[test]
fn a_smaller_model_answers_then_answers_are_shorter_and_then_there_are_none() {
    let large = Held::start();
    let mut served = Served::start(&pipeline(&large.address));
    let first = hold(&served, 1);
    let whole = served.post(CHAT, &chat(&[]));
    let answer = text(&whole);
    assert!(whole.head.contains("x-tidegate-model: small"), "{whole:?}");
    assert_eq!(whole.json()["model"], "small");
    assert_eq!(whole.json()["choices"][0]["tidegate"], Value::Null);

    let second = hold(&served, 2);
    let part = served.post(CHAT, &chat(&[]));
    let choice = &part.json()["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    let mark = json!({"shortened": true, "max_tokens": SHORT});
    assert_eq!(choice["tidegate"], mark);
    assert_eq!(part.json()["usage"]["completion_tokens"], SHORT);
    // A stream says it as well, and is the same text.
    let streamed = served.post(CHAT, &chat(&[("stream", true.into())]));
    assert_eq!(streamed.streamed(), text(&part));
    assert!(streamed.body.contains(&mark.to_string()), "{streamed:?}");
    // What has a form does not.
    let object = json!({"type": "json_object"});
    let formed = served.post(CHAT, &chat(&[("response_format", object)]));
    assert_eq!(formed.json()["choices"][0]["tidegate"], Value::Null);

    // The rest is asked for part by part, and is what came at once before.
    let mut so_far = text(&part);
    for _ in 1..WHOLE.div_ceil(SHORT) {
        assert!(answer.starts_with(&so_far), "{so_far:?} of {answer:?}");
        let messages = json!([
            {"role": "user", "content": "My order came incomplete."},
            {"role": "assistant", "content": so_far},
        ]);
        let rest = served.post(CHAT, &chat(&[("messages", messages)]));
        so_far += &text(&rest);
        if rest.json()["choices"][0]["finish_reason"] == "stop" {
            break;
        }
    }
    assert_eq!(so_far, answer);

    let third = hold(&served, 3);
    let refused = served.post(CHAT, &chat(&[]));
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.head.contains("retry-after: "), "{refused:?}");
    let shed = status(&served)["gateway"]["shed"].clone();
    let count = |step: &str| {
        let all = shed.as_array().unwrap().iter();
        let mut found = all.filter(|each| each["step"] == step);
        found.next().unwrap()["requests"].as_u64().unwrap()
    };
    assert!(count("1") >= 1 && count("2") >= 3, "{shed}");
    assert_eq!(count("refused"), 1, "{shed}");

    large.release();
    for mut stream in [first, second, third] {
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert!(
            got.contains(SAYS) && got.contains("\"model\":\"large\""),
            "{got}"
        );
    }
    until("nobody waits", PATIENCE, || {
        status(&served)["gateway"]["waiting"] == 0
    });
    let after = served.post(CHAT, &chat(&[]));
    assert_eq!(
        (text(&after).as_str(), &after.json()["model"]),
        (SAYS, &json!("large"))
    );
    assert!(served.running.terminate(PATIENCE).success());
}

#[test]
fn what_a_client_asked_before_does_not_hold_back_what_a_smaller_model_answers() {
    let large = Held::start();
    let steps = "[[source.chat.under-load]]\nwaiting = 5\nmodel = \"small\"\n";
    let mut served = Served::start(&with_steps(&large.address, steps));
    // All of one key, and more of them than a model has of a key elsewhere.
    let waiting: Vec<TcpStream> = (1..=5).map(|one| hold_of(&served, "ann", one)).collect();
    for _ in 0..2 {
        let shed = served.post(CHAT, &chat(&[("user", "ann".into())]));
        assert!(!text(&shed).is_empty());
        assert_eq!(shed.json()["model"], "small");
    }
    large.release();
    for mut stream in waiting {
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert!(got.contains(SAYS), "{got}");
    }
    assert!(served.running.terminate(PATIENCE).success());
}

#[test]
fn what_is_done_under_load_is_said_before_it_runs() {
    let workspace = Workspace::new(&pipeline("127.0.0.1:1"));
    let output = workspace.run(&["check", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let order = "  chat, responses, completions for large, through source chat\n    \
                 1. from 1 waiting: model small answers\n    \
                 2. from 2 waiting: answers have 8 tokens at most\n    \
                 3. from 3 waiting: 429\n    \
                 from 10 waiting: 429\n";
    assert!(said.contains(order), "{said}");
}
