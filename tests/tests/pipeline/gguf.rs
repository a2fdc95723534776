//! GGUF files as people have them: in formats without kernels, in parts, without a way to split texts, and of models that are
//! not read.

use std::path::PathBuf;

use serde_json::Value;
use tidegate_tests::{Workspace, root};

use crate::models::{asking, demo_model};

fn golden(name: &str, file: &str) -> PathBuf {
    root()
        .join("host/reference/tests/golden")
        .join(name)
        .join(file)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What `model info` prints of a file, as lines and as JSON, and whether it is refused.
fn info(workspace: &Workspace, arguments: &[&str], refused: bool) -> (String, Value) {
    let mut arguments: Vec<&str> = [&["model", "info"], arguments].concat();
    let said = workspace.run(&arguments);
    let lines = text(&said.stdout);
    let expected = if refused { Some(1) } else { Some(0) };
    assert_eq!(
        said.status.code(),
        expected,
        "{lines}{}",
        text(&said.stderr)
    );
    arguments.push("--json");
    let json = workspace.run(&arguments);
    assert_eq!(json.status.code(), expected, "{}", text(&json.stderr));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["loads"], Value::Bool(!refused), "{json}");
    (lines, json)
}

#[test]
fn a_gguf_file_that_is_refused_is_told_with_what_would_work() {
    let workspace = Workspace::new("");
    let mut bytes = std::fs::read(golden("gguf-llama-q5_1", "model.gguf")).unwrap();
    let key = b"general.architecture";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap() + key.len() + 4 + 8;
    bytes[at..at + 5].copy_from_slice(b"phi-2");
    workspace.write("phi.gguf", &bytes);
    let (lines, json) = info(&workspace, &["phi.gguf"], true);
    for words in [
        "architecture    phi-2",
        "tensors, \"gguf-llama-q5_1\"",
        "q5_1 0.02 MiB in 15 tensors, held as int8",
        "llama, 80 tokens, no chat template",
        "`general.architecture` is phi-2, supported: llama, smollm3",
        "what would work Phi-3 (phi3)",
    ] {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    assert_eq!(json["nearest"], "Phi-3 (phi3)", "{json}");
    assert_eq!(json["gguf"]["formats"][0]["name"], "q5_1", "{json}");

    workspace.write("torn.gguf", &bytes[..300]);
    let (lines, json) = info(&workspace, &["torn.gguf"], true);
    assert!(lines.contains("whose header cannot be read"), "{lines}");
    assert!(lines.contains("what would work the whole file"), "{lines}");
    assert!(json["gguf"]["error"].is_string(), "{json}");

    let part = "model-00002-of-00003.gguf";
    let bytes = std::fs::read(golden("gguf-llama-q8_0-parts", part)).unwrap();
    workspace.write(part, bytes);
    let (lines, json) = info(&workspace, &[part], true);
    assert!(lines.contains("GGUF in 3 parts"), "{lines}");
    assert!(
        lines.contains("model-00003-of-00003.gguf: is not there"),
        "{lines}"
    );
    assert!(
        lines.contains("all 3 parts in one directory; 2 of them are not there"),
        "{lines}"
    );
    assert_eq!(json["gguf"]["parts"][0]["bytes"], Value::Null, "{json}");
}

#[test]
fn a_gguf_file_in_parts_is_looked_at_by_any_of_them() {
    let workspace = Workspace::new("");
    for part in 1..=3 {
        let path = golden(
            "gguf-llama-q8_0-parts",
            &format!("model-{part:05}-of-00003.gguf"),
        );
        let (lines, json) = info(&workspace, &[path.to_str().unwrap()], false);
        assert!(lines.contains("GGUF in 3 parts"), "{lines}");
        assert_eq!(json["gguf"]["parts"].as_array().unwrap().len(), 3);
        assert_eq!(json["reencoded"], Value::Array(Vec::new()), "{json}");
    }
}

/// A GGUF file with a text more among its keys.
fn with_key(mut bytes: Vec<u8>, key: &str, value: &str) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        [text(key), 8u32.to_le_bytes().to_vec(), text(value)].concat()
    };
    let mut more = entry(key, value);
    // Tensors stay where a multiple of 32 begins.
    let filling = 32 - (more.len() + entry("filling", "").len()) % 32;
    more.extend(entry("filling", &"x".repeat(filling)));
    let count = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    bytes[16..24].copy_from_slice(&(count + 2).to_le_bytes());
    bytes.splice(24..24, more);
    bytes
}

