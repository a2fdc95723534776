//! `tidegate test` and `tidegate bench`: an operator's project and its component, before they are near a stream.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tidegate_tests::{Running, Workspace, operator, until};

const PATIENCE: Duration = Duration::from_secs(120);
const PASSES: &str = r#"{"config": {"words": ["secret"]}, "cases": [
  {"name": "good", "records": [{"value": "nothing"}], "outcomes": ["pass"]},
  {"name": "masked", "records": [{"value": "a secret"}], "outcomes": [{"replace": {"value": "a ***"}}]}]}"#;

/// A new project in C, `hide`, with these cases.
fn project(cases: &str) -> Workspace {
    let workspace = Workspace::new("");
    let (code, _, error) = text(&workspace.run(&["new", "hide", "--lang", "c"]));
    assert_eq!(code, Some(0), "{error}");
    workspace.write("hide/cases/hide.json", cases);
    workspace
}

/// Replaces a text in a file, which looks as if it had been saved an hour ago.
fn edit(workspace: &Workspace, name: &str, from: &str, to: &str) {
    let text = String::from_utf8(workspace.read(name)).unwrap();
    assert!(text.contains(from), "{name} has no {from:?}");
    workspace.write(name, text.replace(from, to));
    let saved = fs::File::options().write(true).open(workspace.path(name));
    let before = SystemTime::now() - Duration::from_secs(3600);
    saved.unwrap().set_modified(before).unwrap();
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_project_is_tested_in_its_own_runner_and_in_the_sandbox() {
    let workspace = project(PASSES);
    let (code, shown, error) = text(&workspace.run(&["test", "hide"]));
    assert_eq!(code, Some(0), "{shown}{error}");
    for line in [
        "passed  the project's own tests in C\n",
        "2 passed, 0 failed, ",
        "the first test passed ",
        " s after the project was made, and all had run after ",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    // A test that fails in either is a failure, and the other is run nevertheless.
    edit(
        &workspace,
        "hide/test_hide.c",
        "\"a ***, kept\"",
        "\"other\"",
    );
    let (code, shown, error) = text(&workspace.run(&["test", "--json", "hide"]));
    assert_eq!(code, Some(1));
    assert!(
        error.ends_with("tidegate: failed: the project's own tests in C\n"),
        "{error}"
    );
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&report["native"], &report["cases"]["passed"]),
        (&false.into(), &2.into())
    );
    // How long it was until the first passed is told once.
    assert_eq!(report["first-passed-after-new-ms"], Value::Null);
}

#[test]
fn what_is_tested_is_made_of_the_sources_as_they_are_now() {
    let workspace = project(PASSES);
    let test = ["test", "--no-native", "hide"];
    let (code, shown, error) = text(&workspace.run(&test));
    assert_eq!(code, Some(0), "{shown}{error}");
    let component = workspace.read("hide/hide.wasm");
    // An older file may take a newer one's place.
    edit(&workspace, "hide/hide.c", "***", "###");
    let (code, shown, _) = text(&workspace.run(&test));
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("came \"a ###\""), "{shown}");
    edit(&workspace, "hide/hide.c", "###", "***");
    assert_eq!(text(&workspace.run(&test)).0, Some(0));
    assert_eq!(workspace.read("hide/hide.wasm"), component);
}

#[test]
fn a_project_without_any_test_does_not_pass() {
    let workspace = project(PASSES);
    let (code, _, error) = text(&workspace.run(&["test", "--no-native", "--case", "no", "hide"]));
    assert_eq!(code, Some(2), "{error}");
    let manifest = String::from_utf8(workspace.read("hide/operator.toml")).unwrap();
    for (cases, code, why) in [
        (
            "[\"nope.json\"]",
            2,
            "operator.toml: cases: \"nope.json\" fits no file",
        ),
        (
            "[\"../nope.json\"]",
            2,
            "operator.toml: cases: \"../nope.json\" fits no file",
        ),
        ("[]", 1, "nothing was tested: there are no cases"),
    ] {
        workspace.write("hide/operator.toml", format!("{manifest}cases = {cases}\n"));
        let (came, shown, error) = text(&workspace.run(&["test", "--no-native", "hide"]));
        assert_eq!(came, Some(code), "{cases}: {shown}{error}");
        assert!(error.contains(why), "{cases}: {error}");
    }
    // The language's own tests are tests.
    let (code, shown, error) = text(&workspace.run(&["test", "hide"]));
    assert_eq!(code, Some(0), "{shown}{error}");
    assert!(shown.contains("no cases\n"), "{shown}");
    workspace.write("hide/operator.toml", &manifest);
    fs::remove_file(workspace.path("hide/cases/hide.json")).unwrap();
    let (code, _, error) = text(&workspace.run(&["test", "--no-native", "hide"]));
    assert_eq!(code, Some(1));
    assert!(error.contains("nothing was tested"), "{error}");
}

