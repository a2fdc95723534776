//! Requests that are repeated, and equal ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::header::HeaderName;
use serde_json::{Value, json};
use tidegate_contract::{Became, Callers, Lane};
use tidegate_gateway::idempotency::{Answers, Options as Keeping};
use tidegate_gateway::openai::route::Settled;
use tidegate_gateway::openai::{Options, Shared};

use crate::flow::{
    Gateway, PATIENCE, Play, asked, chat, choice, header, parts, whole, with_header,
};

const PATH: &str = "/v1/chat/completions";
const KEY: &str = "idempotency-key";

fn answers(bytes: usize) -> Answers {
    Answers::new(Keeping {
        ttl: Duration::from_secs(60),
        bytes,
        mark: HeaderName::from_static("idempotent-replayed"),
        lasting: false,
    })
}

fn repeated(options: &mut Options) {
    options.repeated = Some(answers(1 << 20));
}

/// Answers with the number of the record.
fn counts(asked: &Arc<AtomicUsize>) -> impl Fn(Play) + Send + Sync + 'static {
    let asked = asked.clone();
    move |play| {
        let number = asked.fetch_add(1, Ordering::SeqCst).to_string();
        let mut heard = play.listen(1);
        heard.piece(0, Lane::Content, &number);
        heard.answer(vec![choice(&number)]);
        play.answer(number);
    }
}

