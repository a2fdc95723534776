//! `/v1/chat/completions`.

use serde_json::json;
use tidegate_contract::{Finish, Lane};

use crate::flow::{Gateway, asked, call, chat, choice, parts, says, with_header};

const PATH: &str = "/v1/chat/completions";

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_a_record_and_its_answer_a_completion() {
    let gateway = Gateway::new(|play| {
        assert_eq!(play.key.as_deref(), Some(b"ann".as_slice()));
        assert_eq!(play.value["messages"][0]["content"], "Hi");
        assert_eq!(play.value["endpoint"], "chat");
        assert_eq!(play.value["model"], "small");
        assert_eq!(play.value["parameters"], json!({"temperature": 0.7}));
        let has = |name: &str, value: &str| {
            let pair = (name.to_owned(), value.as_bytes().to_vec());
            assert!(play.headers.contains(&pair), "{:?}", play.headers);
        };
        has("request-id", "req-1");
        has("x-tenant", "blue");
        says(&["Hel", "lo"])(play);
    });
    let asked = asked(PATH, &chat(json!({"temperature": 0.7})));
    let answered = gateway.send(with_header(asked, "x-tenant", "blue")).await;
    assert_eq!(answered.status, 200);
    let body = String::from_utf8(crate::flow::whole(answered).to_vec()).unwrap();
    assert_eq!(
        body,
        r#"{"id":"chatcmpl-req-1","object":"chat.completion","created":1700000000,"model":"small","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":0}}}"#
    );
}

/// What the chunks of these choices look like, without what is the same in all.
fn chunks(choices: &[&str], usage: bool) -> String {
    let mut text = String::new();
    for choice in choices {
        text.push_str(r#"data: {"id":"chatcmpl-req-1","object":"chat.completion.chunk","created":1700000000,"model":"small","choices":["#);
        text.push_str(choice);
        text.push(']');
        match (usage, choice.is_empty()) {
            (true, true) => text.push_str(
                r#","usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":0}}"#,
            ),
            (true, false) => text.push_str(r#","usage":null"#),
            _ => {}
        }
        text.push_str("}\n\n");
    }
    text.push_str("data: [DONE]\n\n");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_the_framing_that_every_client_reads() {
    let gateway = Gateway::new(says(&["Hel", "", "lo"]));
    let expected = [
        r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{"content":"lo"},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}"#,
    ];
    let (text, ended) = gateway.stream(PATH, chat(json!({"stream": true}))).await;
    assert!(ended);
    assert_eq!(text, chunks(&expected, false));

    let usage = json!({"stream": true, "stream_options": {"include_usage": true}});
    let (text, _) = gateway.stream(PATH, chat(usage)).await;
    let mut expected = expected.to_vec();
    expected.push("");
    assert_eq!(text, chunks(&expected, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn done_and_the_last_chunk_are_one_part() {
    let gateway = Gateway::new(says(&["Hello"]));
    let (_here, asked) = asked(PATH, &chat(json!({"stream": true})));
    let (parts, _) = parts(gateway.openai.answer(asked).await).await;
    let last = String::from_utf8(parts.last().unwrap().to_vec()).unwrap();
    assert!(last.contains(r#""finish_reason":"stop""#), "{last}");
    assert!(last.ends_with("data: [DONE]\n\n"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_begin_with_their_name_and_go_on_with_their_index() {
    let gateway = Gateway::new(|play| {
        assert_eq!(play.value["functions"][0]["name"], "find");
        assert_eq!(play.value["lanes"], true);
        let mut heard = play.listen(1);
        heard.piece(0, Lane::Reasoning, "Hm.");
        heard.begin(0, Lane::Arguments(0), "", Some(("call_1", "find")));
        heard.piece(0, Lane::Arguments(0), "{\"a\"");
        heard.piece(0, Lane::Arguments(0), ":1}");
        let mut answer = choice("");
        answer.reasoning = "Hm.".into();
        answer.reasoning_tokens = 1;
        answer.calls = vec![call("call_1", "find", "{\"a\":1}")];
        answer.finish = Finish::Calls;
        heard.answer(vec![answer]);
        play.answer("");
    });
    let tools = json!([{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]);
    let (text, ended) = gateway
        .stream(PATH, chat(json!({"stream": true, "tools": tools})))
        .await;
    assert!(ended);
    let expected = [
        r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{"reasoning_content":"Hm."},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"find","arguments":""}}]},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]},"logprobs":null,"finish_reason":null}"#,
        r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}"#,
    ];
    assert_eq!(text, chunks(&expected, false));

    let (_, body) = gateway.json(PATH, chat(json!({"tools": tools}))).await;
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], json!(null));
    assert_eq!(message["reasoning_content"], "Hm.");
    let details = &body["usage"]["completion_tokens_details"];
    assert_eq!(details, &json!({"reasoning_tokens": 1}));
    assert_eq!(
        message["tool_calls"],
        json!([{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{\"a\":1}"}}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_answer_is_the_answer_and_a_stream_must_be_its_beginning() {
    let changed = |to: &'static str| {
        Gateway::new(move |play| {
            let mut heard = play.listen(1);
            heard.piece(0, Lane::Content, "Hello");
            heard.answer(vec![choice("Hello")]);
            play.answer(to);
        })
    };
    let gateway = changed("Hello, Ann");
    let (_, body) = gateway.json(PATH, chat(json!({}))).await;
    assert_eq!(body["choices"][0]["message"]["content"], "Hello, Ann");
    let (text, ended) = gateway.stream(PATH, chat(json!({"stream": true}))).await;
    assert!(
        ended && text.contains(r#""delta":{"content":", Ann"}"#),
        "{text}"
    );

    let gateway = changed("Goodbye");
    let (_, body) = gateway.json(PATH, chat(json!({}))).await;
    assert_eq!(body["choices"][0]["message"]["content"], "Goodbye");
    let (text, ended) = gateway.stream(PATH, chat(json!({"stream": true}))).await;
    assert!(!ended && !text.contains("[DONE]"), "{text}");
    assert!(
        text.contains(r#"data: {"error":{"message":"#)
            && text.contains(r#""code":"answer_changed""#),
        "{text}"
    );
}
