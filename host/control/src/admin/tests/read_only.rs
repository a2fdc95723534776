//! The page for those who can only look.

use axum::http::Method;

use super::*;
use crate::admin::ReadOnlyPage;

#[test]
fn who_asks_and_goes_leaves_no_more_behind_than_may_be_asked_at_once() {
    let host = Arc::new(Fake::default());
    let page = ReadOnlyPage::new(host.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let ask_by = |key: &str, path: &str| page.answer(key, Method::GET, path, None);
    let ask = |path: &str| ask_by("key", path);
    runtime.block_on(async {
        // Each gets under way, as far as it may, and is dropped, as a client is that has gone.
        let leave = async |key: &str| {
            for _ in 0..100 {
                let asked = ask_by(key, "/v1/dead-letters/x@1");
                let gone = tokio::time::timeout(Duration::from_millis(5), asked);
                assert!(gone.await.is_err(), "it was answered");
            }
        };
        // What got under way begins on threads of its own.
        let looks = async |count: u64| {
            let end = std::time::Instant::now() + Duration::from_secs(60);
            while host.looks.load(Ordering::SeqCst) < count {
                assert!(std::time::Instant::now() < end, "{count} look");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        leave("key").await;
        looks(4).await;
        // One key has half of the places, whatever it asks for; the others' keys have the rest.
        assert_eq!(host.looks.load(Ordering::SeqCst), 4);
        assert_eq!(ask_by("other", "/v1/status").await.status(), 200);
        assert_eq!(ask("/v1/status").await.status(), 503);
        leave("other").await;
        looks(8).await;
        assert_eq!(host.looks.load(Ordering::SeqCst), 8);
        // What holds nothing of the host needs no place.
        assert_eq!(ask("/").await.status(), 200);
        assert_eq!(ask("/v1/live").await.status(), 200);
        let refused = ask_by("third", "/v1/dead-letters/x@1").await;
        assert_eq!(refused.status(), 503);
        host.found.store(true, Ordering::SeqCst);
        while host.looks.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(ask("/v1/dead-letters/x@1").await.status(), 404);
    });
    assert_eq!(host.most_looks.load(Ordering::SeqCst), 8);
}

#[test]
fn one_key_leaves_places_to_look_to_the_others() {
    let page = ReadOnlyPage::new(Arc::new(Fake::default()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let look = |key: &str| page.answer(key, Method::GET, "/v1/live", None);
    runtime.block_on(async {
        let mut looking = Vec::new();
        for _ in 0..8 {
            let answer = look("greedy").await;
            assert_eq!(answer.status(), 200);
            looking.push(answer);
        }
        assert_eq!(look("greedy").await.status(), 503);
        assert_eq!(look("other").await.status(), 200);
        // A place that is left can be had again.
        looking.pop();
        assert_eq!(look("greedy").await.status(), 200);
    });
}