#[test]
fn a_case_that_differs_is_shown_and_written_anew_when_that_is_asked_for() {
    let wrong = PASSES.replace("{\"replace\": {\"value\": \"a ***\"}}", "\"drop\"");
    let workspace = project(&wrong);
    let (code, shown, error) = text(&workspace.run(&["test", "--no-native", "hide"]));
    assert_eq!(code, Some(1), "{shown}");
    let case = "failed  hide/cases/hide.json:3: case \"masked\"\n    record 1: expected \"drop\", came {\"replace\": {\"value\": \"a ***\"}}\n1 passed, 1 failed, ";
    assert!(shown.contains(case), "{shown}");
    assert!(
        error.ends_with("tidegate: failed: 1 of 2 cases\n"),
        "{error}"
    );
    let (code, shown, _) = text(&workspace.run(&["test", "--case", "good", "hide"]));
    assert_eq!(code, Some(0));
    assert!(
        shown.contains("1 passed, 0 failed") && !shown.contains("own tests"),
        "{shown}"
    );
    let (code, shown, _) = text(&workspace.run(&["test", "--no-native", "--update", "hide"]));
    assert_eq!(code, Some(0));
    assert!(shown.contains("1 passed, 1 updated, 0 failed"), "{shown}");
    assert_eq!(workspace.read("hide/cases/hide.json"), PASSES.as_bytes());
}

#[test]
fn what_is_wrong_in_a_project_is_said_with_its_place() {
    let workspace = project("{\"cases\": [\n{\"name\": \"a\", \"recrods\": []}]}");
    let (code, _, error) = text(&workspace.run(&["test", "--no-native", "hide"]));
    assert_eq!(code, Some(2));
    assert!(
        error.contains(
            "cases/hide.json line 2 column 1: case \"a\": it has \"recrods\"; there are name, "
        ),
        "{error}"
    );
    workspace.write("hide/cases/hide.json", PASSES);
    let other = ["test", "--no-native", "--case", "other", "hide"];
    let (code, _, error) = text(&workspace.run(&other));
    assert_eq!(code, Some(2));
    assert!(error.contains("no case has the name \"other\""), "{error}");
    // What the manifest does not grant is not there.
    edit(
        &workspace,
        "hide/hide.c",
        "    tg_bytes text;\n",
        "    tg_bytes text;\n    tg_log(TG_INFO, \"a line\");\n",
    );
    let (code, shown, error) = text(&workspace.run(&["test", "--no-native", "hide"]));
    assert_eq!(code, Some(1));
    let both = format!("{shown}{error}");
    assert!(both.contains("tidegate:operator/log@1.0.0"), "{both}");
}

