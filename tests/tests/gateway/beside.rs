//! A good client, beside whatever else is done to a program: each of its streams is whole and says the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use serde_json::json;
use tidegate_tests::until;

use crate::client::{PATIENCE, Served};

/// It asks again and again.
pub(crate) struct Beside {
    over: Arc<AtomicBool>,
    whole: Arc<AtomicUsize>,
    client: Option<JoinHandle<()>>,
}

impl Beside {
    /// Begins, once the first answer is there.
    pub(crate) fn begin(
        served: &Arc<Served>,
        headers: &'static [(&'static str, &'static str)],
    ) -> Beside {
        let (over, whole) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = std::thread::spawn({
            let (served, over, whole) = (served.clone(), over.clone(), whole.clone());
            move || {
                let asked = json!({
                    "model": "support", "stream": true, "max_tokens": 24,
                    "messages": [{"role": "user", "content": "My order came incomplete."}],
                });
                let mut first = None;
                while !over.load(Ordering::Acquire) {
                    let got =
                        served.send("POST", "/v1/chat/completions", headers, &asked.to_string());
                    assert_eq!(got.status, 200, "{got:?}");
                    let text = got.streamed();
                    assert_eq!(*first.get_or_insert_with(|| text.clone()), text);
                    whole.fetch_add(1, Ordering::AcqRel);
                }
            }
        });
        let beside = Beside {
            over,
            whole,
            client: Some(client),
        };
        beside.goes_on();
        beside
    }

    /// Waits for another whole answer, or for its failure.
    pub(crate) fn goes_on(&self) {
        let before = self.whole.load(Ordering::Acquire);
        until("another good answer", PATIENCE, || {
            self.whole.load(Ordering::Acquire) > before
                || self.client.as_ref().is_none_or(JoinHandle::is_finished)
        });
    }

    /// The end: none of its answers was wrong, the last one was begun after all that was done.
    pub(crate) fn ends(mut self) {
        self.goes_on();
        self.goes_on();
        self.over.store(true, Ordering::Release);
        if let Some(Err(failed)) = self.client.take().map(JoinHandle::join) {
            std::panic::resume_unwind(failed);
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}
