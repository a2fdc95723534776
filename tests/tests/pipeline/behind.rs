//! How far a source is behind, as `/metrics` says it.

use std::io::Write;
use std::time::Duration;

use tidegate_tests::{Workspace, until};

use crate::revisions::metrics;

const PATIENCE: Duration = Duration::from_secs(120);

/// Two files, read on and on by a worker each.
const PIPELINE: &str = r#"
[pipeline]
name = "behind"
state = "state"
workers = 2
[source.lines]
type = "file"
paths = ["one.jsonl", "other.jsonl"]
event-time = "at"
[sink.out]
type = "file"
path = "out.jsonl"
"#;

/// The value of a family's only line.
fn value(text: &str, family: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{family}{{")))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_file_that_grows_after_it_was_read_to_its_end_is_behind_again() {
    let workspace = Workspace::new(PIPELINE);
    workspace.write("one.jsonl", "{\"at\":\"2020-01-01T00:00:00Z\"}\n");
    workspace.write("other.jsonl", "");
    let arguments = ["run", "--quiet", "--until", "forever", "pipeline.toml"];
    let _running = workspace.start(&arguments);
    until("the admin API", PATIENCE, || {
        workspace.path("state/admin.json").exists()
    });
    let (bytes, seconds) = ("tidegate_source_lag_bytes", "tidegate_source_lag_seconds");
    until("all is read", PATIENCE, || {
        let text = metrics(&workspace);
        let lag = (value(&text, bytes), value(&text, seconds));
        let read = text.contains("tidegate_source_records_total{source=\"lines\"} 1\n");
        read && lag == (Some(0.0), Some(0.0))
    });
    // A line without its end lies unread until it has one.
    let file = std::fs::OpenOptions::new()
        .append(true)
        .open(workspace.path("one.jsonl"));
    file.unwrap().write_all(b"{\"n\":2").unwrap();
    until("it is behind", PATIENCE, || {
        let text = metrics(&workspace);
        let behind = value(&text, seconds).is_some_and(|seconds| seconds > 86_400.0);
        behind && value(&text, bytes) == Some(6.0)
    });
    let text = metrics(&workspace);
    // Letters that are sent again are a source of their own, which counts records.
    let lines = "tidegate_source_lag_records{source=\"lines\"}";
    assert!(!text.contains(lines), "{text}");
}