#[test]
fn an_operator_is_measured_beside_a_pass_through() {
    let workspace = Workspace::new("");
    workspace.write(
        "records.jsonl",
        "{\"key\": \"k\", \"value\": {\"text\": \"hello\"}}\n".repeat(300),
    );
    workspace.write("config.json", "{\"mode\": \"every\"}");
    let guest = operator("hostile");
    let bench = ["bench", guest.to_str().unwrap(), "--seconds", "0.1"];
    let run = |more: &[&str]| text(&workspace.run(&[&bench[..], more].concat()));
    let (code, shown, error) = run(&[
        "--records",
        "records.jsonl",
        "--config",
        "config.json",
        "--json",
    ]);
    assert_eq!(code, Some(0), "{error}");
    let measured: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(measured["records"], 300);
    assert_eq!(measured["bytes"], 300 * 17);
    assert_eq!(measured["outcomes"]["dead-letter"], 25);
    assert!(
        measured["ns-per-record"]["median"].as_f64() > Some(0.0),
        "{shown}"
    );
    let config = "{\"mode\": \"pass\"}";
    let (code, shown, error) = run(&[
        "--lines",
        "records.jsonl",
        "--config",
        config,
        "--batch",
        "100",
    ]);
    assert_eq!(code, Some(0), "{error}");
    for line in [
        "300 records",
        "batches of 100",
        "pass-through ",
        "% of the time",
        "300 pass",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    // Fewer records than a batch has come again until they fill one.
    workspace.write("few.jsonl", "{\"value\": \"hello\"}\n".repeat(3));
    let (code, shown, error) = run(&["--records", "few.jsonl", "--config", config]);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        shown.contains("256 records, ") && shown.contains("batches of 256"),
        "{shown}"
    );
    assert!(
        error.contains("records read: 3, fewer than a batch of 256"),
        "{error}"
    );
    // What cannot be measured is said; a wrong configuration is the person's to mend, and there is no slot.
    let abuse = operator("drop-abuse");
    let abuse = abuse.to_str().unwrap();
    for (config, why) in [
        ("{\"treshold\": 1}", "'treshold' not allowed; there are "),
        ("{\"treshold\": ", "the configuration is not JSON"),
    ] {
        for command in [
            ["bench", abuse, "--lines", "few.jsonl", "--config", config],
            ["component", abuse, "--try", "few.jsonl", "--config", config],
        ] {
            let (code, _, error) = text(&workspace.run(&command));
            assert_eq!(code, Some(2), "{error}");
            assert!(error.contains(why) && !error.contains("slot"), "{error}");
        }
    }
    workspace.write("bad.jsonl", "bad\n");
    let (code, _, error) = run(&["--lines", "bad.jsonl", "--config", "{\"mode\": \"trap\"}"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("record 0/0/0 has no answer: trap: "),
        "{error}"
    );
    let (code, _, error) = run(&["--records", "bad.jsonl"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("bad.jsonl line 1: it is not JSON"),
        "{error}"
    );
    let (code, _, error) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--records"), "{error}");
    let (code, _, error) = run(&["--lines", "bad.jsonl", "--config", "none.json"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("cannot read the configuration none.json"),
        "{error}"
    );
}

/// A program of the project's own tests that says so when it runs, and then waits to be told to end.
const WAITS: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>

int main(void) {
    FILE *started = fopen("started", "a");
    fputs("started\n", started);
    fclose(started);
    FILE *pipe = fopen("pipe", "r");
    return fgetc(pipe) == '!' ? 0 : 1;
}
"#;

/// One that starts another, which both hold the pipe open, and never end by themselves.
#[cfg(unix)]
const NEVER_ENDS: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    FILE *pipe = fopen("pipe", "w");
    fputs("started\n", pipe);
    fflush(pipe);
    return system("sleep 600");
}
"#;

#[cfg(unix)]
fn make_pipe(workspace: &Workspace) {
    let pipe = workspace.path("hide/pipe");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn two_runs_of_the_tests_of_one_project_take_turns() {
    let workspace = project(PASSES);
    workspace.write("hide/test_hide.c", WAITS);
    make_pipe(&workspace);
    let lines = || workspace.read("hide/started").len() / "started\n".len();
    let start = |log: &str| {
        let log = fs::File::create(workspace.path(log)).unwrap();
        let mut command = workspace.command(&["test", "hide"]);
        command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    };
    let mut first = start("first.log");
    until("the first runs", PATIENCE, || lines() == 1);
    let mut second = start("second.log");
    let said = || String::from_utf8(workspace.read("second.log")).unwrap();
    until("the second says that it waits", PATIENCE, || {
        said().contains("waiting for another test run of ") && said().contains(", which goes on\n")
    });
    assert_eq!(lines(), 1, "{}", said());
    fs::write(workspace.path("hide/pipe"), "!").unwrap();
    let first = first.wait().unwrap();
    assert!(
        first.success(),
        "{}",
        String::from_utf8_lossy(&workspace.read("first.log"))
    );
    until("the second runs", PATIENCE, || lines() == 2);
    fs::write(workspace.path("hide/pipe"), "!").unwrap();
    assert!(second.wait().unwrap().success(), "{}", said());
}

/// The same command with no signal ignored: whoever runs the tests behind a shell's `&` has it ignore SIGINT, and keeps that.
#[cfg(unix)]
fn hearing_signals(command: &Command) -> Command {
    let mut hearing = Command::new("env");
    if cfg!(target_os = "linux") {
        hearing.arg("--default-signal");
    }
    hearing.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => hearing.env(name, value),
            None => hearing.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        hearing.current_dir(directory);
    }
    hearing.stdout(Stdio::null()).stderr(Stdio::null());
    hearing
}

#[cfg(unix)]
#[test]
fn what_a_command_has_started_ends_with_it() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let workspace = project(PASSES);
        workspace.write("hide/test_hide.c", NEVER_ENDS);
        make_pipe(&workspace);
        let pipe = workspace.path("hide/pipe");
        let (say, heard) = channel();
        // Its end is read when nobody is left who could write to it.
        thread::spawn(move || {
            let mut pipe = fs::File::open(pipe).unwrap();
            let mut line = [0; 8];
            pipe.read_exact(&mut line).unwrap();
            say.send(line.to_vec()).unwrap();
            let mut rest = Vec::new();
            pipe.read_to_end(&mut rest).unwrap();
            say.send(rest).unwrap();
        });
        let mut running = Running::spawn(hearing_signals(&workspace.command(&["test", "hide"])));
        assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), b"started\n");
        let id = running.id().to_string();
        let told = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(told.success());
        assert_eq!(running.wait(PATIENCE).code(), Some(code), "{signal}");
        assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), b"", "{signal}");
    }
}
