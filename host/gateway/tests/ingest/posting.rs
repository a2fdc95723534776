//! Posting records.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tidegate_codec::DecoderOptions;
use tidegate_contract::{IngestBatch, IngestError, IngestLog, Ingested, LoggedRecord};
use tidegate_gateway::ingest::{Ingest, IngestOptions};
use tidegate_state::{Fault, FileIngestLog, Lasting, MemoryDisk};
use tokio::task::JoinSet;

use crate::asking::{PATIENCE, asked, ingest, log, options, whole};

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");

async fn post(ingest: &Ingest, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let (request, _here) = asked(Method::POST, "/v1/ingest/orders", headers, body.to_owned());
    let (status, _, body) = whole(ingest.answer(request).await);
    if status != 200 {
        let error = body["error"].as_object().unwrap();
        for member in ["message", "type", "param", "code"] {
            assert!(error.contains_key(member), "{member} of {body}");
        }
    }
    (status.as_u16(), body)
}

fn values(log: &dyn IngestLog) -> Vec<String> {
    let held = log.offsets();
    let mut values = Vec::new();
    while held.start + (values.len() as u64) < held.end {
        let from = held.start + values.len() as u64;
        let records = log.read(from, 1000, 1 << 20).unwrap().into_iter();
        values.extend(records.map(|found| String::from_utf8(found.record.value.unwrap()).unwrap()));
    }
    values
}

#[tokio::test]
async fn lines_are_kept_as_they_are_and_the_answer_says_where() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let (status, body) = post(&ingest, &[LINES], "{\"a\": 1}\r\n\n[2]\n\"3\"").await;
    assert_eq!(status, 200);
    let expected = json!({"source": "orders", "accepted": 3, "first_offset": 0, "last_offset": 2});
    assert_eq!(body, expected);
    assert_eq!(values(log.as_ref()), ["{\"a\": 1}", "[2]", "\"3\""]);
    // It is on the disk by now, whatever happens to the machine.
    drop((ingest, log));
    assert_eq!(crate::asking::log(&disk.restart(0)).offsets(), 0..3);
}

#[tokio::test]
async fn a_document_a_text_and_bytes_are_one_record_each() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let json = ("content-type", "application/json; charset=utf-8");
    for (media, body) in [
        (json, "{\n\"a\":\n1}"),
        (("content-type", "text/plain"), "not {json\nat all"),
        (("content-type", "application/octet-stream"), "\u{1}"),
    ] {
        let (status, answer) = post(&ingest, &[media], body).await;
        assert_eq!((status, &answer["accepted"]), (200, &json!(1)));
    }
    let expected = ["{\n\"a\":\n1}", "not {json\nat all", "\u{1}"];
    assert_eq!(values(log.as_ref()), expected);
}

#[tokio::test]
async fn keys_and_headers_come_with_the_records() {
    let disk = MemoryDisk::new();
    let log = log(&disk);
    let with_key = IngestOptions {
        decoder: DecoderOptions {
            key: Some("customer.id".into()),
            ..options(log.clone()).decoder
        },
        ..options(log.clone())
    };
    let ingest = Ingest::new([with_key]);
    let headers = [LINES, ("traceparent", "00-1"), ("x-key", "of the header")];
    let (status, _) = post(&ingest, &headers, "{\"customer\": {\"id\": 7}}").await;
    assert_eq!(status, 200);
    let found = log.read(0, 1, 1).unwrap().remove(0).record;
    assert_eq!(found.key.unwrap(), b"7");
    assert_eq!(
        found.headers,
        [("traceparent".into(), Some(b"00-1".to_vec()))]
    );
    assert!(found.event_time.unwrap() > 0);
    // Without the member: refused, and a raw record has no members.
    let (status, body) = post(&ingest, &headers, "{}").await;
    let message = "line 1: field customer.id is missing";
    assert_eq!((status, &body["error"]["message"]), (400, &json!(message)));
    let (status, _) = post(&ingest, &[("content-type", "text/plain")], "x").await;
    assert_eq!(status, 415);
    let plain = Ingest::new([options(log.clone())]);
    post(&plain, &headers, "1").await;
    assert_eq!(
        log.read(1, 1, 1).unwrap()[0].record.key.as_deref(),
        Some(&b"of the header"[..])
    );
}

