//! Models that label tokens through the whole program: good records, wrong ones, and such as want to do harm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_tests::{Workspace, root};

/// What transformers made these entities with, and what it made.
fn golden(name: &str) -> PathBuf {
    root().join("host/reference/tests/golden").join(name)
}

fn workspace(model: &Path, stage: &str, lines: &[Value]) -> Workspace {
    let workspace = Workspace::new(&format!(
        "[pipeline]\nname = \"names\"\n[source.texts]\ntype = \"file\"\npaths = [\"texts.jsonl\"]\n\
         [model.names]\npath = {model:?}\n[[stage]]\nname = \"find\"\nrecognize = \"names\"\ntext = \"{{text}}\"\n{stage}\n\
         [sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n[dead-letters]\ntype = \"file\"\npath = \"dead.jsonl\"\n",
    ));
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    workspace.write("texts.jsonl", lines);
    workspace
}

/// What is found in each text, by the way of putting tokens together.
fn wanted(name: &str) -> BTreeMap<String, Vec<(String, Value)>> {
    let found = std::fs::read(golden(name).join("entities.json")).unwrap();
    let found: Value = serde_json::from_slice(&found).unwrap();
    let mut by_way: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for one in found["found"].as_array().unwrap() {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        let of_way = by_way.entry(text("aggregation")).or_default();
        of_way.push((text("text"), one["entities"].clone()));
    }
    by_way
}

#[test]
fn entities_of_a_whole_pipeline_are_those_of_transformers() {
    // Models of bytes have spaces in their tokens, which are compared beside the scheduler.
    for name in [
        "bert-entities-f16",
        "roberta-entities-bf16",
        "distilbert-entities-f32",
    ] {
        for (way, texts) in wanted(name) {
            let records: Vec<Value> = texts
                .iter()
                .map(|(text, _)| json!({"text": text}))
                .collect();
            let stage = format!("aggregation = {way:?}");
            let workspace = workspace(&golden(name), &stage, &records);
            workspace.run_pipeline();
            let lines = workspace.json_lines("out.jsonl");
            assert_eq!(lines.len(), texts.len(), "{name}, {way}");
            for (line, (text, wanted)) in lines.iter().zip(texts) {
                assert_eq!(line["text"], json!(text));
                let (found, wanted) = (&line["entities"], wanted.as_array().unwrap());
                let found = found.as_array().unwrap();
                assert_eq!(found.len(), wanted.len(), "{name}, {way}: {line}");
                for (found, wanted) in found.iter().zip(wanted) {
                    for key in ["label", "start", "end"] {
                        assert_eq!(found[key], wanted[key], "{name}, {way}: {line}");
                    }
                    let score = |of: &Value| of["score"].as_f64().unwrap();
                    assert!((score(found) - score(wanted)).abs() < 1e-4, "{found}");
                    // What stands there is counted in characters.
                    let place = |key: &str| found[key].as_u64().unwrap() as usize;
                    let (start, end) = (place("start"), place("end"));
                    let part: String = text.chars().take(end).skip(start).collect();
                    assert_eq!(found["text"], json!(part), "{line}");
                }
            }
        }
    }
}

