//! The house rules, proved from `cargo metadata`: who may depend on whom, and under which licences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidegate_tests::root;

pub(crate) fn metadata() -> Value {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Direct dependencies of each workspace crate, without those of tests and builds.
fn dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let members: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .filter(|package| members.contains(package["id"].as_str().unwrap()))
        .map(|package| {
            let direct = package["dependencies"].as_array().unwrap().iter();
            let names = direct
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            (
                package["name"].as_str().unwrap().to_owned(),
                names.collect(),
            )
        })
        .collect()
}

#[test]
fn rooms_depend_only_on_what_they_may_touch() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("tidegate-record", &[][..]),
        ("tidegate-contract", &["tidegate-record"]),
        ("tidegate-codec", &["tidegate-record", "tidegate-contract"]),
        ("tidegate-state", &["tidegate-contract"]),
        ("tidegate-telemetry", &["tidegate-record"]),
        ("tidegate-otlp", &["tidegate-telemetry"]),
        ("tidegate-text", &["tidegate-contract"]),
        (
            "tidegate-operator",
            &[
                "tidegate-record",
                "tidegate-contract",
                "tidegate-component",
                "tidegate-telemetry",
            ],
        ),
        ("tidegate-weights", &["tidegate-contract"]),
        ("tidegate-grammar", &["tidegate-contract"]),
        (
            "tidegate-reference",
            &["tidegate-contract", "tidegate-weights"],
        ),
        ("tidegate-infer", &["tidegate-contract", "tidegate-weights"]),
        (
            "tidegate-serving",
            &[
                "tidegate-contract",
                "tidegate-text",
                "tidegate-grammar",
                "tidegate-telemetry",
            ],
        ),
        (
            "tidegate-connect",
            &[
                "tidegate-record",
                "tidegate-contract",
                "tidegate-codec",
                "tidegate-telemetry",
            ],
        ),
        (
            "tidegate-flow",
            &["tidegate-record", "tidegate-contract", "tidegate-telemetry"],
        ),
        (
            "tidegate-gateway",
            &[
                "tidegate-record",
                "tidegate-contract",
                "tidegate-codec",
                "tidegate-telemetry",
            ],
        ),
        (
            "tidegate-control",
            &[
                "tidegate-contract",
                "tidegate-codec",
                "tidegate-state",
                "tidegate-telemetry",
            ],
        ),
        ("tidegate-component", &[]),
        ("tidegate-project", &["tidegate-component"]),
        (
            "tidegate-trial",
            &[
                "tidegate-record",
                "tidegate-contract",
                "tidegate-telemetry",
                "tidegate-control",
                "tidegate-operator",
            ],
        ),
        ("tidegate-sdk", &["tidegate-record", "tidegate-sdk-macros"]),
        ("tidegate-sdk-macros", &[]),
        (
            "tidegate-sdk-sandbox",
            &[
                "tidegate-sdk",
                "tidegate-operator",
                "tidegate-contract",
                "tidegate-record",
            ],
        ),
    ]);
    let dependencies = dependencies(&metadata());
    for (name, allowed) in &allowed {
        let own = dependencies
            .get(*name)
            .unwrap_or_else(|| panic!("there is no crate {name}"));
        for dependency in own
            .iter()
            .filter(|dependency| dependency.starts_with("tidegate-"))
        {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
    }
    let rooms = std::fs::read_dir(root().join("host")).unwrap().count();
    assert_eq!(
        rooms, 21,
        "a new room needs its line here and in ARCHITECTURE.md"
    );
}

#[test]
fn each_library_has_one_room() {
    let owners: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("wasmtime", &["tidegate-operator"][..]),
        ("boon", &["tidegate-operator"]),
        ("wasmtime-wasi", &["tidegate-operator"]),
        ("wgpu", &["tidegate-infer"]),
        ("naga", &["tidegate-infer"]),
        // The tests ask the broker by themselves, and stand in for its own tools.
        ("rdkafka", &["tidegate-connect", "tidegate-tests"]),
        ("axum", &["tidegate-control"]),
        // Servers are the two rooms that take connections; `connect` and `otlp` ask other servers, and benches load ours.
        (
            "hyper",
            &[
                "tidegate-control",
                "tidegate-gateway",
                "tidegate-connect",
                "tidegate-otlp",
                "tidegate-benches",
            ],
        ),
        // The tests are a collector.
        ("opentelemetry-proto", &["tidegate-otlp", "tidegate-tests"]),
        ("tokio-tungstenite", &["tidegate-gateway"]),
        ("tokio-rustls", &["tidegate-gateway"]),
        ("tokenizers", &["tidegate-text"]),
        ("minijinja", &["tidegate-text"]),
        ("llguidance", &["tidegate-grammar"]),
        ("safetensors", &["tidegate-weights"]),
        ("wit-component", &["tidegate-component"]),
        // What a terminal is drawn on with.
        ("unicode-width", &["tidegate-cli"]),
        ("half", &["tidegate-weights", "tidegate-infer"]),
        ("memmap2", &["tidegate-infer"]),
        // Of the rooms only the binary's; the others here are programs too.
        ("anyhow", &["tidegate-cli", "tidegate-benches", "xtask"]),
    ]);
    for (name, dependencies) in dependencies(&metadata()) {
        for (library, rooms) in &owners {
            if dependencies.contains(*library) {
                assert!(
                    rooms.contains(&name.as_str()),
                    "{name} must not name {library}"
                );
            }
        }
    }
}

