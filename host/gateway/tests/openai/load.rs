//! What is done with requests while many wait.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::HeaderName;
use serde_json::{Value, json};
use tidegate_contract::{Choice, Finish, Lane};
use tidegate_gateway::exchange::Answered;
use tidegate_gateway::idempotency::{Answers, Options as Keeping};
use tidegate_gateway::openai::load::{OtherModel, Shed, Step};
use tidegate_gateway::openai::route::{Bounds, PromptCost};
use tidegate_gateway::openai::{Options, Shared};
use tokio::task::JoinHandle;

use crate::flow::{Gateway, PATIENCE, Play, asked, chat, choice, header, parts, route, whole};

const CHAT: &str = "/v1/chat/completions";

pub(crate) fn from(waiting: usize) -> Step {
    Step {
        waiting: Some(waiting),
        ..Step::default()
    }
}

/// From one waiting on the model "tiny" answers, from two on with ten tokens, from three on nobody does.
pub(crate) fn steps(options: &mut Options) {
    let mut route = route();
    let tiny = Step {
        model: Some(0),
        ..from(1)
    };
    let shorter = Step {
        max_tokens: Some(10),
        ..from(2)
    };
    let refuse = Step {
        refuse: true,
        ..from(3)
    };
    route.steps = vec![tiny, shorter, refuse];
    route.others = vec![OtherModel {
        name: "tiny".to_owned(),
        bounds: Bounds {
            context_tokens: 20,
            ..route.bounds
        },
        // Twice as many tokens as the route's own has.
        count: route.count.clone().map(|count| {
            Arc::new(move |record: &_| {
                let tokens = 2 * count(record)?.tokens;
                Ok(PromptCost { tokens })
            }) as _
        }),
        token_text: None,
        continues: true,
        is_silent: None,
    }];
    options.routes = vec![route];
}

/// A gateway whose records wait until a test answers them.
struct Held {
    gateway: Arc<Gateway>,
    came: Mutex<Receiver<Play>>,
    shed: Shed,
}

impl Held {
    fn new(change: impl FnOnce(&mut Options)) -> Held {
        let (to, came): (Sender<Play>, _) = channel();
        let to = Mutex::new(to);
        let shed = Shed::default();
        let kept = shed.clone();
        let gateway = Gateway::with(
            move |play| {
                let _ = to.lock().unwrap().send(play);
            },
            |options| {
                options.shed = kept;
                steps(options);
                change(options);
            },
        );
        Held {
            gateway: Arc::new(gateway),
            came: Mutex::new(came),
            shed,
        }
    }

    /// Asks, and waits until the record is there.
    async fn ask(&self, path: &'static str, body: Value) -> (Play, JoinHandle<Answered>) {
        let gateway = self.gateway.clone();
        let answered = tokio::spawn(async move { gateway.ask(path, body).await });
        let came = self.came.lock().unwrap();
        (came.recv_timeout(PATIENCE).unwrap(), answered)
    }

    /// So many wait that no model has begun to answer.
    async fn fill(&self, waiting: usize) -> Vec<(Play, JoinHandle<Answered>)> {
        let mut all = Vec::new();
        while all.len() < waiting {
            all.push(self.ask(CHAT, chat(json!({}))).await);
        }
        all
    }
}

/// Answers with a text that was cut after as many tokens as it has characters.
pub(crate) fn cut(play: &Play, model: &str, text: &str) {
    play.begun(model);
    let mut heard = play.listen(1);
    heard.piece(0, Lane::Content, text);
    heard.answer(vec![Choice {
        finish: Finish::Length,
        ..choice(text)
    }]);
    play.answer(text);
}

fn finish(play: Play, model: &str) {
    play.begun(model);
    let mut heard = play.listen(1);
    heard.answer(vec![choice("ok")]);
    play.answer("ok");
}

