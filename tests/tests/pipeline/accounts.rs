//! Every record is accounted for, and what leaves is what was promised.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tidegate_tests::{Random, Workspace, full, root};

/// The demo's pipeline over other input: the same stages, the same model.
fn support_bot(source: &str) -> String {
    let text = std::fs::read_to_string(root().join("examples/support-bot/pipeline.toml")).unwrap();
    let text = text
        .replace("../../target/operators", "{operators}")
        .replace(
            "path = \"model\"",
            &format!("path = {:?}", root().join("examples/support-bot/model")),
        );
    let begin = text.find("[source.tickets]").unwrap();
    let end = begin + text[begin..].find("\n# ").unwrap();
    format!("{}{source}\n{}", &text[..begin], &text[end..])
}

fn sum(summary: &Value) -> [u64; 4] {
    ["in", "out", "dropped", "dead"].map(|name| summary["records"][name].as_u64().unwrap())
}

#[test]
fn the_demo_answers_its_tickets() {
    let tickets =
        std::fs::read_to_string(root().join("examples/support-bot/tickets.jsonl")).unwrap();
    let lines: Vec<&str> = tickets
        .lines()
        .take(if full() { usize::MAX } else { 60 })
        .collect();
    let workspace = Workspace::new(&support_bot(
        "[source.tickets]\ntype = \"file\"\npaths = [\"in.jsonl\"]\nkey = \"customer\"\nevent-time = \"at\"\nrequired = [\"text\"]",
    ));
    workspace.write("in.jsonl", lines.join("\n"));
    workspace.run_pipeline();
    let summary = workspace.json("out/summary.json");
    let [input, output, dropped, dead] = sum(&summary);
    assert_eq!(input, lines.len() as u64);
    assert_eq!(output + dropped + dead, input, "{summary}");
    assert_eq!(
        workspace.json_lines("out/answers.jsonl").len() as u64,
        output
    );
    assert_eq!(
        workspace.json_lines("out/dead-letters.jsonl").len() as u64,
        dead
    );
    assert!(
        output > 0 && summary["tokens"].as_u64().unwrap() > output * 3,
        "{summary}"
    );
    assert!(summary["adapter"].is_string(), "{summary}");
    for name in ["p50", "p95", "p99"] {
        assert!(
            summary["latency_ms"][name].as_f64().unwrap() > 0.0,
            "{summary}"
        );
    }
    let slots: Vec<&str> = summary["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| slot["slot"].as_str().unwrap())
        .collect();
    assert_eq!(slots, ["abuse", "redact", "shape", "restore"]);
    for slot in summary["slots"].as_array().unwrap() {
        assert!(
            slot["digest"].as_str().unwrap().starts_with("sha256:"),
            "{slot}"
        );
        assert!(slot["version"].is_string(), "{slot}");
    }
    // Answers of a customer come in the order of the tickets.
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for answer in workspace.json_lines("out/answers.jsonl") {
        assert!(!answer["answer"].as_str().unwrap().is_empty(), "{answer}");
        assert!(
            answer["model"]["digest"]
                .as_str()
                .unwrap()
                .starts_with("sha256:"),
            "{answer}"
        );
        let customer = answer["customer"].as_str().unwrap().to_owned();
        seen.entry(customer)
            .or_default()
            .push(answer["id"].as_str().unwrap().to_owned());
    }
    let order: Vec<Value> = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    for (customer, ids) in seen {
        let places: Vec<usize> = ids
            .iter()
            .map(|id| {
                order
                    .iter()
                    .position(|ticket| ticket["id"] == id.as_str())
                    .unwrap()
            })
            .collect();
        assert!(places.is_sorted(), "{customer}: {ids:?}");
    }
}

/// Runs banking77 queries; without the data set (it is not part of the project) queries are made up.
#[test]
fn every_customer_query_is_answered_dropped_or_dead() {
    let path = root().join("../shared/data/banking77/train.csv");
    let count = if full() { usize::MAX } else { 40 };
    let csv = match std::fs::read_to_string(&path) {
        Ok(text) => csv_head(&text, count),
        Err(_) => {
            let mut random = Random(77);
            let mut text = "text,category\n".to_owned();
            for n in 0..count.min(500) {
                let what = ["card", "transfer", "top-up", "PIN"][random.below(4) as usize];
                writeln!(
                    text,
                    "\"Why is my {what} number {n} pending, please?\",made_up"
                )
                .unwrap();
            }
            text
        }
    };
    let records = csv_rows(&csv).count() - 1;
    let workspace = Workspace::new(&support_bot(
        "[source.tickets]\ntype = \"file\"\npaths = [\"in.csv\"]\nformat = \"csv\"\nrequired = [\"text\"]",
    ));
    workspace.write("in.csv", csv);
    workspace.run_pipeline();
    let summary = workspace.json("out/summary.json");
    let [input, output, dropped, dead] = sum(&summary);
    assert_eq!(input, records as u64);
    assert_eq!(output + dropped + dead, input, "{summary}");
    assert_eq!(
        workspace.json_lines("out/answers.jsonl").len() as u64,
        output
    );
    if full() && records > 9_000 {
        assert_eq!(records, 10_003);
    }
}

/// Where each row of a CSV text ends, behind its line end; quoted line ends are part of their row.
fn csv_rows(text: &str) -> impl Iterator<Item = usize> {
    let mut quoted = false;
    let ends = text.bytes().enumerate().filter_map(move |(at, byte)| {
        quoted ^= byte == b'"';
        (byte == b'\n' && !quoted).then_some(at + 1)
    });
    let unended = !text.is_empty() && !text.ends_with('\n');
    ends.chain(unended.then_some(text.len()))
}

/// The header of a CSV text and this many rows.
fn csv_head(text: &str, rows: usize) -> String {
    let end = csv_rows(text).nth(rows);
    text[..end.unwrap_or(text.len())].to_owned()
}

#[test]
fn personal_data_reaches_neither_model_nor_sink_unless_restored() {
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "private"
[source.in]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "redact"
operator = "{operators}/redact-pii.wasm"
config = { paths = ["text"] }
[[stage]]
name = "route"
operator = "{operators}/drop-abuse.wasm"
config = { paths = ["text"], words = ["grumble"], action = "dead-letter" }
[sink.out]
type = "file"
path = "out.jsonl"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#,
    );
    let lines = [
        json!({"text": "write to ann@example.com"}),
        json!({"text": "grumble: card 4111 1111 1111 1111"}),
    ];
    workspace.write("in.jsonl", lines.map(|line| line.to_string()).join("\n"));
    workspace.run_pipeline();
    let (out, dead) = (
        workspace.json_lines("out.jsonl"),
        workspace.json_lines("dead.jsonl"),
    );
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(out[0]["text"], "write to [EMAIL_1]");
    assert_eq!(dead.len(), 1, "{dead:?}");
    let everything = [
        workspace.read("out.jsonl"),
        workspace.read("dead.jsonl"),
        workspace.read("state/commit.log"),
    ]
    .concat();
    for secret in ["ann@example.com", "4111 1111"] {
        assert!(
            !everything
                .windows(secret.len())
                .any(|window| window == secret.as_bytes()),
            "{secret} leaked"
        );
    }
}

