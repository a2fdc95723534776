//! Files that are read, and files that are not to be written.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tidegate_contract::{AuditLog as _, Audited};
use tidegate_state::audit::{AuditFile, AuditLimits};
use tidegate_state::{Disk, StateKey};

use super::super::*;
use super::{content, parsed};

#[test]
fn no_output_goes_where_the_state_directory_has_its_own() {
    for path in ["state", "state/components", "state/compiled"] {
        let content =
            content("least.toml") + &format!("[sink.own]\ntype = \"file\"\npath = {path:?}\n");
        let text = parsed(&content).unwrap_err().to_string();
        assert!(
            text.contains(&format!(
                "{path:?} is where the state directory has its own files"
            )),
            "{text}"
        );
    }
}

#[test]
fn every_path_that_reads_a_file_of_the_state_directory_is_told_once() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("state")).unwrap();
    for name in ["commit.log", "key", "dead-letters.jsonl"] {
        fs::write(place.path().join("state").join(name), "").unwrap();
    }
    let file = place.path().join("pipeline.toml");
    fs::write(
        &file,
        "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"file\"\npaths = [\"state/key\", \"state/*.jsonl\"]\n\
         [source.b]\ntype = \"file\"\npaths = [\"state/c*\", \"state/comm*\"]\n[sink.c]\ntype = \"stdout\"\n",
    )
    .unwrap();
    let text = load(&file).unwrap_err().to_string();
    let of_state = "a file of the state directory itself; read another file";
    for (path, own) in [
        ("state/key", "state/key"),
        ("state/*.jsonl", "state/dead-letters.jsonl"),
        ("state/c*", "state/commit.log"),
        ("state/comm*", "state/commit.log"),
    ] {
        let mistake = format!("{path:?} is, or stands for, {own}, {of_state}");
        assert_eq!(text.matches(&mistake).count(), 1, "{mistake}: {text}");
    }
    assert_eq!(text.matches(of_state).count(), 4, "{text}");
}

#[test]
fn a_component_larger_than_may_be_deployed_is_found_at_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.wasm");
    let file = fs::File::create(&path).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
    let content =
        content("least.toml") + &format!("[[stage]]\nname = \"large\"\noperator = {path:?}\n");
    let text = parsed(&content).unwrap_err().to_string();
    let line = content.lines().count();
    assert!(
        text.contains(&format!("pipeline.toml:{line}:12: stage.large.operator: "))
            && text.contains("large.wasm\" has 67108865 bytes, limit 67108864 (64 MiB)"),
        "{text}"
    );
    file.set_len(64 << 20).unwrap();
    let said = parsed(&content)
        .map(drop)
        .map_err(|mistakes| mistakes.to_string());
    assert!(!said.err().unwrap_or_default().contains("large.wasm"));
}