#[test]
fn entities_below_the_threshold_are_left_out_and_texts_are_cut_where_that_is_said() {
    let name = "bert-entities-f16";
    let texts = &wanted(name)["simple"];
    let records: Vec<Value> = texts
        .iter()
        .map(|(text, _)| json!({"text": text}))
        .collect();
    let workspace = workspace(
        &golden(name),
        "threshold = 0.9\nfield = \"found\"",
        &records,
    );
    workspace.run_pipeline();
    let (mut told, mut left) = (0, 0);
    for (line, (_, wanted)) in workspace.json_lines("out.jsonl").iter().zip(texts) {
        let sure = |one: &&Value| one["score"].as_f64().unwrap() >= 0.9;
        let wanted = wanted.as_array().unwrap();
        let kept: Vec<&Value> = wanted.iter().filter(sure).collect();
        left += wanted.len() - kept.len();
        let found = line["found"].as_array().unwrap();
        told += found.len();
        assert_eq!(found.len(), kept.len(), "{line}");
    }
    assert!(told > 0 && left > 0, "{told} told, {left} left out");

    let long = "anna in berlin ".repeat(2_000);
    let hostile = [
        json!({"text": ""}),
        json!({"words": "anna"}),
        json!({"text": long}),
        json!({"text": "[CLS] [SEP] anna [UNK]"}),
        json!({"text": "\u{fdd1}\u{0}\u{200d}\u{fe0f}"}),
        json!({"text": " \t\n "}),
        json!({"text": 7}),
    ];
    for (stage, dead) in [("", 3), ("truncate = \"text\"", 2)] {
        let workspace = self::workspace(&golden(name), stage, &hostile);
        workspace.run_pipeline();
        let reasons: Vec<String> = (workspace.json_lines("dead.jsonl").iter())
            .map(|letter| letter["reason"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(reasons.len(), dead, "{reasons:?}");
        let mut wanted = vec!["prompt is empty", "prompt needs the field text"];
        if dead == 3 {
            wanted.push("exceeds the limit of 38");
        }
        for reason in wanted {
            let found = reasons.iter().any(|found| found.contains(reason));
            assert!(found, "{reason}: {reasons:?}");
        }
        let lines = workspace.json_lines("out.jsonl");
        assert_eq!(lines.len(), hostile.len() - dead);
        assert!(lines.iter().all(|line| line["entities"].is_array()));
    }
}

/// What `check` and `model info` say of a model.
fn said(workspace: &Workspace, arguments: &[&str]) -> (bool, String) {
    let said = workspace.run(arguments);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&said.stderr);
    (said.status.success(), text)
}

#[test]
fn who_labels_tokens_is_asked_for_nothing_else_and_said_to_be_one() {
    let model = golden("modernbert-entities-bf16");
    let workspace = workspace(&model, "", &[]);
    let (fine, text) = said(&workspace, &["check", "pipeline.toml"]);
    assert!(fine, "{text}");
    let (_, text) = said(&workspace, &["model", "info", model.to_str().unwrap()]);
    assert!(
        text.contains("entities: O, B-PER, I-PER, B-LOC, I-LOC"),
        "{text}"
    );
    let pipeline = String::from_utf8(workspace.read("pipeline.toml")).unwrap();
    workspace.pipeline(&pipeline.replace("recognize =", "classify ="));
    let (fine, text) = said(&workspace, &["check", "pipeline.toml"]);
    assert!(!fine, "{text}");
    assert!(
        text.contains("cannot classify: it makes entities"),
        "{text}"
    );
    let other = golden("bert-relevance-f16");
    let other = pipeline.replace(model.to_str().unwrap(), other.to_str().unwrap());
    workspace.pipeline(&other);
    let (fine, text) = said(&workspace, &["check", "pipeline.toml"]);
    assert!(!fine, "{text}");
    assert!(
        text.contains("cannot recognize entities: it makes scores of pairs"),
        "{text}"
    );
}

#[test]
fn labels_that_do_not_fit_the_head_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let source = golden("bert-entities-f16");
    for file in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        std::fs::copy(source.join(file), directory.path().join(file)).unwrap();
    }
    let config = std::fs::read(source.join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let workspace = workspace(directory.path(), "", &[]);
    let with = |labels: Value| {
        let mut config = config.clone();
        match labels.is_null() {
            true => config.as_object_mut().unwrap().remove("id2label"),
            false => config
                .as_object_mut()
                .unwrap()
                .insert("id2label".into(), labels),
        };
        std::fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
        let (fine, text) = said(&workspace, &["check", "pipeline.toml"]);
        assert!(!fine, "{text}");
        text
    };
    let few = with(json!({"0": "O", "1": "B-PER"}));
    assert!(few.contains("classifier") && few.contains('5'), "{few}");
    let none = with(Value::Null);
    assert!(none.contains("key `id2label` is missing"), "{none}");
}
