//! Operators of other languages, swapped into each other while the stream runs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, full, operator, until};

const PIPELINE: &str = r#"
[pipeline]
name = "toolchains"
workers = 2
cut-interval = "20ms"
[source.in]
type = "file"
paths = ["in-*.jsonl"]
key = "k"
[[stage]]
name = "uppercase"
operator = "{operators}/uppercase-c-0.1.0.wasm"
grants = []
ungranted = "trap"
limits = { deadline = "30s" }
[sink.out]
type = "file"
path = "out.jsonl"
"#;

/// Files, each a partition.
const PARTITIONS: u64 = 3;

/// Records of a partition, numbered.
fn lines(partition: u64, numbers: Range<u64>) -> String {
    let mut text = String::new();
    for n in numbers {
        writeln!(
            text,
            "{{\"k\":\"{partition}\",\"n\":{n},\"text\":\"say it\"}}"
        )
        .unwrap();
    }
    text
}

/// Components in the order in which they are deployed.
fn languages() -> Vec<&'static str> {
    let mut languages = vec!["go", "quickjs", "c-stdio", "quickjs-stub", "go"];
    if full() {
        languages.extend(["python", "spidermonkey", "python-stub", "spidermonkey-bare"]);
    }
    languages
}

#[test]
fn operators_of_all_languages_are_swapped_and_lose_double_and_reorder_nothing() {
    const ROUND: u64 = 500;
    let workspace = Workspace::new(PIPELINE);
    for partition in 0..PARTITIONS {
        workspace.write(&format!("in-{partition}.jsonl"), lines(partition, 0..ROUND));
    }
    let mut running = workspace.start(&["run", "--quiet", "--until", "forever", "pipeline.toml"]);
    let written = || {
        let bytes = workspace.read("out.jsonl");
        bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    until("the first output", Duration::from_secs(120), || {
        written() > 0
    });
    let mut records = ROUND;
    for language in languages() {
        // More is read while the next one is compiled and takes over.
        for partition in 0..PARTITIONS {
            let path = workspace.path(&format!("in-{partition}.jsonl"));
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(lines(partition, records..records + ROUND).as_bytes())
                .unwrap();
        }
        records += ROUND;
        let component = operator(&format!("uppercase-{language}-0.1.0"));
        let output = workspace.run(&[
            "deploy",
            "--json",
            "--pipeline",
            "pipeline.toml",
            "--slot",
            "uppercase",
            component.to_str().unwrap(),
        ]);
        assert!(
            output.status.success(),
            "{language}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["tasks"], PARTITIONS, "{language}: {report}");
    }
    until("the whole input is read", Duration::from_secs(180), || {
        written() >= PARTITIONS * records
    });
    assert!(running.terminate(Duration::from_secs(60)).success());
    let mut next: HashMap<String, u64> = HashMap::new();
    for line in workspace.json_lines("out.jsonl") {
        let next = next
            .entry(line["K"].as_str().unwrap().to_owned())
            .or_default();
        assert_eq!(line["N"], *next, "lost, doubled or reordered");
        assert_eq!(line["TEXT"], "SAY IT");
        *next += 1;
    }
    assert!(next.values().all(|count| *count == records), "{next:?}");
    assert_eq!(next.len() as u64, PARTITIONS);
}
