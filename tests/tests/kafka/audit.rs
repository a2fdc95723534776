//! The audit of a pipeline whose cuts are Kafka transactions: through kills and aborted transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tidegate_tests::{Workspace, root, until};

use crate::{broker, consume, produce, topic, topic_with};

const PATIENCE: Duration = Duration::from_secs(120);
const RECORDS: usize = 36;
const FEW: usize = 12;
/// Every so many-th is larger than the output takes, so that its transaction is aborted.
const REFUSED: usize = 9;

fn pipeline(input: &str, output: &str) -> String {
    format!(
        r#"
[pipeline]
name = "{input}"
cut-interval = "50ms"
delivery = "exactly-once"
[source.in]
type = "kafka"
brokers = ["{broker}"]
topic = "{input}"
group = "{input}"
instance = "one"
[model.support]
path = {model:?}
sequences = 4
[[stage]]
name = "answer"
model = "support"
prompt = "Is it {{n}}?"
max-tokens = 8
[sink.out]
type = "kafka"
brokers = ["{broker}"]
topic = "{output}"
[audit]
path = "audit/audit.jsonl"
"#,
        broker = broker(),
        model = root().join("examples/support-bot/model"),
    )
}

/// No two letters of it alike, so that it is as long when it is compressed.
fn noise(seed: usize, length: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + ((state >> 33) % 26) as u8)
    };
    (0..length).map(|_| letter()).collect()
}

fn lines(workspace: &Workspace) -> Vec<Value> {
    let shown = workspace.run(&["audit", "show", "audit/audit.jsonl"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let lines = shown.lines();
    let lines = lines.map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line.get("mark").is_none())
        .collect()
}

#[test]
fn the_chain_is_whole_and_each_answer_has_its_line_through_kills_and_aborted_transactions() {
    let input = topic("audited");
    let output = topic_with("audited-out", 1, &[("max.message.bytes", "2000")]);
    let workspace = Workspace::new(&pipeline(&input, &output));
    let text = |n: usize| match n % REFUSED {
        0 => noise(n, 6000),
        _ => "short".to_owned(),
    };
    let records: Vec<(String, String)> = (0..RECORDS)
        .map(|n| {
            (
                n.to_string(),
                format!("{{\"n\":{n},\"text\":\"{}\"}}", text(n)),
            )
        })
        .collect();
    produce(&input, &records);
    let verified = || {
        let verified = workspace.run(&["audit", "verify", "--json", "audit/audit.jsonl"]);
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success(), "{said}");
        serde_json::from_slice::<Value>(&verified.stdout).unwrap()
    };
    for kill in 1..=2 {
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        until("some answers are there", PATIENCE, || {
            let said = workspace.read("stderr.log");
            assert!(
                running.ended().is_none(),
                "{}",
                String::from_utf8_lossy(&said)
            );
            consume(&output).len() >= kill * RECORDS / 4
        });
        running.kill();
    }
    let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert_eq!(verified()["whole"], true);
    let answered: BTreeSet<u64> = consume(&output)
        .iter()
        .map(|(_, value)| {
            let value: Value = serde_json::from_str(value).unwrap();
            value["n"].as_u64().unwrap()
        })
        .collect();
    let refused = RECORDS.div_ceil(REFUSED);
    assert_eq!(answered.len(), RECORDS - refused);
    // What a line is of is said by record, stage and attempt. One that is there twice says the same both times.
    let mut questions: BTreeMap<(String, String, u64), Vec<Value>> = BTreeMap::new();
    for line in lines(&workspace) {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        assert_eq!(line["outcome"], "answered");
        let question = (
            text("record"),
            text("stage"),
            line["attempt"].as_u64().unwrap(),
        );
        questions.entry(question).or_default().push(line);
    }
    let expected: BTreeSet<String> = (0..RECORDS).map(|n| format!("in/0/{n}/0")).collect();
    let told: Vec<String> = questions
        .keys()
        .map(|(record, ..)| record.clone())
        .collect();
    assert_eq!(told.len(), RECORDS, "{told:?}");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), expected);
    for (question, lines) in &questions {
        for line in lines {
            for name in ["seed", "parameters", "prompt_tokens", "tokens", "finish"] {
                assert_eq!(line[name], lines[0][name], "{question:?}");
            }
        }
    }
}

/// What the marks of an audit say.
#[derive(Default)]
struct Told {
    /// How often each record is in a cut that holds.
    held: BTreeMap<String, usize>,
    /// Lines of cuts that came to nothing.
    taken_back: usize,
    /// Cuts of which nothing is said.
    undecided: usize,
}