#[test]
fn a_pipeline_routes_named_outputs_and_fans_out() {
    let workspace = Workspace::new(
        r#"
[pipeline]
name = "routes"
[source.in]
type = "file"
paths = ["in.jsonl"]
[[stage]]
name = "route"
operator = "{operators}/route-intent.wasm"
config = { rules = [{ output = "billing", any = ["refund"], path = "text" }] }
[sink.billing]
type = "file"
inputs = ["route.billing"]
path = "billing.jsonl"
[sink.rest]
type = "file"
inputs = ["route"]
path = "rest.jsonl"
[sink.all]
type = "file"
inputs = ["in"]
path = "all.jsonl"
"#,
    );
    workspace.write(
        "in.jsonl",
        "{\"text\":\"refund me\"}\n{\"text\":\"hello\"}\n{\"text\":\"a refund, please\"}\n",
    );
    let output = workspace.run(&["run", "--json", "--quiet", "pipeline.toml"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(workspace.json_lines("billing.jsonl").len(), 2);
    assert_eq!(workspace.json_lines("rest.jsonl").len(), 1);
    assert_eq!(workspace.json_lines("all.jsonl").len(), 3);
    assert_eq!(sum(&summary), [3, 6, 0, 0]);
    assert_eq!(summary["records"]["split"], 3);
}
