//! Clients that mean ill, against a whole program that answers good ones meanwhile.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_tests::{full, until};

use crate::beside::Beside;
use crate::client::{PATIENCE, Served, model};
use crate::figures::{rest, status};

/// SHA-256 of `secret`.
const DIGEST: &str = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
pub(crate) const KEY: &[(&str, &str)] = &[
    ("authorization", "Bearer secret"),
    ("content-type", "application/json"),
];

/// Chats, records in and records out, for who has the key.
pub(crate) fn served(more: &str) -> Arc<Served> {
    Arc::new(Served::start(&format!(
        r#"
[pipeline]
name = "hostile"
[gateway]
address = "127.0.0.1:0"
{more}
[gateway.key.app]
digest = "{DIGEST}"
[source.chat]
type = "gateway"
[source.events]
type = "ingest"
{}
[[stage]]
name = "answer"
inputs = ["chat"]
model = "support"
messages = true
max-tokens = 64
order = "none"
[sink.reply]
type = "gateway"
inputs = ["answer"]
[sink.feed]
type = "output"
inputs = ["events"]
"#,
        model()
    )))
}

pub(crate) fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(&served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Says something, as far as the other side listens, and reads what it has to say to that.
fn answer(served: &Served, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(served);
    let _ = stream.write_all(request);
    rest(&mut stream)
}

fn head(served: &Served, line: &str, headers: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer secret\r\nconnection: close\r\n{headers}",
        served.address
    )
}

