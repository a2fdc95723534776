//! WebSocket frames that no client of good faith sends.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::beside::Beside;
use crate::client::Served;
use crate::hostile::{KEY, connect, served};

/// A WebSocket to the output, with its first frame read.
fn socket(served: &Served) -> TcpStream {
    let mut stream = connect(served);
    let head = format!(
        "GET /v1/outputs/feed HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer secret\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        served.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    assert!(
        said.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&said)
    );
    let (first, _) = frame(&mut stream);
    assert_eq!(first, 0x81);
    stream
}

/// First byte and payload of the next frame.
fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            usize::from(u16::from_be_bytes(length))
        }
        length @ 0..126 => usize::from(length),
        other => panic!("a frame of length {other}"),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).unwrap();
    (head[0], payload)
}

/// The next frame for one who keeps to the protocol, and answers pings.
fn heard(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    loop {
        match frame(stream) {
            (0x89, payload) => stream.write_all(&masked(0x8a, &payload)).unwrap(),
            heard => return heard,
        }
    }
}

/// A frame as a client sends it.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
    }
    let mask = [9, 8, 7, 6];
    frame.extend(mask);
    frame.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    frame
}

/// The code that it is closed with; pings, pongs and records may come before.
fn closed(stream: &mut TcpStream) -> u16 {
    loop {
        match frame(stream) {
            (0x88, payload) => return u16::from_be_bytes([payload[0], payload[1]]),
            (0x89 | 0x8a | 0x81, _) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_that_break_the_protocol_close_their_own_connection_alone() {
    let served = served("");
    let beside = Beside::begin(&served, KEY);
    let mut good = socket(&served);
    let half = vec![b'x'; 2500];
    let pings = masked(0x89, b"").repeat(3000);
    let cases: [(&str, u16, Vec<u8>); 9] = [
        ("no mask", 1002, vec![0x81, 1, b'x']),
        (
            "64 bits of length",
            1009,
            vec![0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4],
        ),
        (
            "all 64 bits of length",
            1009,
            vec![
                0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4,
            ],
        ),
        (
            "a message of fragments that is too long",
            1009,
            [masked(0x01, &half), masked(0x80, &half)].concat(),
        ),
        ("the rest of nothing", 1002, masked(0x80, b"x")),
        ("a ping in fragments", 1002, masked(0x09, b"x")),
        ("bytes that are no text", 1007, masked(0x81, b"\xff\xfe")),
        (
            "a character cut by fragments that does not go on",
            1007,
            [masked(0x01, b"\xc3"), masked(0x80, b"(")].concat(),
        ),
        ("a flood of pings", 1008, pings),
    ];
    for (what, code, bytes) in cases {
        let mut stream = socket(&served);
        // It may be closed before all of it is written.
        let _ = stream.write_all(&bytes);
        assert_eq!(closed(&mut stream), code, "{what}");
        // The good one is there all the while, however long this takes.
        good.write_all(&masked(0x89, what.as_bytes())).unwrap();
        assert_eq!(heard(&mut good), (0x8a, what.as_bytes().to_vec()), "{what}");
    }
    // One that keeps to the protocol, in fragments and with a ping between, has heard none of this.
    good.write_all(
        &[
            masked(0x01, b"hel"),
            masked(0x89, b"there?"),
            masked(0x80, b"lo"),
        ]
        .concat(),
    )
    .unwrap();
    assert_eq!(heard(&mut good), (0x8a, b"there?".to_vec()));
    let got = served.send(
        "POST",
        "/v1/ingest/events",
        KEY,
        &json!({"n": 1}).to_string(),
    );
    assert!(matches!(got.status, 200..=299), "{got:?}");
    let (first, record) = heard(&mut good);
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    assert_eq!((first, &record["record"]), (0x81, &json!({"n": 1})));
    beside.ends();
}
