//! What becomes of a record, as HTTP says it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_contract::{Became, Callers, Lane, ModelError};

use crate::flow::{Gateway, Play, chat, header, route, says, whole};

const PATH: &str = "/v1/chat/completions";

/// Status, code, param, `x-should-retry` and `retry-after`.
type Meaning = (
    u16,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
);

async fn meaning(script: fn(Play), expected: Meaning) {
    let gateway = Gateway::new(script);
    for stream in [false, true] {
        let answered = gateway.ask(PATH, chat(json!({"stream": stream}))).await;
        let status = answered.status.as_u16();
        let (retry, after) = (
            header(&answered, "x-should-retry"),
            header(&answered, "retry-after"),
        );
        let body: Value = serde_json::from_slice(&whole(answered)).unwrap();
        let error = &body["error"];
        assert_eq!(error.as_object().unwrap().len(), 4, "{body}");
        assert!(
            error["message"].is_string() && error["type"].is_string(),
            "{body}"
        );
        assert_eq!(
            (
                status,
                error["code"].as_str().unwrap(),
                error["param"].as_str(),
                retry.as_deref(),
                after.as_deref()
            ),
            expected,
            "{body}"
        );
    }
    assert_eq!(gateway.requests.waiting_callers(), 0);
}

fn dead(play: &Play, error: Option<&ModelError>) {
    play.tell(&Became::Dead {
        stage: "mask",
        reason: "it trapped",
        error,
    });
}

