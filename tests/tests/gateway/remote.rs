//! Models of other servers behind the gateway: what clients see of servers that answer, refuse, break off, and take long.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{root, until};

use crate::client::{Got, PATIENCE, Served, read, read_until};
use crate::server::{Asked, LIMIT, Server, finish, said, usage};

/// A pipeline whose model is on a server, with more keys of the model.
fn pipeline(server: &Server, keys: &str) -> String {
    format!(
        r#"
[pipeline]
name = "far"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
deadline = "60s"
[model.big]
type = "openai"
url = "{}"
model = "there"
context = 4096
{keys}
[[stage]]
name = "answer"
model = "big"
messages = true
max-tokens = 64
[sink.reply]
type = "gateway"
"#,
        server.url
    )
}

fn chat(more: Value) -> Value {
    let mut body = json!({"model": "big", "messages": [{"role": "user", "content": "hello"}]});
    let Value::Object(more) = more else {
        panic!("no object");
    };
    for (name, value) in more {
        body[name] = value;
    }
    body
}

const CHAT: &str = "/v1/chat/completions";

fn post(served: &Served, more: Value) -> Got {
    served.post(CHAT, &chat(more))
}

fn text(got: &Got) -> String {
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    let content = &answer["choices"][0]["message"]["content"];
    content.as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_answer_of_another_server_is_seen_as_it_is_made() {
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::start(move |asked| {
        asked.begin();
        asked.event(&said("One "));
        waits.lock().unwrap().recv_timeout(LIMIT).unwrap();
        asked.event(&said("two"));
        asked.event(&finish("stop"));
        asked.event(&usage(7, 2));
        asked.piece("data: [DONE]\n\n");
        asked.end();
    });
    let served = Served::start(&pipeline(&server, ""));
    let more = json!({"stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5,
        "seed": 3, "stop": ["x"], "max_tokens": 9});
    let json = [("content-type", "application/json")];
    let mut stream = served.open("POST", CHAT, &json, &chat(more).to_string());
    let mut seen = Vec::new();
    // Before the server has said the rest.
    read_until(&mut stream, &mut seen, "One ");
    go_on.send(()).unwrap();
    stream.read_to_end(&mut seen).unwrap();
    let got = read(&seen);
    let events = got.events();
    let chunks = events.iter().filter(|event| *event != "[DONE]");
    let chunks: Vec<Value> = chunks
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let usage = &chunks.last().unwrap()["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(7), &json!(2)),
        "as the server counts: {got:?}"
    );
    assert_eq!(events.last().unwrap(), "[DONE]");

    let asked = server.body(0);
    assert_eq!(asked["model"], "there");
    assert_eq!(asked["messages"][0]["content"], "hello");
    for (name, value) in [
        ("temperature", json!(0.5)),
        ("stop", json!(["x"])),
        ("max_tokens", json!(9)),
        ("stream", json!(true)),
    ] {
        assert_eq!(asked[name], value, "{asked}");
    }
}

#[test]
fn calls_and_reasoning_of_another_server_have_their_own_places() {
    let server = Server::start(|asked| {
        let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
        let call = |call: Value| delta(json!({"tool_calls": [call]}));
        asked.begin();
        asked.event(&delta(
            json!({"role": "assistant", "reasoning_content": "hm"}),
        ));
        asked.event(&call(
            json!({"index": 0, "id": "call_9", "type": "function",
            "function": {"name": "weather", "arguments": ""}}),
        ));
        asked.event(&call(
            json!({"index": 0, "function": {"arguments": "{\"place\":"}}),
        ));
        asked.event(&call(
            json!({"index": 0, "function": {"arguments": "\"Bonn\"}"}}),
        ));
        asked.event(&finish("tool_calls"));
        asked.end();
    });
    let served = Served::start(&pipeline(&server, ""));
    let weather = json!({"type": "function", "function": {"name": "weather",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}});
    let got = post(
        &served,
        json!({"tools": [weather], "tool_choice": "required"}),
    );
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["id"], "call_9");
    assert_eq!(call["function"]["arguments"], "{\"place\":\"Bonn\"}");
    let asked = server.body(0);
    assert_eq!(asked["tool_choice"], "required");
    assert_eq!(asked["tools"][0]["function"]["name"], "weather");
}