async fn json(answered: JoinHandle<Answered>) -> (Option<String>, Value) {
    let answered = answered.await.unwrap();
    let model = header(&answered, "x-tidegate-model");
    (model, serde_json::from_slice(&whole(answered)).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_model_then_a_shorter_answer_then_429() {
    let held = Held::new(|_| {});
    let (first, first_answer) = held.ask(CHAT, chat(json!({}))).await;
    assert_eq!(first.value["alternative"], Value::Null);
    assert_eq!(first.value["parameters"]["max_tokens"], Value::Null);
    let (second, second_answer) = held.ask(CHAT, chat(json!({"max_tokens": 30}))).await;
    assert_eq!(second.value["alternative"], "tiny");
    assert_eq!(second.value["parameters"]["max_tokens"], 30);
    let (third, third_answer) = held.ask(CHAT, chat(json!({"max_tokens": 30}))).await;
    assert_eq!(third.value["alternative"], "tiny");
    assert_eq!(third.value["parameters"]["max_tokens"], 10);
    let fourth = held.gateway.ask(CHAT, chat(json!({}))).await;
    assert_eq!(fourth.status, 429);
    let after: u64 = header(&fourth, "retry-after").unwrap().parse().unwrap();
    assert!(after >= 1, "{after}");
    assert_eq!(header(&fourth, "x-should-retry"), None);
    let body: Value = serde_json::from_slice(&whole(fourth)).unwrap();
    assert_eq!(body["error"]["code"], "queue_full");

    finish(first, "support");
    let (model, answer) = json(first_answer).await;
    assert_eq!((model, &answer["model"]), (None, &json!("small")));
    cut(&second, "tiny", &"x".repeat(30));
    let (model, answer) = json(second_answer).await;
    assert_eq!(
        (model.as_deref(), &answer["model"]),
        (Some("tiny"), &json!("tiny"))
    );
    // The client's own limit ended it.
    assert_eq!(answer["choices"][0]["tidegate"], Value::Null);
    cut(&third, "tiny", "0123456789");
    let (_, answer) = json(third_answer).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(
        choice["tidegate"],
        json!({"shortened": true, "max_tokens": 10})
    );
    assert_eq!(answer["usage"]["completion_tokens"], 10);

    let counts: Vec<_> = held.shed.all();
    let count = |step: &str| counts.iter().find(|(_, known, _)| known == step).unwrap().2;
    assert_eq!((count("1"), count("2"), count("refused")), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_a_model_has_begun_to_answer_waits_no_more() {
    let held = Held::new(|_| {});
    let (first, _answer) = held.ask(CHAT, chat(json!({}))).await;
    first.begun("support");
    let (second, _answer) = held.ask(CHAT, chat(json!({}))).await;
    assert_eq!(second.value["alternative"], Value::Null);
    // One that has ended waits no more, either.
    finish(second, "support");
    let (third, _answer) = held.ask(CHAT, chat(json!({}))).await;
    assert_eq!(third.value["alternative"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_away_waits_no_more() {
    let held = Held::new(|_| {});
    let (_first, answer) = held.ask(CHAT, chat(json!({}))).await;
    assert_eq!(held.gateway.requests.load(0).waiting, 1);
    answer.abort();
    let _ = answer.await;
    assert_eq!(held.gateway.requests.load(0).waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_of_the_first_reaches_a_step_too() {
    let held = Held::new(|options| {
        let [_, _, last] = options.routes[0].steps.as_mut_slice() else {
            panic!()
        };
        (last.waiting, last.oldest) = (None, Some(Duration::from_millis(1)));
    });
    let _held = held.fill(1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let refused = held.gateway.ask(CHAT, chat(json!({}))).await;
    assert_eq!(refused.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_a_form_or_may_be_a_call_is_never_shortened() {
    let object = json!({"type": "json_object"});
    let tool =
        json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    for (more, most) in [
        (json!({"response_format": object}), Value::Null),
        (json!({"tools": tool}), Value::Null),
        (json!({"tools": tool, "tool_choice": "none"}), json!(10)),
        (json!({"max_tokens": 3}), json!(3)),
        (json!({}), json!(10)),
    ] {
        let held = Held::new(|_| {});
        let _waiting = held.fill(2).await;
        let (play, _answer) = held.ask(CHAT, chat(more.clone())).await;
        assert_eq!(play.value["parameters"]["max_tokens"], most, "{more}");
        assert_eq!(play.value["alternative"], "tiny", "{more}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_model_cannot_answer_it_is_not_asked() {
    let long = "a word or two";
    for (path, body) in [
        (CHAT, chat(json!({"logit_bias": {"5": 1}}))),
        (
            CHAT,
            chat(json!({"messages": [{"role": "user", "content": long}]})),
        ),
        ("/v1/embeddings", json!({"model": "small", "input": "a"})),
    ] {
        let held = Held::new(|_| {});
        let _waiting = held.fill(2).await;
        let (play, _answer) = held.ask(path, body.clone()).await;
        assert_eq!(play.value["alternative"], Value::Null, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_an_operator_has_chosen_is_told_as_the_one_that_answered() {
    let held = Held::new(|_| {});
    let (play, answer) = held.ask(CHAT, chat(json!({}))).await;
    finish(play, "tiny");
    let (model, answer) = json(answer).await;
    assert_eq!(
        (model.as_deref(), &answer["model"]),
        (Some("tiny"), &json!("tiny"))
    );
    let _waiting = held.fill(1).await;
    let (play, answer) = held.ask(CHAT, chat(json!({}))).await;
    assert_eq!(play.value["alternative"], "tiny");
    // A model of another stage is none of those that answer.
    play.begun("judge");
    finish(play, "support");
    let (model, answer) = json(answer).await;
    assert_eq!((model, &answer["model"]), (None, &json!("small")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_says_in_its_last_chunk_that_it_was_shortened() {
    let held = Held::new(|_| {});
    let _waiting = held.fill(2).await;
    let (play, answer) = held.ask(CHAT, chat(json!({"stream": true}))).await;
    cut(&play, "tiny", "0123456789");
    let answered = answer.await.unwrap();
    assert_eq!(
        header(&answered, "x-tidegate-model").as_deref(),
        Some("tiny")
    );
    let (bytes, ended) = parts(answered).await;
    assert!(ended);
    let text = String::from_utf8(bytes.concat()).unwrap();
    let chunks: Vec<Value> = text
        .split("\n\n")
        .filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok())
        .collect();
    assert!(
        chunks.iter().all(|chunk| chunk["model"] == "tiny"),
        "{text}"
    );
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(last["choices"][0]["tidegate"]["shortened"], true, "{text}");
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert!(
        before
            .iter()
            .all(|chunk| chunk["choices"][0]["tidegate"].is_null())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_and_completions_say_it_as_well() {
    let held = Held::new(|_| {});
    let _waiting = held.fill(2).await;
    let body = json!({"model": "small", "input": "Hi"});
    let (play, answer) = held.ask("/v1/responses", body).await;
    cut(&play, "tiny", "0123456789");
    let (_, answer) = json(answer).await;
    assert_eq!(answer["status"], "incomplete");
    assert_eq!(answer["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(
        answer["tidegate"],
        json!({"shortened": true, "max_tokens": 10})
    );
    let body = json!({"model": "small", "prompt": "Hi"});
    let (play, answer) = held.ask("/v1/completions", body).await;
    cut(&play, "tiny", "0123456789");
    let (_, answer) = json(answer).await;
    assert_eq!(answer["choices"][0]["tidegate"]["max_tokens"], 10);
}

fn cached(options: &mut Options) {
    options.shared = Some(Shared {
        answers: Answers::new(Keeping {
            ttl: Duration::from_secs(60),
            bytes: 1 << 20,
            mark: HeaderName::from_static("x-cache"),
            lasting: false,
        }),
        everyone: false,
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_kept_is_given_under_load_and_a_smaller_models_is_no_other_ones() {
    let held = Held::new(cached);
    let settled = || chat(json!({"temperature": 0}));
    let (play, answer) = held.ask(CHAT, settled()).await;
    finish(play, "support");
    json(answer).await;
    // Enough wait for a refusal: what is there costs nothing.
    let waiting = held.fill(3).await;
    let again = held.gateway.ask(CHAT, settled()).await;
    assert_eq!(
        (again.status.as_u16(), header(&again, "x-cache")),
        (200, Some("true".to_owned()))
    );
    let other = || chat(json!({"temperature": 0, "seed": 1}));
    assert_eq!(held.gateway.ask(CHAT, other()).await.status, 429);

    for (play, _) in waiting {
        finish(play, "support");
    }
    let (last, _waits) = held.ask(CHAT, chat(json!({}))).await;
    let (play, answer) = held.ask(CHAT, other()).await;
    assert_eq!(play.value["alternative"], "tiny");
    finish(play, "tiny");
    json(answer).await;
    // The load is over: the model that was asked for answers.
    finish(last, "support");
    let (play, answer) = held.ask(CHAT, other()).await;
    assert_eq!(play.value["alternative"], Value::Null);
    finish(play, "support");
    assert_eq!(json(answer).await.0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_an_answer_is_asked_for_by_its_beginning() {
    let held = Held::new(|_| {});
    let conversation = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hel"},
    ]);
    let with = |more: Value| {
        let mut body = chat(more);
        body["messages"] = conversation.clone();
        body
    };
    let object = json!({"type": "json_object"});
    for (path, body, continues) in [
        (CHAT, with(json!({})), json!(true)),
        (
            CHAT,
            with(json!({"continue_final_message": true})),
            json!(true),
        ),
        (
            CHAT,
            with(json!({"continue_final_message": false})),
            Value::Null,
        ),
        (CHAT, with(json!({"response_format": object})), Value::Null),
        (CHAT, chat(json!({})), Value::Null),
        (
            "/v1/responses",
            json!({"model": "small", "input": conversation}),
            json!(true),
        ),
    ] {
        let (play, answer) = held.ask(path, body.clone()).await;
        assert_eq!(play.value["continues"], continues, "{body}");
        finish(play, "support");
        json(answer).await;
    }
    let (status, body) = held
        .gateway
        .json(CHAT, chat(json!({"continue_final_message": true})))
        .await;
    assert_eq!(
        (status, &body["error"]["param"]),
        (400, &json!("continue_final_message"))
    );
    let formed = with(json!({"continue_final_message": true, "response_format": object}));
    assert_eq!(held.gateway.json(CHAT, formed).await.0, 400);
}

/// A conversation whose last message is the beginning of its answer.
fn begun(more: Value) -> Value {
    let mut body = chat(more);
    body["messages"] = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hel"},
    ]);
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_gone_on_with_by_a_model_that_can() {
    let held = Held::new(|options| {
        let route = &mut options.routes[0];
        let tiny = route.others[0].clone();
        route.others.push(OtherModel {
            name: "far".to_owned(),
            continues: false,
            ..tiny
        });
        route.steps[1].model = Some(1);
    });
    let _waiting = held.fill(1).await;
    let (first, _answer) = held.ask(CHAT, begun(json!({}))).await;
    assert_eq!(first.value["alternative"], "tiny");
    // The step's own model cannot: that of the one before answers.
    let (second, _answer) = held.ask(CHAT, begun(json!({}))).await;
    assert_eq!(
        (&second.value["alternative"], &second.value["continues"]),
        (&json!("tiny"), &json!(true))
    );
    finish(second, "tiny");
    let anew = begun(json!({"continue_final_message": false}));
    let (third, _answer) = held.ask(CHAT, anew).await;
    assert_eq!(third.value["alternative"], "far");

    let held = Held::new(|options| options.routes[0].others[0].continues = false);
    let _waiting = held.fill(1).await;
    let (first, _answer) = held.ask(CHAT, begun(json!({}))).await;
    assert_eq!(
        (&first.value["alternative"], &first.value["continues"]),
        (&Value::Null, &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_a_stage_gives_a_form_is_made_from_its_beginning_on() {
    let held = Held::new(|options| options.routes[0].has_form = true);
    let (play, answer) = held.ask(CHAT, begun(json!({}))).await;
    assert_eq!(play.value["continues"], Value::Null);
    finish(play, "support");
    json(answer).await;
    let anew = begun(json!({"continue_final_message": false}));
    let (play, answer) = held.ask(CHAT, anew).await;
    assert_eq!(play.value["continues"], Value::Null);
    finish(play, "support");
    json(answer).await;
    let told = begun(json!({"continue_final_message": true}));
    let (status, body) = held.gateway.json(CHAT, told).await;
    assert_eq!(
        (status, &body["error"]["param"]),
        (400, &json!("continue_final_message"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_refuses_needs_no_record() {
    let held = Held::new(|options| {
        options.routes[0].steps = vec![Step {
            refuse: true,
            ..from(0)
        }]
    });
    let (_here, asked) = asked(CHAT, &chat(json!({})));
    assert_eq!(held.gateway.openai.answer(asked).await.status, 429);
    assert!(held.came.lock().unwrap().try_recv().is_err());
}
