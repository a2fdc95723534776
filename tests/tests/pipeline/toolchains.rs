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

/// Components in the order in which they are deployed, of both contracts and both worlds.
fn components() -> Vec<&'static str> {
    let mut components = vec![
        "go-1.0.0",
        "quickjs-plain-1.0.0",
        "c-stdio-0.1.0",
        "quickjs-1.0.0",
        "go-0.1.0",
        "c-1.0.0",
    ];
    if full() {
        components.extend([
            "python-0.1.0",
            "spidermonkey-1.0.0",
            "python-plain-1.0.0",
            "spidermonkey-bare-0.1.0",
            "python-1.0.0",
        ]);
    }
    components
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
    for name in components() {
        // More is read while the next one is compiled and takes over.
        for partition in 0..PARTITIONS {
            let path = workspace.path(&format!("in-{partition}.jsonl"));
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(lines(partition, records..records + ROUND).as_bytes())
                .unwrap();
        }
        records += ROUND;
        let component = operator(&format!("uppercase-{name}"));
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
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["tasks"], PARTITIONS, "{name}: {report}");
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
