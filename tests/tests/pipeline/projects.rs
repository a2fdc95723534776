//! From an empty folder to a swapped operator: `tidegate new`, `build`, `sdk`, `dev` and `component`.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, until};

const PATIENCE: Duration = Duration::from_secs(120);
const PIPELINE: &str = r#"
[pipeline]
name = "projects"
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "hide"
operator = "hide/hide-words.wasm"
config = { words = ["secret"] }
[sink.out]
type = "file"
path = "out.jsonl"
"#;

/// Runs a command that must succeed, and gives what it printed.
fn done(workspace: &Workspace, arguments: &[&str]) -> String {
    let output = workspace.run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail with this exit code, and gives what it said.
fn refused(workspace: &Workspace, code: i32, arguments: &[&str]) -> String {
    let output = workspace.run(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

/// Replaces a text in a file as an editor saves it.
fn edit(workspace: &Workspace, name: &str, from: &str, to: &str) {
    let text = String::from_utf8(workspace.read(name)).unwrap();
    assert!(text.contains(from), "{name} has no {from:?}");
    let beside = format!("{name}.saved");
    workspace.write(&beside, text.replace(from, to));
    fs::rename(workspace.path(&beside), workspace.path(name)).unwrap();
}

#[test]
fn a_new_project_is_built_and_says_what_it_is() {
    let workspace = Workspace::new(PIPELINE);
    let said = done(&workspace, &["new", "hide-words", "--lang", "c", "hide"]);
    assert!(said.contains("made hide-words: an operator in C"), "{said}");
    assert!(said.contains("cd hide\n  tidegate build\n"), "{said}");
    let said = done(&workspace, &["build", "hide"]);
    assert!(said.starts_with("built hide-words.wasm: "), "{said}");
    assert!(said.contains(", imports nothing, "), "{said}");
    let said = done(&workspace, &["build", "--json", "hide"]);
    let built: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(built["grants"], serde_json::json!([]));
    let shown = done(&workspace, &["component", "hide/hide-words.wasm"]);
    for line in [
        "name      hide-words\n",
        "language  C\n",
        "sdk       tidegate-c ",
        "imports   none\n",
        &format!("digest    {}\n", built["digest"].as_str().unwrap()),
    ] {
        assert!(shown.contains(line), "{line:?} is not in {shown}");
    }
    assert!(shown.contains("clang "), "{shown}");
    assert!(done(&workspace, &["sdk", "hide"]).ends_with("0 files written, 0 files removed\n"));
    workspace.write("hide/tidegate/own.c", "int own;\n");
    let said = done(&workspace, &["sdk", "hide"]);
    assert!(said.ends_with("0 files written, 1 file removed\n  removed own.c\n"));
}

#[test]
fn an_editor_has_the_schema_of_the_configuration_that_the_operator_has_now() {
    let workspace = Workspace::new(PIPELINE);
    done(&workspace, &["new", "hide-words", "--lang", "c", "hide"]);
    let schema = "hide/config.schema.json";
    let written = workspace.read(schema);
    done(&workspace, &["test", "--no-native", "hide"]);
    assert_eq!(workspace.read(schema), written, "`new` wrote another");
    edit(&workspace, "hide/hide-words.c", "\"mask\"", "\"cover\"");
    done(&workspace, &["test", "--no-native", "hide"]);
    let schema: Value = serde_json::from_slice(&workspace.read(schema)).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    assert!(properties.contains_key("cover") && !properties.contains_key("mask"));
}

#[test]
fn what_is_wrong_with_a_project_is_said_by_name() {
    let workspace = Workspace::new(PIPELINE);
    let said = refused(&workspace, 2, &["new", "Hide_Words", "--lang", "c"]);
    assert!(
        said.contains("\"Hide_Words\" is no operator's name"),
        "{said}"
    );
    assert!(said.contains("\"hide-words\""), "{said}");
    let said = refused(&workspace, 2, &["new", "hide", "--lang", "cobol"]);
    assert!(
        said.contains("rust, c, javascript, typescript, python, go"),
        "{said}"
    );
    done(&workspace, &["new", "hide", "--lang", "c"]);
    let said = refused(&workspace, 2, &["new", "hide", "--lang", "rust"]);
    assert!(said.contains("hide is not empty"), "{said}");
    let said = refused(&workspace, 2, &["build", "nowhere"]);
    assert!(said.contains("nowhere has no operator.toml"), "{said}");
    edit(
        &workspace,
        "hide/operator.toml",
        "language = \"c\"",
        "language = \"d\"\ngrant = []",
    );
    let said = refused(&workspace, 2, &["build", "hide"]);
    assert!(said.contains("language: \"d\" is not known"), "{said}");
    assert!(said.contains("grant: is no key of a manifest"), "{said}");
}

#[test]
fn every_save_is_swapped_in_and_what_fails_touches_nothing() {
    let workspace = Workspace::new(PIPELINE);
    done(&workspace, &["new", "hide-words", "--lang", "c", "hide"]);
    done(&workspace, &["build", "hide"]);
    workspace.write("in.jsonl", "");
    let _host = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    let digest = || {
        let output = workspace.run(&["status", "--json", "--pipeline", "pipeline.toml"]);
        let status: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        Some(status?["slots"][0]["digest"].as_str()?.to_owned())
    };
    until("the host answers", PATIENCE, || digest().is_some());
    let first = digest();
    let log = File::create(workspace.path("dev.log")).unwrap();
    let mut dev = workspace.command(&[
        "dev",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "hide",
        "hide",
    ]);
    dev.stdout(log.try_clone().unwrap())
        .stderr(log)
        .stdin(Stdio::null());
    let mut dev = dev.spawn().unwrap();
    let said = || String::from_utf8(workspace.read("dev.log")).unwrap();
    until("it is built", PATIENCE, || {
        said().contains("it runs already")
    });
    // A case fails: nothing is swapped, and the case is named.
    edit(&workspace, "hide/hide-words.c", "***", "###");
    until("a case fails", PATIENCE, || {
        said().contains("not swapped: what runs goes on")
    });
    assert!(
        said().contains("failed  hide/cases/hide-words.json"),
        "{}",
        said()
    );
    assert_eq!(digest(), first);
    // The case is mended: it is swapped, and what comes out otherwise is shown.
    edit(&workspace, "hide/cases/hide-words.json", "***", "###");
    until("it is swapped", PATIENCE, || {
        said().contains("in all: sha256:")
    });
    until("it runs", PATIENCE, || digest() != first);
    until("samples are shown", PATIENCE, || {
        said().contains("records come out otherwise")
    });
    let second = digest();
    // It does not compile: the compiler's words are shown, and what runs goes on.
    edit(
        &workspace,
        "hide/hide-words.c",
        "tg_text(record",
        "tg_no_text(record",
    );
    until("it does not compile", PATIENCE, || {
        said().contains("tg_no_text")
    });
    until("it is not swapped", PATIENCE, || {
        said().ends_with("not swapped: what runs goes on\n")
    });
    assert_eq!(digest(), second);
    // Somebody deploys what `build` made, which a quick build has left alone: the next save is swapped in again.
    edit(
        &workspace,
        "hide/hide-words.c",
        "tg_no_text(record",
        "tg_text(record",
    );
    until("it runs already", PATIENCE, || {
        said().ends_with("it runs already\n")
    });
    let deploy = [
        "deploy",
        "--pipeline",
        "pipeline.toml",
        "--slot",
        "hide",
        "hide/hide-words.wasm",
    ];
    done(&workspace, &deploy);
    assert_eq!(digest(), first);
    edit(&workspace, "hide/README.md", "#", "# ");
    until("it is swapped in again", PATIENCE, || digest() == second);
    until("what differs is shown again", PATIENCE, || {
        said().matches("records come out otherwise").count() == 2
    });
    let id = dev.id().to_string();
    let told = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status()
        .unwrap();
    assert!(told.success());
    until("it ends", PATIENCE, || dev.try_wait().unwrap().is_some());
    assert!(dev.wait().unwrap().success());
    assert!(
        said().ends_with("slot hide goes on with what it runs\n"),
        "{}",
        said()
    );
}
