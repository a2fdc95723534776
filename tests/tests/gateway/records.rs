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

/// The same, where no cut comes by itself.
fn without_cuts() -> String {
    PIPELINE.replace("20ms", "60s")
}

/// The pipeline under other names, without anything of the gateway.
const WITHOUT: &str = r#"
[pipeline]
name = "take"
[source.lines]
type = "file"
paths = ["lines.jsonl"]
[sink.kept]
type = "file"
path = "kept.jsonl"
"#;

#[test]
fn what_was_acknowledged_is_not_left_behind_when_its_source_goes() {
    let mut served = Served::start(&without_cuts());
    for n in 0..3 {
        let got = served.post("/v1/ingest/events", &json!({"customer": "c", "n": n}));
        assert_eq!(got.status, 200, "{got:?}");
    }
    served.running.kill();
    let workspace = served.workspace;
    workspace.write("lines.jsonl", "{}\n");
    let renamed = without_cuts().replace("[source.events]", "[source.news]");
    for changed in [renamed.as_str(), WITHOUT] {
        workspace.pipeline(changed);
        let ended = workspace.run(&["run", "pipeline.toml"]);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("3 records of ingest source events"), "{said}");
        assert!(said.contains("give it its name back"), "{said}");
        let checked = workspace.run(&["check", "pipeline.toml"]);
        assert!(checked.status.success(), "{checked:?}");
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(said.contains("3 records of ingest source events"), "{said}");
    }
    // Under its name all of them come, and then it may go.
    workspace.pipeline(PIPELINE);
    let mut served = Served::again(workspace);
    until("all of them", PATIENCE, || {
        served.workspace.json_lines("kept.jsonl").len() == 3
    });
    assert!(served.running.terminate(PATIENCE).success());
    let workspace = served.workspace;
    workspace.pipeline(WITHOUT);
    let checked = workspace.run(&["check", "pipeline.toml"]);
    assert!(
        !String::from_utf8(checked.stderr)
            .unwrap()
            .contains("ingest")
    );
    workspace.run_pipeline();
    assert_eq!(workspace.json_lines("kept.jsonl").len(), 4);
}

#[cfg(unix)]
#[test]
fn what_clients_hand_over_is_readable_by_its_owner_alone() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let served = Served::start(PIPELINE);
    let ingest = served.workspace.path("state/ingest");
    let modes = || {
        let mut modes = Vec::new();
        let mut waiting = vec![ingest.clone()];
        while let Some(path) = waiting.pop() {
            let facts = std::fs::metadata(&path).unwrap();
            modes.push((path.clone(), facts.permissions().mode() & 0o777));
            if facts.is_dir() {
                let inside = std::fs::read_dir(&path).unwrap();
                waiting.extend(inside.map(|entry| entry.unwrap().path()));
            }
        }
        modes
    };
    let are_private = || {
        for (path, mode) in modes() {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{}", path.display());
        }
    };
    assert_eq!(
        served
            .post("/v1/ingest/events", &json!({"customer": "c"}))
            .status,
        200
    );
    are_private();
    // What a version left that did not care is taken from others.
    let mut running = served.running;
    running.kill();
    for (path, mode) in modes() {
        set_permissions(&path, Permissions::from_mode(mode | 0o055)).unwrap();
    }
    let _served = Served::again(served.workspace);
    are_private();
}
