//! What is private to a record that dies: sealed in its letter, back in the record that is sent again, and never lost in
//! silence.

use serde_json::Value;
use tidegate_tests::Workspace;

use crate::letters::{json_lines, letters, list, text};

const SECRET: &str = "eve@example.com";

/// The flagship in small: a record dies between its redaction and its restoration.
fn pipeline(word: &str) -> String {
    format!(
        r#"
[pipeline]
name = "private"
cut-interval = "5ms"
state = "state"
[source.in]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "redact"
operator = "{{operators}}/redact-pii.wasm"
[[stage]]
name = "abuse"
operator = "{{operators}}/drop-abuse.wasm"
config = {{ paths = ["text"], words = ["{word}"], action = "dead-letter" }}
[[stage]]
name = "restore"
operator = "{{operators}}/restore-pii.wasm"
[sink.out]
type = "file"
path = "out.jsonl"
"#
    )
}

/// One letter of a record that has a redacted address; then the operator is mended.
fn dead() -> (Workspace, String) {
    let workspace = Workspace::new(&pipeline("grumble"));
    workspace.write(
        "in.jsonl",
        format!("{{\"text\":\"grumble, says {SECRET}\"}}\n"),
    );
    workspace.run_pipeline();
    let found = list(&workspace, &[]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["private"], 1);
    workspace.pipeline(&pipeline("nothing"));
    let id = text(&found[0], "id").to_owned();
    (workspace, id)
}

/// The only record that came out, as text.
fn out(workspace: &Workspace) -> String {
    workspace.run_pipeline();
    let out = workspace.json_lines("out.jsonl");
    assert_eq!(out.len(), 1, "{out:?}");
    text(&out[0], "text").to_owned()
}

/// What is said of a letter that is refused.
fn refused(workspace: &Workspace, id: &str) -> Value {
    let send = ["dead-letters", "send", "--pipeline", "pipeline.toml"];
    let output = workspace.run(&[&send[..], &["--json", id]].concat());
    assert_eq!(output.status.code(), Some(1));
    let told = json_lines(&output.stdout).remove(0);
    assert_eq!(told["state"], "refused", "{told}");
    assert_eq!(told["without_private"], true, "{told}");
    let plain = workspace.run(&[&send[..], &[id]].concat());
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.contains("--without-private"), "{plain}");
    told
}

/// Changes the file of letters without a change of its length.
fn alter(workspace: &Workspace, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let bytes = String::from_utf8(workspace.read("state/dead-letters.jsonl")).unwrap();
    assert!(bytes.contains(from), "{bytes}");
    std::fs::write(
        workspace.path("state/dead-letters.jsonl"),
        bytes.replace(from, to),
    )
    .unwrap();
}

#[test]
fn a_record_is_sent_again_with_what_was_private_to_it_and_nobody_reads_that_meanwhile() {
    let (workspace, id) = dead();
    assert_eq!(list(&workspace, &[])[0]["private_kept"], true);
    letters(&workspace, &["send", &id]);
    let mut files = vec![workspace.path("state")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let inner = std::fs::read_dir(&path).unwrap();
            files.extend(inner.map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let read = String::from_utf8_lossy(&bytes).contains(SECRET);
        assert!(!read, "{}", path.display());
    }
    assert_eq!(out(&workspace), format!("grumble, says {SECRET}"));
}

#[test]
fn a_letter_that_another_key_sealed_goes_without_only_when_that_is_said() {
    let (workspace, id) = dead();
    workspace.write("state/key", "5".repeat(64));
    let told = refused(&workspace, &id);
    assert!(
        text(&told, "why").contains("sealed with another key"),
        "{told}"
    );
    assert!(list(&workspace, &[])[0]["sent"].is_null());
    let sent = letters(&workspace, &["send", "--without-private", &id]);
    assert_eq!(sent[0]["state"], "sent");
    assert_eq!(out(&workspace), "grumble, says [EMAIL_1]");
}

#[test]
fn a_letter_without_what_was_private_is_refused_and_so_is_one_that_was_altered() {
    for (from, to, why) in [
        ("private_sealed", "private_sealex", "not in the letter"),
        (
            "grumble, says",
            "grumble: says",
            "or the letter was altered",
        ),
    ] {
        let (workspace, id) = dead();
        alter(&workspace, from, to);
        let told = refused(&workspace, &id);
        assert!(text(&told, "why").contains(why), "{told}");
    }
}