#[test]
fn unsafe_code_is_only_where_it_is_said_to_be() {
    let mut found = Vec::new();
    for workspace in ["host", "plugin-sdk", "plugins", "xtask"] {
        for path in rust_files(&root().join(workspace)) {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("allow(unsafe_code") {
                found.push(path.strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    for path in found {
        // The SDK's are the bindings that wit-bindgen generates for the guest's side of the border.
        // What rdkafka leaves out of librdkafka is called by one module.
        let allowed = [
            "host/operator/",
            "host/infer/",
            "host/connect/src/kafka/native.rs",
            "plugin-sdk/rust/src/",
        ];
        assert!(
            allowed.iter().any(|room| path.starts_with(room)),
            "{path} has unsafe code"
        );
    }
}

/// All files of Rust below a directory.
pub(crate) fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut places) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(workspace) = places.pop() {
        for entry in std::fs::read_dir(workspace).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                places.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The licences that deny.toml allows: every dependency must be usable under one of them.
#[test]
fn every_dependency_has_a_permissive_licence() {
    let deny = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let begin = deny.find("allow = [").unwrap();
    let list = &deny[begin..begin + deny[begin..].find(']').unwrap()];
    let allowed: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains("MIT"));
    let metadata = metadata();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(
            satisfied(licence, &allowed),
            "{name}: {licence:?} is not among the licences of deny.toml"
        );
    }
}

/// Evaluates an SPDX expression: OR needs one side, AND both; `WITH` binds to its licence.
fn satisfied(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let expression = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let (value, rest) = alternatives(&words, allowed);
    value && rest.is_empty()
}

fn alternatives<'a, 'b>(words: &'b [&'a str], allowed: &BTreeSet<&str>) -> (bool, &'b [&'a str]) {
    let (mut value, mut rest) = conjunction(words, allowed);
    while let Some((&"OR", after)) = rest.split_first() {
        let (right, left) = conjunction(after, allowed);
        value |= right;
        rest = left;
    }
    (value, rest)
}

fn conjunction<'a, 'b>(words: &'b [&'a str], allowed: &BTreeSet<&str>) -> (bool, &'b [&'a str]) {
    let (mut value, mut rest) = licence(words, allowed);
    while let Some((&"AND", after)) = rest.split_first() {
        let (right, left) = licence(after, allowed);
        value &= right;
        rest = left;
    }
    (value, rest)
}

fn licence<'a, 'b>(words: &'b [&'a str], allowed: &BTreeSet<&str>) -> (bool, &'b [&'a str]) {
    match words {
        ["(", inside @ ..] => {
            let (value, rest) = alternatives(inside, allowed);
            (value, rest.get(1..).unwrap_or_default())
        }
        [name, "WITH", exception, rest @ ..] => (
            allowed.contains(format!("{name} WITH {exception}").as_str()),
            rest,
        ),
        [name, rest @ ..] => (allowed.contains(name), rest),
        [] => (false, words),
    }
}

#[test]
fn the_readme_shows_the_two_commands_and_the_changelog_speaks() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let first_screen: String = readme.lines().take(60).collect::<Vec<_>>().join("\n");
    for command in ["cargo xtask demo", "cargo xtask test"] {
        assert!(
            first_screen.contains(command),
            "README.md does not show {command} on its first screen"
        );
    }
    for file in [
        "ARCHITECTURE.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "LICENSE",
        "benches/README.md",
    ] {
        assert!(root().join(file).exists(), "{file} is missing");
    }
}

#[test]
fn a_built_operator_does_not_name_the_place_it_was_built_in() {
    let root = root();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"));
    for name in ["drop-abuse", "redact-pii", "hostile", "plain"] {
        let bytes = std::fs::read(tidegate_tests::operator(name)).unwrap();
        for place in [&root, &home] {
            let place = place.to_str().unwrap().as_bytes();
            let names = bytes.windows(place.len()).any(|found| found == place);
            assert!(!names, "{name}.wasm names a place of this machine");
        }
    }
}

/// They are compiled and run by `cargo xtask planted` alone: one that does not fit any more would be noticed late.
#[test]
fn every_fault_that_is_planted_fits_the_sources() {
    let patches = std::fs::read_dir(root().join("tests/planted")).unwrap();
    let patches = patches.map(|entry| entry.unwrap().path());
    let patches: Vec<_> = patches
        .filter(|path| path.extension().is_some_and(|of| of == "patch"))
        .collect();
    assert!(!patches.is_empty());
    for patch in patches {
        let check = std::process::Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{}: {said}", patch.display());
    }
}
