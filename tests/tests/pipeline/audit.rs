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
    let lines = shown.lines();
    let lines = lines.map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line.get("mark").is_none())
        .collect()
}

/// What the chain says of its runs.
fn marks(workspace: &Workspace, wanted: &[&str]) -> Vec<Value> {
    let shown = said(&workspace.run(&["audit", "show", "audit/audit.jsonl"]));
    let lines = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| {
            line["mark"]
                .as_str()
                .is_some_and(|mark| wanted.contains(&mark))
        })
        .collect()
}

/// What verify says, which is that nothing is wrong.
fn verified(workspace: &Workspace, arguments: &[&str]) -> Value {
    let verify = [
        "audit",
        "verify",
        "--json",
        "--state",
        "state",
        "audit/audit.jsonl",
    ];
    let said = said(&workspace.run(&[&verify, arguments].concat()));
    let verified: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&verified["whole"], &verified["signed"]),
        (&true.into(), &true.into())
    );
    verified
}

#[test]
fn every_question_has_its_line_once_however_often_the_run_is_killed() {
    let workspace = workspace();
    for kill in 1..=3 {
        let mut running = workspace.start(&["run", "pipeline.toml"]);
        let wanted = (kill * 15 * RECORDS / 40) as usize;
        until("some answers", PATIENCE, || {
            // Beside a run that writes it the chain is whole, too.
            if workspace.path("audit/audit.jsonl").exists() && workspace.path("state/key").exists()
            {
                verified(&workspace, &[]);
            }
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
    let verified = verified(&workspace, &[]);
    assert_eq!(verified["entries"], 2 * RECORDS);
    assert!(
        verified["files"].as_array().unwrap().len() > 1,
        "{verified}"
    );
    // Each life has begun, and the last one has ended.
    let lives = marks(&workspace, &["begin", "end", "gap"]);
    assert_eq!(lives.last().unwrap()["mark"], "end");
    assert_eq!(lives[0]["pipeline"], "audited");
    assert!(lives[0]["digest"].as_str().unwrap().starts_with("sha256:"));
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
        let bytes = workspace.read(file["path"].as_str().unwrap());
        assert!(!String::from_utf8_lossy(&bytes).contains("example.com"));
    }
    // One who alters a line is found, and so is who takes away the end.
    let head = verified["head"].as_str().unwrap();
    let path = "audit/audit.jsonl";
    let whole = workspace.read(path);
    let altered = String::from_utf8(whole.clone()).unwrap();
    let mut of_file = altered.lines();
    let first = of_file.position(|line| line.contains("\"answered\""));
    let first = first.unwrap() + 1;
    workspace.write(path, altered.replacen("\"answered\"", "\"failed\"", 1));
    let output = workspace.run(&["audit", "verify", path]);
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("audit.jsonl, line {first}: altered");
    assert!(why.contains(&expected), "{why}");
    workspace.write(path, whole);
    let last = verified["files"].as_array().unwrap().last().unwrap();
    std::fs::remove_file(workspace.path(last["path"].as_str().unwrap())).unwrap();
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
    until("all lines", PATIENCE, || {
        workspace.path("audit/audit.jsonl").exists()
            && workspace.path("state/key").exists()
            && verified(&workspace, &[])["entries"] == 2 * RECORDS
    });
    let mut head = String::new();
    until("the head of all lines", PATIENCE, || {
        let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let shown = report["audit"]["head"].as_str().unwrap_or_default();
        head = shown.to_owned();
        verified(&workspace, &[])["head"] == shown
    });
    verified(&workspace, &["--head", &head]);
    let text = said(&workspace.run(&["status", "--pipeline", "pipeline.toml"]));
    assert!(text.contains(&head), "{text}");
}

#[test]
fn a_run_without_the_audit_is_a_gap_in_the_chain_and_another_key_opens_nothing() {
    let workspace = workspace();
    workspace.run_pipeline();
    let whole = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
    let (without, _) = whole.split_once("[audit]").unwrap();
    workspace.write("pipeline.toml", without);
    let more = |name: &str| {
        let mut lines = workspace.read("a.jsonl");
        lines.extend(format!("{{\"text\":\"{name}\"}}\n").into_bytes());
        workspace.write("a.jsonl", lines);
        workspace.run_pipeline();
    };
    more("unseen");
    more("unseen, too");
    workspace.write("pipeline.toml", &whole);
    more("seen");
    more("seen, too");
    assert_eq!(verified(&workspace, &[])["entries"], 2 * RECORDS + 2);
    let lives = marks(&workspace, &["begin", "end", "gap"]);
    let named: Vec<&str> = lives
        .iter()
        .map(|mark| mark["mark"].as_str().unwrap())
        .collect();
    assert_eq!(
        named,
        ["begin", "end", "gap", "begin", "end", "begin", "end"]
    );
    assert!(lives[2]["from_cut"].as_u64() < lives[2]["to_cut"].as_u64());
    // A directory whose key is another's: it is said, and the exit code says it, too.
    std::fs::create_dir(workspace.path("other")).unwrap();
    workspace.write("other/key", "7b".repeat(32));
    let show = [
        "audit",
        "show",
        "--decrypt",
        "audit/audit.jsonl",
        "--state",
        "other",
    ];
    let output = workspace.run(&show);
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("which is none of those given"), "{why}");
    assert!(
        why.contains(&format!("{} lines could not be opened", 2 * RECORDS + 2)),
        "{why}"
    );
    said(&workspace.run(&[&show[..], &["--state", "state"]].concat()));
}

#[test]
fn the_digest_is_of_the_file_that_runs_whatever_stands_there_later() {
    let workspace = workspace();
    let content = workspace.read("pipeline.toml");
    let digest = ring::digest::digest(&ring::digest::SHA256, &content);
    let digits: Vec<String> = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    // Who reads a pipe once has what is written; who opens it a second time waits for ever.
    let pipe = workspace.path("read-once.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut running = workspace.start(&["run", "--quiet", "read-once.toml"]);
    let writing = std::thread::spawn(move || std::fs::write(&pipe, &content));
    until("the run has ended", PATIENCE, || running.ended().is_some());
    writing.join().unwrap().unwrap();
    let begun = marks(&workspace, &["begin"]);
    assert_eq!(begun[0]["digest"], format!("sha256:{}", digits.concat()));
}

#[test]
fn a_week_in_another_file_is_a_gap_in_the_chain() {
    let workspace = workspace();
    let whole = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
    let other = whole.replace("audit/audit.jsonl", "audit/other.jsonl");
    for content in [&whole, &other, &whole] {
        workspace.write("pipeline.toml", content);
        workspace.run_pipeline();
    }
    let lives = marks(&workspace, &["begin", "end", "gap"]);
    let named: Vec<&str> = lives
        .iter()
        .map(|mark| mark["mark"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["begin", "end", "gap", "begin", "end"]);
    assert_eq!(lives[2]["to_cut"], lives[3]["cut"]);
    verified(&workspace, &[]);
}

#[test]
fn lines_that_no_run_can_have_left_are_no_proof() {
    let workspace = workspace();
    workspace.run_pipeline();
    let last = verified(&workspace, &[])["files"].as_array().unwrap().len();
    let path = match last {
        1 => "audit/audit.jsonl".to_owned(),
        last => format!("audit/audit.jsonl.{last}"),
    };
    let whole = String::from_utf8(workspace.read(&path)).unwrap();
    let end: Value = serde_json::from_str(whole.lines().next_back().unwrap()).unwrap();
    let number = end["number"].as_u64().unwrap() + 1;
    let before = end["hash"].as_str().unwrap();
    let line = format!("{{\"number\":{number},\"before\":\"{before}\",\"record\":\"in/0/0/0\"");
    let hash = ring::digest::digest(&ring::digest::SHA256, line.as_bytes());
    let hash: Vec<String> = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    let forged = format!("{whole}{line},\"hash\":\"{}\"}}\n", hash.concat());
    workspace.write(&path, &forged);
    let verify = ["audit", "verify", "audit/audit.jsonl"];
    let without = said(&workspace.run(&verify));
    assert!(without.contains("1 lines and 0 bytes"), "{without}");
    let output = workspace.run(&[&verify[..], &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("does not have the key"), "{why}");
    let shown = lines(&workspace, &["--state", "state"]);
    let (forged, genuine) = shown.split_last().unwrap();
    assert_eq!(forged["closed"], false);
    assert!(genuine.iter().all(|line| line["closed"] == true));
    // The end cut off is found by what the commit log has.
    let cut = whole.trim_end().rfind('\n').map_or(0, |end| end + 1);
    workspace.write(&path, &whole[..cut]);
    assert!(workspace.run(&verify).status.success());
    let output = workspace.run(&[&verify[..], &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains(before), "{why}");
}

#[test]
fn a_run_without_the_audit_says_nothing_of_what_a_crash_left_of_it() {
    for away in [false, true] {
        let workspace = workspace();
        let mut running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
        until("some lines", PATIENCE, || {
            workspace.path("audit/audit.jsonl").exists()
                && workspace.path("state/key").exists()
                && verified(&workspace, &[])["entries"].as_u64() > Some(0)
        });
        running.kill();
        // As a disk that is full leaves it: a line that was begun, and what the commit log does not have.
        let newest = (2..)
            .map(|number| format!("audit/audit.jsonl.{number}"))
            .take_while(|file| workspace.path(file).exists())
            .last()
            .unwrap_or_else(|| "audit/audit.jsonl".to_owned());
        let mut bytes = workspace.read(&newest);
        if bytes.last() == Some(&b'\n') {
            let before = verified(&workspace, &[]);
            let number = before["lines"].as_u64().unwrap() + 1;
            bytes.extend(format!("{{\"number\":{number},\"before\":\"").into_bytes());
            workspace.write(&newest, bytes);
        }
        let whole = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
        let (without, _) = whole.split_once("[audit]").unwrap();
        workspace.write("pipeline.toml", without);
        if away {
            std::fs::rename(workspace.path("audit"), workspace.path("elsewhere")).unwrap();
        }
        workspace.run_pipeline();
        if away {
            std::fs::rename(workspace.path("elsewhere"), workspace.path("audit")).unwrap();
        }
        let left = verified(&workspace, &[]);
        assert!(left["committed"].as_u64() > Some(0), "{left}");
        assert_eq!(left["open"]["bytes"].as_u64() > Some(0), away, "{left}");
        workspace.write("pipeline.toml", &whole);
        workspace.run_pipeline();
        let lives = marks(&workspace, &["begin", "end", "gap"]);
        let named: Vec<&str> = lives
            .iter()
            .map(|mark| mark["mark"].as_str().unwrap())
            .collect();
        assert_eq!(named, ["begin", "gap", "begin", "end"]);
        let goes_on = verified(&workspace, &[]);
        assert_eq!(goes_on["open"], serde_json::json!({"lines": 0, "bytes": 0}));
    }
}

#[test]
fn verify_says_whether_it_held_the_end_against_a_commit_log() {
    let workspace = workspace();
    workspace.run_pipeline();
    let lines = verified(&workspace, &[]);
    assert_eq!(lines["committed"], lines["lines"]);
    // Who has the key alone cannot say that nothing is missing at the end.
    std::fs::create_dir(workspace.path("auditor")).unwrap();
    workspace.write("auditor/key", workspace.read("state/key"));
    let verify = ["audit", "verify", "audit/audit.jsonl", "--state", "auditor"];
    let text = said(&workspace.run(&verify));
    let expected = "its end was held against no commit log";
    assert!(text.contains(expected), "{text}");
    let json = said(&workspace.run(&[&verify[..], &["--json"]].concat()));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["committed"], &json["signed"]),
        (&Value::Null, &true.into())
    );
    let both = said(&workspace.run(&[&verify[..], &["--state", "state"]].concat()));
    assert!(!both.contains(expected), "{both}");
}
