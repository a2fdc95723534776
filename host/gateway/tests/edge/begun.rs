//! Requests take from their key's quota at the door, and give a place back when they are over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_gateway::access::{Access, AccessOptions, Permissions, Quota, Scope};
use tidegate_gateway::exchange::Part;
use tidegate_gateway::front::Front;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, LIMIT, Read, get, post};
use crate::keys::{Hands, key};
use crate::served::{BODY, Served, options};

const KEY: &str = "api-key: sk\r\n";

/// A front that knows one key, with this quota.
fn front(quota: Quota) -> (Front, Arc<Served>) {
    let permissions = Permissions {
        scopes: Some(vec![Scope::Chat]),
        quota: Some("small".into()),
        ..Permissions::default()
    };
    let known = AccessOptions {
        keys: vec![key("ann", "sk", permissions)],
        quotas: BTreeMap::from([("small".to_owned(), quota)]),
        ..AccessOptions::default()
    };
    let mut options = options();
    let access = Access::with_clock(known, None, Arc::new(Hands::default()));
    options.access = Arc::new(access.unwrap());
    let served = Arc::new(Served::default());
    (Front::bind(options, served.clone()).unwrap(), served)
}

fn at_once(most: u64) -> Quota {
    Quota {
        concurrent: Some(most),
        ..Quota::default()
    }
}

async fn ask(front: &Front, path: &str) -> Read {
    let mut client = Client::to(front.address()).await;
    client.say(get(path, KEY)).await;
    client.answer().await
}

/// Asks until there is a place.
async fn until_there_is_a_place(front: &Front, served: &Served) {
    let asking = async {
        loop {
            let (send, events) = mpsc::unbounded_channel();
            *served.events.lock().unwrap() = Some(events);
            send.send(Part::Last("data: 1\n\n".into())).unwrap();
            match ask(front, "/events").await.status {
                200 => break,
                status => assert_eq!(status, 429),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, asking).await.expect("the place stays taken");
}

#[tokio::test]
async fn who_has_no_request_left_is_refused_before_the_body_is_read() {
    let (front, served) = front(Quota {
        requests: Some(2),
        ..Quota::default()
    });
    let answer = ask(&front, "/echo").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-limit-requests"), Some("2"));
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(answer.header("x-ratelimit-reset-requests"), Some("30s"));
    // Whatever is asked for is a request.
    assert_eq!(ask(&front, "/nothing").await.status, 404);
    let mut client = Client::to(front.address()).await;
    let head =
        format!("POST /echo HTTP/1.1\r\nhost: localhost\r\n{KEY}content-length: {BODY}\r\n\r\n");
    client.say(head).await;
    let answer = client.answer().await;
    let code = answer.error_code();
    assert_eq!((answer.status, &*code), (429, "rate_limit_exceeded"));
    assert_eq!(answer.header("retry-after"), Some("30"));
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("0"));
    assert_eq!(*served.seen.lock().unwrap(), ["/echo", "/nothing"]);
}

#[tokio::test]
async fn every_answer_of_a_key_says_what_is_left_of_its_quota() {
    let (front, _served) = front(Quota {
        requests: Some(100),
        tokens: Some(1000),
        concurrent: None,
    });
    let long = format!(
        "POST /echo HTTP/1.1\r\nhost: localhost\r\n{KEY}content-length: {}\r\n\r\n",
        BODY + 1
    );
    for (said, status) in [
        (get("/echo", KEY), 200),
        (get("/nothing", KEY), 404),
        (get("/fed", KEY), 403),
        (long, 413),
    ] {
        let mut client = Client::to(front.address()).await;
        client.say(said).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status);
        for of in ["requests", "tokens"] {
            for what in ["limit", "remaining", "reset"] {
                let name = format!("x-ratelimit-{what}-{of}");
                assert!(answer.header(&name).is_some(), "{name}: {}", answer.head);
            }
        }
        assert_eq!(answer.header("x-ratelimit-remaining-tokens"), Some("1000"));
    }
    let mut client = Client::to(front.address()).await;
    client.say(get("/echo", "api-key: wrong\r\n")).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.header("x-ratelimit-limit-requests"), None);
    // Who asks whether the process is there takes nothing.
    client.say(get("/open", KEY)).await;
    assert_eq!(client.answer().await.status, 200);
    client.say(get("/echo", KEY)).await;
    let answer = client.answer().await;
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), Some("95"));
}

