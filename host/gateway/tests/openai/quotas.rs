//! What is reserved, and what is settled.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::json;
use tidegate_contract::{Became, Lane};
use tidegate_gateway::access::{Exceeded, Scope, Who};
use tidegate_gateway::openai::admission::{Admission, Reserved};

use crate::flow::{Gateway, Play, chat, header, says};

const PATH: &str = "/v1/chat/completions";

/// What was reserved and settled, in order.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Entry>>>);

/// Reserved tokens, whether for a stream, and what was used of them.
type Entry = (u64, bool, Option<u64>);

struct Taken(Ledger, usize);

impl Admission for Ledger {
    fn may(&self, _: &Who, scope: Scope, _: &str) -> bool {
        scope != Scope::Responses
    }

    fn reserve(&self, _: &Who, tokens: u64, stream: bool) -> Result<Box<dyn Reserved>, Exceeded> {
        if tokens > 100 {
            let after = Some(Duration::from_millis(200));
            return Err(Exceeded {
                what: "tokens",
                limit: 100,
                after,
            });
        }
        let mut ledger = self.0.lock().unwrap();
        ledger.push((tokens, stream, None));
        Ok(Box::new(Taken(self.clone(), ledger.len() - 1)))
    }
}

impl Reserved for Taken {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let name = HeaderName::from_static("x-ratelimit-limit-tokens");
        vec![(name, HeaderValue::from(100))]
    }

    fn settle(self: Box<Self>, used: u64) {
        self.0.0.lock().unwrap()[self.1].2 = Some(used);
    }
}

async fn ledger(script: impl Fn(Play) + Send + Sync + 'static, stream: bool) -> Vec<Entry> {
    let ledger = Ledger::default();
    let kept = ledger.clone();
    let gateway = Gateway::with(script, |options| options.admission = Arc::new(kept));
    let answered = gateway
        .ask(PATH, chat(json!({"stream": stream, "max_tokens": 9})))
        .await;
    assert_eq!(
        header(&answered, "x-ratelimit-limit-tokens").as_deref(),
        Some("100")
    );
    if answered.status == 200 && stream {
        crate::flow::parts(answered).await;
    }
    ledger.0.lock().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_used_is_settled_however_it_ends() {
    // The prompt has 2 tokens by the room's count and 7 by the model's, the answer 5.
    for stream in [false, true] {
        assert_eq!(
            ledger(says(&["Hel", "lo"]), stream).await,
            [(11, stream, Some(12))]
        );
        let dropped = |play: Play| play.tell(&Became::Dropped { stage: "mask" });
        assert_eq!(ledger(dropped, stream).await, [(11, stream, Some(0))]);
    }
    let broken = |play: Play| {
        let mut heard = play.listen(1);
        for word in ["a", "b", "c"] {
            heard.piece(0, Lane::Content, word);
        }
        play.tell(&Became::Dropped { stage: "judge" });
    };
    assert_eq!(ledger(broken, true).await, [(11, true, Some(5))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exceeds_a_quota_is_told_when_to_come_again_and_no_model_is_shown_to_whom_it_is_not_for()
 {
    let gateway = Gateway::with(
        |play| panic!("asked: {}", play.value),
        |options| {
            options.admission = Arc::new(Ledger::default());
        },
    );
    let answered = gateway.ask(PATH, chat(json!({"n": 3}))).await;
    assert_eq!(answered.status, 429);
    // Less than a second would have one client ask in a loop.
    assert_eq!(header(&answered, "retry-after").as_deref(), Some("1"));
    let (status, _) = gateway
        .json("/v1/responses", json!({"model": "small", "input": "Hi"}))
        .await;
    assert_eq!(status, 404);
}
