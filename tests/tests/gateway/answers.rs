//! Requests that a model answers, and those that it never sees.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::until;

use crate::client::{PATIENCE, Served, model};

/// A pipeline with operators before and behind its model, and a file of what the model is asked.
fn pipeline() -> String {
    format!(
        r#"
[pipeline]
name = "front"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
{}
[[stage]]
name = "abuse"
operator = "{{operators}}/drop-abuse.wasm"
config = {{ paths = ["messages"], words = ["idiot"] }}
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["messages"] }}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 40
tokens = ["restore"]
[[stage]]
name = "restore"
operator = "{{operators}}/restore-pii.wasm"
[sink.reply]
type = "gateway"
[sink.asked]
type = "file"
path = "asked.jsonl"
inputs = ["redact"]
"#,
        model()
    )
}

fn chat(text: &str) -> Value {
    json!({"model": "support", "messages": [{"role": "user", "content": text}]})
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn a_request_passes_the_operators_and_is_answered_by_the_model() {
    let mut served = Served::start(&pipeline());
    let path = "/v1/chat/completions";
    let question = "My order came incomplete, write to ada@example.com.";
    let got = served.post(path, &chat(question));
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    assert!(!text(&answer).is_empty(), "{answer}");
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() > 0);

    // A stream is the same text.
    let mut asked = chat(question);
    asked["stream"] = true.into();
    let got = served.post(path, &asked);
    assert!(got.head.contains("text/event-stream"), "{got:?}");
    assert_eq!(got.streamed(), text(&answer));

    // What was asked of the model has no address in it.
    until("what was asked", PATIENCE, || {
        served.workspace.json_lines("asked.jsonl").len() == 2
    });
    for record in served.workspace.json_lines("asked.jsonl") {
        let shown = record.to_string();
        assert!(shown.contains("My order came"), "{shown}");
        assert!(!shown.contains("ada@example.com"), "{shown}");
    }

    // Dropped by an operator.
    let got = served.post(path, &chat("you idiot"));
    assert_eq!(got.status, 403, "{got:?}");
    assert_eq!(got.json()["error"]["code"], "dropped");
    assert!(got.head.contains("x-should-retry: false"), "{got:?}");

    // Wrong, and said so.
    let mut wrong = chat("hello");
    wrong["temperature"] = 7.into();
    let got = served.post(path, &wrong);
    assert_eq!(
        (got.status, &got.json()["error"]["param"]),
        (400, &json!("temperature"))
    );
    let got = served.post(path, &json!({"model": "suport", "messages": []}));
    assert!(matches!(got.status, 400 | 404), "{got:?}");
    let got = served.send("GET", "/v1/none", &[], "");
    assert_eq!(got.status, 404, "{got:?}");

    // What clients can ask for, and how it stands.
    let models = served.send("GET", "/v1/models", &[], "").json();
    assert_eq!(models["data"][0]["id"], "support");
    let status = served
        .workspace
        .run(&["status", "--json", "--state", "state"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        status["gateway"]["url"],
        format!("http://{}", served.address)
    );
    assert!(
        status["gateway"]["answered"].as_u64().unwrap() >= 6,
        "{status}"
    );

    let ended = served.running.terminate(Duration::from_secs(60));
    assert!(ended.success(), "{ended}");
}

#[test]
fn the_other_endpoints_answer_too() {
    let served = Served::start(&pipeline());
    let got = served.post(
        "/v1/responses",
        &json!({"model": "support", "input": "My order came incomplete."}),
    );
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(got.json()["output"][0]["content"][0]["type"], "output_text");
    let got = served.post(
        "/v1/completions",
        &json!({"model": "support", "prompt": "My order", "max_tokens": 8}),
    );
    assert_eq!(got.status, 200, "{got:?}");
    assert!(got.json()["choices"][0]["text"].is_string());
    let got = served.post("/v1/embeddings", &json!({"model": "support", "input": "a"}));
    assert_eq!(got.status, 404, "{got:?}");
}

#[test]
fn a_run_that_is_told_to_stop_gives_the_answer_that_is_being_made() {
    let mut served = Served::start(&pipeline());
    let mut asked = chat("My order came incomplete.");
    asked["stream"] = true.into();
    let json = [("content-type", "application/json")];
    let mut stream = served.open("POST", "/v1/chat/completions", &json, &asked.to_string());
    let mut first = [0; 16];
    std::io::Read::read_exact(&mut stream, &mut first).unwrap();
    served.running.signal("TERM");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stream, &mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
    let ended = served.running.wait(Duration::from_secs(60));
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_pipeline_says_what_it_serves_before_it_runs() {
    let workspace = tidegate_tests::Workspace::new(&pipeline());
    let output = workspace.run(&["check", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let line = "chat, responses, completions for support, through source chat";
    assert!(said.contains(line), "{said}");
    // It has no end to run to.
    let output = workspace.run(&["run", "--until", "end", "pipeline.toml"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_stage_whose_component_handles_no_tokens_is_refused() {
    let text = pipeline().replace("tokens = [\"restore\"]", "tokens = [\"abuse\"]");
    let workspace = tidegate_tests::Workspace::new(&text);
    let output = workspace.run(&["check", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("stage.abuse: ") && said.contains("it handles no tokens"),
        "{said}"
    );
}
