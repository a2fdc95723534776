//! Requests that two readers may read in two ways are refused, and nothing behind them is read.

use crate::client::{Client, get, post};
use crate::served::{options, start};

/// Each is refused with this status, and the connection ends though another request follows.
const REFUSED: &[(&str, u16, &[u8])] = &[
    ("lengths that differ", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd"),
    ("one length twice", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc"),
    ("a list of lengths", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3, 3\r\n\r\nabc"),
    ("a length with a plus", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: +3\r\n\r\nabc"),
    ("a length with a minus", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: -3\r\n\r\nabc"),
    ("a hexadecimal length", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0x3\r\n\r\nabc"),
    ("an empty length", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: \r\n\r\nabc"),
    ("a length beyond 64 bits", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 18446744073709551619\r\n\r\nabc"),
    ("a length with a space in it", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1 3\r\n\r\nabc"),
    ("a length with a fraction", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3.0\r\n\r\nabc"),
    ("a length and chunks", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("chunks and a length", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n"),
    ("gzip, then chunks", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("chunks, then identity", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ("transfer-encoding twice", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("another coding alone", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n\r\nabc"),
    ("a misspelt coding", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("a quoted coding", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ("an empty coding", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding:\r\n\r\n0\r\n\r\n"),
    ("a vertical tab before the coding", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("chunks in HTTP/1.0", 400, b"POST /echo HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a folded line", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nx: a\r\n b\r\n\r\n"),
    ("a folded coding", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ("a space before the colon", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length : 3\r\n\r\nabc"),
    ("a space before the first header", 400, b"GET /echo HTTP/1.1\r\n x: y\r\nhost: localhost\r\n\r\n"),
    ("a header without a colon", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nnothing\r\n\r\n"),
    ("a header without a name", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\n: x\r\n\r\n"),
    ("a carriage return in a value", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nx: a\rb\r\n\r\n"),
    ("a NUL in a value", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n"),
    ("a NUL in a name", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nx\0: b\r\n\r\n"),
    ("a head of bare line feeds", 400, b"GET /echo HTTP/1.1\nhost: localhost\n\n"),
    ("one bare line feed", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n"),
    ("no host", 400, b"GET /echo HTTP/1.1\r\nx: y\r\n\r\n"),
    ("two hosts", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nhost: i\r\n\r\n"),
    ("one host twice", 400, b"GET /echo HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n"),
    ("a host with a path", 400, b"GET /echo HTTP/1.1\r\nhost: localhost/x\r\n\r\n"),
    ("a URL of another host", 400, b"GET http://other/echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a URL of another scheme", 400, b"GET file://h/echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a NUL in the path", 400, b"GET /echo%00 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a dot segment", 400, b"GET /v1/../echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a hidden dot segment", 400, b"GET /v1/%2e%2E/echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a dot segment at the end", 400, b"GET /echo/. HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a hidden slash", 400, b"GET /v1%2fecho HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a backslash", 400, b"GET /v1\\echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("half of an escape", 400, b"GET /echo%4 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a target of bytes that no URL has", 400, b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("two spaces in the request line", 400, b"GET  /echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("a tab in the request line", 400, b"GET\t/echo HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("no version", 400, b"GET /echo\r\nhost: localhost\r\n\r\n"),
    ("a way to another host", 400, b"CONNECT other:443 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("another version", 505, b"GET /echo HTTP/1.2\r\nhost: localhost\r\n\r\n"),
    ("HTTP/2 without asking", 505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("another expectation", 417, b"POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: more\r\ncontent-length: 3\r\n\r\nabc"),
    ("a chunk size that is none", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nxy\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size with a sign", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size with 0x", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size beyond 64 bits", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("a chunk line of a line feed", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"),
    ("a chunk longer than its size", 400, b"POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcde\r\n0\r\n\r\n"),
];

#[tokio::test]
async fn what_can_be_read_in_two_ways_is_refused_and_ends_the_connection() {
    let (front, served) = start(options());
    for (what, status, request) in REFUSED {
        let mut client = Client::to(front.address()).await;
        client
            .say(
                [
                    request,
                    &b"GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"[..],
                ]
                .concat(),
            )
            .await;
        let answer = client.answer().await;
        assert_eq!(answer.status, *status, "{what}: {}", answer.head);
        answer.error_code();
        assert_eq!(
            answer.header("connection"),
            Some("close"),
            "{what}: {}",
            answer.head
        );
        assert!(client.ends().await, "{what}: something follows");
    }
    assert_eq!(*served.seen.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn what_can_be_read_in_one_way_is_answered() {
    let (front, _served) = start(options());
    let whole: &[(&str, String, u64)] = &[
        ("a length", post("/echo", "", "abc"), 3),
        ("chunks", "POST /echo HTTP/1.1\r\nhost: localhost\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n".into(), 5),
        ("an empty line before it", format!("\r\n{}", get("/echo", "")), 0),
        ("a URL of this host", "GET http://LOCALHOST/echo HTTP/1.1\r\nhost: localhost\r\n\r\n".into(), 0),
        ("HTTP/1.0 without a host", "GET /echo HTTP/1.0\r\n\r\n".into(), 0),
        ("bytes beyond ASCII in a value", get("/echo", "x: \u{fc}\r\n"), 0),
        ("a length of zero", post("/echo", "", ""), 0),
        ("dots that are no segment", "GET /echo?x=../y HTTP/1.1\r\nhost: localhost\r\n\r\n".into(), 0),
    ];
    for (what, request, length) in whole {
        let mut client = Client::to(front.address()).await;
        client.say(request).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 200, "{what}: {}", answer.head);
        assert_eq!(answer.json()["length"], *length, "{what}");
    }
}

#[tokio::test]
async fn one_byte_at_a_time_is_the_same_request() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    for byte in post("/echo", "", "abc").into_bytes() {
        client.say([byte]).await;
    }
    assert_eq!(client.answer().await.json()["length"], 3);
}

#[tokio::test]
async fn requests_behind_one_another_are_answered_in_turn() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    let ten: String = (0..10)
        .map(|n| post(&format!("/echo?{n}"), "", &"y".repeat(n)))
        .collect();
    client.say(ten).await;
    for n in 0..10 {
        let answer = client.answer().await.json();
        assert_eq!(
            (answer["query"].as_str(), answer["length"].as_u64()),
            (Some(&*n.to_string()), Some(n))
        );
    }
}
