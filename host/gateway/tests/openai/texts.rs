//! `/v1/completions`, `/v1/embeddings`, `/v1/rerank`, choices and log-probabilities.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_contract::{Answer, Callers, Choice, Lane, Made, Timings, TokenLogprob};

use crate::flow::{Gateway, Play, chat, choice};

/// Answers each text with what the pipeline makes of it.
fn vectors(of: fn(&str) -> Vec<f32>) -> impl Fn(Play) + Send + Sync + 'static {
    move |play| {
        let vector = of(play.value["input"].as_str().unwrap());
        assert!(play.value.get("messages").is_none(), "{}", play.value);
        let answer = Answer {
            made: Made::Embedding(vector.clone()),
            prompt_tokens: 3,
            adapter: String::new(),
            timings: Timings::default(),
        };
        play.requests.brings(play.id, Some(Arc::new(answer)));
        play.answer(json!(vector));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_numbers_or_the_bytes_that_clients_ask_for() {
    let gateway = Gateway::new(vectors(|text| vec![text.len() as f32, -0.1]));
    let (status, body) = gateway
        .json(
            "/v1/embeddings",
            json!({"model": "small", "input": ["a", "bb"], "dimensions": 2}),
        )
        .await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": 6, "total_tokens": 6})
    );
    let numbers = body["data"][1]["embedding"].as_array().unwrap();
    let numbers: Vec<f32> = numbers.iter().map(|x| x.as_f64().unwrap() as f32).collect();
    assert_eq!(numbers, [2.0, -0.1]);
    assert_eq!(body["data"][1]["index"], 1);

    let base64 = json!({"model": "small", "input": "bb", "encoding_format": "base64"});
    let (_, body) = gateway.json("/v1/embeddings", base64).await;
    assert_eq!(body["data"][0]["embedding"], "AAAAQM3MzL0=");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_texts_than_the_queue_holds_are_one_request() {
    let gateway = Gateway::with(vectors(|text| vec![text.len() as f32, 0.0]), |options| {
        options.requests =
            tidegate_gateway::requests::Requests::new(tidegate_gateway::requests::Options {
                usual: 2,
                ..Default::default()
            });
    });
    let inputs: Vec<String> = (1..=300)
        .map(|length| "a".repeat(length % 90 + 1))
        .collect();
    let (status, body) = gateway
        .json("/v1/embeddings", json!({"model": "small", "input": inputs}))
        .await;
    assert_eq!(status, 200, "{body}");
    for (index, input) in inputs.iter().enumerate() {
        assert_eq!(
            body["data"][index]["embedding"][0],
            json!(input.len() as f32),
            "{index}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_are_cosines_and_equal_ones_stay_in_order() {
    let gateway = Gateway::new(vectors(|text| match text {
        "query" | "same" => vec![1.0, 0.0],
        "other" => vec![0.0, 2.0],
        _ => vec![-1.0, 0.0],
    }));
    let body = json!({"model": "small", "query": "query", "documents": ["opposite", "other", {"text": "same"}, "same"], "return_documents": true});
    let (status, body) = gateway.json("/v1/rerank", body).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        body["results"],
        json!([
            {"index": 2, "relevance_score": 1.0, "document": {"text": "same"}},
            {"index": 3, "relevance_score": 1.0, "document": {"text": "same"}},
            {"index": 1, "relevance_score": 0.0, "document": {"text": "other"}},
            {"index": 0, "relevance_score": -1.0, "document": {"text": "opposite"}},
        ])
    );
    let top =
        json!({"model": "small", "query": "query", "documents": ["other", "same"], "top_n": 1});
    let (_, body) = gateway.json("/v1/rerank", top).await;
    assert_eq!(
        body["results"],
        json!([{"index": 1, "relevance_score": 1.0}])
    );
}

/// Puts documents in order by how often the query is in them; a query of "!" names a document that is not there.
fn orders(play: Play) {
    assert!(play.value.get("input").is_none(), "{}", play.value);
    let query = play.value["query"].as_str().unwrap();
    let documents = play.value["documents"].as_array().unwrap().iter();
    let count = |document: &Value| document.as_str().unwrap().matches(query).count();
    let mut counts: Vec<(usize, usize)> = documents.map(count).enumerate().collect();
    let scores = counts.iter().map(|(_, count)| *count as f32).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let beyond = if query == "!" { 9 } else { 0 };
    let ranking = counts.into_iter();
    let ranking = ranking.map(|(index, score)| json!({"index": index + beyond, "score": score}));
    let ranking: Value = ranking.collect();
    let answer = Answer {
        made: Made::Relevance(scores),
        prompt_tokens: 11,
        adapter: String::new(),
        timings: Timings::default(),
    };
    play.requests.brings(play.id, Some(Arc::new(answer)));
    play.answer(ranking);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ranking_is_asked_for_whole_where_a_model_reads_pairs() {
    let gateway = Gateway::with(orders, |options| options.routes[0].ranks_whole = true);
    let asked = |query: &str, documents: Value| json!({"model": "small", "query": query, "documents": documents, "return_documents": true});
    let three = json!(["b", {"text": "aa"}, "a"]);
    // An empty document is a document: one that has nothing to do with the query.
    let with_empty = asked("a", json!(["", "a", {"text": ""}]));
    let (status, body) = gateway.json("/v1/rerank", with_empty).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        body["results"],
        json!([
            {"index": 1, "relevance_score": 1.0, "document": {"text": "a"}},
            {"index": 0, "relevance_score": 0.0, "document": {"text": ""}},
            {"index": 2, "relevance_score": 0.0, "document": {"text": ""}},
        ])
    );
    let (status, body) = gateway.json("/v1/rerank", asked("a", three.clone())).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        body["results"],
        json!([
            {"index": 1, "relevance_score": 2.0, "document": {"text": "aa"}},
            {"index": 2, "relevance_score": 1.0, "document": {"text": "a"}},
            {"index": 0, "relevance_score": 0.0, "document": {"text": "b"}},
        ])
    );
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": 11, "total_tokens": 11})
    );
    let mut few = asked("a", three.clone());
    few["top_n"] = json!(2);
    let (_, body) = gateway.json("/v1/rerank", few).await;
    assert_eq!(body["results"].as_array().unwrap().len(), 2);
    // Longer together than the 100 tokens of the model: what reads pairs cuts them.
    let long = json!(["b".repeat(90), "a".repeat(90)]);
    let (status, body) = gateway.json("/v1/rerank", asked("a", long)).await;
    assert_eq!((status, &body["results"][0]["index"]), (200, &json!(1)));
    let (status, body) = gateway.json("/v1/rerank", asked("!", three)).await;
    assert_eq!(status, 500, "{body}");
    let many = json!(vec!["a"; 1025]);
    let (status, body) = gateway.json("/v1/rerank", asked("a", many)).await;
    assert_eq!(
        (status, body["error"]["param"].as_str()),
        (400, Some("documents")),
        "{body}"
    );
    let (status, _) = gateway
        .json("/v1/rerank", asked("a", json!(vec!["a"; 1024])))
        .await;
    assert_eq!(status, 200);
}

