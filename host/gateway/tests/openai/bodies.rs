//! Bodies that are wrong: each is refused with the field that is, before anything is asked.

use serde_json::{Value, json};

use crate::flow::{Gateway, asked, chat, header, says, whole, with_header};

const CHAT: &str = "/v1/chat/completions";

fn merged(mut body: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn refused(path: &str, base: Value, cases: &[(Value, &str, &str)]) {
    let gateway = Gateway::new(|play| panic!("asked: {}", play.value));
    for (more, param, code) in cases {
        let body = merged(base.clone(), more);
        let (status, answer) = gateway.json(path, body).await;
        let error = &answer["error"];
        assert_eq!(
            (status, error["param"].as_str(), error["code"].as_str()),
            (400, Some(*param), Some(*code)),
            "{more}: {answer}"
        );
    }
}

/// So many tokens, each with its bias.
fn biases(count: u32) -> Value {
    let biases = (0..count).map(|token| (token.to_string(), json!(1)));
    Value::Object(biases.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_wrong_names_its_field() {
    let user = json!({"role": "user", "content": "a"});
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let (value, kind, lacks) = (
        "invalid_value",
        "invalid_type",
        "missing_required_parameter",
    );
    let (not_here, unknown) = ("unsupported_parameter", "unknown_parameter");
    refused(CHAT, chat(json!({})), &[
        (json!({"model": null}), "model", lacks),
        (json!({"model": 1}), "model", kind),
        (json!({"messages": null}), "messages", lacks),
        (json!({"messages": []}), "messages", value),
        (json!({"messages": "Hi"}), "messages", kind),
        (json!({"messages": ["Hi"]}), "messages[0]", kind),
        (json!({"messages": [{"content": "a"}]}), "messages[0].role", lacks),
        (json!({"messages": [user, {"role": "judge", "content": "a"}]}), "messages[1].role", value),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content", lacks),
        (json!({"messages": [{"role": "user", "content": 1}]}), "messages[0].content", kind),
        (json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}]}), "messages[0].content[0].type", not_here),
        (json!({"messages": [{"role": "user", "content": "a", "audio": {"id": "a"}}]}), "messages[0].audio", not_here),
        (json!({"messages": [{"role": "user", "content": "a", "mood": "b"}]}), "messages[0].mood", unknown),
        (json!({"messages": [{"role": "tool", "content": "a", "tool_call_id": "b"}]}), "messages[0].tool_call_id", value),
        (json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "b"}}]}]}), "messages[0].tool_calls[0].function.arguments", lacks),
        (json!({"temperature": 3}), "temperature", value),
        (json!({"temperature": "hot"}), "temperature", kind),
        (json!({"top_p": -0.1}), "top_p", value),
        (json!({"presence_penalty": 2.5}), "presence_penalty", value),
        (json!({"frequency_penalty": -2.5}), "frequency_penalty", value),
        (json!({"n": 0}), "n", value),
        (json!({"n": 129}), "n", value),
        (json!({"n": 1.5}), "n", value),
        (json!({"seed": 1.5}), "seed", kind),
        (json!({"stop": ""}), "stop", value),
        (json!({"stop": ["a", 1]}), "stop[1]", kind),
        (json!({"stop": vec!["a"; 65]}), "stop", value),
        (json!({"max_tokens": 0}), "max_tokens", value),
        (json!({"max_completion_tokens": -1}), "max_completion_tokens", value),
        (json!({"logit_bias": {"a": 1}}), "logit_bias.a", value),
        (json!({"logit_bias": {"1": 101}}), "logit_bias.1", value),
        (json!({"top_logprobs": 2}), "top_logprobs", value),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs", value),
        (json!({"response_format": {"type": "yaml"}}), "response_format.type", value),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema", lacks),
        (json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": 1}}}), "response_format.json_schema.schema", kind),
        (json!({"tools": [{"type": "code"}]}), "tools[0].type", not_here),
        (json!({"tools": [function("a b")]}), "tools[0].function.name", value),
        (json!({"tools": [function("a"), function("a")]}), "tools[1]", value),
        (json!({"tools": [function("a")], "tool_choice": function("b")}), "tool_choice", value),
        (json!({"tool_choice": "required"}), "tool_choice", value),
        (json!({"stream_options": {"include_usage": true}}), "stream_options", value),
        (json!({"stream": true, "stream_options": {"include_obfuscation": true}}), "stream_options.include_obfuscation", not_here),
        (json!({"metadata": {"a": 1}}), "metadata.a", kind),
        (json!({"metadata": {"a": "b".repeat(513)}}), "metadata.a", value),
        (json!({"metadata": {"a".repeat(65): "b"}}), "metadata", value),
        (json!({"user": "u".repeat(513)}), "user", value),
        (json!({"logit_bias": biases(1025)}), "logit_bias", value),
        (json!({"stop": ["a".repeat(1025)]}), "stop", value),
        (json!({"service_tier": "flex"}), "service_tier", value),
        (json!({"modalities": ["text", "audio"]}), "modalities", value),
        (json!({"functions": []}), "functions", not_here),
        (json!({"audio": {"voice": "a"}}), "audio", not_here),
        (json!({"colour": "blue"}), "colour", unknown),
    ]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_bodies_name_their_fields() {
    let (value, not_here) = ("invalid_value", "unsupported_parameter");
    refused(
        "/v1/completions",
        json!({"model": "small", "prompt": "a"}),
        &[
            (json!({"prompt": [1, 2]}), "prompt", not_here),
            (json!({"prompt": [[1], [2]]}), "prompt", not_here),
            (json!({"prompt": []}), "prompt", value),
            (json!({"suffix": "b"}), "suffix", not_here),
            (json!({"echo": true}), "echo", not_here),
            (json!({"best_of": 2}), "best_of", not_here),
            (json!({"logprobs": 6}), "logprobs", value),
            (json!({"user": "u".repeat(513)}), "user", value),
        ],
    )
    .await;
    refused(
        "/v1/embeddings",
        json!({"model": "small", "input": "a"}),
        &[
            (json!({"input": [1, 2]}), "input", not_here),
            (json!({"input": ""}), "input", value),
            (json!({"input": []}), "input", value),
            (json!({"encoding_format": "hex"}), "encoding_format", value),
            (json!({"dimensions": 3}), "dimensions", "unsupported_value"),
            (
                json!({"input": vec!["a"; 2048], "user": "u".repeat(1 << 20)}),
                "user",
                value,
            ),
        ],
    )
    .await;
    refused(
        "/v1/rerank",
        json!({"model": "small", "query": "a", "documents": ["b"]}),
        &[
            (json!({"query": ""}), "query", value),
            (json!({"documents": []}), "documents", value),
            // Where they are to be vectors, as here; a model that reads pairs takes them.
            (json!({"documents": ["b", ""]}), "documents", value),
            (
                json!({"documents": [{"text": 1}]}),
                "documents[0].text",
                "invalid_type",
            ),
            (json!({"rank_fields": ["a"]}), "rank_fields", not_here),
            (json!({"user": "u".repeat(513)}), "user", value),
        ],
    )
    .await;
    refused(
        "/v1/responses",
        json!({"model": "small", "input": "a"}),
        &[
            (
                json!({"input": null}),
                "input",
                "missing_required_parameter",
            ),
            (json!({"input": []}), "input", value),
            (
                json!({"input": [{"type": "item_reference", "id": "a"}]}),
                "input[0].type",
                not_here,
            ),
            (
                json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
                "input[0].content[0].type",
                not_here,
            ),
            (
                json!({"input": [{"type": "function_call_output", "call_id": "a", "output": "b"}]}),
                "input[0].call_id",
                value,
            ),
            (
                json!({"previous_response_id": "resp_1"}),
                "previous_response_id",
                not_here,
            ),
            (json!({"background": true}), "background", not_here),
            (json!({"user": "u".repeat(513)}), "user", value),
            (
                json!({"metadata": {"a": "b".repeat(513)}}),
                "metadata.a",
                value,
            ),
            (json!({"truncation": "auto"}), "truncation", value),
            (
                json!({"include": ["file_search_call.results"]}),
                "include[0]",
                not_here,
            ),
            (
                json!({"tools": [{"type": "web_search"}]}),
                "tools[0].type",
                not_here,
            ),
            (
                json!({"text": {"format": {"type": "yaml"}}}),
                "text.format.type",
                value,
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_as_long_as_it_may_be_is_taken() {
    let gateway = Gateway::new(|play| {
        assert_eq!(play.value["user"].as_str().unwrap().len(), 512);
        assert_eq!(play.key.as_deref(), Some("u".repeat(512).as_bytes()));
        play.answer("Hi");
    });
    // In characters, as OpenAI counts.
    let pairs = (0..16).map(|name| (format!("{name:\u{e9}>64}"), json!("\u{e9}".repeat(512))));
    let body = chat(json!({
        "user": "u".repeat(512), "metadata": Value::Object(pairs.collect()), "logit_bias": biases(1024),
        "stop": vec!["a".repeat(1024); 4],
    }));
    let (status, answer) = gateway.json(CHAT, body).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_effect_is_accepted() {
    let gateway = Gateway::new(says(&["Hi"]));
    let idle = json!({
        "user": "ann", "metadata": {"a": "b"}, "store": true, "service_tier": "auto", "reasoning_effort": "high",
        "safety_identifier": "s", "prompt_cache_key": "p", "verbosity": "low", "logprobs": false, "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": true, "response_format": {"type": "text"}, "modalities": ["text"],
        "stop": null, "functions": null, "stream": true, "stream_options": {"include_obfuscation": false},
    });
    let (_, ended) = gateway.stream(CHAT, chat(idle)).await;
    assert!(ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_template_is_given_is_in_the_record_and_bounded() {
    let gateway = Gateway::new(|play| {
        let arguments = json!({"enable_thinking": false, "budget": [1, {"a": null}]});
        assert_eq!(play.value["template_arguments"], arguments);
        assert_eq!(play.value["messages"][1]["reasoning"], "Hm.");
        play.answer("Hi");
    });
    let with = |arguments: Value| {
        chat(json!({
            "chat_template_kwargs": arguments,
            "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "Hm."},
                {"role": "user", "content": "c"}],
        }))
    };
    let body = with(json!({"enable_thinking": false, "budget": [1, {"a": null}]}));
    let (status, answer) = gateway.json(CHAT, body).await;
    assert_eq!(status, 200, "{answer}");
    let deep = (0..9).fold(json!(1), |inner, _| json!([inner]));
    for (arguments, param, words) in [
        (
            json!({"messages": []}),
            "chat_template_kwargs.messages",
            "\"messages\" is given to every template",
        ),
        (
            json!({"bos_token": "x"}),
            "chat_template_kwargs.bos_token",
            "an argument cannot take its place",
        ),
        (
            json!({"a b": 1}),
            "chat_template_kwargs.a b",
            "is no name of a template's argument",
        ),
        (
            json!({"a": deep}),
            "chat_template_kwargs.a",
            "nested more than 8 deep",
        ),
        (
            json!({"a": "x".repeat(16 << 10)}),
            "chat_template_kwargs",
            "bytes as JSON exceed the limit of 16384",
        ),
        (
            json!({"a".repeat(100): 1}),
            "chat_template_kwargs",
            "is no name of a template's argument",
        ),
        (
            json!([1]),
            "chat_template_kwargs",
            "is an array, must be an object",
        ),
    ] {
        let (status, answer) = gateway.json(CHAT, with(arguments)).await;
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["error"]["param"], param, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_honoured_is_in_the_record() {
    let gateway = Gateway::new(|play| {
        let parameters = &play.value["parameters"];
        let expected = json!({
            "max_tokens": 9, "temperature": 0.5, "top_p": 0.25, "presence_penalty": 1.0, "frequency_penalty": -1.0,
            "logit_bias": {"5": -100.0}, "logprobs": 3, "n": 2, "stop": ["a", "b"],
            "structure": {"json_schema": "{\"type\":\"object\",\"properties\":{\"z\":{},\"a\":{}}}"},
            "seed": 7,
        });
        assert_eq!(parameters, &expected);
        let roles = play.value["messages"].as_array().unwrap().iter();
        let roles: Vec<_> = roles
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool"]);
        assert_eq!(play.value["messages"][1]["content"], "ab");
        assert_eq!(play.value["messages"][2]["calls"][0]["name"], "find");
        assert_eq!(play.value["messages"][3]["answers"], "call_1");
        assert_eq!(play.value["function_choice"], json!({"named": "find"}));
        play.answer("Hi");
    });
    let body = json!({
        "model": "small",
        "messages": [
            {"role": "developer", "content": "Be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "ann"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        ],
        "max_tokens": 5, "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.25, "presence_penalty": 1,
        "frequency_penalty": -1, "logit_bias": {"5": -100}, "logprobs": true, "top_logprobs": 3, "n": 2,
        "stop": ["a", "b"], "seed": 7,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "object", "properties": {"z": {}, "a": {}}}}},
        "tools": [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "find"}},
    });
    let (status, answer) = gateway.json(CHAT, body).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_object_and_what_is_too_long_is_refused_before_it_is_asked() {
    let gateway = Gateway::new(|play| panic!("asked: {}", play.value));
    for body in ["", "[1]", "{", "\"a\"", "{\"a\":\u{fffd}"] {
        let (here, mut asked) = asked(CHAT, &chat(json!({})));
        asked.body = body.as_bytes().to_vec().into();
        let answered = gateway.send((here, asked)).await;
        assert_eq!(answered.status, 400, "{body}");
    }
    for stream in [false, true] {
        let long =
            json!({"messages": [{"role": "user", "content": "a".repeat(100)}], "stream": stream});
        let (status, body) = gateway.json(CHAT, chat(long)).await;
        let error = &body["error"];
        assert_eq!(
            (status, &error["code"], &error["param"]),
            (400, &json!("context_length_exceeded"), &json!("messages"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_the_clients_or_the_routes() {
    let gateway = Gateway::new(|play| {
        let terms = tidegate_contract::Callers::terms(&play.requests, play.id);
        assert_eq!(terms.map(|terms| terms.class), Some(1));
        assert!(terms.unwrap().deadline.is_some());
        std::thread::sleep(std::time::Duration::from_millis(500));
    });
    let late = with_header(
        asked(CHAT, &chat(json!({}))),
        "x-tidegate-deadline-ms",
        "20",
    );
    let answered = gateway.send(late).await;
    assert_eq!(answered.status, 504);
    assert_eq!(
        header(&answered, "x-should-retry").as_deref(),
        Some("false")
    );
    let wrong = with_header(
        asked(CHAT, &chat(json!({}))),
        "x-tidegate-deadline-ms",
        "soon",
    );
    let answered = gateway.send(wrong).await;
    assert_eq!(answered.status, 400);
    let body: Value = serde_json::from_slice(&whole(answered)).unwrap();
    assert_eq!(body["error"]["param"], "x-tidegate-deadline-ms");
}
