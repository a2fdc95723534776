//! However an answer is cut into pieces, a reader puts the same together.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_contract::{Finish, Lane};

use crate::flow::{Gateway, call, chat, choice};

const TEXTS: [(Lane, &str); 4] = [
    (Lane::Reasoning, "First \"think\"."),
    (Lane::Content, "Grüße,\n\u{1f600} data: [DONE]\n\n"),
    (Lane::Arguments(0), "{\"a\":\"\\n\"}"),
    (Lane::Arguments(1), "{}"),
];

/// The texts of a stream, put together as clients do.
fn together(stream: &str) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |name: String, text: &Value| {
        if let Some(text) = text.as_str() {
            texts.entry(name).or_default().push_str(text);
        }
    };
    for event in stream.split("\n\n").filter(|event| !event.is_empty()) {
        let data = event.strip_prefix("data: ").unwrap();
        if data == "[DONE]" {
            continue;
        }
        let chunk: Value = serde_json::from_str(data).unwrap();
        for choice in chunk["choices"].as_array().unwrap() {
            let delta = &choice["delta"];
            add("content".into(), &delta["content"]);
            add("reasoning".into(), &delta["reasoning_content"]);
            for call in delta["tool_calls"].as_array().unwrap_or(&Vec::new()) {
                let index = call["index"].as_u64().unwrap();
                add(format!("arguments{index}"), &call["function"]["arguments"]);
                add(format!("name{index}"), &call["function"]["name"]);
            }
        }
    }
    texts
}

fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (index, letter) in text.chars().enumerate() {
        if cuts.contains(&index) {
            pieces.push(String::new());
        }
        pieces.last_mut().unwrap().push(letter);
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_cut_changes_what_is_read(cuts in prop::collection::vec(0usize..40, 0..12), shown in 0usize..5, again in any::<bool>()) {
        let gateway = Gateway::new(move |play| {
            // Some lanes are shown, in pieces; what is not comes with the answer. A second attempt says it all again,
            // cut in another way.
            let attempts: &[&[usize]] = if again { &[&cuts, &[1, 2, 3, 5, 8]] } else { &[&cuts] };
            for (attempt, cuts) in (1..).zip(attempts) {
                let mut heard = play.listen(attempt);
                for (lane, text) in &TEXTS[..shown.min(TEXTS.len())] {
                    let begins = match lane {
                        Lane::Arguments(0) => Some(("call_0", "find")),
                        Lane::Arguments(_) => Some(("call_1", "read")),
                        _ => None,
                    };
                    if begins.is_some() {
                        heard.begin(0, *lane, "", begins);
                    }
                    for piece in pieces(text, cuts) {
                        heard.piece(0, *lane, &piece);
                    }
                }
                let mut answer = choice(TEXTS[1].1);
                answer.reasoning = TEXTS[0].1.into();
                answer.calls = vec![call("call_0", "find", TEXTS[2].1), call("call_1", "read", TEXTS[3].1)];
                answer.finish = Finish::Calls;
                heard.answer(vec![answer]);
            }
            play.answer(TEXTS[1].1);
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (text, ended) = runtime.block_on(gateway.stream("/v1/chat/completions", chat(json!({"stream": true}))));
        prop_assert!(ended);
        let texts = together(&text);
        let expected: BTreeMap<String, String> = [
            ("reasoning", TEXTS[0].1), ("content", TEXTS[1].1), ("arguments0", TEXTS[2].1), ("arguments1", TEXTS[3].1),
            ("name0", "find"), ("name1", "read"),
        ].into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        prop_assert_eq!(texts, expected);
    }
}