fn echo(play: Play) {
    let prompt = play.value["prompt"].as_str().unwrap().to_owned();
    let mut heard = play.listen(1);
    let texts = [format!("{prompt}0"), format!("{prompt}1")];
    for (index, text) in (0u32..).zip(&texts) {
        heard.piece(index, Lane::Content, text);
    }
    heard.answer(texts.iter().map(|text| choice(text)).collect());
    play.answer(texts[0].clone());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_prompt_is_a_record_and_its_choices_are_counted_on() {
    let gateway = Gateway::new(echo);
    let body = json!({"model": "small", "prompt": ["a", "b"], "n": 2});
    let (status, answer) = gateway.json("/v1/completions", body.clone()).await;
    assert_eq!(status, 200, "{answer}");
    let choices = answer["choices"].as_array().unwrap();
    let choices: Vec<_> = choices
        .iter()
        .map(|choice| {
            (
                choice["index"].as_u64().unwrap(),
                choice["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(choices, [(0, "a0"), (1, "a1"), (2, "b0"), (3, "b1")]);
    assert_eq!(answer["usage"]["prompt_tokens"], 14);

    let mut body = body;
    body["stream"] = true.into();
    let (text, ended) = gateway.stream("/v1/completions", body).await;
    assert!(ended, "{text}");
    for (index, text_of) in ["a0", "a1", "b0", "b1"].iter().enumerate() {
        let chunk = format!(
            r#"{{"text":"{text_of}","index":{index},"logprobs":null,"finish_reason":null}}"#
        );
        assert!(text.contains(&chunk), "{text}");
        let end =
            format!(r#"{{"text":"","index":{index},"logprobs":null,"finish_reason":"stop"}}"#);
        assert!(text.contains(&end), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_a_model_said_is_read_as_it_said_it() {
    // As the answer stands in the record, where it was asked for as JSON, and as text.
    let answers = [
        ("\"order\"", json!("order")),
        ("\"order\"", json!("\"order\"")),
        ("{ \"a\" : 1 }", json!({"a": 1})),
        ("[1, 2]", json!("[1, 2]")),
    ];
    for (said, written) in answers {
        let gateway = Gateway::new(move |play: Play| {
            let mut heard = play.listen(1);
            heard.piece(0, Lane::Content, &said[..1]);
            heard.answer(vec![choice(said)]);
            play.write(json!({"answer": written}).to_string().as_bytes(), 0);
        });
        let body = json!({"model": "small", "prompt": "a"});
        let (status, answer) = gateway.json("/v1/completions", body.clone()).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["choices"][0]["text"], said);
        let mut body = body;
        body["stream"] = true.into();
        let (text, ended) = gateway.stream("/v1/completions", body).await;
        assert!(ended, "{text}");
    }
}

fn logprob(token: char) -> TokenLogprob {
    TokenLogprob {
        token: token as u32,
        logprob: -0.5,
        top: vec![(token as u32, -0.5), ('z' as u32, f32::NEG_INFINITY)],
        said: true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_probabilities_are_of_the_text_as_the_model_made_it() {
    let script = |to: &'static str| {
        move |play: Play| {
            let mut heard = play.listen(1);
            heard.logprobs = vec![logprob('H')];
            heard.piece(0, Lane::Content, "H");
            let made = Choice {
                logprobs: vec![logprob('H')],
                ..choice("H")
            };
            heard.answer(vec![made]);
            play.answer(to);
        }
    };
    let expected = json!([{"token": "H", "logprob": -0.5, "bytes": [72], "top_logprobs": [
        {"token": "H", "logprob": -0.5, "bytes": [72]},
        {"token": "z", "logprob": -9999.0, "bytes": [122]},
    ]}]);
    let wanted = json!({"logprobs": true, "top_logprobs": 2});
    let gateway = Gateway::new(script("H"));
    let (_, body) = gateway
        .json("/v1/chat/completions", chat(wanted.clone()))
        .await;
    assert_eq!(body["choices"][0]["logprobs"]["content"], expected);
    let completion = json!({"model": "small", "prompt": "a", "logprobs": 2});
    let (_, body) = gateway.json("/v1/completions", completion).await;
    assert_eq!(
        body["choices"][0]["logprobs"],
        json!({"tokens": ["H"], "token_logprobs": [-0.5], "top_logprobs": [{"H": -0.5, "z": -9999.0}], "text_offset": [0]})
    );
    let gateway = Gateway::new(script("Other"));
    let (_, body) = gateway.json("/v1/chat/completions", chat(wanted)).await;
    assert_eq!(body["choices"][0]["logprobs"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_probabilities_of_thoughts_are_not_those_of_the_content() {
    // Two tokens open and close the thoughts; a character of the content is split over two tokens that are no text.
    for (reasoning, tokens, thought, said) in [
        ("", "<>ab", 2, "ab"),
        ("", "<>\n\nab", 2, "ab"),
        ("t", "<t>\nab", 3, "ab"),
        ("t", "<t>\nab", 4, "ab"),
        ("t", "<t>\u{fffd}\u{fffd}b", 3, "\u{fffd}\u{fffd}b"),
        ("ab", "<ab>ab", 4, "ab"),
        // What only opens an answer is no thought either.
        ("", "<f>ab", 0, "ab"),
    ] {
        let gateway = Gateway::new(move |play: Play| {
            let mut heard = play.listen(1);
            let text = match said.starts_with('a') {
                true => "ab",
                false => "éb",
            };
            let before = tokens.chars().count() - said.chars().count();
            let logprobs = tokens
                .chars()
                .enumerate()
                .map(|(number, token)| TokenLogprob {
                    said: number >= before,
                    ..logprob(token)
                });
            let made = Choice {
                reasoning: reasoning.into(),
                reasoning_tokens: thought,
                tokens: tokens.chars().map(|token| token as u32).collect(),
                logprobs: logprobs.collect(),
                ..choice(text)
            };
            heard.answer(vec![made]);
            play.answer(text);
        });
        let wanted = json!({"logprobs": true, "top_logprobs": 2});
        let (_, body) = gateway.json("/v1/chat/completions", chat(wanted)).await;
        let content = body["choices"][0]["logprobs"]["content"]
            .as_array()
            .unwrap()
            .iter();
        let shown: String = content
            .map(|each| each["token"].as_str().unwrap())
            .collect();
        assert_eq!(shown, said, "{tokens:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_changed_answer_the_others_are_not_shown_unless_the_record_has_them() {
    let script = |choices: Option<Value>| {
        move |play: Play| {
            play.listen(1).answer(vec![choice("a"), choice("secret")]);
            let mut value = json!({"answer": "masked"});
            if let Some(choices) = &choices {
                value["answer_choices"] = choices.clone();
            }
            play.write(value.to_string().as_bytes(), 0);
        }
    };
    let texts = |body: &Value| -> Vec<String> {
        let choices = body["choices"].as_array().unwrap().iter();
        choices
            .map(|choice| choice["message"]["content"].as_str().unwrap().to_owned())
            .collect()
    };
    let two = json!({"n": 2});
    let gateway = Gateway::new(script(None));
    let (_, body) = gateway
        .json("/v1/chat/completions", chat(two.clone()))
        .await;
    assert_eq!(texts(&body), ["masked"]);
    let gateway = Gateway::new(script(Some(
        json!([{"text": "a"}, {"text": "masked, too"}]),
    )));
    let (_, body) = gateway.json("/v1/chat/completions", chat(two)).await;
    assert_eq!(texts(&body), ["masked", "masked, too"]);
}