#[test]
fn an_output_that_the_component_lacks_is_found_at_its_line() {
    let pipeline = parsed(&content("full.toml")).unwrap();
    assert_eq!(check_outputs(&pipeline, 0, &["urgent".into()]), Ok(vec![]));
    let mistakes = check_outputs(&pipeline, 0, &["urgnet".into()]).unwrap_err();
    assert_eq!(
        mistakes.to_string(),
        "pipeline.toml:52:21: stage.answer.inputs: the component of stage \"redact\" has no output \"urgent\"; \
         did you mean \"redact.urgnet\"?\n 52 | inputs = [\"redact\", \"redact.urgent\"]\n    |                     \
         ^^^^^^^^^^^^^^^\nwarning: pipeline.toml:38:1: stage.redact: nothing takes its output \"urgnet\"; records \
         sent there are dropped\n 38 | [[stage]]\n    | ^^^^^^^^^\n1 mistake"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_like_any_other() {
    let gone = load(Path::new("no/such/file.toml")).unwrap_err();
    let said = gone.to_string();
    assert!(
        said.starts_with("no/such/file.toml: cannot be read: "),
        "{said}"
    );
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("latin.toml");
    fs::write(&file, b"[pipeline]\nname = \"caf\xe9\"\n").unwrap();
    let said = load(&file).unwrap_err().to_string();
    assert!(said.contains("is not UTF-8: line 2, byte 22"), "{said}");
}

#[test]
fn what_the_pipeline_lives_by_is_not_written_over() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pipeline.toml");
    let said = |path: &str| {
        let content = format!(
            "[pipeline]\nname = \"x\"\nstate = \"run\"\n[source.a]\ntype = \"stdin\"\n[sink.b]\ntype = \"file\"\n\
             path = {path:?}\n"
        );
        fs::write(&file, content).unwrap();
        load(&file).map_or_else(
            |mistakes| mistakes.mistakes[0].what.clone(),
            |_| String::new(),
        )
    };
    assert_eq!(said("run/answers.jsonl"), "");
    assert_eq!(
        said("./pipeline.toml"),
        "\"./pipeline.toml\" is the pipeline file itself; write to another file"
    );
    for own in [
        "commit.log",
        "key",
        "lock",
        "admin.json",
        "dead-letters.jsonl",
    ] {
        let path = format!("out/../run/{own}");
        assert_eq!(
            said(&path),
            format!("{path:?} is a file of the state directory itself; write to another file")
        );
    }
}

#[test]
fn an_audit_does_not_begin_where_another_would_go_on() {
    let place = tempfile::tempdir().unwrap();
    let first = place.path().join("audit.jsonl");
    let said = |path: &str| {
        let path = place.path().join(path);
        let read = parsed(&format!(
            "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"stdin\"\n[sink.b]\ntype = \"stdout\"\n\
             [audit]\npath = {path:?}\n"
        ));
        read.map_or_else(
            |mistakes| mistakes.mistakes[0].what.clone(),
            |_| String::new(),
        )
    };
    std::fs::write(&first, "a log of something else\n").unwrap();
    assert_eq!(said("audit.jsonl.99"), "");
    std::fs::remove_file(&first).unwrap();
    let (layer, key) = (Arc::new(Disk), Arc::new(StateKey::random().unwrap()));
    let limits = AuditLimits {
        file: 1 << 20,
        content: 1 << 10,
        decided_elsewhere: false,
    };
    let mut audit = AuditFile::recover(&first, layer, key, limits, &[]).unwrap();
    audit
        .write(&Audited {
            record: "a/0/0/0",
            stage: "s",
            attempt: 0,
            facts: "{}",
            content: None,
            told: false,
        })
        .unwrap();
    audit.flush().unwrap();
    let refused = said("audit.jsonl.99");
    assert!(
        refused.contains("is how a further file of the audit")
            && refused.contains("audit.jsonl is called"),
        "{refused}"
    );
    assert_eq!(
        said("audit.jsonl.099"),
        "",
        "no chain writes its numbers so"
    );
    assert_eq!(said("audit.jsonl"), "", "its own");
}

#[cfg(unix)]
#[test]
fn a_pipe_or_a_device_is_neither_read_nor_written_as_a_file() {
    let place = tempfile::tempdir().unwrap();
    let (pipe, socket) = (place.path().join("pipe"), place.path().join("socket"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, what) in [
        (pipe.as_path(), "a pipe"),
        (socket.as_path(), "a socket"),
        (Path::new("/dev/null"), "a device"),
    ] {
        let mistakes = parsed(&format!(
            "[pipeline]\nname = \"x\"\nsummary = {path:?}\n[source.a]\ntype = \"file\"\npaths = [{path:?}]\n\
             [sink.b]\ntype = \"file\"\npath = {path:?}\n"
        ))
        .unwrap_err();
        let said: Vec<String> = mistakes
            .mistakes
            .into_iter()
            .map(|mistake| mistake.what)
            .collect();
        let instead = [
            "name a file",
            "name a file, or use type = \"stdin\"",
            "name a file, or use type = \"stdout\"",
        ];
        assert_eq!(
            said,
            instead.map(|instead| format!("{path:?} is {what}; {instead}"))
        );
    }
}
