//! Models of several families that make vectors, from their files on disk through the whole program.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_tests::{Workspace, root};

/// A pipeline that writes vectors of texts.
fn embedding(model: &Path, texts: &Value) -> Workspace {
    embedding_behind(None, model, texts)
}

/// The same of texts behind a prompt of the model.
fn embedding_behind(prompt: Option<&str>, model: &Path, texts: &Value) -> Workspace {
    let prompt = prompt.map_or_else(String::new, |name| format!("prompt-name = {name:?}\n"));
    let workspace = Workspace::new("");
    workspace.pipeline(&format!(
        "[pipeline]\nname = \"texts\"\n[source.texts]\ntype = \"file\"\npaths = [\"texts.jsonl\"]\n\
         [model.embedder]\npath = {model:?}\n[[stage]]\nname = \"vector\"\nembed = \"embedder\"\n\
         text = \"{{text}}\"\n{prompt}[sink.out]\ntype = \"file\"\npath = \"out.jsonl\"\n"
    ));
    let lines = texts.as_array().unwrap().iter();
    let lines: String = lines
        .map(|text| format!("{}\n", json!({"text": text})))
        .collect();
    workspace.write("texts.jsonl", lines);
    workspace
}

/// The vectors that it writes.
fn vectors(model: &Path, texts: &Value) -> Vec<Vec<f64>> {
    vectors_of(&embedding(model, texts))
}

fn vectors_of(workspace: &Workspace) -> Vec<Vec<f64>> {
    workspace.run_pipeline();
    let lines = workspace.json_lines("out.jsonl");
    let numbers = |line: &Value| -> Vec<f64> {
        let vector = line["embedding"].as_array().unwrap().iter();
        vector.map(|number| number.as_f64().unwrap()).collect()
    };
    lines.iter().map(numbers).collect()
}

