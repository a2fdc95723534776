//! What every answer has, and how streams of events end.

use tidegate_gateway::exchange::Part;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, LIMIT, get, post};
use crate::served::{SHORT, bounded, options, start};

#[tokio::test]
async fn an_answer_has_an_id_and_a_type_and_no_chatter() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    client
        .say(post("/echo?a=b", "x-request-id: mine-1\r\n", "abc"))
        .await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.header("x-request-id")),
        (200, Some("mine-1"))
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("server"), None);
    assert_eq!(answer.json()["id"], "mine-1");
    assert_eq!(answer.json()["query"], "a=b");

    for bad in ["a b", &"y".repeat(129), "", "\u{fc}"] {
        client
            .say(get("/echo", &format!("x-request-id: {bad}\r\n")))
            .await;
        let answer = client.answer().await;
        let id = answer.header("x-request-id").unwrap();
        assert!(
            id.starts_with("req_") && id.len() == 36,
            "{bad} became {id}"
        );
    }
}

#[tokio::test]
async fn the_end_of_a_stream_goes_out_with_its_last_bytes() {
    let (front, served) = start(options());
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", "")).await;
    let (status, head) = client.head().await;
    assert_eq!(status, 200);
    for header in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "x-accel-buffering: no",
    ] {
        assert!(head.contains(header), "{head}");
    }
    send.send(Part::Bytes("data: 1\n\n".into())).unwrap();
    assert_eq!(client.chunk().await.unwrap(), b"data: 1\n\n");
    send.send(Part::Last("data: [DONE]\n\n".into())).unwrap();
    // What one write brought is there in one read.
    assert!(client.more().await);
    assert_eq!(client.rest, b"E\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    client.rest.clear();
    client.say(get("/echo", "")).await;
    assert_eq!(client.answer().await.status, 200);
    assert!(served.broken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_whose_reader_goes_has_not_broken() {
    let (front, served) = start(options());
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", "")).await;
    client.head().await;
    drop(client);
    timeout(LIMIT, send.closed()).await.expect("it is kept");
    assert!(served.broken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_broken_stream_says_so_and_has_no_end() {
    let said: [(Option<Part>, &[u8]); 3] = [
        (Some(Part::Broken("data: {}\n\n".into())), b"data: {}\n\n"),
        (Some(Part::Broken("".into())), b""),
        (None, b""),
    ];
    for (last, bytes) in said {
        let (front, served) = start(options());
        let (send, events) = mpsc::unbounded_channel();
        *served.events.lock().unwrap() = Some(events);
        let mut client = Client::to(front.address()).await;
        client.say(get("/events", "")).await;
        client.head().await;
        send.send(Part::Bytes("data: 1\n\n".into())).unwrap();
        if let Some(last) = last {
            send.send(last).unwrap();
        }
        drop(send);
        let mut whole = Vec::new();
        while let Some(chunk) = client.chunk().await {
            assert!(!chunk.is_empty(), "a broken stream has its end");
            whole.extend(chunk);
        }
        assert_eq!(whole, [&b"data: 1\n\n"[..], bytes].concat());
        assert_eq!(*served.broken.lock().unwrap(), ["/events"]);
    }
}

#[tokio::test]
async fn a_stream_that_has_nothing_to_say_shows_that_it_lives() {
    let (front, served) = bounded(|bounds| bounds.comment = SHORT);
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", "")).await;
    client.head().await;
    for _ in 0..3 {
        assert_eq!(client.chunk().await.unwrap(), b": alive\n\n");
    }
    send.send(Part::Last("data: 1\n\n".into())).unwrap();
    client.until(b"0\r\n\r\n").await.unwrap();
}

#[tokio::test]
async fn unknown_paths_and_methods_are_the_endpoints_to_answer() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    client.say(get("/nothing", "")).await;
    assert_eq!(client.answer().await.status, 404);
    client
        .say("DELETE /echo HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("GET, POST"))
    );
}
