//! Whoever takes too much or too long is stopped, and hears why.

use std::time::Duration;

use tidegate_gateway::exchange::Part;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, LIMIT, get};
use crate::served::{BODY, SHORT, bounded, options, start};

/// Reads a refusal.
async fn refused(client: &mut Client, status: u16, code: &str) {
    let answer = client.answer().await;
    assert_eq!((answer.status, &*answer.error_code()), (status, code));
}

/// Reads a refusal, and the end of the connection.
async fn refused_and_ended(client: &mut Client, status: u16, code: &str) {
    refused(client, status, code).await;
    assert!(client.ends().await);
}

/// Says this again and again until it cannot any more, and returns what was said to it.
async fn drips(client: Client, drip: &'static [u8], pause: Duration) -> Vec<u8> {
    let (mut read, mut write) = client.stream.into_split();
    let dripping = tokio::spawn(async move {
        while write.write_all(drip).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    });
    let mut said = Vec::new();
    // The end may be a reset, for the client never stops.
    let _ = timeout(LIMIT, read.read_to_end(&mut said))
        .await
        .expect("it is kept");
    drop(read);
    timeout(LIMIT, dripping)
        .await
        .expect("it may go on for ever")
        .unwrap();
    said
}

fn is_too_slow(said: &[u8]) {
    assert!(
        said.starts_with(b"HTTP/1.1 408 "),
        "{}",
        String::from_utf8_lossy(said)
    );
}

