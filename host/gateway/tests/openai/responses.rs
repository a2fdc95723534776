//! `/v1/responses`.

use serde_json::{Value, json};
use tidegate_contract::{Became, Finish, Lane};

use crate::flow::{Gateway, Play, call, choice, says};

const PATH: &str = "/v1/responses";

/// Events: name and data.
fn events(stream: &str) -> Vec<(String, Value)> {
    let events = stream.split("\n\n").filter(|event| !event.is_empty());
    let events = events.map(|event| {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        (
            name.strip_prefix("event: ").unwrap().to_owned(),
            serde_json::from_str(data).unwrap(),
        )
    });
    events.collect()
}

fn thinks_says_and_calls(play: Play) {
    let mut heard = play.listen(1);
    heard.piece(0, Lane::Reasoning, "Hm.");
    heard.piece(0, Lane::Content, "Hel");
    heard.piece(0, Lane::Content, "lo");
    heard.begin(0, Lane::Arguments(0), "{}", Some(("call_1", "find")));
    let mut answer = choice("Hello");
    answer.reasoning = "Hm.".into();
    answer.calls = vec![call("call_1", "find", "{}")];
    answer.finish = Finish::Calls;
    heard.answer(vec![answer]);
    play.answer("Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_the_protocol_of_responses() {
    let gateway = Gateway::new(thinks_says_and_calls);
    let tools = json!([{"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": true}]);
    let body = json!({"model": "small", "input": "Hi", "stream": true, "tools": tools});
    let (text, ended) = gateway.stream(PATH, body.clone()).await;
    assert!(ended && !text.contains("[DONE]"), "{text}");
    let events = events(&text);
    let names: Vec<_> = events
        .iter()
        .map(|(name, _)| name.strip_prefix("response.").unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], name.as_str());
        assert_eq!(data["sequence_number"], number);
    }
    assert_eq!(events[12].1["text"], "Hello");
    let response = &events.last().unwrap().1["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(response["tools"], tools);
    assert_eq!(response["usage"]["total_tokens"], 12);
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.len(), 3);
    assert_eq!(
        output[1]["content"],
        json!([{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}])
    );
    assert_eq!(output[2]["call_id"], "call_1");
    assert_eq!(output[2]["arguments"], "{}");

    // The same, whole, is the response of the last event.
    let mut body = body;
    body["stream"] = false.into();
    let (status, whole) = gateway.json(PATH, body).await;
    assert_eq!(status, 200);
    assert_eq!(&whole, response);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_a_conversation() {
    let gateway = Gateway::new(|play| {
        let messages = play.value["messages"].as_array().unwrap();
        let expected = json!([
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "ab"},
            {"role": "assistant", "content": "Wait", "reasoning": "Hm.", "calls": [
                {"id": "c1", "name": "find", "arguments": "{}"},
                {"id": "c2", "name": "find", "arguments": "[]"},
            ]},
            {"role": "tool", "content": "found", "answers": "c1"},
            {"role": "tool", "content": "nothing", "answers": "c2"},
        ]);
        assert_eq!(&Value::Array(messages.clone()), &expected);
        says(&["Hi"])(play);
    });
    let body = json!({"model": "small", "instructions": "Be brief", "store": true, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "output_text", "text": "Wait", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "find", "arguments": "{}", "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "find", "arguments": "[]"},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "nothing"}]},
    ]});
    let (status, body) = gateway.json(PATH, body).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_is_incomplete() {
    for (finish, reason) in [
        (Finish::Length, "max_output_tokens"),
        (Finish::Filtered, "content_filter"),
    ] {
        let gateway = Gateway::new(move |play| {
            let mut answer = choice("Hel");
            answer.finish = finish;
            play.listen(1).answer(vec![answer]);
            play.answer("Hel");
        });
        let (text, _) = gateway
            .stream(
                PATH,
                json!({"model": "small", "input": "Hi", "stream": true}),
            )
            .await;
        let events = events(&text);
        let (name, data) = events.last().unwrap();
        assert_eq!(name, "response.incomplete");
        assert_eq!(data["response"]["incomplete_details"]["reason"], reason);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_says_so() {
    let gateway = Gateway::new(|play| {
        play.listen(1).piece(0, Lane::Content, "Hel");
        play.tell(&Became::Dropped { stage: "judge" });
    });
    let (text, ended) = gateway
        .stream(
            PATH,
            json!({"model": "small", "input": "Hi", "stream": true}),
        )
        .await;
    assert!(!ended);
    let events = events(&text);
    let [.., (failed, response), (error, flat)] = events.as_slice() else {
        panic!("{text}")
    };
    assert_eq!(
        (failed.as_str(), &response["response"]["status"]),
        ("response.failed", &json!("failed"))
    );
    assert_eq!(
        (error.as_str(), &flat["code"], &flat["error"]["code"]),
        ("error", &json!("dropped"), &json!("dropped"))
    );
}
