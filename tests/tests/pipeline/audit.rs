//! Who was answered what: of a stream, with two workers, through kills, and as the commands show it.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, root, until};

const PATIENCE: Duration = Duration::from_secs(120);
const RECORDS: u64 = 40;

/// Two files, each read by a worker, and a model that answers shortly.
fn workspace() -> Workspace {
    let model = root().join("examples/support-bot/model");
    let workspace = Workspace::new(&format!(
        r#"
[pipeline]
name = "audited"
cut-interval = "20ms"
workers = 2
[source.in]
type = "file"
paths = ["a.jsonl", "b.jsonl"]
[model.support]
path = {:?}
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
config = {{ paths = ["text"] }}
[[stage]]
name = "answer"
model = "support"
prompt = "{{text}}"
max-tokens = 8
[sink.out]
type = "file"
path = "out.jsonl"
[audit]
path = "audit/audit.jsonl"
max-file = "16KiB"
"#,
        model.display().to_string()
    ));
    for name in ["a", "b"] {
        let lines: String = (0..RECORDS)
            .map(|n| {
                format!("{{\"n\":{n},\"text\":\"{name} {n}: write to ada{n}@example.com\"}}\n")
            })
            .collect();
        workspace.write(&format!("{name}.jsonl"), lines);
    }
    workspace
}

fn said(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn lines(workspace: &Workspace, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["audit", "show"], arguments, &["audit/audit.jsonl"]].concat();
    let shown = said(&workspace.run(&arguments));
    shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_question_has_its_line_once_however_often_the_run_is_killed() {
    let workspace = workspace();
    for kill in 1..=3 {
        let mut running = workspace.start(&["run", "pipeline.toml"]);
        let wanted = (kill * 15 * RECORDS / 40) as usize;
        until("some answers", PATIENCE, || {
            running.ended().is_some()
                || workspace
                    .read("out.jsonl")
                    .iter()
                    .filter(|b| **b == b'\n')
                    .count()
                    >= wanted
        });
        running.kill();
    }
    workspace.run_pipeline();
    let verified = said(&workspace.run(&["audit", "verify", "--json", "audit/audit.jsonl"]));
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(verified["whole"], true);
    assert_eq!(verified["lines"], 2 * RECORDS);
    assert!(
        verified["files"].as_array().unwrap().len() > 1,
        "{verified}"
    );
    let shown = lines(&workspace, &[]);
    let records: BTreeSet<&str> = shown
        .iter()
        .map(|line| line["record"].as_str().unwrap())
        .collect();
    assert_eq!(records.len() as u64, 2 * RECORDS);
    let line = &shown[0];
    assert_eq!(
        (&line["stage"], &line["outcome"]),
        (&"answer".into(), &"answered".into())
    );
    assert_eq!(line["caller"], Value::Null);
    assert!(
        line["model"]["digest"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert_eq!(line["operators"][0]["slot"], "redact");
    assert!(
        line["operators"][0]["revision"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert_eq!(line["parameters"]["max_tokens"], 8);
    assert!(line["content"]["sealed"].is_string());
    // Opened it has the prompt as the model was given it, and what was written.
    let opened = lines(&workspace, &["--decrypt", "--state", "state"]);
    let answers: Vec<Value> = workspace.json_lines("out.jsonl");
    for line in &opened {
        let content = &line["content"];
        assert!(
            content["prompt"].as_str().unwrap().contains("[EMAIL_1]"),
            "{content}"
        );
        let choice = &content["choices"][0];
        assert!(!choice["tokens"].as_array().unwrap().is_empty());
        assert!(
            answers
                .iter()
                .any(|answer| answer["answer"] == choice["text"]),
            "{choice}"
        );
    }
    // What the operator took away is kept, and in no file in clear.
    assert!(
        opened[0]["content"]["private"]
            .to_string()
            .contains("@example.com")
    );
    for file in verified["files"].as_array().unwrap() {
        let bytes = workspace.read(file.as_str().unwrap());
        assert!(!String::from_utf8_lossy(&bytes).contains("example.com"));
    }
    // One who alters a line is found, and so is who takes away the end.
    let head = verified["head"].as_str().unwrap();
    let path = "audit/audit.jsonl";
    let whole = workspace.read(path);
    let altered = String::from_utf8(whole.clone()).unwrap();
    workspace.write(path, altered.replacen("\"answered\"", "\"failed\"", 1));
    let output = workspace.run(&["audit", "verify", path]);
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("audit.jsonl, line 1: altered"), "{why}");
    workspace.write(path, whole);
    let last = verified["files"].as_array().unwrap().last().unwrap();
    std::fs::remove_file(workspace.path(last.as_str().unwrap())).unwrap();
    assert!(workspace.run(&["audit", "verify", path]).status.success());
    let output = workspace.run(&["audit", "verify", path, "--head", head]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_head_is_in_the_status_and_the_guarantee_is_said_before() {
    let workspace = workspace();
    let checked = said(&workspace.run(&["check", "pipeline.toml"]));
    assert!(
        checked.contains("\n  audit: exactly once: its length is part of every cut"),
        "{checked}"
    );
    let _running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
    let mut report = Value::Null;
    until("all lines", PATIENCE, || {
        let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        report = serde_json::from_slice(&output.stdout).unwrap_or_default();
        report["audit"]["lines"] == 2 * RECORDS
    });
    let head = report["audit"]["head"].as_str().unwrap();
    said(&workspace.run(&["audit", "verify", "audit/audit.jsonl", "--head", head]));
    let text = said(&workspace.run(&["status", "--pipeline", "pipeline.toml"]));
    assert!(text.contains(head), "{text}");
}
