//! Requests with an idempotency key: who reads their answers, how long, and what of them is kept.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde_json::{Value, json};
use tidegate_contract::{CallerId, Callers, Lane};
use tidegate_gateway::access::{Access, AccessOptions, Key, Permissions, Quota, Secret, Who};
use tidegate_gateway::exchange::{Answered, Asked};
use tidegate_gateway::idempotency::{Answers, Options as Keeping};
use tokio::sync::watch;

use crate::flow::{
    Gateway, PATIENCE, Play, asked, chat, choice, header, parts, says, whole, with_header,
};

const PATH: &str = "/v1/chat/completions";
const KEY: &str = "idempotency-key";
const DEADLINE: &str = "x-tidegate-deadline-ms";

pub(crate) fn keeping(bytes: usize) -> Keeping {
    Keeping {
        ttl: Duration::from_secs(60),
        bytes,
        mark: HeaderName::from_static("idempotent-replayed"),
        lasting: true,
    }
}

fn ask(body: &Value) -> (watch::Sender<bool>, Asked) {
    with_header(asked(PATH, body), KEY, "a")
}

/// Shows a part of the answer, says which record it is, and the rest when it is told to.
struct InTwo {
    go: Sender<()>,
    asked: Receiver<CallerId>,
    gateway: Gateway,
}

fn in_two() -> InTwo {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let (to, asked) = channel();
    let script = move |play: Play| {
        let mut heard = play.listen(1);
        heard.piece(0, Lane::Content, "Hel");
        to.send(play.id).unwrap();
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        heard.piece(0, Lane::Content, "lo");
        heard.answer(vec![choice("Hello")]);
        play.answer("Hello");
    };
    let gateway = Gateway::with(script, |options| {
        options.repeated = Some(Answers::new(keeping(1 << 20)));
    });
    InTwo { go, asked, gateway }
}