#[tokio::test]
async fn a_line_that_is_wrong_refuses_all_of_them_with_its_number() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let long = format!("1\n\"{}\"", "x".repeat(1000));
    for (body, status, code, named) in [
        ("{\"a\":1}\n{\"a\":\n{}", 400, "invalid_record", "line 2"),
        (
            long.as_str(),
            413,
            "record_too_large",
            "line 2 has 1002 bytes, at most 1000",
        ),
        ("1\n2\n3\n4\n5\n6", 413, "too_many_records", "line 6"),
        ("\n\r\n", 400, "no_records", "no record"),
        ("", 400, "no_records", "no record"),
        (
            &"1\n".repeat(4001),
            413,
            "body_too_large",
            "8002 bytes, at most 8000",
        ),
    ] {
        let (found, answer) = post(&ingest, &[LINES], body).await;
        assert_eq!(
            (found, &answer["error"]["code"]),
            (status, &json!(code)),
            "{answer}"
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{message}");
    }
    assert_eq!(log.offsets(), 0..0);
}

#[tokio::test]
async fn what_is_not_taken_is_refused_by_name() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let (status, _) = post(&ingest, &[], "1").await;
    assert_eq!(status, 415);
    let (status, _) = post(&ingest, &[("content-type", "text/csv")], "1").await;
    assert_eq!(status, 415);
    let (request, _here) = asked(Method::GET, "/v1/ingest/orders", &[], "");
    assert_eq!(whole(ingest.answer(request).await).0, 405);
    for path in ["/v1/ingest/other", "/v1/ingest/", "/v1/ingest/orders/"] {
        let (request, _here) = asked(Method::POST, path, &[LINES], "1");
        assert_eq!(whole(ingest.answer(request).await).0, 404);
    }
    assert_eq!(log.offsets(), 0..0);
}

#[tokio::test]
async fn the_same_key_with_the_same_body_is_answered_the_same_and_kept_once() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    post(&ingest, &[LINES], "0").await;
    let (_, first) = post(&ingest, &[LINES, ("idempotency-key", "abc")], "1\n2").await;
    assert_eq!(first.get("replayed"), None);
    let mut again = first.clone();
    again["replayed"] = true.into();
    // Quoted or bare, and also after a restart.
    let quoted = [LINES, ("idempotency-key", "\"abc\"")];
    assert_eq!(post(&ingest, &quoted, "1\n2").await, (200, again.clone()));
    drop((ingest, log));
    let (ingest, log) = crate::asking::ingest(&disk.restart(0));
    assert_eq!(post(&ingest, &quoted, "1\n2").await, (200, again));
    assert_eq!(log.offsets(), 0..3);
    let (status, body) = post(&ingest, &quoted, "1\n3").await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (422, &json!("idempotency_key_reused"))
    );
    // What becomes part of the records is part of what was asked.
    let traced = [LINES, ("idempotency-key", "abc"), ("traceparent", "00-1")];
    assert_eq!(post(&ingest, &traced, "1\n2").await.0, 422);
    // The same bytes under another key, or of somebody else, are other records.
    assert_eq!(
        post(&ingest, &[LINES, ("idempotency-key", "d")], "1\n2")
            .await
            .0,
        200
    );
    let (mut request, _here) = asked(Method::POST, "/v1/ingest/orders", &quoted, "1\n2");
    request.who.name = "ben".into();
    let (_, _, body) = whole(ingest.answer(request).await);
    assert_eq!(body["first_offset"], 5);
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let long = "k".repeat(256);
    for key in ["", "\"\"", "bare\"", "\"open", "\"a\"b", "\"a\\x\"", &long] {
        let (status, body) = post(&ingest, &[LINES, ("idempotency-key", key)], "1").await;
        let code = &body["error"]["code"];
        assert_eq!(
            (status, code),
            (400, &json!("invalid_idempotency_key")),
            "{key}"
        );
    }
    let two = [LINES, ("idempotency-key", "a"), ("idempotency-key", "a")];
    assert_eq!(post(&ingest, &two, "1").await.0, 400);
    let longest = "k".repeat(255);
    assert_eq!(
        post(&ingest, &[LINES, ("idempotency-key", &longest)], "1")
            .await
            .0,
        200
    );
    assert_eq!(log.offsets(), 0..1);
}

