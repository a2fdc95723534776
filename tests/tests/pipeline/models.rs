//! Pipelines with real models on the adapter that is there: forms, choices, vectors, labels, and models that are
//! replaced or damaged.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Random, Workspace, root, until};

/// Longest wait for a model on a machine with other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) fn demo_model() -> PathBuf {
    root().join("examples/support-bot/model")
}

/// A pipeline over `tickets.jsonl` with the demo's model; `stage` is the rest of its only stage.
pub(crate) fn asking(stage: &str) -> String {
    format!(
        "[pipeline]\nname = \"models\"\ncut-interval = \"20ms\"\n[source.tickets]\ntype = \"file\"\n\
         paths = [\"tickets.jsonl\"]\nkey = \"customer\"\n[model.support]\npath = {:?}\nsequences = 16\ncontext = 256\n\
         [[stage]]\nname = \"answer\"\nmodel = \"support\"\nprompt = \"{{text}}\"\ntruncate = \"text\"\n{stage}\n\
         [sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n[dead-letters]\ntype = \"file\"\npath = \"dead.jsonl\"\n",
        demo_model()
    )
}

/// The first tickets of the demo.
pub(crate) fn tickets(count: usize) -> String {
    let all = std::fs::read_to_string(root().join("examples/support-bot/tickets.jsonl")).unwrap();
    let whole = all
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_ok_and(|v| v["text"].is_string()));
    whole.take(count).map(|line| format!("{line}\n")).collect()
}

pub(crate) fn workspace(pipeline: &str, count: usize) -> Workspace {
    let workspace = Workspace::new(pipeline);
    workspace.write("tickets.jsonl", tickets(count));
    workspace
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `tidegate model convert MODEL DIRECTORY --to int8 --no-loss`: its exit code and what it said.
pub(crate) fn convert(
    workspace: &Workspace,
    model: &Path,
    directory: &str,
) -> (Option<i32>, String) {
    let model = model.to_str().unwrap();
    let arguments = [
        "model",
        "convert",
        model,
        directory,
        "--to",
        "int8",
        "--no-loss",
    ];
    let output = workspace.run(&arguments);
    (output.status.code(), text(&output.stderr))
}

#[test]
fn every_answer_by_a_schema_is_what_the_schema_accepts() {
    let workspace = workspace(
        &asking(
            "temperature = 1.0\nmax-tokens = 120\nschema = \"answer.json\"\npriority = 2\ndeadline = \"10m\"",
        ),
        10,
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "urgency": {"enum": ["low", "high"]},
            "topic": {"type": "string", "maxLength": 12},
            "items": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
        },
        "required": ["urgency", "topic", "items"],
        "additionalProperties": false,
        // The demo's model has never seen JSON: it would fill its tokens with white space.
        "x-guidance": {"whitespace_flexible": false},
    });
    workspace.write("answer.json", schema.to_string());
    workspace.run_pipeline();
    let answers = workspace.json_lines("out.jsonl");
    assert_eq!(answers.len() + workspace.json_lines("dead.jsonl").len(), 10);
    assert!(answers.len() >= 8, "{answers:?}");
    for line in answers {
        let answer = line["answer"]
            .as_object()
            .unwrap_or_else(|| panic!("{line}"));
        let names: BTreeSet<&str> = answer.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            BTreeSet::from(["items", "topic", "urgency"]),
            "{line}"
        );
        assert!(
            matches!(answer["urgency"].as_str(), Some("low" | "high")),
            "{line}"
        );
        assert!(
            answer["topic"].as_str().unwrap().chars().count() <= 12,
            "{line}"
        );
        let items = answer["items"].as_array().unwrap();
        assert!(items.len() <= 3, "{line}");
        assert!(
            items
                .iter()
                .all(|item| item.as_u64().is_some_and(|n| n <= 9)),
            "{line}"
        );
    }
}

