//! Outputs over WebSockets, with frames as a hostile client writes them.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tidegate_gateway::exchange::{Asked, Content, Gone};
use tidegate_gateway::outputs::{OutputLimits, OutputLog, OutputOptions, OutputSink, Outputs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::asking::{PATIENCE, ada, output, show};

/// A front of a few lines: what the front does with an upgrade.
async fn serve(outputs: Outputs, stream: TcpStream) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let outputs = outputs.clone();
        async move {
            let upgraded = hyper::upgrade::on(&mut request);
            let (_leave, gone) = Gone::new();
            let asked = Asked {
                id: "request-1".into(),
                method: request.method().clone(),
                path: request.uri().path().into(),
                query: request.uri().query().map(str::to_owned),
                headers: request.headers().clone(),
                body: Bytes::new(),
                who: ada(),
                under_way: None,
                gone,
                trace: None,
            };
            let answered = outputs.answer(asked).await;
            let mut response = Response::builder().status(answered.status);
            for (name, value) in answered.headers {
                response = response.header(name, value);
            }
            let bytes = match answered.content {
                Content::Upgraded(takeover) => {
                    tokio::spawn(async move {
                        if let Ok(connection) = upgraded.await {
                            takeover.speak(Box::new(TokioIo::new(connection))).await;
                        }
                    });
                    Bytes::new()
                }
                Content::Whole { bytes, .. } => bytes,
                Content::Events(_) | Content::Streamed(_) => panic!("no upgrade"),
            };
            response.body(Full::new(bytes))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

struct Client {
    stream: TcpStream,
    head: String,
}

const KEY: &str = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const HANDSHAKE: &str =
    "connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\nsec-websocket-version: 13\r\n";

impl Client {
    async fn ask(log: &Arc<OutputLog>, query: &str, headers: &str) -> Client {
        let options = OutputOptions {
            name: "answers".into(),
            log: log.clone(),
        };
        let outputs = Outputs::new([options], ["https://console.example".to_owned()]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serve(outputs, stream).await;
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /v1/outputs/answers{query} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        Client { stream, head }
    }

    async fn connect(log: &Arc<OutputLog>, query: &str) -> Client {
        let client = Client::ask(log, query, &format!("{HANDSHAKE}{KEY}")).await;
        assert!(client.head.starts_with("HTTP/1.1 101"), "{}", client.head);
        // RFC 6455, section 1.3.
        let accept = "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert!(client.head.contains(accept), "{}", client.head);
        client
    }

    /// First byte and payload of the next frame.
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        timeout(PATIENCE, self.read_frame()).await.unwrap()
    }

    async fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let first = self.stream.read_u8().await.unwrap();
        let length = match self.stream.read_u8().await.unwrap() {
            126 => u64::from(self.stream.read_u16().await.unwrap()),
            127 => self.stream.read_u64().await.unwrap(),
            masked @ 128.. => panic!("masked: {masked}"),
            length => u64::from(length),
        };
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await.unwrap();
        (first, payload)
    }

    async fn json(&mut self) -> Value {
        let (first, payload) = self.frame().await;
        assert_eq!(first, 0x81, "{payload:?}");
        serde_json::from_slice(&payload).unwrap()
    }

    async fn send(&mut self, first: u8, payload: &[u8]) {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        let masked = payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask);
        frame.extend(masked);
        // The other side may have closed already.
        let _ = self.stream.write_all(&frame).await;
    }

    /// The code of the goodbye, which is the last of all. Answers to pings may come before.
    async fn closed(&mut self) -> u16 {
        loop {
            match self.frame().await {
                (0x88, payload) => {
                    let mut rest = Vec::new();
                    let read = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await;
                    read.expect("still open").unwrap();
                    assert!(rest.is_empty());
                    return u16::from_be_bytes([payload[0], payload[1]]);
                }
                (0x8a, _) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

async fn connected() -> (Arc<OutputLog>, OutputSink, Client) {
    let (log, sink) = output(OutputLimits::default());
    let mut client = Client::connect(&log, "").await;
    let at = format!("{}-0", log.epoch());
    assert_eq!(client.json().await, json!({"at": at}));
    (log, sink, client)
}

#[tokio::test]
async fn records_and_gaps_come_as_text_frames() {
    let small = OutputLimits {
        records: 2,
        ..OutputLimits::default()
    };
    let (log, mut sink) = output(small);
    let epoch = log.epoch().to_owned();
    show(&mut sink, 0..5);
    let mut client = Client::connect(&log, &format!("?from={epoch}-1")).await;
    assert_eq!(client.json().await, json!({"at": format!("{epoch}-1")}));
    let gap = json!({
        "after": format!("{epoch}-1"), "next": format!("{epoch}-4"), "missing": 2,
        "reason": "expired",
    });
    assert_eq!(client.json().await, json!({"gap": gap}));
    for number in 3..5 {
        let id = format!("{epoch}-{}", number + 1);
        assert_eq!(
            client.json().await,
            json!({"id": id, "record": {"n": number}})
        );
    }
    show(&mut sink, 5..6);
    assert_eq!(client.json().await["record"], json!({"n": 5}));
    log.close();
    assert_eq!(client.closed().await, 1001);
}

#[tokio::test]
async fn a_ping_is_answered_and_so_is_a_goodbye() {
    let (_log, _sink, mut client) = connected().await;
    client.send(0x89, b"there?").await;
    assert_eq!(client.frame().await, (0x8a, b"there?".to_vec()));
    // What a client says otherwise is not looked at, also in pieces with a ping between.
    client.send(0x01, b"hel").await;
    client.send(0x89, b"").await;
    client.send(0x80, b"lo").await;
    assert_eq!(client.frame().await, (0x8a, vec![]));
    client.send(0x88, &1000u16.to_be_bytes()).await;
    assert_eq!(client.closed().await, 1000);
}

/// First bytes and payloads.
type Frames<'a> = Vec<(u8, &'a [u8])>;

#[tokio::test]
async fn frames_that_break_the_protocol_close_with_its_code() {
    let long = vec![b'x'; 4097];
    let half = vec![b'x'; 2500];
    let frames: [(&str, u16, Frames<'_>); 9] = [
        ("not UTF-8", 1007, vec![(0x81, b"\xff")]),
        (
            "not UTF-8 over two frames",
            1007,
            vec![(0x01, b"\xc3"), (0x80, b"(")],
        ),
        ("longer than 4 KB", 1009, vec![(0x81, &long)]),
        (
            "longer than 4 KB in pieces",
            1009,
            vec![(0x01, &half), (0x80, &half)],
        ),
        ("a reserved bit", 1002, vec![(0xc1, b"x")]),
        ("an opcode that is none", 1002, vec![(0x83, b"x")]),
        ("a control frame in pieces", 1002, vec![(0x09, b"x")]),
        (
            "a control frame of 126 bytes",
            1002,
            vec![(0x89, &long[..126])],
        ),
        ("the rest of nothing", 1002, vec![(0x80, b"x")]),
    ];
    for (what, code, frames) in frames {
        let (_log, _sink, mut client) = connected().await;
        for (first, payload) in frames {
            client.send(first, payload).await;
        }
        assert_eq!(client.closed().await, code, "{what}");
    }
}

#[tokio::test]
async fn frames_without_mask_and_of_endless_length_close() {
    for (bytes, code) in [
        (&[0x81, 1, b'x'][..], 1002),
        (&[0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4], 1009),
        (&[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 1009),
    ] {
        let (_log, _sink, mut client) = connected().await;
        client.stream.write_all(bytes).await.unwrap();
        assert_eq!(client.closed().await, code, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_flood_of_pings_or_of_empty_pieces_closes() {
    for (first, rest) in [(0x89, 0x89), (0x01, 0x00)] {
        let (_log, _sink, mut client) = connected().await;
        client.send(first, b"").await;
        for _ in 0..3000 {
            client.send(rest, b"").await;
        }
        assert_eq!(client.closed().await, 1008);
    }
}

#[tokio::test]
async fn a_handshake_that_is_none_is_refused() {
    let (log, _sink) = output(OutputLimits::default());
    let origin = "origin: https://evil.example\r\n";
    for (headers, status) in [
        (
            format!("upgrade: websocket\r\nsec-websocket-version: 13\r\n{KEY}"),
            400,
        ),
        (HANDSHAKE.to_owned(), 400),
        (format!("{HANDSHAKE}{KEY}{KEY}"), 400),
        (format!("{HANDSHAKE}sec-websocket-key: short\r\n"), 400),
        (format!("{}{KEY}", HANDSHAKE.replace("13", "8")), 426),
        (format!("{HANDSHAKE}{KEY}{origin}"), 403),
    ] {
        let client = Client::ask(&log, "", &headers).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(
            client.head.starts_with(&expected),
            "{headers}: {}",
            client.head
        );
    }
}