fn text(answered: Answered) -> Value {
    let body: Value = serde_json::from_slice(&whole(answered)).unwrap();
    body["choices"][0]["message"]["content"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_made_to_its_end_without_its_reader_and_found_by_whoever_asks_again() {
    let InTwo { go, asked, gateway } = in_two();
    let body = chat(json!({"stream": true}));
    let first = gateway.send(ask(&body)).await;
    asked.recv_timeout(PATIENCE).unwrap();
    drop(first);
    // One whose client goes before there is a head, too.
    let (here, question) = ask(&body);
    let reader = tokio::spawn({
        let openai = gateway.openai.clone();
        async move { openai.answer(question).await }
    });
    here.send_replace(true);
    reader.abort();
    let _ = reader.await;
    assert_eq!(gateway.requests.take_gone(), []);
    assert_eq!(gateway.requests.waiting_callers(), 1);
    go.send(()).unwrap();
    let again = gateway.send(ask(&body)).await;
    assert_eq!(
        header(&again, "idempotent-replayed").as_deref(),
        Some("true")
    );
    let (parts, ended) = parts(again).await;
    assert!(ended);
    let shown = String::from_utf8(parts.concat()).unwrap();
    assert!(shown.contains("Hel") && shown.contains("lo"), "{shown}");
}

/// Someone who may have one request under way.
async fn one_at_once() -> Who {
    let digest = ring::digest::digest(&ring::digest::SHA256, b"sk");
    let hex: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    let quota = Quota {
        concurrent: Some(1),
        ..Quota::default()
    };
    let options = AccessOptions {
        keys: vec![Key {
            name: "ann".to_owned(),
            secret: Secret::Digest(format!("sha256:{hex}")),
            permissions: Permissions {
                quota: Some("one".into()),
                ..Permissions::default()
            },
        }],
        quotas: BTreeMap::from([("one".to_owned(), quota)]),
        ..AccessOptions::default()
    };
    let access = Access::new(options, None).unwrap();
    let headers = HeaderMap::from_iter([("api-key".parse().unwrap(), "sk".parse().unwrap())]);
    let here = "127.0.0.1".parse().unwrap();
    access.admit(&headers, here).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_made_without_its_reader_keeps_the_place_of_its_request() {
    for stream in [false, true] {
        let InTwo { go, asked, gateway } = in_two();
        let who = one_at_once().await;
        let body = chat(json!({"stream": stream}));
        let (_here, mut question) = ask(&body);
        question.under_way = Some(who.begin(true, None).unwrap());
        let openai = gateway.openai.clone();
        let first = tokio::spawn(async move { openai.answer(question).await });
        asked.recv_timeout(PATIENCE).unwrap();
        first.abort();
        drop(first.await);
        assert!(who.begin(true, None).is_err(), "it is made all the same");
        let again = tokio::spawn({
            let openai = gateway.openai.clone();
            let (_here, question) = ask(&body);
            async move { openai.answer(question).await }
        });
        go.send(()).unwrap();
        let again = again.await.unwrap();
        match stream {
            true => assert!(parts(again).await.1),
            false => assert_eq!(text(again), "Hello"),
        }
        // Whoever has read the end may count on the place.
        assert!(who.begin(true, None).is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_who_reads_an_answer_has_a_deadline_of_its_own() {
    let InTwo { go, asked, gateway } = in_two();
    let body = chat(json!({}));
    let openai = gateway.openai.clone();
    let (_here, question) = with_header(ask(&body), DEADLINE, "20000");
    let first = tokio::spawn(async move { openai.answer(question).await });
    let id = asked.recv_timeout(PATIENCE).unwrap();
    let deadline = || gateway.requests.terms(id).unwrap().deadline.unwrap();
    let before = deadline();
    // Joined by one who waits less: its own deadline is told, and the other's stays.
    let late = gateway.send(with_header(ask(&body), DEADLINE, "1")).await;
    assert_eq!(late.status, 504);
    assert_eq!(deadline(), before);
    // Joined by one who waits longer: so does the pipeline.
    let openai = gateway.openai.clone();
    let (_there, question) = with_header(ask(&body), DEADLINE, "29000");
    let longer = tokio::spawn(async move { openai.answer(question).await });
    let until = tokio::time::Instant::now() + PATIENCE;
    while deadline() <= before {
        assert!(tokio::time::Instant::now() < until, "nobody waits longer");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    go.send(()).unwrap();
    assert_eq!(text(first.await.unwrap()), "Hello");
    assert_eq!(text(longer.await.unwrap()), "Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_others_read_breaks_for_one_whose_deadline_has_come() {
    let InTwo {
        go,
        gateway,
        asked: _asked,
    } = in_two();
    let body = chat(json!({"stream": true}));
    let first = gateway.send(ask(&body)).await;
    // Its head is there already.
    let late = gateway.send(with_header(ask(&body), DEADLINE, "1")).await;
    let (shown, ended) = tokio::time::timeout(PATIENCE, parts(late)).await.unwrap();
    let shown = String::from_utf8(shown.concat()).unwrap();
    assert!(!ended && shown.contains("deadline_exceeded"), "{shown}");
    go.send(()).unwrap();
    assert!(parts(first).await.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_part_of_a_record_is_part_of_what_was_asked() {
    let gateway = Gateway::with(says(&["Hi"]), |options| {
        options.repeated = Some(Answers::new(keeping(1 << 20)));
        options.routes[0].key_header = Some(HeaderName::from_static("x-key"));
    });
    let send = async |pairs: &[(&'static str, &'static str)]| {
        let mut question = ask(&chat(json!({})));
        for (name, value) in pairs {
            question = with_header(question, name, value);
        }
        gateway.send(question).await.status.as_u16()
    };
    assert_eq!(send(&[("x-tenant", "one"), ("x-other", "1")]).await, 200);
    assert_eq!(send(&[("x-tenant", "one"), ("x-other", "2")]).await, 200);
    assert_eq!(send(&[("x-tenant", "two")]).await, 422);
    assert_eq!(send(&[]).await, 422);
    assert_eq!(send(&[("x-tenant", "one"), ("x-key", "k")]).await, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_many_keys_pushes_out_its_own_answers() {
    let store = Answers::new(keeping(4096));
    let kept = store.clone();
    let gateway = Gateway::with(says(&["Hi"]), |options| options.repeated = Some(kept));
    let send = async |who: &str, key: &str| {
        let (here, mut question) = asked(PATH, &chat(json!({})));
        question.who.name = who.into();
        question.headers.append(KEY, key.parse().unwrap());
        let answered = gateway.send((here, question)).await;
        header(&answered, "idempotent-replayed").is_some()
    };
    assert!(!send("ann", "first").await);
    for number in 0..50 {
        assert!(!send("bob", &number.to_string()).await);
    }
    assert!(send("ann", "first").await, "of {}", store.len());
    assert!(send("bob", "49").await && !send("bob", "0").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_seed_has_one_that_follows_from_its_key() {
    let seeds = async |who: &'static str, key: &'static str, more: Value| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let says = says(&["Hi"]);
        let script = move |play: Play| {
            let seed = play.value["parameters"]["seed"].clone();
            into.lock().unwrap().push(seed);
            says(play);
        };
        let gateway = Gateway::with(script, |options| {
            options.repeated = Some(Answers::new(keeping(1 << 20)));
        });
        let (here, mut question) = with_header(asked(PATH, &chat(more)), KEY, key);
        question.who.name = who.into();
        assert_eq!(gateway.send((here, question)).await.status, 200);
        let seen = seen.lock().unwrap().clone();
        seen[0].as_u64().unwrap()
    };
    let first = seeds("ann", "a", json!({})).await;
    assert!(first < 1 << 53);
    assert_eq!(seeds("ann", "a", json!({})).await, first);
    assert_ne!(seeds("ann", "b", json!({})).await, first);
    assert_ne!(seeds("bob", "a", json!({})).await, first);
    assert_eq!(seeds("ann", "a", json!({"seed": 5})).await, 5);
}
