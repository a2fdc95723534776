//! One Tidegate that asks another's gateway: what a client of the first sees is what one of the second sees.

use serde_json::{Value, json};

use crate::client::{Got, Served, model};

const CHAT: &str = "/v1/chat/completions";

/// A gateway before the demo's model.
fn near() -> Served {
    Served::start(&format!(
        r#"
[pipeline]
name = "near"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
{}
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 128
[sink.reply]
type = "gateway"
"#,
        model()
    ))
}

/// A gateway before that one, under the same name.
fn far(near: &Served) -> Served {
    Served::start(&format!(
        r#"
[pipeline]
name = "far"
[gateway]
address = "127.0.0.1:0"
[source.chat]
type = "gateway"
[model.support]
type = "openai"
url = "http://{}/v1"
context = 2048
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 128
[sink.reply]
type = "gateway"
"#,
        near.address
    ))
}

fn chat(text: &str, more: Value) -> Value {
    let mut body = json!({"model": "support", "messages": [{"role": "user", "content": text}]});
    let Value::Object(more) = more else {
        panic!("no object");
    };
    for (name, value) in more {
        body[name] = value;
    }
    body
}

/// What an answer says, whoever it came from.
fn said(got: &Got) -> Value {
    assert_eq!(got.status, 200, "{got:?}");
    let answer = got.json();
    let choices = answer["choices"].as_array().unwrap().iter();
    let choices = choices.map(|choice| {
        let calls = choice["message"]["tool_calls"].as_array();
        let calls = calls.into_iter().flatten();
        json!({
            "content": choice["message"]["content"],
            "finish": choice["finish_reason"],
            "calls": calls.map(|call| call["function"].clone()).collect::<Vec<_>>(),
        })
    });
    json!({"choices": choices.collect::<Vec<_>>(), "usage": answer["usage"]})
}

/// The deltas of a stream put together: text, arguments by name, and the end.
fn joined(got: &Got) -> Value {
    assert_eq!(got.status, 200, "{got:?}");
    let events = got.events();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{got:?}");
    let (mut text, mut calls, mut finish) = (String::new(), Vec::new(), Value::Null);
    for event in &events[..events.len() - 1] {
        let chunk: Value = serde_json::from_str(event).unwrap();
        let choice = &chunk["choices"][0];
        text += choice["delta"]["content"].as_str().unwrap_or_default();
        for call in choice["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().unwrap_or_default();
            match function["name"].as_str() {
                Some(name) => calls.push((name.to_owned(), arguments.to_owned())),
                None => calls.last_mut().unwrap().1 += arguments,
            }
        }
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
    }
    let calls = calls.into_iter();
    let calls = calls.map(|(name, arguments)| json!({"name": name, "arguments": arguments}));
    let content = match text.is_empty() {
        true => Value::Null,
        false => text.into(),
    };
    json!({"content": content, "finish": finish, "calls": calls.collect::<Vec<_>>()})
}

#[test]
fn an_answer_through_two_gateways_is_the_answer_of_the_second() {
    let near = near();
    let far = far(&near);
    let weather = json!({"type": "function", "function": {"name": "get_weather", "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"], "additionalProperties": false}}});
    let schema = json!({"enum": ["order", "bill"]});
    let asked = [
        chat("My order came incomplete.", json!({})),
        chat(
            "My bill is wrong.",
            json!({"temperature": 0.8, "seed": 5, "n": 3}),
        ),
        chat("Where is my order?", json!({"max_tokens": 4})),
        chat("Where is my order?", json!({"stop": ["order"]})),
        chat(
            "What is the weather?",
            json!({"tools": [weather], "tool_choice": "required"}),
        ),
        chat(
            "My order came incomplete.",
            json!({"response_format": {"type": "json_schema",
                "json_schema": {"name": "sorted", "schema": schema, "strict": true}}}),
        ),
    ];
    for mut body in asked {
        let directly = said(&near.post(CHAT, &body));
        let through = said(&far.post(CHAT, &body));
        assert_eq!(through["choices"], directly["choices"], "{body}");
        assert_eq!(through["usage"], directly["usage"], "{body}");
        if body["n"].is_null() {
            body["stream"] = true.into();
            let streamed = joined(&far.post(CHAT, &body));
            assert_eq!(streamed, directly["choices"][0], "{body}");
        }
        if !body["response_format"].is_null() {
            let content = directly["choices"][0]["content"].as_str().unwrap();
            assert!(["\"order\"", "\"bill\""].contains(&content), "{directly}");
        }
        if !body["tools"].is_null() {
            let calls = directly["choices"][0]["calls"].as_array().unwrap();
            assert!(!calls.is_empty(), "nothing was called: {directly}");
        }
    }
}

#[test]
fn what_the_second_refuses_is_told_in_its_words() {
    let near = near();
    let far = far(&near);
    // Its own limits are not those of the first.
    let body = chat(&"order ".repeat(1900), json!({}));
    let got = far.post(CHAT, &body);
    assert_eq!(got.status, 400, "{got:?}");
    assert_eq!(
        got.json()["error"]["code"],
        "context_length_exceeded",
        "{got:?}"
    );
    let top = chat("hello", json!({"logprobs": true, "top_logprobs": 2}));
    let got = far.post(CHAT, &top);
    assert_eq!(got.status, 400, "{got:?}");
    assert_eq!(got.json()["error"]["param"], "top_logprobs", "{got:?}");
}
