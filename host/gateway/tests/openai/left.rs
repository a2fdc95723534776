//! What a kill leaves of requests with an idempotency key: how they were served, and when it is of no more use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_contract::{Became, CallerId, Callers, Lane};
use tidegate_gateway::openai::Options;
use tidegate_gateway::openai::load::Step;
use tidegate_gateway::requests::{self, Expected, Patience, Requests, Spending};
use tidegate_state::MemoryDisk;
use tokio::time::Instant;

use crate::flow::{Gateway, PATIENCE, Play, asked, chat, header, parts, says, whole, with_header};
use crate::lives::{ask, broken_off, found, goes_on, killed, left, life_with, nobody};
use crate::load::{cut, from, steps};
use crate::quotas::Ledger;

const PATH: &str = "/v1/chat/completions";

/// Steps, and a model that takes prompts of two tokens at most.
fn small(options: &mut Options) {
    steps(options);
    options.routes[0].bounds.context_tokens = 3;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_load_made_of_a_request_holds_after_a_kill() {
    for stream in [false, true] {
        // Too long for the model that is asked for.
        let prompt = json!([{"role": "user", "content": "Hiya!"}]);
        let body = chat(json!({"messages": prompt, "max_tokens": 30, "stream": stream}));
        let disk = MemoryDisk::new();
        let (to, came) = channel();
        let to = Mutex::new(to);
        let script = move |play: Play| to.lock().unwrap().send(play).unwrap();
        let gateway = life_with(&disk, script, small);
        let mut here = Vec::new();
        let mut last = None;
        for keyed in [false, false, true] {
            let (there, question) = match keyed {
                true => ask(&body),
                false => asked(PATH, &chat(json!({}))),
            };
            here.push(there);
            let openai = gateway.openai.clone();
            tokio::spawn(async move { openai.answer(question).await });
            last = Some(came.recv_timeout(PATIENCE).unwrap());
        }
        let last = last.unwrap();
        assert_eq!(last.value["alternative"], "tiny");
        found(&disk, true).await;

        let gateway = life_with(&killed(&disk), nobody, small);
        assert_eq!(gateway.requests.left(0, &[(last.id, 1)]), [last.id]);
        let openai = gateway.openai.clone();
        let (_here, question) = ask(&body);
        let again = tokio::spawn(async move { openai.answer(question).await });
        cut(&left(&gateway, last.id), "tiny", "0123456789");
        let answers = [again.await.unwrap(), gateway.send(ask(&body)).await];
        for answered in answers {
            assert_eq!(answered.status, 200);
            let model = header(&answered, "x-tidegate-model");
            assert_eq!(model.as_deref(), Some("tiny"));
            let said: Value = match stream {
                false => serde_json::from_slice(&whole(answered)).unwrap(),
                true => {
                    let (parts, ended) = parts(answered).await;
                    assert!(ended);
                    let text = String::from_utf8(parts.concat()).unwrap();
                    let chunks = text.split("\n\n").filter_map(|event| {
                        serde_json::from_str(event.strip_prefix("data: ")?).ok()
                    });
                    chunks.last().unwrap()
                }
            };
            assert_eq!(said["model"], "tiny");
            let choice = &said["choices"][0];
            assert_eq!(choice["finish_reason"], "length");
            let shortened = json!({"shortened": true, "max_tokens": 10});
            assert_eq!(choice["tidegate"], shortened, "{said}");
        }
    }
}

/// Whoever asks now is told to come again.
fn full(options: &mut Options) {
    steps(options);
    options.routes[0].steps = vec![Step {
        refuse: true,
        ..from(0)
    }];
}

async fn status(gateway: &Gateway, body: &Value) -> u16 {
    gateway.send(ask(body)).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pipeline_has_goes_on_whatever_the_load_and_what_it_has_not_is_asked_as_any_other()
{
    let body = chat(json!({"stream": true}));
    for there in [true, false] {
        let (disk, id, _) = broken_off(&body).await;
        let gateway = life_with(&disk, nobody, full);
        // Nobody knows yet: it is left as it is.
        let late = with_header(ask(&body), "x-tidegate-deadline-ms", "1");
        assert_eq!(gateway.send(late).await.status, 504);
        if there {
            assert_eq!(gateway.requests.left(0, &[(id, 1)]), [id]);
            goes_on(&gateway, id);
            let again = gateway.send(ask(&body)).await;
            assert!(parts(again).await.1);
        } else {
            assert_eq!(gateway.requests.left(0, &[]), []);
            assert_eq!(status(&gateway, &body).await, 429);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_answer_failed_in_a_later_life_stands_for_nothing() {
    let body = chat(json!({"stream": true}));
    for there in [true, false] {
        let (disk, id, _) = broken_off(&body).await;
        let asked = AtomicUsize::new(usize::from(there));
        let says = says(&["Hi"]);
        let script = move |play: Play| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => play.tell(&Became::Dropped { stage: "mask" }),
            _ => says(play),
        };
        let gateway = life_with(&disk, script, |_| {});
        let dropped = Became::Dropped { stage: "mask" };
        if there {
            assert_eq!(gateway.requests.left(0, &[(id, 1)]), [id]);
            let play = left(&gateway, id);
            play.listen(1).piece(0, Lane::Content, "Hel");
            let again = gateway.send(ask(&body)).await;
            play.tell(&dropped);
            assert!(!parts(again).await.1);
        } else {
            assert_eq!(gateway.requests.left(0, &[]), []);
            assert_eq!(status(&gateway, &body).await, 403);
        }
        found(&disk, false).await;
        let corrected = chat(json!({"max_tokens": 5}));
        assert_eq!(status(&gateway, &corrected).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_again_pays_for_what_a_later_life_made_also_where_it_fails() {
    let body = chat(json!({"stream": true, "max_tokens": 9}));
    let (disk, id, _) = broken_off(&body).await;
    let ledger = Ledger::default();
    let kept = ledger.clone();
    let gateway = life_with(&disk, nobody, |options| options.admission = Arc::new(kept));
    assert_eq!(gateway.requests.left(0, &[(id, 1)]), [id]);
    let play = left(&gateway, id);
    let mut heard = play.listen(1);
    heard.tally.asked();
    // Before anybody asks for it, and after.
    heard.tally.made(0, 1);
    heard.piece(0, Lane::Content, "Hel");
    let again = gateway.send(ask(&body)).await;
    heard.tally.made(0, 3);
    drop(heard);
    play.tell(&Became::Dropped { stage: "judge" });
    assert!(!parts(again).await.1);
    // The prompt has 2 tokens.
    assert_eq!(ledger.settled().await, 2 + 3);
    assert_eq!(ledger.entries(), [(2 + 9, Some(2 + 3))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_waits_as_any_other_until_a_model_has_begun() {
    let body = chat(json!({"stream": true}));
    let (disk, id, _) = broken_off(&body).await;
    let gateway = life_with(&disk, nobody, |options| {
        options.requests = Requests::new(requests::Options {
            waiting: BTreeMap::from([(0, 1)]),
            ..requests::Options::default()
        });
    });
    assert_eq!(gateway.requests.left(0, &[(id, 1)]), [id]);
    assert_eq!(gateway.requests.load(0).waiting, 1);
    let other = gateway.send(asked(PATH, &body)).await;
    assert_eq!(other.status, 429);
    left(&gateway, id).begun("support");
    assert_eq!(gateway.requests.load(0).waiting, 0);
    let spending = Spending::new(&[], |_| {});
    assert!(gateway.requests.wait(0, 1, 1, spending).await.is_ok());
    goes_on(&gateway, id);
    assert!(parts(gateway.send(ask(&body)).await).await.1);
}

/// The clock stands still but where all wait for it.
#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_any_more_ends_and_what_has_an_answer_stays() {
    let allowance = Duration::from_secs(30);
    let requests = Requests::new(requests::Options::default());
    let ids = [1, 2, 3].map(|offset| CallerId {
        source: 0,
        partition: 0,
        offset,
    });
    let patience = ids.map(|_| Patience::until(Instant::now()));
    for (caller, patience) in ids.into_iter().zip(&patience) {
        requests.await_left(Expected {
            caller,
            class: 1,
            prompt: 2,
            pieces: None,
            allowance,
            patience: patience.clone(),
            until: Instant::now() + 100 * allowance,
        });
    }
    let [retried, answered, joined] = ids;
    let mut there = requests.left(0, &ids.map(|id| (id, 1)));
    there.sort_unstable();
    assert_eq!(there, ids);
    let play = Play {
        requests: requests.clone(),
        id: answered,
        value: json!({}),
        key: None,
        headers: Vec::new(),
    };
    play.answer("Hello");
    requests.forget_left();
    assert_eq!(requests.take_gone(), []);

    tokio::time::advance(allowance).await;
    // Somebody asks for this one, and waits longer.
    let until = Instant::now() + allowance;
    patience[2].lasts(until);
    requests.forget_left();
    assert_eq!(requests.take_gone(), [retried]);
    let mine = Patience::until(until);
    assert!(requests.resume(retried, &mine).await.unwrap().is_none());
    assert!(requests.resume(answered, &mine).await.unwrap().is_some());
    assert!(requests.resume(joined, &mine).await.unwrap().is_some());
}
