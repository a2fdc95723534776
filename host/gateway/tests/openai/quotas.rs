//! What is reserved, and what is settled.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate_contract::{Became, Callers, Lane};
use tidegate_gateway::access::{Exceeded, Limit, Who};
use tidegate_gateway::openai::admission::{Admission, Reserved};

use crate::flow::{Gateway, PATIENCE, Play, asked, chat, choice, header, says};

const PATH: &str = "/v1/chat/completions";

/// What was reserved and settled, in order.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Entry>>>);

/// Reserved tokens, and what was used of them.
pub(crate) type Entry = (u64, Option<u64>);

struct Taken(Ledger, usize);

impl Admission for Ledger {
    fn may(&self, who: &Who, _: &str) -> bool {
        *who.name == *"ann"
    }

    fn reserve(&self, _: &Who, tokens: u64) -> Result<Box<dyn Reserved>, Exceeded> {
        if tokens > 100 {
            let after = Some(Duration::from_millis(200));
            return Err(Exceeded {
                what: Limit::Tokens,
                limit: 100,
                after,
            });
        }
        let mut ledger = self.0.lock().unwrap();
        ledger.push((tokens, None));
        Ok(Box::new(Taken(self.clone(), ledger.len() - 1)))
    }
}

impl Reserved for Taken {
    fn settle(self: Box<Self>, used: u64) {
        let mut ledger = self.0.0.lock().unwrap();
        let settled = &mut ledger[self.1].1;
        assert_eq!(*settled, None, "it is settled twice");
        *settled = Some(used);
    }
}