#[test]
fn a_server_that_is_busy_is_asked_again_when_it_says_and_a_client_that_cannot_wait_is_told() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let server = Server::start(move |asked| {
        noted.lock().unwrap().push(Instant::now());
        match asked.number {
            0 => asked.answer(
                429,
                "retry-after: 1\r\n",
                r#"{"error":{"message":"slow down"}}"#,
            ),
            1 => asked.say(&["now"]),
            _ => asked.answer(503, "retry-after: 50\r\n", "{}"),
        }
    });
    let served = Served::start(&pipeline(&server, ""));
    assert_eq!(text(&post(&served, json!({}))), "now");
    {
        let times = times.lock().unwrap();
        assert!(times[1] - times[0] >= Duration::from_secs(1));
    }
    // Whoever has a minute waits for no answer that comes after it.
    let began = Instant::now();
    let headers = [
        ("content-type", "application/json"),
        ("x-tidegate-deadline-ms", "40000"),
    ];
    let got = served.send("POST", CHAT, &headers, &chat(json!({})).to_string());
    assert_eq!(got.status, 503, "{got:?}");
    assert_eq!(got.json()["error"]["code"], "remote_failed");
    let after = got.head.lines().find_map(|line| {
        let seconds = line.strip_prefix("retry-after: ")?;
        seconds.trim().parse::<u64>().ok()
    });
    // Not all who are told come back together.
    assert!((50..=63).contains(&after.unwrap()), "{got:?}");
    assert!(began.elapsed() < Duration::from_secs(40));
    assert_eq!(server.requests(), 3);
}

#[test]
fn a_server_that_fails_and_says_when_to_come_again_has_its_attempts() {
    let server = Server::start(|asked| asked.answer(500, "retry-after: 1\r\n", "{}"));
    let served = Served::start(&pipeline(&server, "attempts = 1"));
    let got = post(&served, json!({}));
    assert_eq!((got.status, server.requests()), (502, 2), "{got:?}");
    assert_eq!(got.json()["error"]["code"], "remote_failed");
}

/// Says half an answer, and breaks off.
fn half(asked: &mut Asked) {
    asked.begin();
    asked.event(&said("half"));
    asked.cut();
}

#[test]
fn an_answer_that_breaks_off_is_asked_for_again_only_where_nobody_has_seen_of_it() {
    let server = Server::start(|asked| match asked.number {
        0 | 1 => half(asked),
        _ => asked.say(&["whole"]),
    });
    let served = Served::start(&pipeline(&server, ""));
    // A stream says that it broke, and is not asked for again.
    let json = [("content-type", "application/json")];
    let body = chat(json!({"stream": true})).to_string();
    let mut stream = served.open("POST", CHAT, &json, &body);
    let mut seen = Vec::new();
    let ended = stream.read_to_end(&mut seen);
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert!(seen.contains("half"), "{seen}");
    assert!(seen.contains("remote_failed"), "{ended:?}: {seen}");
    assert!(!seen.contains("[DONE]"), "{seen}");
    assert!(!seen.ends_with("0\r\n\r\n"), "it ends as if it were whole");
    assert_eq!(server.requests(), 1);
    // Who waits for the whole never sees the half.
    assert_eq!(text(&post(&served, json!({}))), "whole");
    assert_eq!(server.requests(), 3);
}

#[test]
fn a_server_that_is_slow_is_asked_a_second_time_beside_it() {
    let (gone, told) = mpsc::channel();
    let server = Server::start(move |asked| match asked.number {
        0 => gone.send(asked.wait_for_the_end()).unwrap(),
        _ => asked.say(&["second"]),
    });
    let served = Served::start(&pipeline(&server, "hedge-after = \"100ms\""));
    let got = post(&served, json!({"stream": true}));
    assert_eq!(got.streamed(), "second");
    assert!(told.recv_timeout(LIMIT).unwrap(), "the first is let go");
    assert_eq!(server.requests(), 2);
}

#[test]
fn while_a_server_that_fails_is_left_alone_requests_wait_and_none_is_lost() {
    // The one that tries it is answered when the test says so. Meanwhile it is left alone.
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let well = AtomicBool::new(false);
    let server = Server::start(move |asked| {
        if asked.number == 2 {
            waits.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            well.store(true, Ordering::SeqCst);
            asked.answer(500, "", "{}");
        } else if well.load(Ordering::SeqCst) {
            asked.say(&["well again"]);
        } else {
            asked.answer(500, "", "{}");
        }
    });
    let keys = "attempts = 1\ntimeouts = { first = \"300s\" }\n\
                breaker = { within = \"30s\", least = 2, share = 0.5, open = \"500ms\" }";
    let served = Served::start(&pipeline(&server, keys));
    // Each is asked for twice: the stage's attempts.
    let got = post(&served, json!({}));
    assert_eq!((got.status, server.requests()), (502, 2), "{got:?}");
    assert_eq!(got.json()["error"]["code"], "remote_failed");
    let json = [("content-type", "application/json")];
    let body = chat(json!({})).to_string();
    let waiting: Vec<_> = (0..8)
        .map(|_| served.open("POST", CHAT, &json, &body))
        .collect();
    until("all wait, and somebody tries it", PATIENCE, || {
        let waiting = served.metric("tidegate_gateway_waiting_requests");
        waiting == 8 && server.requests() > 2
    });
    assert_eq!(server.requests(), 3, "more than one tries it");
    go_on.send(()).unwrap();
    for mut stream in waiting {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(text(&read(&bytes)), "well again");
    }
}