/// Drips bytes until the other side ends it, and returns what was answered.
fn drip(served: &Served, begin: &str, drop: &str) -> Vec<u8> {
    let mut stream = connect(served);
    stream.write_all(begin.as_bytes()).unwrap();
    let mut writing = stream.try_clone().unwrap();
    let drop = drop.to_owned();
    let dripping = std::thread::spawn(move || {
        while !drop.is_empty() && writing.write_all(drop.as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let said = rest(&mut stream);
    let _ = stream.shutdown(std::net::Shutdown::Both);
    dripping.join().unwrap();
    said
}

#[test]
fn heads_and_bodies_that_drip_are_cut_while_a_good_stream_goes_on() {
    // Long enough for the good client on a busy machine, of which they hold too.
    let served = served("header-deadline = \"5s\"\nbody-deadline = \"5s\"");
    let beside = Beside::begin(&served, KEY);
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..60 {
            let served = &served;
            clients.push(scope.spawn(move || match number % 3 {
                0 => (408, drip(served, "GET /v1/models HTTP/1.1\r\n", "x: y\r\n")),
                1 => {
                    let head = head(
                        served,
                        "POST /v1/chat/completions",
                        "content-length: 90000\r\n\r\n",
                    );
                    (408, drip(served, &head, " "))
                }
                // Nothing at all: it is closed without a word, or told that it is too slow.
                _ => (0, drip(served, "\r\n", "")),
            }));
        }
        for client in clients {
            let (expected, said) = client.join().unwrap();
            let said = status(&said);
            assert!(
                said == expected || (expected == 0 && [400, 408].contains(&said)),
                "{said} is not {expected}"
            );
        }
    });
    beside.ends();
}

#[test]
fn a_connection_on_which_nothing_is_asked_is_closed_without_a_word() {
    let served = served("idle = \"1s\"");
    assert_eq!(drip(&served, "", ""), b"");
}

#[test]
fn what_is_too_large_is_refused_and_takes_no_memory() {
    let served = served("max-body = \"1MiB\"");
    let beside = Beside::begin(&served, KEY);
    // A head of 64 KB: in one header, in many, in the path.
    let long = "y".repeat(64 << 10);
    for request in [
        head(&served, "GET /v1/models", &format!("x: {long}\r\n\r\n")),
        head(
            &served,
            "GET /v1/models",
            &("x: y\r\n".repeat(11_000) + "\r\n"),
        ),
        head(&served, &format!("GET /v1/models?{long}"), "\r\n"),
    ] {
        assert_eq!(status(&answer(&served, request.as_bytes())), 431);
    }
    beside.goes_on();

    let before = served.memory();
    // A body of a gigabyte, which is told before, or comes in chunks; sent as long as anyone listens.
    let block = vec![b'x'; 1 << 20];
    let chunk = [&b"100000\r\n"[..], &block, b"\r\n"].concat();
    let clients = if full() { 20 } else { 4 };
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (served, block, chunk) = (&served, &block, &chunk);
            scope.spawn(move || {
                let (length, piece) = match client % 2 {
                    0 => ("content-length: 1073741824\r\n\r\n", block),
                    _ => ("transfer-encoding: chunked\r\n\r\n", chunk),
                };
                let head = head(
                    served,
                    "POST /v1/chat/completions",
                    &format!("content-type: application/json\r\n{length}"),
                );
                let mut stream = connect(served);
                stream.write_all(head.as_bytes()).unwrap();
                let mut sent = 0;
                while sent < 1024 && stream.write_all(piece).is_ok() {
                    sent += 1;
                }
                // It is not read to its end: what was sent fits into the system's buffers and the limit.
                assert!(sent < 1024, "a gigabyte was taken");
                let said = rest(&mut stream);
                assert!(
                    [413, 0].contains(&status(&said)),
                    "{}",
                    String::from_utf8_lossy(&said)
                );
            });
        }
    });
    // Whoever waits for the answer before it sends hears it.
    let head = head(
        &served,
        "POST /v1/chat/completions",
        "expect: 100-continue\r\ncontent-length: 1073741824\r\n\r\n",
    );
    assert_eq!(status(&answer(&served, head.as_bytes())), 413);
    beside.ends();
    if let (Some(before), Some(after)) = (before, served.memory()) {
        assert!(
            after <= before + (48 << 10),
            "{before} KiB became {after} KiB"
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_wherever_they_stand() {
    let served = served("");
    let beside = Beside::begin(&served, KEY);
    let bodies: [&[u8]; 6] = [
        b"{\"model\":\"support\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}",
        b"\xff\xfe{\0}\0",
        b"{\"model\":\"support\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\x28\"}]}",
        b"{\"model\":\"support\",\"messages\":[{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}]}",
        b"{\"mo\xf0\x28del\":\"support\"}",
        b"{\"model\":\"support\",\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}",
    ];
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/ingest/events"] {
        // Half of a pair, escaped, is JSON all the same, and a record keeps its text: no prompt can be made of it.
        let count = bodies.len() - usize::from(path.contains("ingest"));
        for body in &bodies[..count] {
            let headers = format!(
                "content-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let request = [
                head(&served, &format!("POST {path}"), &headers).as_bytes(),
                *body,
            ]
            .concat();
            let said = answer(&served, &request);
            assert_eq!(
                status(&said),
                400,
                "{path} {}: {}",
                String::from_utf8_lossy(body),
                String::from_utf8_lossy(&said)
            );
        }
    }
    let plain = head(&served, "GET /v1/models", "");
    for (what, request, expected) in [
        ("a path", &b"GET /v1/\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n"[..], 400),
        ("a path with escapes of no text", b"GET /v1/models/%ff%fe HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\nconnection: close\r\n\r\n", 404),
        ("a query", b"GET /v1/outputs/feed?from=\xff HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        ("a name of a header", &[plain.as_bytes(), b"x\xff: y\r\n\r\n"].concat(), 400),
        // A value may have such bytes (RFC 9110, 5.5), but a key has none, and neither has an idempotency key.
        ("a key", b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \xff\xfe\r\nconnection: close\r\n\r\n", 401),
        ("a position", &[plain.replace("/v1/models", "/v1/outputs/feed").as_bytes(), b"last-event-id: \xff\r\n\r\n"].concat(), 400),
    ] {
        let said = answer(&served, request);
        assert_eq!(status(&said), expected, "{what}: {}", String::from_utf8_lossy(&said));
    }
    // None of the records was taken.
    assert!(!served.metrics().contains("endpoint=\"ingest\",status=\"2"));
    beside.ends();
}

/// Guesses sixty keys. Returns whether the first 21 were within a minute, as on any machine that is not busy.
fn guesses() -> bool {
    let served = served("wrong-keys-per-minute = 20");
    let beside = Beside::begin(&served, KEY);
    let (mut said, mut at) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for guess in 0..60 {
        let key = format!("Bearer secre{guess}");
        let got = served.send("GET", "/v1/models", &[("authorization", &key)], "");
        at.push(began.elapsed());
        said.push(got.status);
        if got.status == 429 {
            assert!(got.head.contains("retry-after: "), "{got:?}");
        }
        // From the same address, and with a key that is right.
        let got = served.send("GET", "/v1/models", KEY, "");
        assert_eq!(got.status, 200, "{got:?}");
    }
    assert!(
        said.iter().all(|status| [401, 429].contains(status)),
        "{said:?}"
    );
    assert!(said[..20].iter().all(|status| *status == 401), "{said:?}");
    beside.ends();
    let in_time = at[20] < Duration::from_secs(60);
    assert!(!in_time || said[20] == 429, "{said:?}");
    in_time
}

#[test]
fn who_guesses_keys_is_sent_away_and_those_who_know_one_are_not() {
    until("the guesses are within a minute", PATIENCE * 4, guesses);
}

/// The seven ways to frame a request that hyper takes, and a gateway must not.
fn framings(address: &str) -> Vec<(&'static str, Vec<u8>)> {
    let key = "authorization: Bearer secret\r\n";
    let chunked = |coding: &str| {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\n{key}{coding}\r\n0\r\n\r\n"
        )
        .into_bytes()
    };
    vec![
        (
            "gzip, then chunks",
            chunked("transfer-encoding: gzip, chunked\r\n"),
        ),
        (
            "transfer-encoding twice",
            chunked("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"),
        ),
        (
            "a length and chunks",
            chunked("content-length: 3\r\ntransfer-encoding: chunked\r\n"),
        ),
        (
            "a head of bare line feeds",
            format!("GET /v1/models HTTP/1.1\nhost: {address}\nauthorization: Bearer secret\n\n")
                .into_bytes(),
        ),
        (
            "no host",
            format!("GET /v1/models HTTP/1.1\r\n{key}\r\n").into_bytes(),
        ),
        (
            "two hosts",
            format!("GET /v1/models HTTP/1.1\r\nhost: {address}\r\nhost: other\r\n{key}\r\n")
                .into_bytes(),
        ),
        (
            "a URL of another host",
            format!("GET http://other/v1/models HTTP/1.1\r\nhost: {address}\r\n{key}\r\n")
                .into_bytes(),
        ),
        (
            "a path that climbs",
            format!("GET /v1/../v1/models%00 HTTP/1.1\r\nhost: {address}\r\n{key}\r\n")
                .into_bytes(),
        ),
    ]
}

#[test]
fn framings_that_two_readers_read_in_two_ways_are_refused_with_all_that_follows() {
    let served = served("");
    let beside = Beside::begin(&served, KEY);
    let smuggled = format!(
        "GET /smuggled HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer secret\r\n\r\n",
        served.address
    );
    for (what, mut request) in framings(&served.address) {
        request.extend(smuggled.as_bytes());
        let said = answer(&served, &request);
        let text = String::from_utf8_lossy(&said);
        assert_eq!(status(&said), 400, "{what}: {text}");
        assert_eq!(
            text.matches("HTTP/1.1 ").count(),
            1,
            "{what}: something follows: {text}"
        );
    }
    // Nothing of it came to an endpoint.
    assert!(!served.metrics().contains("endpoint=\"none\""));
    beside.ends();
}
