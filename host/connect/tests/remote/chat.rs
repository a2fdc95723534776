//! Answers of OpenAI-compatible servers.

use serde_json::json;
use tidegate_contract::{
    Conversation, Finish, Function, Lane, Made, Message, Model, Parameters, Prompt, Role,
};

use crate::support::{Server, Shown, ask, choices, finish, generate, hello, said, text, usage};

#[test]
fn a_streamed_chat_is_shown_piece_by_piece_and_ends_as_an_answer() {
    let server = Server::start(|asked| asked.say(&["Hel", "lo", "!"]));
    let model = server.model();
    let (pieces, result) = ask(&model, hello()).all();
    let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
    assert_eq!(texts, ["Hel", "lo", "!"]);
    let answer = result.unwrap();
    assert_eq!(answer.prompt_tokens, 5);
    let Made::Choices(choices) = &answer.made else {
        panic!("{answer:?}");
    };
    assert_eq!(choices[0].text, "Hello!");
    assert_eq!(choices[0].finish, Finish::End);
    // As many as the server says: they have no numbers here.
    assert_eq!(choices[0].tokens.len(), 3);
    let head = server.head(0);
    assert!(
        head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{head}"
    );
    let stats = model.stats();
    assert_eq!((stats.asked, stats.answered, stats.failed), (1, 1, 0));
    assert_eq!((stats.prompt_tokens, stats.tokens), (5, 3));
}

#[test]
fn one_connection_serves_one_request_after_another() {
    let server = Server::start(|asked| asked.say(&["a"]));
    let model = server.model();
    for _ in 0..5 {
        assert_eq!(text(ask(&model, hello()).result()), "a");
    }
    assert_eq!(
        server.connections.load(std::sync::atomic::Ordering::SeqCst),
        1
    );
}

#[test]
fn tokens_of_reasoning_are_those_that_the_server_says_and_no_more_than_all() {
    for (said, counted) in [(3, 3), (0, 0), (9, 5)] {
        let server = Server::start(move |asked| {
            asked.begin();
            let delta =
                |delta: serde_json::Value| json!({"choices": [{"index": 0, "delta": delta}]});
            asked.event(&delta(json!({"reasoning": "hm"})));
            asked.event(&delta(json!({"content": "Yes."})));
            asked.event(&finish("stop"));
            asked.event(
                &json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 5,
                "completion_tokens_details": {"reasoning_tokens": said}}}),
            );
            asked.piece("data: [DONE]\n\n");
            asked.end();
        });
        let conversation = Conversation {
            reasoning_apart: true,
            ..vec![Message::new(Role::User, "hello")].into()
        };
        let task = generate(Prompt::Chat(conversation), Parameters::default());
        let model = server.model();
        let choice = choices(ask(&model, task).result()).swap_remove(0);
        assert_eq!(
            (choice.text.as_str(), choice.reasoning.as_str()),
            ("Yes.", "hm")
        );
        assert_eq!((choice.tokens.len(), choice.reasoning_tokens), (5, counted));
        assert_eq!(model.stats().reasoning_tokens, u64::from(counted));
    }
}