#[test]
fn vectors_and_labels_of_another_server_are_answered_as_those_of_a_model_here() {
    let server = Server::start(|asked| {
        let texts = asked.body["inputs"][0]["data"].as_array().unwrap();
        let rows: Vec<f64> = texts
            .iter()
            .flat_map(|text| [text.as_str().unwrap().len() as f64, 0.0])
            .collect();
        let answer = json!({"outputs": [{"name": "vector", "datatype": "FP32",
            "shape": [texts.len(), 2], "data": rows}]});
        asked.answer(200, "", &answer.to_string());
    });
    let judge = Server::start(|asked| {
        let answer = json!({"outputs": [{"name": "output", "datatype": "FP32",
            "shape": [1, 2], "data": [0.0, 3.0_f64.ln()]}]});
        asked.answer(200, "", &answer.to_string());
    });
    let pipeline = format!(
        r#"
[pipeline]
name = "vectors"
[gateway]
address = "127.0.0.1:0"
[source.vectors]
type = "gateway"
models = ["vec"]
[source.notes]
type = "ingest"
[model.vec]
type = "kserve"
url = "{}"
output = "vector"
batch = 8
[model.judge]
type = "kserve"
url = "{}"
labels = ["no", "yes"]
logits = true
[[stage]]
name = "vector"
inputs = ["vectors"]
embed = "vec"
text = "{{input}}"
[[stage]]
name = "label"
inputs = ["notes"]
classify = "judge"
text = "{{text}}"
[sink.reply]
type = "gateway"
inputs = ["vector"]
[sink.kept]
type = "file"
path = "kept.jsonl"
inputs = ["label"]
"#,
        server.url, judge.url
    );
    let served = Served::start(&pipeline);
    let body = json!({"model": "vec", "input": ["a", "bcd"], "encoding_format": "float"});
    let got = served.post("/v1/embeddings", &body);
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    for place in 0..2 {
        assert_eq!(
            answer["data"][place]["embedding"],
            json!([1.0, 0.0]),
            "{answer}"
        );
    }
    let inputs = (0..server.requests()).flat_map(|number| {
        let body = server.body(number);
        body["inputs"][0]["data"].as_array().unwrap().clone()
    });
    let mut inputs: Vec<String> = inputs.map(|text| text.as_str().unwrap().into()).collect();
    inputs.sort();
    assert_eq!(inputs, ["a", "bcd"]);
    let got = served.post("/v1/ingest/notes", &json!({"text": "fine"}));
    assert!(matches!(got.status, 200..=299), "{got:?}");
    let kept = || served.workspace.json_lines("kept.jsonl");
    until("it is labelled", PATIENCE, || !kept().is_empty());
    let labels = &kept()[0]["labels"];
    assert_eq!(labels["label"], "yes", "{labels}");
    assert!((labels["score"].as_f64().unwrap() - 0.75).abs() < 1e-6);
    assert_eq!(judge.body(0)["inputs"][0]["data"], json!(["fine"]));
}

/// The pipeline of the example, whose model is on a server that shows what reaches it.
#[test]
fn nothing_private_of_a_request_reaches_the_model_of_the_example() {
    let server = Server::start(|asked| {
        asked.begin();
        asked.event(&said("Done."));
        asked.event(&finish("stop"));
        asked.end();
    });
    let example = root().join("examples/gateway/pipeline.toml");
    let mut file = std::fs::read_to_string(example).unwrap();
    let model = format!(
        "type = \"openai\"\nurl = \"{}\"\nmodel = \"there\"\ncontext = 4096\ndialect = \"vllm\"",
        server.url
    );
    for (from, to) in [
        ("path = \"../support-bot/model\"", model.as_str()),
        ("127.0.0.1:8080", "127.0.0.1:0"),
        ("../../target/operators/", "{operators}/"),
    ] {
        assert!(file.contains(from), "{file}");
        file = file.replace(from, to);
    }
    let served = Served::start(&file);
    let (card, address) = ("4111 1111 1111 1111", "ada@example.org");
    let schema = json!({"type": "object", "properties": {"to": {"type": "string", "description": format!("as {address}")}}});
    let got = served.post(
        CHAT,
        &json!({
            "model": "support",
            "messages": [{"role": "user", "content": format!("My card is {card}.")}],
            "tools": [{"type": "function", "function": {"name": "pay",
                "description": format!("Pays with {card}"), "parameters": schema}}],
            "chat_template_kwargs": {"about": format!("Asked by {address}"), "notes": [{"card": card}]},
        }),
    );
    assert_eq!(text(&got), "Done.");
    let asked = server.body(0).to_string();
    for there in ["pay", "Pays with", "Asked by", "notes", "EMAIL", "CARD"] {
        assert!(asked.contains(there), "{there}: {asked}");
    }
    for private in [card, address] {
        assert!(!asked.contains(private), "{private}: {asked}");
    }
}