#[test]
fn answers_keep_to_a_regex_a_list_and_a_grammar() {
    let whole = "temperature = 1.0\nmax-tokens = 40\n";
    type Form = (&'static str, fn(&str) -> bool);
    let forms: [Form; 3] = [
        ("regex = '[A-Z]{2}-[0-9]{1,3}'", |answer| {
            let Some((letters, digits)) = answer.split_once('-') else {
                return false;
            };
            letters.len() == 2
                && letters.bytes().all(|b| b.is_ascii_uppercase())
                && (1..=3).contains(&digits.len())
                && digits.bytes().all(|b| b.is_ascii_digit())
        }),
        (
            "choices = [\"refund\", \"delivery\", \"other question\"]",
            |answer| ["refund", "delivery", "other question"].contains(&answer),
        ),
        ("grammar = \"answer.lark\"", |answer| {
            let parts: Vec<&str> = answer.split(" and ").collect();
            parts.len() == 2 && parts.iter().all(|part| ["yes", "no"].contains(part))
        }),
    ];
    for (form, fits) in forms {
        let workspace = workspace(&asking(&format!("{whole}{form}")), 6);
        workspace.write(
            "answer.lark",
            "start: word \" and \" word\nword: \"yes\" | \"no\"\n",
        );
        workspace.run_pipeline();
        let answers = workspace.json_lines("out.jsonl");
        assert_eq!(
            answers.len(),
            6,
            "{form}: {}",
            text(&workspace.read("dead.jsonl"))
        );
        for line in answers {
            assert!(fits(line["answer"].as_str().unwrap()), "{form}: {line}");
        }
    }
}

#[test]
fn several_answers_and_log_probabilities_appear_in_the_record() {
    let workspace = workspace(
        &asking("temperature = 1.2\nmax-tokens = 6\nn = 3\nlogprobs = 2\nstop = [\"zzz\"]"),
        3,
    );
    workspace.run_pipeline();
    let lines = workspace.json_lines("out.jsonl");
    assert_eq!(lines.len(), 3);
    for line in lines {
        let choices = line["answer_choices"].as_array().unwrap();
        assert_eq!(choices.len(), 3, "{line}");
        assert_eq!(line["answer"], choices[0]["text"]);
        for choice in choices {
            let logprobs = choice["logprobs"].as_array().unwrap();
            let tokens = choice["tokens"].as_u64().unwrap();
            assert!((1..=6).contains(&tokens), "{choice}");
            assert!(
                logprobs.len() as u64 <= tokens && !logprobs.is_empty(),
                "{choice}"
            );
            for each in logprobs {
                let own = each["logprob"].as_f64().unwrap();
                let top = each["top"].as_array().unwrap();
                assert_eq!(top.len(), 2);
                let best = top[0]["logprob"].as_f64().unwrap();
                assert!(own <= 1e-6 && own <= best + 1e-6, "{each}");
            }
        }
        let texts: BTreeSet<&str> = choices.iter().filter_map(|c| c["text"].as_str()).collect();
        assert!(texts.len() > 1, "three seeds gave one answer: {line}");
    }
}

/// A tiny encoder of the reference's goldens, with a tokenizer whose token 7 is the word `w7`.
fn tiny_encoder(workspace: &Workspace, golden: &str) -> (Vec<Vec<u32>>, Vec<f64>) {
    let from = root().join("host/reference/tests/golden").join(golden);
    let to = workspace.path(golden);
    std::fs::create_dir(&to).unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
    let vocabulary: serde_json::Map<String, Value> =
        (0..64).map(|id| (format!("w{id}"), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    });
    std::fs::write(to.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let cases: Value =
        serde_json::from_slice(&std::fs::read(from.join("golden.json")).unwrap()).unwrap();
    let tokens = cases["cases"].as_array().unwrap().iter().map(|case| {
        let tokens = case["tokens"].as_array().unwrap().iter();
        tokens.map(|token| token.as_u64().unwrap() as u32).collect()
    });
    let expected = std::fs::read(from.join("expected.f64")).unwrap();
    let expected = expected
        .chunks_exact(8)
        .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
    (tokens.collect(), expected.collect())
}

fn lines_of(cases: &[Vec<u32>]) -> String {
    let lines = cases.iter().map(|tokens| {
        let words: Vec<String> = tokens.iter().map(|token| format!("w{token}")).collect();
        format!("{}\n", json!({"text": words.join(" ")}))
    });
    lines.collect()
}

const ENCODING: &str = "[pipeline]\nname = \"encode\"\n[source.texts]\ntype = \"file\"\npaths = [\"texts.jsonl\"]\n\
     [dead-letters]\ntype = \"file\"\npath = \"dead.jsonl\"\n[sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n";

#[test]
fn an_embedding_stage_writes_the_vector_that_transformers_gives() {
    let workspace = Workspace::new("");
    let (cases, expected) = tiny_encoder(&workspace, "bert-f16");
    workspace.write("texts.jsonl", lines_of(&cases));
    workspace.pipeline(&format!(
        "{ENCODING}[model.mini]\npath = \"bert-f16\"\n[[stage]]\nname = \"vector\"\nembed = \"mini\"\n\
         text = \"{{text}}\"\norder = \"partition\"\n"
    ));
    workspace.run_pipeline();
    let lines = workspace.json_lines("out.jsonl");
    assert_eq!(
        lines.len(),
        cases.len(),
        "{}",
        text(&workspace.read("dead.jsonl"))
    );
    let width = expected.len() / cases.len();
    for (line, expected) in lines.iter().zip(expected.chunks_exact(width)) {
        let vector: Vec<f64> = line["embedding"]
            .as_array()
            .unwrap()
            .iter()
            .map(|number| number.as_f64().unwrap())
            .collect();
        assert_eq!(vector.len(), width);
        // The golden is the vector of unit length.
        let length = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
        for (own, expected) in vector.iter().zip(expected) {
            assert!((own - expected / length).abs() < 2e-3, "{own} {expected}");
        }
    }
}

#[test]
fn a_classification_stage_writes_labels_and_routes_by_them() {
    let workspace = Workspace::new("");
    let (cases, expected) = tiny_encoder(&workspace, "bert-classes-f32");
    workspace.write("texts.jsonl", lines_of(&cases));
    let labels = ["calm", "rude", "spam"];
    let probabilities: Vec<Vec<f64>> = expected
        .chunks_exact(labels.len())
        .map(|logits| {
            let sum: f64 = logits.iter().map(|l| l.exp()).sum();
            logits.iter().map(|l| l.exp() / sum).collect()
        })
        .collect();
    let likeliest = |scores: &[f64]| {
        (0..3)
            .max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
            .unwrap()
    };
    let routed = labels[likeliest(&probabilities[0])];
    workspace.pipeline(&format!(
        "{ENCODING}[model.tone]\npath = \"bert-classes-f32\"\n[[stage]]\nname = \"tone\"\nclassify = \"tone\"\n\
         text = \"{{text}}\"\norder = \"partition\"\n[sink.routed]\ntype = \"file\"\npath = \"routed.jsonl\"\n\
         inputs = [\"tone.{routed}\"]\n"
    ));
    workspace.run_pipeline();
    let main = workspace.json_lines("out.jsonl");
    let routed_lines = workspace.json_lines("routed.jsonl");
    assert_eq!(main.len() + routed_lines.len(), cases.len());
    let inputs: Vec<Value> = lines_of(&cases)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (input, scores) in inputs.iter().zip(&probabilities) {
        let label = labels[likeliest(scores)];
        let lines = if label == routed {
            &routed_lines
        } else {
            &main
        };
        let line = lines
            .iter()
            .find(|line| line["text"] == input["text"])
            .unwrap_or_else(|| panic!("{input} is not where its label {label} goes"));
        assert_eq!(line["labels"]["label"], label);
        for (name, score) in labels.iter().zip(scores) {
            let own = line["labels"]["scores"][name].as_f64().unwrap();
            assert!((own - score).abs() < 1e-4, "{name}: {own} {score}");
        }
    }
    assert!(!routed_lines.is_empty());
    // A label that the model does not have is a mistake with its line.
    let pipeline =
        text(&workspace.read("pipeline.toml")).replace(&format!("tone.{routed}"), "tone.rued");
    workspace.pipeline(&pipeline);
    let checked = workspace.run(&["check", "pipeline.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    let said = text(&checked.stderr);
    assert!(said.contains("did you mean \"tone.rude\"?"), "{said}");
    assert!(said.contains("inputs = [\"tone.rued\"]"), "{said}");
}

#[test]
fn stopped_or_killed_while_it_answers_a_run_gives_byte_identical_answers() {
    let pipeline = asking(
        "temperature = 0.9\ntop-p = 0.95\nmax-tokens = 40\nn = 2\norder = \"partition\"\nrepetition-penalty = 1.1",
    );
    let records = 24;
    let whole = workspace(&pipeline, records);
    whole.run_pipeline();
    let expected = whole.read("out.jsonl");
    assert_eq!(whole.json_lines("out.jsonl").len(), records);

    let workspace = workspace(&pipeline, records);
    let mut random = Random(11);
    let mut between = 0;
    for turn in 0..3 {
        let before = workspace.read("out.jsonl").len();
        let log = || workspace.read("state/commit.log").len();
        let logged = log();
        let mut running = workspace.start(&["run", "--quiet", "pipeline.toml"]);
        until("something is committed", PATIENCE, || {
            running.ended().is_some() || log() > logged + 2000
        });
        std::thread::sleep(Duration::from_millis(random.below(150)));
        if turn == 1 {
            // It takes a last cut, with what is half made in it.
            let status = running
                .ended()
                .unwrap_or_else(|| running.terminate(PATIENCE));
            assert!(status.success(), "{}", text(&workspace.read("stderr.log")));
        } else {
            running.kill();
        }
        let after = workspace.read("out.jsonl").len();
        between += usize::from(after >= before && after < expected.len());
    }
    workspace.run_pipeline();
    assert!(between >= 1, "every kill came after the end");
    assert!(
        workspace.read("out.jsonl") == expected,
        "{}\n--- is not ---\n{}",
        text(&workspace.read("out.jsonl")),
        text(&expected)
    );
}

#[test]
fn a_model_is_replaced_unloaded_and_loaded_again_while_records_flow() {
    let records = 120;
    let pipeline = asking("max-tokens = 12\nspeculative = \"prompt-lookup\"");
    let all = tickets(records);
    let all: Vec<&str> = all.split_inclusive('\n').collect();
    let workspace = workspace(&pipeline, 40);
    let append = |lines: &[&str]| {
        let path = workspace.path("tickets.jsonl");
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        file.write_all(lines.concat().as_bytes()).unwrap();
    };
    let (code, said) = convert(&workspace, &demo_model(), "int8");
    assert_eq!(code, Some(0), "{said}");
    let mut running = workspace.start(&["run", "--until", "forever", "pipeline.toml"]);
    let out = || {
        workspace
            .read("out.jsonl")
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    };
    until("the first answers are there", PATIENCE, || {
        assert!(
            running.ended().is_none(),
            "{}",
            text(&workspace.read("stderr.log"))
        );
        out() >= 10
    });
    append(&all[40..80]);
    let ask = |arguments: &[&str]| -> Value {
        let arguments: Vec<&str> = [arguments, &["--state", "state", "--json"]].concat();
        let output = workspace.run(&arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let admin = |arguments: &[&str]| ask(arguments)[0].clone();
    let first = admin(&["model", "list"]);
    assert_eq!(
        (&first["name"], &first["loaded"]),
        (&json!("support"), &json!(true))
    );
    let second = admin(&["model", "load", "support", "int8"]);
    assert_ne!(first["digest"], second["digest"]);
    assert!(second["path"].as_str().unwrap().ends_with("int8"));
    until("every record so far is answered", PATIENCE, || out() == 80);
    let unloaded = admin(&["model", "unload", "support"]);
    assert_eq!(unloaded["loaded"], false);
    append(&all[80..]);
    until("the records that came since wait", PATIENCE, || {
        ask(&["status"])["records"]["in_flight"] == 40
    });
    // What does not fit the stages is refused, and the name stays empty.
    let refused = workspace.run(&["model", "load", "support", "state", "--state", "state"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert_eq!(out(), 80, "records are answered without a model");
    assert_eq!(ask(&["status"])["records"]["in_flight"], 40);
    let third = admin(&["model", "load", "support"]);
    assert_eq!(third["digest"], first["digest"]);
    until("every record is answered", PATIENCE, || out() == records);
    let status = running.terminate(PATIENCE);
    assert!(status.success(), "{}", text(&workspace.read("stderr.log")));
    let ids = |name: &str| -> BTreeSet<String> {
        let lines = workspace.json_lines(name);
        lines
            .iter()
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        ids("out.jsonl").len(),
        records,
        "a record is lost or doubled"
    );
    assert_eq!(ids("out.jsonl"), ids("tickets.jsonl"));
    assert!(workspace.read("dead.jsonl").is_empty());
}

#[test]
fn a_conversion_says_what_it_costs_and_the_result_can_be_looked_at() {
    let workspace = Workspace::new("");
    let source = demo_model();
    let mut losses = Vec::new();
    for format in ["int8", "int4"] {
        let output = workspace.run(&[
            "model",
            "convert",
            source.to_str().unwrap(),
            format,
            "--to",
            format,
            "--json",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let loss = &report["loss"];
        assert!(loss["tokens"].as_u64().unwrap() > 500, "{report}");
        let change = loss["change"].as_f64().unwrap();
        let difference = loss["after"].as_f64().unwrap() - loss["before"].as_f64().unwrap();
        assert!((change - difference).abs() < 1e-9);
        losses.push(loss["change_percent"].as_f64().unwrap().abs());
        assert!(report["bytes_after"].as_u64() < report["bytes_before"].as_u64());

        let output = workspace.run(&["model", "info", format, "--json", "--memory", "1GiB"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            info["stored_bytes"][format].as_u64().unwrap() > 100_000,
            "{info}"
        );
        assert_eq!(info["tokenizer"]["chat_template"], "own", "{info}");
        let fits = info["fits"].as_array().unwrap();
        assert!(
            fits.iter().all(|fit| fit["sequences"].as_u64() > Some(10)),
            "{info}"
        );
    }
    assert!(losses[0] < 1.0 && losses[1] < 20.0, "{losses:?} %");
    let (code, said) = convert(&workspace, &source, "int8");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is there already"), "{said}");
}

/// A copy of the demo's model, to be damaged.
pub(crate) fn copy(workspace: &Workspace, name: &str) -> PathBuf {
    let to = workspace.path(name);
    std::fs::create_dir(&to).unwrap();
    for file in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        let from = demo_model().join(file);
        if from.is_file() {
            std::fs::copy(from, to.join(file)).unwrap();
        }
    }
    to
}

/// Changes the values of a `config.json`.
fn configure(directory: &Path, changes: Value) {
    let path = directory.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    std::fs::write(path, config.to_string()).unwrap();
}

#[test]
fn damaged_and_hostile_models_are_refused_with_what_is_wrong() {
    type Damage = fn(&Path);
    fn weights(directory: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let path = directory.join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    }
    let damages: [(&str, Damage, &str); 9] = [
        (
            "cut-in-the-header",
            |d| weights(d, |b| b.truncate(100)),
            "model.safetensors",
        ),
        (
            "cut-in-the-weights",
            |d| weights(d, |b| b.truncate(b.len() / 2)),
            "model.safetensors",
        ),
        (
            "a-header-of-an-exabyte",
            |d| weights(d, |b| b[..8].copy_from_slice(&(1u64 << 60).to_le_bytes())),
            "model.safetensors",
        ),
        (
            "absurd-dimensions",
            |d| configure(d, json!({"hidden_size": 1u64 << 40})),
            "hidden_size",
        ),
        (
            "more-layers",
            |d| configure(d, json!({"num_hidden_layers": 6})),
            "layers.5",
        ),
        (
            "another-architecture",
            |d| {
                configure(
                    d,
                    json!({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}),
                )
            },
            "MambaForCausalLM",
        ),
        (
            "another-shape",
            |d| configure(d, json!({"intermediate_size": 256})),
            "shape",
        ),
        (
            "a-tokenizer-of-another-model",
            |d| configure(d, json!({"vocab_size": 1024})),
            "1024",
        ),
        (
            "no-json",
            |d| std::fs::write(d.join("tokenizer.json"), "{\"version\": ").unwrap(),
            "tokenizer.json",
        ),
    ];
    let workspace = Workspace::new("");
    workspace.write("tickets.jsonl", tickets(1));
    for (name, damage, said) in damages {
        damage(&copy(&workspace, name));
        refused(&workspace, name, said);
    }
    std::fs::write(workspace.path("torn.gguf"), b"GGUF\x03\0\0\0\xff\xff").unwrap();
    refused(&workspace, "torn.gguf", "torn.gguf");
    let mut absurd = b"GGUF\x03\0\0\0".to_vec();
    absurd.extend(u64::MAX.to_le_bytes());
    absurd.extend(u64::MAX.to_le_bytes());
    std::fs::write(workspace.path("absurd.gguf"), absurd).unwrap();
    refused(&workspace, "absurd.gguf", "absurd.gguf");

    // Numbers that are none are found when they are read, before the first record.
    let directory = copy(&workspace, "not-a-number");
    weights(&directory, |bytes| {
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let data = &mut bytes[8 + header..];
        data[1000..1064].fill(0xff);
    });
    workspace.pipeline(
        &asking("max-tokens = 4").replace(demo_model().to_str().unwrap(), "not-a-number"),
    );
    let ran = workspace.run(&["run", "--quiet", "pipeline.toml"]);
    assert_eq!(ran.status.code(), Some(1));
    let said = text(&ran.stderr);
    assert!(
        said.contains("not finite") || said.contains("NaN"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
}

/// `tidegate check` finds the mistake at the model's line, and ends by itself.
fn refused(workspace: &Workspace, model: &str, said: &str) {
    workspace.pipeline(&asking("max-tokens = 4").replace(demo_model().to_str().unwrap(), model));
    let checked = workspace.run(&["check", "pipeline.toml"]);
    let stderr = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(2), "{model}: {stderr}");
    assert!(stderr.contains(said), "{model}: {stderr}");
    assert!(stderr.contains("model.support:"), "{model}: {stderr}");
    assert!(!stderr.contains("panicked"), "{model}: {stderr}");
}

#[test]
fn what_a_stage_asks_is_held_against_its_model_before_the_run() {
    let workspace = Workspace::new("");
    workspace.write("tickets.jsonl", tickets(1));
    let (..) = tiny_encoder(&workspace, "bert-f16");
    let cases = [
        (
            "logit-bias = [{ text = \"not one token at all\", bias = 1.0 }]",
            "is not one token",
        ),
        (
            "logit-bias = [{ id = 4096, bias = 1.0 }]",
            "is not below the model's vocabulary",
        ),
        ("max-tokens = 4000", "max-tokens = 4000 leaves 0 positions"),
        ("regex = \"(\"", "what the answer must be"),
        (
            "schema = { type = \"nonsense\" }",
            "what the answer must be",
        ),
    ];
    for (stage, said) in cases {
        workspace.pipeline(&asking(stage).replace("context = 256\n", ""));
        let checked = workspace.run(&["check", "pipeline.toml"]);
        let stderr = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{stage}: {stderr}");
        assert!(stderr.contains(said), "{stage}: {stderr}");
    }
    let encoder = asking("").replace(demo_model().to_str().unwrap(), "bert-f16");
    workspace.pipeline(&encoder.replace("context = 256\n", ""));
    let stderr = text(&workspace.run(&["check", "pipeline.toml"]).stderr);
    assert!(
        stderr.contains("cannot generate: it makes embeddings"),
        "{stderr}"
    );
}

#[test]
fn a_gguf_file_is_served_like_the_directory_it_is_converted_to() {
    let gguf = root().join("host/reference/tests/golden/gguf-llama-q8_0");
    let gguf = std::fs::read_dir(gguf)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .unwrap();
    let answers = |model: &str, workspace: &Workspace| {
        let pipeline =
            asking("max-tokens = 8\norder = \"partition\"").replace("context = 256\n", "");
        workspace.pipeline(&pipeline.replace(demo_model().to_str().unwrap(), model));
        workspace.run_pipeline();
        let answers = text(&workspace.read("out.jsonl"));
        assert!(
            !answers.is_empty(),
            "{}",
            text(&workspace.read("dead.jsonl"))
        );
        for name in ["out.jsonl", "dead.jsonl"] {
            let _ = std::fs::remove_file(workspace.path(name));
        }
        std::fs::remove_dir_all(workspace.path("state")).unwrap();
        answers
    };
    let workspace = Workspace::new("");
    workspace.write(
        "tickets.jsonl",
        "{\"customer\":\"a\",\"text\":\"a b c\"}\n{\"customer\":\"b\",\"text\":\"c\"}\n",
    );
    let from_gguf = answers(gguf.to_str().unwrap(), &workspace);
    // Its rows have the format already, so they are copied, and the tokenizer is written as a file.
    let (code, said) = convert(&workspace, &gguf, "directory");
    assert_eq!(code, Some(0), "{said}");
    assert!(workspace.path("directory/tokenizer.json").is_file());
    assert_eq!(answers("directory", &workspace), from_gguf);
}

#[test]
fn guesses_ahead_change_no_answer() {
    let answers = |more: &str, temperature: &str| {
        let pipeline = asking(&format!(
            "max-tokens = 40\norder = \"partition\"\ntemperature = {temperature}\n{more}"
        ));
        let pipeline = if more.contains("auto") {
            let draft = format!("sequences = 16\ndraft = {:?}\n", demo_model());
            pipeline.replace("sequences = 16\n", &draft)
        } else {
            pipeline
        };
        let workspace = workspace(&pipeline, 6);
        workspace.run_pipeline();
        text(&workspace.read("out.jsonl"))
    };
    for temperature in ["0.0", "0.8"] {
        let plain = answers("speculative = \"off\"", temperature);
        assert_eq!(plain.lines().count(), 6);
        assert_eq!(
            answers("speculative = \"prompt-lookup\"", temperature),
            plain
        );
        assert_eq!(
            answers("speculative = \"auto\"", temperature),
            plain,
            "with a draft model"
        );
    }
}

/// Log-probabilities are written with every digit of their f32, so that equal text is equal bits.
#[test]
fn answers_have_the_same_bits_at_batch_1_3_8_and_32_and_when_memory_is_short() {
    let answers = |sequences: usize, memory: &str| {
        let pipeline = asking(
            "max-tokens = 24\norder = \"partition\"\nmax-in-flight = 64\ntemperature = 0.8\ntop-k = 50\n\
             repetition-penalty = 1.1\nlogprobs = 2",
        );
        let pipeline = pipeline.replace(
            "sequences = 16\n",
            &format!("sequences = {sequences}\n{memory}"),
        );
        let workspace = workspace(&pipeline, 32);
        workspace.run_pipeline();
        text(&workspace.read("out.jsonl"))
    };
    let alone_in = |precision: &str, little: &str| {
        let precision = format!("kv-precision = \"{precision}\"\n");
        let alone = answers(1, &precision);
        assert_eq!(alone.lines().count(), 32);
        assert!(alone.contains("\"logprob\":-"), "{alone}");
        for sequences in [3, 8, 32] {
            let together = answers(sequences, &precision);
            assert_eq!(together, alone, "{precision}, {sequences} at once");
        }
        // A tenth of what 32 sequences can fill: some give up their blocks and are computed again.
        let little = format!("{precision}kv-memory = \"{little}\"\n");
        assert_eq!(answers(32, &little), alone, "{little}");
        alone
    };
    let half = alone_in("f16", "1MiB");
    assert_ne!(half, alone_in("int8", "576KiB"));
}
