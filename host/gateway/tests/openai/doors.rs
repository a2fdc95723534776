//! What a path needs of a key, and takes of a body, before anything of its request is read.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use tidegate_codec::DecoderOptions;
use tidegate_gateway::access::{Access, Scope};
use tidegate_gateway::endpoints::{Counted, Everything, Health};
use tidegate_gateway::front::{Endpoints, Front, FrontOptions, Limits};
use tidegate_gateway::ingest::{Ingest, IngestOptions};
use tidegate_gateway::outputs::Outputs;
use tidegate_state::{FileIngestLog, IngestLimits, MemoryDisk};
use tidegate_telemetry::trace::Tracer;

use crate::flow::Gateway;

/// Longest body of a chat, and of what is posted.
const CHAT: u64 = 1 << 20;
const POSTED: u64 = 100;

/// A source that clients post to.
fn events() -> IngestOptions {
    let (disk, directory) = (MemoryDisk::new(), Path::new("/state/ingest/events"));
    let log = FileIngestLog::open(Arc::new(disk), directory, IngestLimits::default());
    IngestOptions {
        source: "events".to_owned(),
        log: Arc::new(log.unwrap()),
        decoder: DecoderOptions::default(),
        key_header: None,
        headers: Vec::new(),
        max_records: 1,
        max_body: POSTED as usize,
    }
}

fn everything(gateway: &Gateway, counted: &Counted) -> Everything {
    Everything {
        health: Health::default(),
        openai: gateway.openai.clone(),
        ingest: Ingest::new([events()]),
        outputs: Outputs::new([], []),
        page: None,
        counted: counted.clone(),
        tracer: Tracer::default(),
    }
}

#[tokio::test]
async fn every_endpoint_has_its_scope_and_those_that_last_are_counted_at_once() {
    let gateway = Gateway::new(|play| panic!("asked: {}", play.value));
    let all = everything(&gateway, &Counted::default());
    // The body of a GET, and of a POST: none where nothing of it is read.
    let (nothing, refused) = (None, Some(0));
    for (path, scope, lasts, get, post) in [
        (
            "/v1/chat/completions",
            Some(Scope::Chat),
            true,
            nothing,
            Some(CHAT),
        ),
        (
            "/v1/responses",
            Some(Scope::Responses),
            true,
            nothing,
            Some(CHAT),
        ),
        (
            "/v1/completions",
            Some(Scope::Completions),
            true,
            nothing,
            Some(CHAT),
        ),
        (
            "/v1/embeddings",
            Some(Scope::Embeddings),
            true,
            nothing,
            Some(CHAT),
        ),
        ("/v1/rerank", Some(Scope::Rerank), true, nothing, Some(CHAT)),
        (
            "/v1/outputs/feed",
            Some(Scope::Outputs),
            true,
            refused,
            nothing,
        ),
        ("/v1/models", Some(Scope::Models), false, refused, nothing),
        (
            "/v1/models/small",
            Some(Scope::Models),
            false,
            refused,
            nothing,
        ),
        (
            "/v1/ingest/events",
            Some(Scope::Ingest),
            false,
            nothing,
            Some(POSTED),
        ),
        (
            "/v1/ingest/others",
            Some(Scope::Ingest),
            false,
            refused,
            nothing,
        ),
        ("/health", None, false, refused, refused),
        ("/elsewhere", None, false, refused, nothing),
    ] {
        for (method, body) in [(Method::GET, get), (Method::POST, post)] {
            let expected = Limits {
                body,
                open: path == "/health",
                scope,
                lasts,
                // Nothing here has an idempotency key.
                repeats: false,
            };
            assert_eq!(all.limits(&method, path), expected, "{method} {path}");
        }
    }
}

/// The status of what is answered to these bytes; none where nothing is, because whoever asks has gone.
fn asks(address: SocketAddr, bytes: &str, goes: bool) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    if goes {
        stream.shutdown(Shutdown::Both).unwrap();
        return None;
    }
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    Some(said.split(' ').nth(1).unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_that_begins_is_timed_and_counted_once_however_it_ends() {
    let gateway = Gateway::new(|play| panic!("asked: {}", play.value));
    let counted = Counted::default();
    let options = FrontOptions::new("127.0.0.1:0".parse().unwrap(), Arc::new(Access::anyone()));
    let front = Front::bind(options, Arc::new(everything(&gateway, &counted))).unwrap();
    let address = front.address();
    let post = |path: &str, length: usize, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
    };
    let bare = |method: &str, path: &str| {
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    };
    let ingest = "/v1/ingest/events";
    let mix = [
        // Good ones, one of them without a body.
        (bare("GET", "/health"), false, Some(200)),
        (bare("HEAD", "/health"), false, Some(200)),
        (post(ingest, 3, "{}\n"), false, Some(200)),
        // Refused by their endpoint, and before that: too long, by what is said of it and by what comes.
        (bare("GET", "/elsewhere"), false, Some(404)),
        (post(ingest, 2, "x\n"), false, Some(400)),
        (post(ingest, 5000, ""), false, Some(413)),
        // Whoever asked has gone in the middle of the body.
        (post(ingest, 50, "{}\n"), true, None),
    ];
    let asked = mix.len() as u64;
    let answers = tokio::task::spawn_blocking(move || {
        mix.map(|(bytes, goes, status)| (asks(address, &bytes, goes), status))
    });
    for (answered, expected) in answers.await.unwrap() {
        assert_eq!(answered, expected);
    }
    // The last byte comes before its request is over.
    let began = Instant::now();
    loop {
        let times = counted.all_times();
        let timed: u64 = times
            .iter()
            .map(|(_, times)| times.seconds.spread().count())
            .sum();
        if timed == asked {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{timed}");
        tokio::task::yield_now().await;
    }
    let all = counted.all();
    let of = |wanted: u16| -> u64 {
        let these = all.iter().filter(|(_, status, _)| *status == wanted);
        these.map(|(_, _, count)| count).sum()
    };
    assert_eq!(all.iter().map(|(_, _, count)| count).sum::<u64>(), asked);
    assert_eq!([of(200), of(404), of(413)], [3, 1, 1], "{all:?}");
    // That of the one who went has a body that breaks off, or nobody who waits for it: whichever is seen first.
    assert_eq!(of(400) + of(499), 2, "{all:?}");
    // Whoever was answered has had a first byte.
    let first: u64 = (counted.all_times().iter())
        .map(|(_, times)| times.first_byte.spread().count())
        .sum();
    assert_eq!(first, asked - of(499));
}
