//! What the front refuses is counted, by its reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_gateway::access::{Access, AccessOptions, Permissions, Quota};
use tidegate_gateway::exchange::Part;
use tidegate_gateway::front::{Front, Reason};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, LIMIT, get, post};
use crate::keys::{Hands, key};
use crate::served::{BODY, SHORT, Served, bounded, options};

/// What was refused, as often as it was.
fn refused(front: &Front) -> Vec<(&'static str, u64)> {
    let all = front.refused();
    let came = all.all().filter(|(_, count)| *count > 0);
    came.map(|(reason, count)| (reason.name(), count)).collect()
}

#[tokio::test]
async fn each_refusal_is_counted_by_its_reason() {
    let permissions = Permissions {
        scopes: Some(Vec::new()),
        quota: Some("small".into()),
        ..Permissions::default()
    };
    let quota = Quota {
        requests: Some(5),
        ..Quota::default()
    };
    let known = AccessOptions {
        keys: vec![key("ann", "sk", permissions)],
        quotas: BTreeMap::from([("small".to_owned(), quota)]),
        failures: 1,
        ..AccessOptions::default()
    };
    let mut options = options();
    let access = Access::with_clock(known, None, Arc::new(Hands::default()));
    options.access = Arc::new(access.unwrap());
    let front = Front::bind(options, Arc::new(Served::default())).unwrap();
    let long = "y".repeat(BODY as usize + 1);
    for (said, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (
            get("/echo", &format!("x: {}\r\n", "y".repeat(64 << 10))),
            431,
        ),
        (get("/echo", "").replace("HTTP/1.1", "HTTP/3.0"), 505),
        (get("/echo", "api-key: wrong\r\n"), 401),
        (get("/echo", "api-key: wrong\r\n"), 429),
        (post("/echo", "api-key: sk\r\n", &long), 413),
        (
            post("/echo", "api-key: sk\r\ncontent-encoding: gzip\r\n", "y"),
            415,
        ),
        (
            post(
                "/echo",
                "api-key: sk\r\ncontent-encoding: identity\r\ncontent-encoding: gzip\r\n",
                "y",
            ),
            415,
        ),
        (get("/fed", "api-key: sk\r\n"), 403),
        (get("/echo", "api-key: sk\r\n"), 200),
        (get("/echo", "api-key: sk\r\n"), 429),
        (get("/nothing", ""), 401),
    ] {
        let mut client = Client::to(front.address()).await;
        client.say(said).await;
        assert_eq!(client.answer().await.status, status);
    }
    let expected = [
        ("malformed_request", 1),
        ("head_too_large", 1),
        ("body_too_large", 1),
        ("unsupported_encoding", 2),
        ("version_not_supported", 1),
        ("invalid_api_key", 2),
        ("too_many_failures", 1),
        ("endpoint_not_allowed", 1),
        ("rate_limit_exceeded", 1),
    ];
    assert_eq!(refused(&front), expected);
}

#[tokio::test]
async fn connections_that_are_turned_away_or_cut_are_counted() {
    let (front, served) = bounded(|bounds| {
        bounds.connections = 1;
        bounds.write_time = SHORT;
    });
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", "")).await;
    client.head().await;
    let mut other = Client::to(front.address()).await;
    assert_eq!(other.answer().await.status, 503);
    // Nobody reads this.
    for _ in 0..64 {
        let _ = send.send(Part::Bytes(vec![b'x'; 1 << 20].into()));
    }
    timeout(LIMIT, send.closed()).await.expect("it is cut");
    let expected = [("too_many_connections", 1), ("reader_stopped", 1)];
    assert_eq!(refused(&front), expected);

    let (front, served) = bounded(|_| {});
    let (tell, mut told) = mpsc::unbounded_channel();
    *served.waits.lock().unwrap() = Some(tell);
    let mut client = Client::to(front.address()).await;
    client.say(get("/wait", "")).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(true));
    let ahead = get("/echo", &format!("x: {}\r\n", "y".repeat(1000)));
    let _ = client.stream.write_all(ahead.repeat(100).as_bytes()).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(false));
    assert_eq!(refused(&front), [("sent_ahead", 1)]);
}

#[test]
fn the_guide_names_every_reason() {
    let guide = include_str!("../../../../docs/src/gateway.md");
    for reason in Reason::ALL {
        let name = format!("`{}`", reason.name());
        assert!(guide.contains(&name), "{name} is not in the guide");
    }
}