#[tokio::test]
async fn a_full_log_asks_to_come_again_and_a_broken_disk_is_no_success() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let body = format!("\"{}\"", "x".repeat(900));
    let (status, answer) = loop {
        let (status, answer) = post(&ingest, &[LINES], &body).await;
        if status != 200 {
            break (status, answer);
        }
    };
    assert_eq!(
        (status, &answer["error"]["code"]),
        (429, &json!("ingest_full"))
    );
    log.done(log.offsets().end).unwrap();
    assert_eq!(post(&ingest, &[LINES], &body).await.0, 200);
    disk.limit(Some(disk.used()));
    assert_eq!(post(&ingest, &[LINES], "1").await.0, 507);
    disk.mend();
    assert_eq!(post(&ingest, &[LINES], "1").await.0, 200);
    disk.fail(Fault::Sync(disk.syncs() + 1), Lasting::Once);
    let end = log.offsets().end;
    for _ in 0..2 {
        let (status, answer) = post(&ingest, &[LINES], "1").await;
        assert_eq!(status, 503);
        // Paths are nobody's business.
        assert!(!answer.to_string().contains("/state"), "{answer}");
    }
    assert_eq!(log.offsets().end, end);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_at_once_are_all_kept_once() {
    let disk = MemoryDisk::new();
    let (ingest, log) = ingest(&disk);
    let clients = (0..60).map(|client| {
        let ingest = ingest.clone();
        tokio::spawn(async move {
            let key = format!("{}", client / 2);
            let headers = [LINES, ("idempotency-key", key.as_str())];
            post(&ingest, &headers, &key).await
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        assert_eq!(client.await.unwrap().0, 200);
    }
    let mut values = values(log.as_ref());
    let mut expected: Vec<_> = (0..30).map(|number: u32| number.to_string()).collect();
    values.sort();
    expected.sort();
    assert_eq!(values, expected);
}

/// A log that writes nothing before the test says so.
#[derive(Debug)]
struct Stuck {
    log: Arc<FileIngestLog>,
    free: (Mutex<bool>, Condvar),
    asked: AtomicUsize,
}

impl IngestLog for Stuck {
    fn append(&self, batch: &IngestBatch) -> Result<Ingested, IngestError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let free = self.free.0.lock().unwrap();
        let waited = self
            .free
            .1
            .wait_timeout_while(free, PATIENCE, |free| !*free);
        assert!(!waited.unwrap().1.timed_out(), "it is stuck for good");
        self.log.append(batch)
    }
    fn read(&self, from: u64, most: usize, bytes: usize) -> Result<Vec<LoggedRecord>, IngestError> {
        self.log.read(from, most, bytes)
    }
    fn wait(&self, offset: u64, wait: Duration) -> bool {
        self.log.wait(offset, wait)
    }
    fn offsets(&self) -> Range<u64> {
        self.log.offsets()
    }
    fn done(&self, offset: u64) -> Result<(), IngestError> {
        self.log.done(offset)
    }
    fn identity(&self) -> String {
        self.log.identity()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_whose_disk_is_slow_holds_up_no_other() {
    let (slow, quick) = (MemoryDisk::new(), MemoryDisk::new());
    let stuck = Arc::new(Stuck {
        log: log(&slow),
        free: (Mutex::new(false), Condvar::new()),
        asked: AtomicUsize::new(0),
    });
    let of_slow = IngestOptions {
        source: "slow".into(),
        ..options(stuck.clone())
    };
    let ingest = Ingest::new([of_slow, options(log(&quick))]);
    let mut waiting = JoinSet::new();
    for _ in 0..40 {
        let ingest = ingest.clone();
        waiting.spawn(async move {
            let (request, _here) = asked(Method::POST, "/v1/ingest/slow", &[LINES], "1");
            whole(ingest.answer(request).await).0
        });
    }
    // All its turns are taken.
    let until = Instant::now() + PATIENCE;
    while stuck.asked.load(Ordering::SeqCst) < 32 {
        assert!(Instant::now() < until, "it is not asked");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(post(&ingest, &[LINES], "1").await.0, 200);
    assert_eq!(stuck.asked.load(Ordering::SeqCst), 32);
    *stuck.free.0.lock().unwrap() = true;
    stuck.free.1.notify_all();
    while let Some(status) = waiting.join_next().await {
        assert_eq!(status.unwrap(), 200);
    }
}