/// Another server has no answer.
fn remote(again: bool, after: Option<std::time::Duration>) -> ModelError {
    ModelError::Remote {
        server: "https://gpu-7.internal:8443".to_owned(),
        why: "500 Internal Server Error: org-42 sent \"somebody's text\"".to_owned(),
        told: "it failed".to_owned(),
        again,
        after,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_server_or_a_driver_says_is_not_told_outside() {
    for (error, message) in [
        (
            remote(false, None),
            "The server of the model has no answer: it failed",
        ),
        (
            ModelError::Device("/dev/gpu0 lost".into()),
            "The device of the model failed",
        ),
    ] {
        let gateway = Gateway::new(move |play| {
            play.listen(1).piece(0, Lane::Content, "Hel");
            dead(&play, Some(&error));
        });
        let (_, body) = gateway.json(PATH, chat(json!({}))).await;
        assert_eq!(body["error"]["message"], message);
        // In a stream that has begun, too.
        let (text, ended) = gateway.stream(PATH, chat(json!({"stream": true}))).await;
        assert!(!ended && text.contains(message), "{text}");
        for secret in ["internal:8443", "org-42", "somebody", "/dev/gpu0"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_record_has_its_status() {
    let no = Some("false");
    meaning(
        |play| play.tell(&Became::Dropped { stage: "mask" }),
        (403, "dropped", None, no, None),
    )
    .await;
    meaning(
        |play| play.tell(&Became::Untaken { stage: "mask" }),
        (403, "not_answered", None, no, None),
    )
    .await;
    meaning(
        |play| play.tell(&Became::Written { sink: "file" }),
        (403, "not_answered", None, no, None),
    )
    .await;
    meaning(
        |play| play.write(b"{}", 0),
        (500, "no_answer", None, no, None),
    )
    .await;
    meaning(
        |play| dead(&play, None),
        (500, "operator_failed", None, no, None),
    )
    .await;
    meaning(
        |play| {
            dead(
                &play,
                Some(&ModelError::PromptTooLong {
                    tokens: 9,
                    limit: 8,
                }),
            )
        },
        (400, "context_length_exceeded", Some("messages"), None, None),
    )
    .await;
    meaning(
        |play| {
            let (name, value, limit) = ("top_p", "2".to_owned(), "at most 1".to_owned());
            dead(&play, Some(&ModelError::Parameter { name, value, limit }));
        },
        (400, "invalid_value", Some("top_p"), None, None),
    )
    .await;
    meaning(
        |play| dead(&play, Some(&ModelError::Full { limit: 3 })),
        (429, "queue_full", None, None, Some("1")),
    )
    .await;
    meaning(
        |play| dead(&play, Some(&ModelError::Expired { made: 3 })),
        (504, "deadline_exceeded", None, no, None),
    )
    .await;
    meaning(
        |play| dead(&play, Some(&ModelError::Device("lost".into()))),
        (503, "unavailable", None, None, Some("1")),
    )
    .await;
    meaning(
        |play| {
            dead(&play, Some(&remote(false, None)));
        },
        (502, "remote_failed", None, no, None),
    )
    .await;
    meaning(
        |play| {
            let after = Some(std::time::Duration::from_millis(6500));
            dead(&play, Some(&remote(true, after)));
        },
        (503, "remote_failed", None, None, Some("7")),
    )
    .await;
    meaning(
        |play| dead(&play, Some(&ModelError::Unknown("other".into()))),
        (404, "model_not_found", Some("model"), None, None),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_split_the_first_piece_that_comes_answers() {
    let gateway = Gateway::new(|play| {
        play.tell(&Became::Several(3));
        play.tell(&Became::Dropped { stage: "mask" });
        play.write(br#"{"answer":"first"}"#, 1);
        play.write(br#"{"answer":"second"}"#, 2);
    });
    let (status, body) = gateway.json(PATH, chat(json!({}))).await;
    assert_eq!(
        (status, &body["choices"][0]["message"]["content"]),
        (200, &json!("first"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_is_told_when_the_last_piece_has_ended_and_of_the_gravest() {
    let gateway = Gateway::new(|play| {
        play.tell(&Became::Several(2));
        play.tell(&Became::Several(2));
        dead(&play, None);
        play.tell(&Became::Dropped { stage: "mask" });
        assert_eq!(play.requests.waiting_callers(), 1);
        play.tell(&Became::Written { sink: "file" });
    });
    let (status, body) = gateway.json(PATH, chat(json!({}))).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (500, &json!("operator_failed"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_dropped_after_it_was_shown_breaks_the_stream() {
    let gateway = Gateway::new(|play| {
        play.listen(1).piece(0, Lane::Content, "Hel");
        play.tell(&Became::Dropped { stage: "judge" });
    });
    let (text, ended) = gateway.stream(PATH, chat(json!({"stream": true}))).await;
    assert!(!ended);
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert_eq!(
        last,
        r#"data: {"error":{"message":"The stage judge dropped the request","type":"permission_error","param":null,"code":"dropped"}}"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_says_again_what_was_heard_and_nobody_hears_it_twice() {
    let gateway = Gateway::new(|play| {
        let mut first = play.listen(1);
        first.piece(0, Lane::Content, "Hel");
        first.piece(0, Lane::Content, "lo, ");
        let mut second = play.listen(2);
        first.piece(0, Lane::Content, "nobody");
        assert!(play.listen(2).listener.is_none(), "two listen");
        drop(first);
        second.piece(0, Lane::Content, "Hello");
        second.piece(0, Lane::Content, ", Ann");
        second.answer(vec![crate::flow::choice("Hello, Ann")]);
        play.answer("Hello, Ann");
    });
    let (text, ended) = gateway.stream(PATH, chat(json!({"stream": true}))).await;
    assert!(ended, "{text}");
    let contents: Vec<_> = text.matches(r#"{"content":""#).collect();
    assert_eq!(contents.len(), 3, "{text}");
    assert!(text.contains(r#"{"content":"Ann"}"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens_to_an_answer_that_is_asked_for_whole() {
    let gateway = Gateway::new(|play| {
        let mut heard = play.listen(1);
        assert!(heard.listener.is_none(), "no pieces are to be made");
        heard.answer(vec![crate::flow::choice("Hello")]);
        play.answer("Hello");
    });
    let (status, body) = gateway.json(PATH, chat(json!({}))).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["choices"][0]["message"]["content"], "Hello");
    assert_eq!(body["usage"]["completion_tokens"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_model_is_of_the_piece_that_is_sent() {
    let gateway = Gateway::new(|play| {
        play.tell(&Became::Several(2));
        // One has what a model said, and comes without an answer; the other has one that no model made.
        play.listen(1).answer(vec![crate::flow::choice("secret")]);
        play.write(b"{}", 1);
        play.requests.brings(play.id, None);
        play.write(br#"{"answer": "own"}"#, 2);
    });
    let (status, body) = gateway.json(PATH, chat(json!({}))).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["choices"][0]["message"]["content"], "own");
    assert_eq!(body["usage"]["total_tokens"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_there_or_a_path_is_not_found() {
    let gateway = Gateway::new(says(&["Hi"]));
    let (status, body) = gateway.json(PATH, chat(json!({"model": "large"}))).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    let (status, _) = gateway.json("/v1/other", json!({})).await;
    assert_eq!(status, 404);
    let answered = gateway.ask(PATH, Value::Null).await;
    assert_eq!(answered.status, 405);
    assert_eq!(header(&answered, "allow").as_deref(), Some("POST"));
    let (status, body) = gateway.json("/v1/models", Value::Null).await;
    assert_eq!((status, &body["data"][0]["id"]), (200, &json!("small")));
    let (status, body) = gateway.json("/v1/models/small", Value::Null).await;
    assert_eq!((status, &body["object"]), (200, &json!("model")));
    let (status, _) = gateway.json("/v1/models/large", Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_for_a_server_that_has_failed_is_told_so() {
    for silent in [true, false] {
        let gateway = Gateway::with(
            |_| {},
            |options| {
                let mut route = route();
                route.deadline = Duration::from_millis(50);
                route.is_silent = Some(Arc::new(move || silent));
                options.routes = vec![route];
            },
        );
        let (status, body) = gateway.json(PATH, chat(json!({}))).await;
        let error = &body["error"];
        assert_eq!((status, &error["code"]), (504, &json!("deadline_exceeded")));
        let message = error["message"].as_str().unwrap();
        assert_eq!(
            message.contains("server is not answering"),
            silent,
            "{body}"
        );
    }
}
