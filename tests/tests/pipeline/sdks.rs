//! The tests that SDKs, the conformance operators and the shipped ones have in their own languages.

use std::process::Command;

use tidegate_project::{BuildOptions, NativeTests, Project};
use tidegate_tests::{root, tidegate};

/// Runs a command that must succeed.
#[track_caller]
fn passes(command: &mut Command) {
    let ran = command.output().unwrap();
    let (told, wrong) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{command:?}\n{told}{wrong}");
}

/// A project's own tests.
fn native_tests(project: &str) -> NativeTests {
    let project = Project::open(root().join(project)).unwrap();
    project.native_tests(&BuildOptions::here()).unwrap()
}

/// The conformance operator of a language passes the suite natively, through the SDK's harness. In the sandbox the suite is
/// run by `plugin-sdk/conformance`.
#[track_caller]
fn conforms(language: &str) {
    let mut tests = native_tests(&format!("plugin-sdk/conformance/{language}"));
    assert!(!tests.commands.is_empty(), "it has no tests of its own");
    for test in &mut tests.commands {
        passes(test);
    }
}

/// A shipped operator passes its own tests and, in the sandbox, its cases.
#[track_caller]
fn does_its_job(plugin: &str) {
    let plugin = root().join("plugins").join(plugin);
    passes(Command::new(tidegate()).arg("test").arg(plugin));
}

#[test]
fn the_c_sdk_passes_its_own_tests() {
    passes(Command::new("sh").arg(root().join("plugin-sdk/c/tests/test.sh")));
    conforms("c");
}

#[test]
fn the_javascript_sdk_passes_its_own_tests() {
    passes(
        Command::new("node")
            .arg("--test")
            .current_dir(root().join("plugin-sdk/js/tests")),
    );
    conforms("js");
}

#[test]
fn the_python_sdk_passes_its_own_tests() {
    passes(
        Command::new("python3")
            .args(["-m", "unittest", "discover"])
            .args(["-s", "plugin-sdk/python/tests", "-t", "plugin-sdk/python"])
            .current_dir(root()),
    );
    conforms("python");
}

#[test]
fn the_go_sdk_passes_its_own_tests() {
    // The same Go as that of projects, wherever it was found.
    let tests = native_tests("plugin-sdk/conformance/go");
    passes(
        Command::new(tests.commands[0].get_program())
            .args(["test", "./tests"])
            .current_dir(root().join("plugin-sdk/go")),
    );
    conforms("go");
}

#[test]
fn the_shipped_operator_in_c_does_its_job() {
    does_its_job("parse-logs");
}

#[test]
fn the_shipped_operator_in_javascript_does_its_job() {
    does_its_job("map-fields");
}

#[test]
fn the_shipped_operator_in_python_does_its_job() {
    does_its_job("chunk-text");
}

#[test]
fn the_shipped_operator_in_go_does_its_job() {
    does_its_job("validate-schema");
}