fn info(workspace: &Workspace, model: &Path) -> String {
    let said = workspace.run(&["model", "info", model.to_str().unwrap()]);
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn vectors_of_a_whole_pipeline_are_those_of_sentence_transformers() {
    for (model, file, says) in [
        (
            "qwen3-embedding-bf16",
            "",
            "rotary; tokens see those before them",
        ),
        (
            "modernbert-bf16",
            "",
            "rotary; in 2 of 4 layers tokens see 3 to each side",
        ),
        (
            "mistral-embedding-f16",
            "",
            "in 2 of 2 layers tokens see 9 before them",
        ),
        ("nomic-bert-f16", "", "rotary"),
        ("bert-first-token-bf16", "", "learned"),
        ("roberta-f16", "", "learned"),
        ("xlm-roberta-bf16", "", "learned"),
        ("distilbert-f16", "", "learned"),
        ("gguf-bert-f16", "model.gguf", "learned"),
    ] {
        let folder = root().join("host/reference/tests/golden").join(model);
        let path = match file {
            "" => folder.clone(),
            file => folder.join(file),
        };
        let workspace = Workspace::new("");
        let texts = std::fs::read(folder.join("texts.json")).unwrap();
        let texts: Value = serde_json::from_slice(&texts).unwrap();
        let found = vectors(&path, &texts["texts"]);
        assert_vectors(&found, &texts["vectors"], model);
        let said = info(&workspace, &path);
        assert!(said.contains("embeddings: vectors of"), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[track_caller]
fn assert_vectors(found: &[Vec<f64>], wanted: &Value, model: &str) {
    let wanted = wanted.as_array().unwrap();
    assert_eq!(found.len(), wanted.len(), "{model}");
    for (found, wanted) in found.iter().zip(wanted) {
        let wanted = wanted.as_array().unwrap();
        assert_eq!(found.len(), wanted.len(), "{model}");
        for (x, y) in found.iter().zip(wanted) {
            let apart = (x - y.as_f64().unwrap()).abs();
            assert!(apart < 1e-4, "{model}: {found:?}");
        }
    }
}

/// Of one model without a usual prompt, and of one with `passage`.
#[test]
fn a_prompt_of_the_model_stands_before_texts_where_a_stage_or_the_model_says_so() {
    for (model, says) in [
        (
            "qwen3-embedding-bf16",
            "\"document\", \"query\"; none of them where a stage names none",
        ),
        (
            "mistral-embedding-f16",
            "\"passage\", \"query\"; \"passage\" where a stage names none",
        ),
    ] {
        let path = root().join("host/reference/tests/golden").join(model);
        let texts = std::fs::read(path.join("texts.json")).unwrap();
        let texts: Value = serde_json::from_slice(&texts).unwrap();
        let named = texts["named"].as_object().unwrap();
        assert!(named.contains_key("query"));
        for (name, wanted) in named {
            let workspace = embedding_behind(Some(name), &path, &texts["texts"]);
            assert_vectors(&vectors_of(&workspace), wanted, model);
        }
        // None, also where one is usual.
        let none = embedding_behind(Some(""), &path, &texts["texts"]);
        let without = vectors_of(&none);
        let usual = vectors(&path, &texts["texts"]);
        assert_eq!(without == usual, model == "qwen3-embedding-bf16");
        assert!(info(&none, &path).contains(says), "{}", info(&none, &path));
        let other = embedding_behind(Some("summary"), &path, &texts["texts"]);
        let checked = other.run(&["check", "pipeline.toml"]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_ne!(checked.status.code(), Some(0));
        let wrong = "prompt-name: is \"summary\", which is no prompt of model \"embedder\"; it has";
        assert!(said.contains(wrong), "{said}");
    }
    let roberta = root().join("host/reference/tests/golden/roberta-f16");
    let texts = json!(["bread"]);
    let checked =
        embedding_behind(Some("query"), &roberta, &texts).run(&["check", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("has no prompts"), "{said}");
}

#[test]
fn what_an_encoder_loses_that_no_kernel_reads_as_it_is_stored_is_logged() {
    let golden = root().join("host/reference/tests/golden");
    let model = golden.join("gguf-bert-q5_1/model.gguf");
    let workspace = embedding(&model, &json!(["bread"]));
    assert!(info(&workspace, &model).contains("no kernel reads q5_1"));
    let ran = workspace.run(&["run", "--log", "info", "--adapter", "cpu", "pipeline.toml"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let held = "no kernel reads this format, it is held as int8";
    let line = said.lines().find(|line| line.contains(held));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("q5_1") && line.contains("rms_loss"), "{line}");
}

/// A GGUF file in q8_0 becomes a directory of int8 without a loss, and one of int4 with one, which is told.
#[test]
fn an_encoder_is_converted_and_said_how_far_its_vectors_move() {
    let golden = root().join("host/reference/tests/golden");
    let model = golden.join("gguf-bert-first-token-q8_0/model.gguf");
    let texts = json!(["how wide", "the river is wide", "bread"]);
    let workspace = Workspace::new("");
    let before = vectors(&model, &texts);
    for (format, least, most) in [("int8", 0.999_999, 1.000_001), ("int4", 0.8, 0.9999)] {
        let arguments = [
            "model",
            "convert",
            model.to_str().unwrap(),
            format,
            "--to",
            format,
        ];
        let output = workspace.run(&[&arguments[..], &["--adapter", "cpu", "--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["loss"], Value::Null, "{report}");
        for key in ["cosine", "least_cosine"] {
            let cosine = report["encoded"][key].as_f64().unwrap();
            assert!(cosine >= least && cosine <= most, "{report}");
        }
        let written = workspace.path(format);
        assert!(written.join("1_Pooling/config.json").exists());
        assert!(!written.join(".tidegate-conversion").exists());
        let told = info(&workspace, &written);
        assert!(
            told.contains(&format!("stored as       {format} ")),
            "{told}"
        );
        let after = vectors(&written, &texts);
        for (before, after) in before.iter().zip(&after) {
            let cosine: f64 = before.iter().zip(after).map(|(a, b)| a * b).sum();
            assert!(cosine >= least && cosine <= most, "{format}: {cosine}");
        }
        assert_eq!(after.len(), 3);
    }
    // What stands before texts goes with the model.
    let from = golden.join("mistral-embedding-f16");
    let from = from.to_str().unwrap();
    let arguments = ["model", "convert", from, "prompted", "--to", "int8"];
    let output = workspace.run(&[&arguments[..], &["--adapter", "cpu"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let told = info(&workspace, &workspace.path("prompted"));
    let prompts = "\"passage\", \"query\"; \"passage\" where a stage names none";
    assert!(told.contains(prompts), "{told}");
    // A reranker is told by how far its scores move.
    let output = workspace.run(&[
        "model",
        "convert",
        golden.join("modernbert-relevance-f16").to_str().unwrap(),
        "ranks",
        "--to",
        "int8",
        "--adapter",
        "cpu",
    ]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("left as they are"), "{said}");
    assert!(
        said.contains("beside those before: 0.000 % apart"),
        "{said}"
    );
}
