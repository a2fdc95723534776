//! Answers that are none.

use serde_json::json;
use tidegate_contract::{ModelError, Parameters, Prompt};

use crate::support::{Asked, Server, ask, finish, generate, hello, remote, said, text};

/// The end of a request that is tried once, and that shows something before it breaks.
fn broken(script: impl Fn(&mut Asked) + Send + Sync + 'static) -> (String, bool) {
    let server = Server::start(move |asked| {
        asked.begin();
        asked.event(&said("half"));
        script(asked);
    });
    let (pieces, result) = ask(&server.model(), hello()).all();
    assert_eq!(pieces.len(), 1);
    let said = remote(result);
    assert_eq!(server.requests(), 1, "what was shown was asked for again");
    said
}

#[test]
fn a_body_that_ends_cleanly_without_a_finish_reason_is_no_answer() {
    let (why, again) = broken(|asked| asked.end());
    assert!(why.contains("without a finish_reason"), "{why}");
    assert!(again);
}

#[test]
fn done_without_a_finish_reason_is_no_answer() {
    let (why, _) = broken(|asked| {
        asked.piece("data: [DONE]\n\n");
        asked.end();
    });
    assert!(why.contains("without a finish_reason"), "{why}");
}

#[test]
fn a_connection_that_is_cut_is_no_answer() {
    let (why, again) = broken(Asked::cut);
    assert!(why.contains("cut"), "{why}");
    assert!(again);
}

#[test]
fn an_error_event_ends_the_answer_with_what_it_says() {
    let error = json!({"error": {"message": "out of memory", "type": "server_error", "param": null, "code": null}});
    let text = format!("data: {error}\n\n");
    let (why, again) = broken(move |asked| asked.piece(&text));
    assert!(why.contains("out of memory"), "{why}");
    assert!(again);
    let (why, _) = broken(|asked| asked.piece("event: error\ndata: {\"message\":\"flat\"}\n\n"));
    assert!(why.contains("flat"), "{why}");
}

#[test]
fn garbage_is_no_answer() {
    let (why, _) = broken(|asked| asked.piece("data: {\"choices\": [\n\n"));
    assert!(why.contains("cannot be read"), "{why}");
    let (why, again) =
        broken(|asked| asked.event(&json!({"choices": [{"index": 7, "delta": {"content": "x"}}]})));
    assert!(why.contains("choice 7"), "{why}");
    assert!(!again);
}

#[test]
fn a_line_without_an_end_is_cut_off_at_a_bound() {
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let (why, again) = broken(move |asked| {
        use std::io::Write;
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        // A gigabyte, if the client takes it.
        for _ in 0..1 << 14 {
            if asked.stream.write_all(chunk.as_bytes()).is_err() {
                return;
            }
            count.fetch_add(0x10000, std::sync::atomic::Ordering::SeqCst);
        }
    });
    assert!(why.contains("longer than 1048576 bytes"), "{why}");
    assert!(!again);
    let sent = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(sent < 64 << 20, "{sent} bytes were taken");
}

#[test]
fn where_the_stream_is_cut_into_packets_changes_nothing() {
    let server = Server::start(|asked| {
        asked.begin();
        let mut text =
            String::from(": comment\r\n\r\nevent: ping\ndata: {}\n\nid: 5\nretry: 1\n\n");
        for part in ["é", "漢", "🙂"] {
            text += &format!("data:{}\r\n\r\n", said(part));
        }
        text += &format!("data: {}", finish("stop"));
        for byte in text.as_bytes() {
            asked.send(b"1\r\n");
            asked.send(&[*byte]);
            asked.send(b"\r\n");
        }
        asked.end();
    });
    assert_eq!(text(ask(&server.model(), hello()).result()), "é漢🙂");
}

#[test]
fn an_answer_that_has_finished_is_whole_though_the_connection_is_cut_then() {
    let server = Server::start(|asked| {
        asked.begin();
        asked.event(&said("whole"));
        asked.event(&finish("stop"));
        asked.cut();
    });
    assert_eq!(text(ask(&server.model(), hello()).result()), "whole");
}

#[test]
fn a_refusal_in_openais_shape_is_told_in_its_words_and_not_tried_again() {
    let body = r#"{"error":{"message":"Unknown model 'x'","type":"invalid_request_error","param":"model","code":"bad"}}"#;
    let server = Server::start(move |asked| asked.answer(400, "", body));
    let (why, again) = remote(ask(&server.model(), hello()).result());
    assert_eq!(why, "400 Bad Request: Unknown model 'x' (model)");
    assert!(!again);
    assert_eq!(server.requests(), 1);
}

#[test]
fn a_prompt_that_is_too_long_there_is_told_as_one_here() {
    let body = r#"{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
    let server = Server::start(move |asked| asked.answer(400, "", body));
    match ask(&server.model(), hello()).result() {
        Err(ModelError::PromptTooLong {
            tokens: 4097,
            limit: 4096,
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_parameter_that_cannot_be_said_is_refused_without_asking() {
    let server = Server::start(|asked| asked.say(&["x"]));
    let parameters = Parameters {
        top_k: 5,
        ..Parameters::default()
    };
    let task = generate(Prompt::Raw("x".into()), parameters);
    match ask(&server.model(), task).result() {
        Err(ModelError::Parameter { name: "top_k", .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(server.requests(), 0);
}
