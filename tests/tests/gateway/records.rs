//! Records that come and go over HTTP.

use std::collections::BTreeSet;
use std::io::Read;

use serde_json::json;
use tidegate_tests::until;

use crate::client::{PATIENCE, Served};

const PIPELINE: &str = r#"
[pipeline]
name = "take"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
[source.events]
type = "ingest"
key = "customer"
[sink.kept]
type = "file"
path = "kept.jsonl"
[sink.feed]
type = "output"
"#;

#[test]
fn what_was_acknowledged_is_written_once_however_often_the_program_is_killed() {
    let mut served = Served::start(PIPELINE);
    let mut sent = 0;
    for round in 0..3 {
        for _ in 0..20 {
            let record = json!({"customer": "c", "n": sent});
            let got = served.post("/v1/ingest/events", &record);
            assert!(matches!(got.status, 200..=299), "{got:?}");
            sent += 1;
        }
        if round < 2 {
            served.running.kill();
            served = Served::again(served.workspace);
        }
    }
    until("all of them", PATIENCE, || {
        served.workspace.json_lines("kept.jsonl").len() >= sent
    });
    let ended = served.running.terminate(PATIENCE);
    assert!(ended.success(), "{ended}");
    let kept = served.workspace.json_lines("kept.jsonl");
    let numbers = kept
        .iter()
        .map(|record| record["n"].as_u64().unwrap() as usize);
    assert_eq!(
        numbers.clone().collect::<BTreeSet<_>>(),
        (0..sent).collect()
    );
    assert_eq!(numbers.count(), sent);
}

#[test]
fn a_reader_follows_an_output() {
    let served = Served::start(PIPELINE);
    let mut stream = served.open("GET", "/v1/outputs/feed", &[], "");
    let mut seen = Vec::new();
    let mut read = |wanted: &str| {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(wanted) {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend(&buffer[..read]);
        }
    };
    read("\r\n\r\n");
    let got = served.post(
        "/v1/ingest/events",
        &json!({"customer": "c", "word": "seen"}),
    );
    assert!(matches!(got.status, 200..=299), "{got:?}");
    read("\"word\":\"seen\"");
}