#[test]
fn reasoning_and_calls_have_lanes_of_their_own() {
    let server = Server::start(|asked| {
        asked.begin();
        let delta = |delta: serde_json::Value| json!({"choices": [{"index": 0, "delta": delta}]});
        asked.event(&delta(json!({"reasoning_content": "hm"})));
        asked.event(&delta(json!({"content": "Let me see."})));
        let call = |value: serde_json::Value| delta(json!({"tool_calls": [value]}));
        asked.event(&call(
            json!({"index": 0, "id": "call_a", "type": "function",
            "function": {"name": "weather", "arguments": ""}}),
        ));
        asked.event(&call(
            json!({"index": 0, "function": {"arguments": "{\"place\":"}}),
        ));
        asked.event(&call(
            json!({"index": 0, "function": {"arguments": "\"Bonn\"}"}}),
        ));
        // As servers do that leave the index and the id out.
        asked.event(&call(
            json!({"function": {"name": "time", "arguments": "{}"}}),
        ));
        asked.event(&finish("tool_calls"));
        asked.piece("data: [DONE]\n\n");
        asked.end();
    });
    let conversation = Conversation {
        messages: vec![Message::new(Role::User, "weather?")],
        functions: vec![Function {
            name: "weather".into(),
            description: None,
            parameters: "{}".into(),
            strict: false,
        }],
        lanes: true,
        ..Conversation::default()
    };
    let task = generate(Prompt::Chat(conversation), Parameters::default());
    let (pieces, result) = ask(&server.model(), task).all();
    let choice = choices(result).swap_remove(0);
    assert_eq!(choice.reasoning, "hm");
    // One piece, where the server does not say how many tokens it was.
    assert_eq!(choice.reasoning_tokens, 1);
    assert_eq!(choice.text, "Let me see.");
    assert_eq!(choice.finish, Finish::Calls);
    assert_eq!(choice.calls[0].id, "call_a");
    assert_eq!(choice.calls[0].arguments, r#"{"place":"Bonn"}"#);
    assert_eq!(choice.calls[1].name, "time");
    assert!(!choice.calls[1].id.is_empty());
    // The pieces of a lane, one after another, are the text of the answer there.
    let lane = |lane| -> String {
        let of_lane = pieces.iter().filter(|piece| piece.lane == lane);
        of_lane.map(|piece| piece.text.as_str()).collect()
    };
    assert_eq!(lane(Lane::Reasoning), choice.reasoning);
    assert_eq!(lane(Lane::Arguments(0)), choice.calls[0].arguments);
    assert_eq!(lane(Lane::Arguments(1)), choice.calls[1].arguments);
    let begins: Vec<&Shown> = pieces
        .iter()
        .filter(|piece| piece.begins.is_some())
        .collect();
    assert_eq!(begins[0].begins, Some(("call_a".into(), "weather".into())));
    assert_eq!(begins.len(), 2);
}

#[test]
fn several_answers_are_kept_apart_and_share_the_tokens_that_the_server_counts() {
    let server = Server::start(|asked| {
        asked.begin();
        for (index, text) in [(1, "b"), (0, "a"), (1, "B"), (1, "!")] {
            asked.event(&json!({"choices": [{"index": index, "delta": {"content": text}}]}));
        }
        asked.event(&json!({"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]}));
        asked.event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "\n"}]}));
        asked.event(&usage(1, 8));
        asked.end();
    });
    let parameters = Parameters {
        n: 2,
        ..Parameters::default()
    };
    let prompt = Prompt::Chat(vec![Message::new(Role::User, "x")].into());
    let choices = choices(ask(&server.model(), generate(prompt, parameters)).result());
    assert_eq!(
        (choices[0].text.as_str(), choices[0].finish),
        ("a", Finish::Stop)
    );
    assert_eq!(
        (choices[1].text.as_str(), choices[1].finish),
        ("bB!", Finish::Length)
    );
    assert_eq!((choices[0].tokens.len(), choices[1].tokens.len()), (2, 6));
}

#[test]
fn a_text_is_gone_on_with_by_completions_and_a_server_that_does_not_stream_is_read_too() {
    let server = Server::start(|asked| match asked.number {
        0 => {
            asked.begin();
            asked.event(&json!({"choices": [{"index": 0, "text": " upon"}]}));
            asked.event(
                &json!({"choices": [{"index": 0, "text": " a", "finish_reason": "length"}]}),
            );
            asked.piece("data: [DONE]\n\n");
            asked.end();
        }
        _ => {
            let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"},
                "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
            asked.answer(200, "", &body.to_string());
        }
    });
    let model = server.model();
    let raw = generate(Prompt::Raw("Once".into()), Parameters::default());
    assert_eq!(text(ask(&model, raw).result()), " upon a");
    assert!(server.head(0).starts_with("POST /v1/completions "));
    assert_eq!(text(ask(&model, hello()).result()), "whole");
}

#[test]
fn a_count_that_no_answer_can_have_is_not_believed() {
    let server = Server::start(|asked| {
        asked.begin();
        asked.event(&said("a"));
        asked.event(&finish("stop"));
        asked.event(&json!({"choices": [], "usage": {"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX}}));
        asked.end();
    });
    let choices = choices(ask(&server.model(), hello()).result());
    assert_eq!(choices[0].tokens.len(), 256);
}

#[test]
fn facts_name_the_server_and_differ_by_what_is_asked_there() {
    let server = Server::start(|_| {});
    let model = server.model();
    let facts = model.facts();
    assert_eq!(facts.name, "here");
    assert_eq!(facts.adapter, format!("{}/v1", server.url));
    assert!(facts.digest.starts_with("remote:"));
    let mut options = server.options();
    options.kind = tidegate_connect::remote::RemoteKind::OpenAi(
        tidegate_connect::remote::OpenAi::new(&server.url, "other"),
    );
    let other = tidegate_connect::remote::RemoteModel::open(options).unwrap();
    assert_ne!(other.facts().digest, facts.digest);
}