#[test]
fn a_gguf_file_whose_splitting_may_not_be_known_is_said_to_be_so() {
    let workspace = Workspace::new("");
    let bytes = std::fs::read(golden("gguf-llama-q5_0", "model.gguf")).unwrap();
    let model = with_key(bytes, "tokenizer.ggml.pre", "default");
    workspace.write("default.gguf", &model);
    let (lines, json) = info(&workspace, &["default.gguf"], false);
    assert!(
        lines.contains("splits texts    as `default`, which converters also write"),
        "{lines}"
    );
    assert!(json["nearest"].is_string(), "{json}");
    // Whoever names one knows.
    let named = ["--pre-tokenizer", "gpt-2", "default.gguf"];
    let (lines, json) = info(&workspace, &named, false);
    assert!(!lines.contains("splits texts"), "{lines}");
    assert_eq!(json["nearest"], Value::Null, "{json}");
    // What another key lacks is not mended by a name.
    let at = model
        .windows(21)
        .position(|w| w == b"tokenizer.ggml.merges");
    let mut torn = model;
    torn[at.unwrap()..][..21].copy_from_slice(b"tokenizer.ggml.margin");
    workspace.write("torn.gguf", &torn);
    let (lines, json) = info(&workspace, &["torn.gguf"], false);
    assert!(lines.contains("tokenizer.ggml.merges"), "{lines}");
    assert_eq!(json["nearest"], Value::Null, "{lines}");
}

#[test]
fn what_other_tools_quantized_is_told_with_what_it_is_held_in() {
    let workspace = Workspace::new("");
    for (name, stored, held, words) in [
        (
            "gptq-llama-int4",
            "gptq int4",
            "int4",
            "no kernel reads gptq int4",
        ),
        (
            "compressed-llama-int8",
            "compressed int8",
            "int8",
            "in f32, int8, ",
        ),
        ("fp8-qwen3-blocks", "fp8", "int8", "no kernel reads fp8"),
    ] {
        let model = golden(name, "");
        let (lines, json) = info(&workspace, &[model.to_str().unwrap()], false);
        assert!(lines.contains(words), "{lines}");
        let of = json["reencoded"].as_array().unwrap();
        let of = of.iter().find(|of| of["held"] == held);
        assert_eq!(of.unwrap()["stored"], stored, "{json}");
        assert!(json["stored_bytes"][stored].as_u64() > Some(0), "{json}");
    }
}

#[test]
fn a_gguf_file_that_does_not_say_how_texts_are_split_runs_once_that_is_named() {
    let model = golden("gguf-llama-q5_0", "model.gguf");
    let model = model.to_str().unwrap();
    let workspace = Workspace::new("");
    workspace.write(
        "tickets.jsonl",
        "{\"customer\":\"a\",\"text\":\"the cat\"}\n",
    );
    let (lines, json) = info(&workspace, &[model], false);
    for words in [
        "cannot be used: tokenizer.ggml.pre: there is none",
        "by the key pre-tokenizer of the model in the pipeline file, or by --pre-tokenizer: one of default, gpt-2,",
        "held as         0.02 MiB in int8",
    ] {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    assert_eq!(json["reencoded"][0]["stored"], "q5_0", "{json}");
    assert!(json["nearest"].is_string(), "{json}");
    let (lines, _) = info(&workspace, &["--pre-tokenizer", "gpt-2", model], false);
    assert!(lines.contains("no chat template: prompts are"), "{lines}");

    let pipeline = asking("max-tokens = 4\norder = \"partition\"").replace("context = 256\n", "");
    let pipeline = pipeline.replace(demo_model().to_str().unwrap(), model);
    let refused = |pipeline: &str, words: &str| {
        workspace.pipeline(pipeline);
        let checked = workspace.run(&["check", "pipeline.toml"]);
        let said = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(&pipeline, "by the key pre-tokenizer of the model");
    let named = |name: &str| {
        pipeline.replace(
            "sequences = 16",
            &format!("sequences = 16\npre-tokenizer = \"{name}\""),
        )
    };
    refused(&named("viking"), "\"viking\" is not known, only default,");
    let directory = named("gpt-2").replace(model, demo_model().to_str().unwrap());
    refused(&directory, "leave out the pre-tokenizer \"gpt-2\"");

    workspace.pipeline(&named("gpt-2"));
    let ran = workspace.run(&["run", "--log", "info", "pipeline.toml"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert_eq!(workspace.json_lines("out.jsonl").len(), 1, "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("no kernel reads this format, it is held as int8"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("q5_0") && line.contains("rms_loss"), "{line}");
}