#[tokio::test]
async fn an_endpoint_that_a_key_is_not_for_is_refused_before_the_body_is_read() {
    let (front, served) = front(Quota::default());
    let mut client = Client::to(front.address()).await;
    let head =
        format!("POST /fed HTTP/1.1\r\nhost: localhost\r\n{KEY}content-length: {BODY}\r\n\r\n");
    client.say(head).await;
    let answer = client.answer().await;
    let code = answer.error_code();
    assert_eq!((answer.status, &*code), (403, "endpoint_not_allowed"));
    assert_eq!(answer.json()["error"]["type"], "permission_error");
    assert!(served.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_request_has_its_place_until_the_last_byte_of_its_answer() {
    let (front, served) = front(at_once(1));
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", KEY)).await;
    client.head().await;
    let answer = ask(&front, "/wait").await;
    assert_eq!(
        (answer.status, &*answer.error_code()),
        (429, "rate_limit_exceeded")
    );
    assert_eq!(answer.header("retry-after"), Some("1"));
    // What does not last needs no place.
    assert_eq!(ask(&front, "/echo").await.status, 200);
    send.send(Part::Last("data: 1\n\n".into())).unwrap();
    client.until(b"0\r\n\r\n").await.unwrap();
    // Whoever has read the end may count on the place.
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    send.send(Part::Last("data: 2\n\n".into())).unwrap();
    assert_eq!(ask(&front, "/events").await.status, 200);
}

#[tokio::test]
async fn a_client_that_goes_gives_its_place_back() {
    let (front, served) = front(at_once(1));
    let (tell, mut told) = mpsc::unbounded_channel();
    *served.waits.lock().unwrap() = Some(tell);
    let mut client = Client::to(front.address()).await;
    client.say(get("/wait", KEY)).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(true));
    assert_eq!(ask(&front, "/wait").await.status, 429);
    drop(client);
    until_there_is_a_place(&front, &served).await;
}

#[tokio::test]
async fn work_that_goes_on_without_its_client_keeps_its_place() {
    let (front, served) = front(at_once(1));
    assert_eq!(ask(&front, "/work").await.status, 200);
    assert_eq!(ask(&front, "/work").await.status, 429);
    served.works.lock().unwrap().clear();
    until_there_is_a_place(&front, &served).await;
}

#[tokio::test]
async fn a_repeat_of_what_is_under_way_has_its_place() {
    let (front, served) = front(at_once(1));
    let ask = async |path: &str, key: &str| {
        let mut client = Client::to(front.address()).await;
        let keys = format!("{KEY}idempotency-key: {key}\r\n");
        client.say(get(path, &keys)).await;
        client.answer().await.status
    };
    assert_eq!(ask("/work", "a").await, 200);
    assert_eq!(ask("/work", "\"a\"").await, 200, "the same key");
    assert_eq!(ask("/work", "b").await, 429, "another request");
    assert_eq!(ask("/events", "a").await, 429, "where no key is heeded");
    // The first goes, and its repeat stays.
    served.works.lock().unwrap().remove(0);
    assert_eq!(ask("/work", "b").await, 429);
    served.works.lock().unwrap().clear();
    until_there_is_a_place(&front, &served).await;
    assert_eq!(ask("/work", "b").await, 200);
}

#[tokio::test]
async fn who_goes_over_to_another_protocol_keeps_its_place() {
    let (front, served) = front(at_once(1));
    let mut client = Client::to(front.address()).await;
    let upgrade = format!("{KEY}connection: upgrade\r\nupgrade: mirror\r\n");
    client.say(get("/over", &upgrade)).await;
    assert_eq!(client.head().await.0, 101);
    client.say("hello").await;
    client.until(b"hello").await.unwrap();
    assert_eq!(ask(&front, "/events").await.status, 429);
    client.stream.shutdown().await.unwrap();
    until_there_is_a_place(&front, &served).await;
}

#[tokio::test]
async fn bodies_count_as_long_as_their_bytes_are_anywhere() {
    let mut options = options();
    // Of which one client has a quarter.
    options.bounds.bodies = 4 << 20;
    let served = Arc::new(Served::default());
    let front = Front::bind(options, served.clone()).unwrap();
    let body = "y".repeat(BODY as usize);
    let mut client = Client::to(front.address()).await;
    let most = (1 << 20) / BODY as usize;
    for _ in 0..most {
        client.say(post("/keep", "", &body)).await;
        assert_eq!(client.answer().await.status, 200);
    }
    let mut refused = Client::to(front.address()).await;
    refused.say(post("/keep", "", &body)).await;
    let answer = refused.answer().await;
    assert_eq!(
        (answer.status, &*answer.error_code()),
        (429, "too_many_bodies")
    );
    served.kept.lock().unwrap().clear();
    client.say(post("/keep", "", &body)).await;
    assert_eq!(client.answer().await.status, 200);
}
