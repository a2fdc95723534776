//! `tidegate test` and `tidegate bench`: an operator's project and its component, before they are near a stream.

use std::fs;
use std::process::Output;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tidegate_tests::{Workspace, operator};

const PASSES: &str = r#"{"config": {"mode": "every"}, "cases": [
  {"name": "good", "records": [{}], "outcomes": ["pass"]},
  {"name": "dropped", "records": [{"id": {"offset": 1}}], "outcomes": ["drop"]}]}"#;

/// A project in Rust without dependencies, whose component is a guest that is built already.
fn project(grants: &str, cases: &str) -> Workspace {
    let workspace = Workspace::new("");
    for directory in ["src", "cases"] {
        fs::create_dir(workspace.path(directory)).unwrap();
    }
    workspace.write(
        "operator.toml",
        format!("name = \"misbehave\"\nlanguage = \"rust\"\ngrants = [{grants}]\n"),
    );
    workspace.write(
        "Cargo.toml",
        "[workspace]\n[package]\nname = \"misbehave\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    own_test(&workspace, "2 + 2 == 4");
    workspace.write("cases/cases.json", cases);
    fs::copy(operator("hostile"), workspace.path("misbehave.wasm")).unwrap();
    let built = fs::File::options()
        .write(true)
        .open(workspace.path("misbehave.wasm"))
        .unwrap();
    built
        .set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
    workspace
}

/// The project's own test, in the runner of its language.
fn own_test(workspace: &Workspace, holds: &str) {
    let test = format!("#[test]\nfn it_holds() {{\n    assert!({holds});\n}}\n");
    workspace.write("src/lib.rs", test);
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
    let workspace = project("\"log\"", PASSES);
    let (code, shown, error) = text(&workspace.run(&["test"]));
    assert_eq!(code, Some(0), "{shown}{error}");
    for line in [
        "passed  the project's own tests in Rust\n",
        "2 passed, 0 failed, ",
        "the first test passed after ",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    assert!(error.contains("it_holds ... ok"), "{error}");
    // A test that fails in either is a failure, and the other is run nevertheless.
    own_test(&workspace, "2 + 2 == 5");
    let (code, shown, error) = text(&workspace.run(&["test", "--json"]));
    assert_eq!(code, Some(1));
    assert!(
        error.ends_with("tidegate: failed: the project's own tests in Rust\n"),
        "{error}"
    );
    let report: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&report["native"], &report["cases"]["passed"]),
        (&false.into(), &2.into())
    );
}

#[test]
fn a_case_that_differs_is_shown_and_written_anew_when_that_is_asked_for() {
    let wrong = PASSES.replace("\"drop\"", "\"pass\"");
    let workspace = project("\"log\"", &wrong);
    let (code, shown, error) = text(&workspace.run(&["test", "--no-native"]));
    assert_eq!(code, Some(1), "{shown}");
    let case = "failed  ./cases/cases.json:3: case \"dropped\"\n    record 1: expected \"pass\", came \"drop\"\n1 passed, 1 failed, ";
    assert!(shown.contains(case), "{shown}");
    assert!(
        error.ends_with("tidegate: failed: 1 of 2 cases\n"),
        "{error}"
    );
    let (code, shown, _) = text(&workspace.run(&["test", "--case", "good"]));
    assert_eq!(code, Some(0));
    assert!(
        shown.contains("1 passed, 0 failed") && !shown.contains("own tests"),
        "{shown}"
    );
    let (code, shown, _) = text(&workspace.run(&["test", "--no-native", "--update"]));
    assert_eq!(code, Some(0));
    assert!(shown.contains("1 passed, 1 updated, 0 failed"), "{shown}");
    assert_eq!(workspace.read("cases/cases.json"), PASSES.as_bytes());
}

#[test]
fn what_is_wrong_in_a_project_is_said_with_its_place() {
    let workspace = project(
        "\"log\"",
        "{\"cases\": [\n{\"name\": \"a\", \"recrods\": []}]}",
    );
    let (code, _, error) = text(&workspace.run(&["test", "--no-native"]));
    assert_eq!(code, Some(2));
    assert!(
        error.contains("cases/cases.json line 2: case \"a\": it has \"recrods\"; there are name, "),
        "{error}"
    );
    workspace.write("cases/cases.json", PASSES);
    let (code, _, error) = text(&workspace.run(&["test", "--no-native", "--case", "other"]));
    assert_eq!(code, Some(2));
    assert!(error.contains("no case has the name \"other\""), "{error}");
    // What the manifest does not grant is not there.
    let workspace = project("", PASSES);
    let (code, shown, error) = text(&workspace.run(&["test", "--no-native"]));
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
    // What cannot be measured is said.
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
