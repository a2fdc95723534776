//! Operators in five languages in one stream: `examples/polyglot`.

use serde_json::Value;
use tidegate_tests::{Workspace, root, target};

/// The example in a directory of its own.
fn example() -> Workspace {
    let place = root().join("examples/polyglot");
    let read = |name: &str| std::fs::read_to_string(place.join(name)).unwrap();
    let operators = target().join("operators");
    let pipeline =
        read("pipeline.toml").replace("../../target/operators", operators.to_str().unwrap());
    let workspace = Workspace::new(&pipeline);
    for name in ["access.log", "questions.jsonl"] {
        workspace.write(name, read(name));
    }
    workspace
}

/// The records of a source, by the id that a sink writes.
fn of<'r>(records: &'r [Value], source: &str) -> Vec<&'r Value> {
    let begin = format!("{source}/");
    let is_of = |record: &&Value| record["id"].as_str().unwrap().starts_with(&begin);
    records.iter().filter(is_of).collect()
}

#[test]
fn operators_in_five_languages_do_their_jobs_in_one_stream() {
    let workspace = example();
    workspace.run_pipeline();
    let chunks = workspace.json_lines("out/chunks.jsonl");
    let text = |record: &Value| record["value"]["text"].as_str().unwrap().to_owned();

    // C takes lines apart, Go holds them against the schema, JavaScript makes a sentence, Rust hides who asked.
    let requests = of(&chunks, "access");
    assert!(
        requests
            .iter()
            .all(|record| record["value"]["kind"] == "request")
    );
    assert_eq!(text(requests[0]), "[IP_1] asked for / and got 200");
    let kept = |record: &&&Value| text(record).contains(".svg") || text(record).contains(".css");
    assert_eq!(
        requests.iter().filter(kept).count(),
        0,
        "pictures and styles end at the first operator"
    );
    let asked: Vec<&Value> = requests
        .iter()
        .copied()
        .filter(|record| text(record).contains("/help/lost-card"))
        .collect();
    assert!(!asked.is_empty());

    // Python cuts what is long, and says where each chunk is from.
    let questions = of(&chunks, "questions");
    let long: Vec<&&Value> = questions
        .iter()
        .filter(|record| record["value"]["category"] == "card_swallowed")
        .collect();
    assert!(long.len() > 1, "{long:?}");
    for (index, chunk) in long.iter().enumerate() {
        let headers = chunk["headers"].as_array().unwrap();
        for (name, value) in [("chunk-index", index), ("chunk-count", long.len())] {
            assert!(
                headers.contains(&serde_json::json!([name, value.to_string()])),
                "{chunk}"
            );
        }
    }
    let last = text(long[long.len() - 1]);
    assert!(
        last.contains("[EMAIL_1]") && last.contains("[PHONE_1]"),
        "{last}"
    );
    let declined = questions
        .iter()
        .find(|record| record["value"]["category"] == "declined_transfer")
        .unwrap();
    assert_eq!(text(declined), "Why was my transfer to [IBAN_1] declined?");

    // What is wrong is found by the operator whose job it is, and nothing is lost.
    let letters = workspace.json_lines("out/dead-letters.jsonl");
    let found: Vec<(&str, &str)> = letters
        .iter()
        .map(|letter| {
            (
                letter["source"].as_str().unwrap(),
                letter["stage"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(letters.len(), 3, "{found:?}");
    for wanted in [
        ("access", "parse"),
        ("access", "valid"),
        ("questions", "valid"),
    ] {
        assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
    }
    let output = workspace.run(&["run", "--json", "pipeline.toml"]);
    assert!(output.status.success(), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| summary["records"][name].as_u64().unwrap();
    assert_eq!(count("in"), 27 + 11);
    assert_eq!(
        count("in") + count("split"),
        count("out") + count("dropped") + count("dead")
    );
}