fn content(body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["choices"][0]["message"]["content"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_has_the_same_answer_and_asks_nothing() {
    let count = Arc::new(AtomicUsize::new(0));
    let gateway = Gateway::with(counts(&count), repeated);
    let body = chat(json!({}));
    let first = gateway
        .send(with_header(asked(PATH, &body), KEY, "a"))
        .await;
    assert_eq!(header(&first, "idempotent-replayed"), None);
    let first = whole(first);
    for key in ["a", "\"a\""] {
        let again = gateway
            .send(with_header(asked(PATH, &body), KEY, key))
            .await;
        assert_eq!(
            header(&again, "idempotent-replayed").as_deref(),
            Some("true")
        );
        assert_eq!(whole(again), first);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);

    let other = gateway
        .send(with_header(asked(PATH, &chat(json!({"n": 1}))), KEY, "a"))
        .await;
    assert_eq!(other.status, 422);
    let elsewhere = json!({"model": "small", "input": "Hi"});
    let elsewhere = gateway
        .send(with_header(asked("/v1/responses", &elsewhere), KEY, "a"))
        .await;
    assert_eq!(elsewhere.status, 200);
    let bad = gateway
        .send(with_header(asked(PATH, &body), KEY, "\"a"))
        .await;
    assert_eq!(bad.status, 400);
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_a_stream_that_runs_gets_all_of_it() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let gateway = Gateway::with(
        move |play| {
            let mut heard = play.listen(1);
            heard.piece(0, Lane::Content, "Hel");
            wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            heard.piece(0, Lane::Content, "lo");
            heard.answer(vec![choice("Hello")]);
            play.answer("Hello");
        },
        repeated,
    );
    let ask = || with_header(asked(PATH, &chat(json!({"stream": true}))), KEY, "a");
    let first = gateway.send(ask()).await;
    let second = gateway.send(ask()).await;
    go.send(()).unwrap();
    let ((first, ended), (second, also)) = tokio::join!(parts(first), parts(second));
    assert!(ended && also);
    assert_eq!(first.concat(), second.concat());
    let third = parts(gateway.send(ask()).await).await;
    assert_eq!(third.0.concat(), first.concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_making_of_a_shared_answer_ends_with_its_last_reader() {
    let store = answers(1 << 20);
    let kept = store.clone();
    let (to, read) = std::sync::mpsc::channel();
    let gateway = Gateway::with(
        move |play| {
            play.listen(1).piece(0, Lane::Content, "Hel");
            to.send(()).unwrap();
        },
        |options| {
            options.shared = Some(Shared {
                answers: kept,
                everyone: false,
            });
        },
    );
    let body = chat(json!({"stream": true, "temperature": 0}));
    let ask = || asked(PATH, &body);
    let first = gateway.send(ask()).await;
    let second = gateway.send(ask()).await;
    read.recv_timeout(PATIENCE).unwrap();
    drop(first);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(gateway.requests.take_gone(), []);
    drop(second);
    let until = tokio::time::Instant::now() + PATIENCE;
    while gateway.requests.waiting_callers() > 0 || !store.is_empty() {
        assert!(tokio::time::Instant::now() < until, "it is still made");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(gateway.requests.take_gone().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_failures_of_the_moment_nor_refusals_are_kept() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let gateway = Gateway::with(
        move |play| match counted.fetch_add(1, Ordering::SeqCst) {
            0 => play.tell(&Became::Dead {
                stage: "mask",
                reason: "trapped",
                error: None,
            }),
            _ => play.tell(&Became::Dropped { stage: "mask" }),
        },
        repeated,
    );
    for (status, asked_for) in [(500, 1), (403, 2), (403, 3)] {
        let answered = gateway
            .send(with_header(asked(PATH, &chat(json!({}))), KEY, "a"))
            .await;
        assert_eq!(answered.status, status);
        assert_eq!(count.load(Ordering::SeqCst), asked_for);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_stays_within_its_bytes() {
    let count = Arc::new(AtomicUsize::new(0));
    let store = answers(2048);
    let kept = store.clone();
    let gateway = Gateway::with(counts(&count), |options| options.repeated = Some(kept));
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        gateway
            .send(with_header(asked(PATH, &chat(json!({}))), KEY, key))
            .await;
    }
    assert!((1..8).contains(&store.len()), "{}", store.len());
    let last = gateway
        .send(with_header(asked(PATH, &chat(json!({}))), KEY, "h"))
        .await;
    assert_eq!(content(&whole(last)), "7");
    let first = gateway
        .send(with_header(asked(PATH, &chat(json!({}))), KEY, "a"))
        .await;
    assert_eq!(content(&whole(first)), "8");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_settled_requests_share_an_answer_each_client_its_own() {
    let count = Arc::new(AtomicUsize::new(0));
    let gateway = Gateway::with(counts(&count), |options| {
        options.shared = Some(Shared {
            answers: answers(1 << 20),
            everyone: false,
        });
    });
    let ask = async |more: Value, who: &str| {
        let (here, mut asked) = asked(PATH, &chat(more));
        asked.who.name = who.into();
        content(&whole(gateway.send((here, asked)).await))
    };
    assert_eq!(ask(json!({"temperature": 0}), "ann").await, "0");
    assert_eq!(ask(json!({"temperature": 0}), "ann").await, "0");
    assert_eq!(ask(json!({"temperature": 0}), "bob").await, "1");
    assert_eq!(
        ask(json!({"temperature": 0, "max_tokens": 9}), "ann").await,
        "2"
    );
    assert_eq!(ask(json!({"temperature": 1}), "ann").await, "3");
    assert_eq!(ask(json!({"temperature": 1}), "ann").await, "4");
    assert_eq!(ask(json!({"temperature": 1, "seed": 5}), "ann").await, "5");
    assert_eq!(ask(json!({"temperature": 1, "seed": 5}), "ann").await, "5");
}

/// What makes answers, as the test says.
#[derive(Clone, Default)]
struct Made(Arc<AtomicUsize>);

impl Made {
    fn replace(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn share(&self, options: &mut Options) {
        let made = self.0.clone();
        options.routes[0].present = Arc::new(move || made.load(Ordering::SeqCst).to_string());
        options.shared = Some(Shared {
            answers: answers(1 << 20),
            everyone: false,
        });
    }
}

async fn greedy(gateway: &Gateway) -> Value {
    let asked = asked(PATH, &chat(json!({"temperature": 0})));
    content(&whole(gateway.send(asked).await))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_shared_until_what_made_it_is_replaced() {
    let (count, made) = (Arc::new(AtomicUsize::new(0)), Made::default());
    let gateway = Gateway::with(counts(&count), |options| made.share(options));
    for _ in 0..2 {
        assert_eq!(greedy(&gateway).await, "0");
    }
    made.replace();
    for _ in 0..2 {
        assert_eq!(greedy(&gateway).await, "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_whose_making_something_was_replaced_is_not_kept() {
    let (count, made) = (Arc::new(AtomicUsize::new(0)), Made::default());
    let replaced = made.clone();
    let says = counts(&count);
    let gateway = Gateway::with(
        move |play| {
            // Replaced, and put back as it was.
            if count.load(Ordering::SeqCst) == 0 {
                replaced.replace();
            }
            says(play);
        },
        |options| made.share(options),
    );
    assert_eq!(greedy(&gateway).await, "0");
    made.0.store(0, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(
            greedy(&gateway).await,
            "1",
            "it may be of what was replaced"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_stage_draws_by_itself_nothing_is_shared() {
    let asked_for = async |settled| {
        let count = Arc::new(AtomicUsize::new(0));
        let gateway = Gateway::with(counts(&count), |options| {
            options.routes[0].settled = settled;
            Made::default().share(options);
        });
        for more in [json!({}), json!({"temperature": 0}), json!({"seed": 5})] {
            for _ in 0..2 {
                gateway.send(asked(PATH, &chat(more.clone()))).await;
            }
        }
        count.load(Ordering::SeqCst)
    };
    assert_eq!(asked_for(Settled::Never).await, 6);
    assert_eq!(asked_for(Settled::WhereAsked).await, 4);
    assert_eq!(asked_for(Settled::Usually).await, 3);
}