#[tokio::test]
async fn a_head_of_64_kilobytes_is_refused() {
    let (front, _served) = start(options());
    for head in [
        get("/echo", &format!("x: {}\r\n", "y".repeat(64 << 10))),
        get(&format!("/echo?{}", "y".repeat(64 << 10)), ""),
        get("/echo", &"x: y\r\n".repeat(101)),
    ] {
        let mut client = Client::to(front.address()).await;
        client.say(head).await;
        refused_and_ended(&mut client, 431, "head_too_large").await;
    }
    let mut client = Client::to(front.address()).await;
    client
        .say(get("/echo", &format!("x: {}\r\n", "y".repeat(16 << 10))))
        .await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn a_head_that_drips_is_cut() {
    let (front, _served) = bounded(|bounds| bounds.head_time = SHORT);
    let mut client = Client::to(front.address()).await;
    client.say("GET /echo HTTP/1.1\r\n").await;
    is_too_slow(&drips(client, b"x: y\r\n", SHORT / 15).await);
}

#[tokio::test]
async fn a_connection_that_asks_nothing_is_closed_without_a_word() {
    let (front, _served) = bounded(|bounds| bounds.idle = SHORT);
    let mut client = Client::to(front.address()).await;
    assert!(client.ends().await);
    // A slow machine may need more than one try to ask in time.
    let answered = async {
        loop {
            let mut client = Client::to(front.address()).await;
            let asked = client.stream.write_all(get("/echo", "").as_bytes()).await;
            if asked.is_ok() && client.more().await {
                break client;
            }
        }
    };
    let mut client = timeout(LIMIT, answered).await.expect("nobody is answered");
    assert_eq!(client.answer().await.status, 200);
    assert!(client.ends().await);
}

#[tokio::test]
async fn empty_lines_before_a_request_keep_no_connection() {
    let (front, _served) = bounded(|bounds| bounds.head_time = SHORT);
    let mut client = Client::to(front.address()).await;
    client.say("\r\n\r\n").await;
    assert!(matches!(client.answer().await.status, 400 | 408));
    assert!(client.ends().await);
    // However long it goes on with them. It may be cut after the first one, without a word.
    let client = Client::to(front.address()).await;
    drips(client, b"\r\n", SHORT / 3).await;
}

#[tokio::test]
async fn an_empty_line_begins_a_head() {
    // Whoever never asks anything would stay for longer than any wait of a test.
    let (front, _served) = bounded(|bounds| {
        bounds.head_time = SHORT;
        bounds.idle = LIMIT * 10;
    });
    for asks_before in [false, true] {
        let mut client = Client::to(front.address()).await;
        if asks_before {
            client.say(get("/echo", "")).await;
            assert_eq!(client.answer().await.status, 200);
        }
        client.say("\r\n").await;
        assert!(client.ends().await);
    }
}

#[tokio::test]
async fn a_body_that_stops_or_drips_is_refused() {
    let (front, _served) = bounded(|bounds| {
        bounds.body_step = SHORT;
        bounds.body_progress = 1000;
    });
    let mut client = Client::to(front.address()).await;
    client
        .say("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90000\r\n\r\nabc")
        .await;
    for _ in 0..5 {
        // It may be refused meanwhile, on a slow machine.
        let _ = client.stream.write_all(b"d").await;
        tokio::time::sleep(SHORT / 5).await;
    }
    refused_and_ended(&mut client, 408, "request_timeout").await;
}

#[tokio::test]
async fn a_body_that_takes_too_long_in_all_is_refused() {
    let (front, _served) = bounded(|bounds| {
        bounds.body_time = SHORT * 2;
        bounds.body_progress = 1;
    });
    let mut client = Client::to(front.address()).await;
    client
        .say("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90000\r\n\r\n")
        .await;
    is_too_slow(&drips(client, b"abc", SHORT / 10).await);
}

#[tokio::test]
async fn a_body_of_a_gigabyte_is_refused_before_it_is_read() {
    let (front, served) = start(options());
    let mut client = Client::to(front.address()).await;
    client.say("POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1073741824\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, &*answer.error_code()),
        (413, "body_too_large")
    );
    assert_eq!(answer.header("connection"), Some("close"));
    // One who sends all the same, some megabytes at least, reads the answer and not a reset.
    let mut client = Client::to(front.address()).await;
    client
        .say("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1073741824\r\n\r\n")
        .await;
    client.say(vec![b'x'; 8 << 20]).await;
    assert_eq!(client.answer().await.status, 413);
    assert!(client.ends().await);
    assert_eq!(*served.seen.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn chunks_that_exceed_the_limit_are_refused_where_they_do() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    client
        .say("POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let chunk = format!("{:x}\r\n{}\r\n", BODY / 2, "y".repeat(BODY as usize / 2));
    client.say(chunk.repeat(3)).await;
    refused_and_ended(&mut client, 413, "body_too_large").await;
}

#[tokio::test]
async fn a_body_that_waits_to_be_asked_for_is_asked_for() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    client
        .say("POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        .await;
    assert_eq!(
        client.until(b"\r\n\r\n").await.unwrap(),
        b"HTTP/1.1 100 Continue\r\n\r\n"
    );
    client.say("abc").await;
    assert_eq!(client.answer().await.json()["length"], 3);
}

#[tokio::test]
async fn a_reader_that_stops_is_cut() {
    let (front, served) = bounded(|bounds| bounds.write_time = SHORT);
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", "")).await;
    client.head().await;
    for _ in 0..64 {
        let _ = send.send(Part::Bytes(vec![b'x'; 1 << 20].into()));
    }
    timeout(LIMIT, send.closed())
        .await
        .expect("its stream is kept");
}

#[tokio::test]
async fn connections_beyond_the_limits_are_turned_away_until_there_is_room() {
    for of_a_peer in [true, false] {
        let (front, _served) = bounded(|bounds| {
            *(if of_a_peer {
                &mut bounds.connections_of_a_peer
            } else {
                &mut bounds.connections
            }) = 2;
        });
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut client = Client::to(front.address()).await;
            client.say(get("/echo", "")).await;
            assert_eq!(client.answer().await.status, 200);
            held.push(client);
        }
        let mut client = Client::to(front.address()).await;
        client.say(get("/echo", "")).await;
        refused_and_ended(&mut client, 503, "too_many_connections").await;
        held.pop();
        let again = async {
            loop {
                let mut client = Client::to(front.address()).await;
                client.say(get("/echo", "")).await;
                if client.answer().await.status == 200 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, again).await.expect("the place stays taken");
    }
}

#[tokio::test]
async fn an_event_stream_needs_chunks() {
    let (front, served) = start(options());
    let (_send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client
        .say("GET /events HTTP/1.0\r\nhost: localhost\r\n\r\n")
        .await;
    refused(&mut client, 505, "version_not_supported").await;
}

#[tokio::test]
async fn a_body_that_a_path_does_not_take_is_refused() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    client
        .say("GET /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx")
        .await;
    refused(&mut client, 413, "body_too_large").await;
}

#[tokio::test]
async fn a_body_that_changes_nothing_of_the_answer_is_not_read() {
    let (front, served) = start(options());
    let length = 1_u64 << 30;
    for (method, path, status) in [("POST", "/nothing", 404), ("DELETE", "/echo", 405)] {
        let mut client = Client::to(front.address()).await;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        );
        client.say(head + "the beginning").await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.header("connection")),
            (status, Some("close"))
        );
        assert!(client.ends().await);
    }
    // Without one the connection goes on.
    let mut client = Client::to(front.address()).await;
    for _ in 0..2 {
        client
            .say("DELETE /echo HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        assert_eq!(client.answer().await.status, 405);
    }
    assert_eq!(served.seen.lock().unwrap().len(), 4);
}