impl Ledger {
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    /// What was settled, once it is.
    pub(crate) async fn settled(&self) -> u64 {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some((_, Some(used))) = self.entries().last() {
                return *used;
            }
            assert!(tokio::time::Instant::now() < until, "it is not settled");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn counted(script: impl Fn(Play) + Send + Sync + 'static) -> (Gateway, Ledger) {
    let ledger = Ledger::default();
    let kept = ledger.clone();
    let gateway = Gateway::with(script, |options| options.admission = Arc::new(kept));
    (gateway, ledger)
}

async fn ledger(script: impl Fn(Play) + Send + Sync + 'static, stream: bool) -> Vec<Entry> {
    let (gateway, ledger) = counted(script);
    let answered = gateway
        .ask(PATH, chat(json!({"stream": stream, "max_tokens": 9})))
        .await;
    if answered.status == 200 && stream {
        crate::flow::parts(answered).await;
    }
    ledger.entries()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_used_is_settled_however_it_ends() {
    // The prompt has 2 tokens by the room's count and 7 by the model's, the answer 5.
    for stream in [false, true] {
        assert_eq!(ledger(says(&["Hel", "lo"]), stream).await, [(11, Some(12))]);
        let dropped = |play: Play| play.tell(&Became::Dropped { stage: "mask" });
        assert_eq!(ledger(dropped, stream).await, [(11, Some(0))]);
        // A judge behind the model takes nothing back.
        let judged = |play: Play| {
            let mut heard = play.listen(1);
            heard.answer(vec![choice("Hello")]);
            play.tell(&Became::Dropped { stage: "judge" });
        };
        assert_eq!(ledger(judged, stream).await, [(11, Some(12))]);
        let broken = |play: Play| {
            let heard = play.listen(1);
            let tally = heard.tally.clone();
            tally.asked();
            for tokens in 1..=3 {
                tally.made(0, tokens);
            }
            play.tell(&Became::Dropped { stage: "judge" });
        };
        assert_eq!(ledger(broken, stream).await, [(11, Some(5))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_an_answer_goes_on_from_are_paid_once() {
    for stream in [false, true] {
        let goes_on = |play: Play| {
            let tally = play.listen(1).tally;
            tally.asked();
            for tokens in 1..=3 {
                tally.made(0, tokens);
                tally.made(1, tokens);
            }
            drop(tally);
            // The model was unloaded. The next has the tokens of the first choice, and makes the second anew.
            let tally = play.goes_on(1, 3).tally;
            tally.asked();
            for tokens in 4..=5 {
                tally.made(0, tokens);
            }
            tally.made(1, 2);
            play.tell(&Became::Dropped { stage: "judge" });
        };
        assert_eq!(ledger(goes_on, stream).await, [(11, Some(2 + 5 + 3 + 2))]);
    }
}

/// A client that leaves while its record is with the pipeline, and what is settled then.
async fn leaves(
    stream: bool,
    script: impl Fn(Play) + Send + Sync + 'static,
    read: &Receiver<()>,
) -> u64 {
    let (gateway, ledger) = counted(script);
    let (here, asked) = asked(PATH, &chat(json!({"stream": stream, "max_tokens": 9})));
    let openai = gateway.openai.clone();
    let client = tokio::spawn(async move { openai.answer(asked).await });
    tokio::task::block_in_place(|| read.recv_timeout(PATIENCE).unwrap());
    here.send_replace(true);
    // One who reads a stream is seen to go by its reader.
    let answered = tokio::time::timeout(PATIENCE, client).await.unwrap();
    drop(answered);
    ledger.settled().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_pays_for_what_was_made_until_the_model_has_let_go() {
    for stream in [false, true] {
        let (to, read) = channel();
        // No model was asked.
        let nothing = move |_: Play| to.send(()).unwrap();
        assert_eq!(leaves(stream, nothing, &read).await, 0);

        let (to, read) = channel();
        // Nobody has heard of any of it: a handler holds it back.
        let made = move |play: Play| {
            let heard = play.listen(1);
            let tally = heard.tally.clone();
            drop(heard);
            tally.asked();
            tally.made(0, 3);
            to.send(()).unwrap();
            let until = std::time::Instant::now() + PATIENCE;
            while play.requests.terms(play.id).is_some() {
                assert!(std::time::Instant::now() < until, "it does not leave");
                std::thread::sleep(Duration::from_millis(1));
            }
            // The step that is under way makes one more.
            tally.made(0, 4);
        };
        assert_eq!(leaves(stream, made, &read).await, 2 + 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_records_those_that_were_answered_are_paid_whatever_becomes_of_the_others() {
    let (gateway, ledger) = counted(|play: Play| {
        if play.value["prompt"] == "good" {
            let mut heard = play.listen(1);
            heard.piece(0, Lane::Content, "Hello");
            heard.answer(vec![choice("Hello")]);
            return play.answer("Hello");
        }
        let answered = std::time::Instant::now() + PATIENCE;
        while play.requests.waiting_callers() > 1 {
            assert!(
                std::time::Instant::now() < answered,
                "the other is not answered"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        play.tell(&Became::Dropped { stage: "mask" });
    });
    let body = json!({"model": "small", "prompt": ["good", "bad"], "max_tokens": 9});
    let answered = gateway.ask("/v1/completions", body).await;
    assert_eq!(answered.status, 403);
    // Prompts of 4 and 3 tokens by the room's count, 7 by the model's.
    assert_eq!(ledger.entries(), [(4 + 3 + 2 * 9, Some(7 + 5))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exceeds_a_quota_is_told_when_to_come_again_and_no_model_is_shown_to_whom_it_is_not_for()
 {
    let (gateway, _) = counted(|play| panic!("asked: {}", play.value));
    let answered = gateway.ask(PATH, chat(json!({"n": 3}))).await;
    assert_eq!(answered.status, 429);
    // Less than a second would have one client ask in a loop.
    assert_eq!(header(&answered, "retry-after").as_deref(), Some("1"));
    let (here, mut asked) = asked(PATH, &chat(json!({})));
    asked.who.name = "bob".into();
    assert_eq!(gateway.send((here, asked)).await.status, 404);
}