fn told(workspace: &Workspace) -> Told {
    let shown = workspace.run(&["audit", "show", "audit/audit.jsonl"]);
    assert!(shown.status.success(), "{shown:?}");
    let (mut lines, mut open) = (Vec::new(), BTreeMap::new());
    let mut told = Told::default();
    for line in String::from_utf8(shown.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let mut cut = || open.remove(&line["of"].as_u64().unwrap()).unwrap();
        match line["mark"].as_str() {
            None => lines.push(line["record"].as_str().unwrap().to_owned()),
            Some("open") => {
                let lines = std::mem::take(&mut lines);
                open.insert(line["number"].as_u64().unwrap(), lines);
            }
            Some("held") => {
                for record in cut() {
                    *told.held.entry(record).or_default() += 1;
                }
            }
            Some("taken back") => told.taken_back += cut().len(),
            Some("begin" | "end") => {}
            other => panic!("{other:?}: {line}"),
        }
    }
    assert!(lines.is_empty(), "{lines:?}");
    told.undecided = open.len();
    told
}

#[test]
fn what_became_of_a_transaction_that_a_run_did_not_live_to_see_is_said_by_the_next() {
    const MANY: usize = 300;
    let (input, output) = (topic("audit-cut-short"), topic("audit-cut-short-out"));
    let workspace = Workspace::new(&pipeline(&input, &output));
    let records = (0..MANY).map(|n| (n.to_string(), format!("{{\"n\":{n},\"text\":\"x\"}}")));
    produce(&input, &records.collect::<Vec<_>>());
    // The run is stopped when a mark says that a cut is under way, and killed if it is under way still.
    let is_open = || {
        let audit = String::from_utf8(workspace.read("audit/audit.jsonl")).unwrap();
        let mut marks = audit.lines().filter(|line| line.contains(",\"mark\":\""));
        marks
            .next_back()
            .is_some_and(|line| line.contains("\"mark\":\"open\""))
    };
    let undecided = |workspace: &Workspace| {
        let verified = workspace.run(&["audit", "verify", "--json", "audit/audit.jsonl"]);
        assert!(verified.status.success(), "{verified:?}");
        let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
        verified["undecided"].as_array().unwrap().len()
    };
    let mut left = 0;
    for _ in 0..4 {
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        let begins = workspace.read("audit/audit.jsonl").len();
        until("a cut is under way", PATIENCE, || {
            let said = workspace.read("stderr.log");
            assert_eq!(running.ended(), None, "{}", String::from_utf8_lossy(&said));
            let grew = workspace.read("audit/audit.jsonl").len() > begins;
            if !grew || !is_open() {
                return lines(&workspace).len() >= MANY;
            }
            running.signal("STOP");
            let is_under_way = is_open();
            if !is_under_way {
                running.signal("CONT");
            }
            is_under_way
        });
        running.kill();
        left += usize::from(is_open());
        assert!(undecided(&workspace) <= 1, "those before are decided");
    }
    assert!(left > 0, "no run was killed in the middle of a cut");
    let run = workspace.run(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(undecided(&workspace), 0);
    let told = told(&workspace);
    assert_eq!((told.undecided, told.held.len()), (0, MANY));
    assert!(
        told.held.values().all(|times| *times == 1),
        "{:?}",
        told.held
    );
    assert_eq!(consume(&output).len(), MANY);
}

#[test]
fn the_audit_says_what_became_of_each_transaction_and_each_answer_holds_once() {
    let input = topic("audit-in");
    // The broker refuses one of the answers, and with it the transaction that has it.
    let output = topic_with("audit-out", 1, &[("max.message.bytes", "1500")]);
    let text = |n: usize| match n {
        6 => noise(n, 6000),
        _ => "short".to_owned(),
    };
    let records = (0..FEW).map(|n| {
        let value = format!("{{\"n\":{n},\"text\":\"{}\"}}", text(n));
        (n.to_string(), value)
    });
    let records: Vec<(String, String)> = records.collect();
    produce(&input, &records);
    let workspace = Workspace::new(&pipeline(&input, &output));
    let said = |arguments: &[&str]| {
        let output = workspace.run(arguments);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{why}");
        String::from_utf8(output.stdout).unwrap()
    };
    said(&["run", "--quiet", "--until", "now", "pipeline.toml"]);
    said(&["audit", "verify", "--state", "state", "audit/audit.jsonl"]);
    let told = told(&workspace);
    assert_eq!(told.undecided, 0);
    assert!(told.taken_back > 0);
    assert_eq!(told.held.len(), FEW, "{:?}", told.held);
    assert!(
        told.held.values().all(|times| *times == 1),
        "{:?}",
        told.held
    );
}
