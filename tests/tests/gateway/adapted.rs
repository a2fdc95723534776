//! A base and its low-rank adapters behind the gateway: each by its name, side by side, read again with their base.

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::{Map, Value, json};
use tidegate_tests::adapter::{HIDDEN, LAYERS, safetensors, write_adapter};
use tidegate_tests::{Workspace, root};

use crate::client::{Served, model, read};

const CHAT: &str = "/v1/chat/completions";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Writes another adapter in the place of `polite`.
fn write_polite(workspace: &Workspace, seed: u64, width: usize) {
    write_adapter(&workspace.path("polite"), seed, width);
}

fn pipeline() -> String {
    format!(
        r#"
[pipeline]
name = "adapted"
[gateway]
address = "127.0.0.1:0"
[source.plain]
type = "gateway"
[source.polite]
type = "gateway"
{}sequences = 8
[model.polite]
type = "lora"
base = "support"
path = "polite"
[[stage]]
name = "answer"
model = "support"
messages = true
max-tokens = 16
order = "none"
inputs = ["plain"]
[[stage]]
name = "answer-politely"
model = "polite"
messages = true
max-tokens = 16
order = "none"
inputs = ["polite"]
[sink.reply]
type = "gateway"
inputs = ["answer"]
[sink.polite-reply]
type = "gateway"
inputs = ["answer-politely"]
"#,
        model()
    )
}

/// The demo's model without its last layer.
fn write_shorter_base(workspace: &Workspace) {
    let from = root().join("examples/support-bot/model");
    std::fs::create_dir_all(workspace.path("shorter")).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        workspace.write(
            &format!("shorter/{name}"),
            std::fs::read(from.join(name)).unwrap(),
        );
    }
    let config = std::fs::read(from.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["num_hidden_layers"], LAYERS);
    config["num_hidden_layers"] = json!(LAYERS - 1);
    workspace.write("shorter/config.json", config.to_string());
    let file = std::fs::read(from.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let (header, all) = file[8..].split_at(length);
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let last = format!("model.layers.{}.", LAYERS - 1);
    let (mut kept, mut data) = (Map::new(), Vec::new());
    for (name, mut tensor) in header {
        if name == "__metadata__" || name.starts_with(&last) {
            continue;
        }
        let at = |index: usize| tensor["data_offsets"][index].as_u64().unwrap() as usize;
        let bytes = &all[at(0)..at(1)];
        tensor["data_offsets"] = json!([data.len(), data.len() + bytes.len()]);
        data.extend_from_slice(bytes);
        kept.insert(name, tensor);
    }
    workspace.write("shorter/model.safetensors", safetensors(kept, &data));
}

fn asking(model: &str, question: usize) -> Value {
    let content = format!("My parcel number {question} came too late.");
    json!({"model": model, "temperature": 0, "messages": [{"role": "user", "content": content}]})
}

fn said(body: &Value) -> String {
    let content = &body["choices"][0]["message"]["content"];
    content
        .as_str()
        .unwrap_or_else(|| panic!("{body}"))
        .to_owned()
}

const QUESTIONS: usize = 3;

/// The answers to each question through each of both names.
type Answers = BTreeMap<(&'static str, usize), String>;

fn alone(served: &Served) -> Answers {
    let mut answers = Answers::new();
    for model in ["support", "polite"] {
        for question in 0..QUESTIONS {
            let got = served.post(CHAT, &asking(model, question));
            assert_eq!(got.status, 200, "{got:?}");
            assert_eq!(got.json()["model"], model);
            answers.insert((model, question), said(&got.json()));
        }
    }
    answers
}

/// The same, all asked before any is read.
fn side_by_side(served: &Served) -> Answers {
    let mut streams = Vec::new();
    for question in 0..QUESTIONS {
        for model in ["support", "polite"] {
            let body = asking(model, question).to_string();
            streams.push(((model, question), served.open("POST", CHAT, &JSON, &body)));
        }
    }
    let answers = streams.into_iter().map(|(of, mut stream)| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        (of, said(&read(&bytes).json()))
    });
    answers.collect()
}

fn of<'a>(answers: &'a Answers, model: &str) -> Vec<&'a str> {
    let of = answers.iter().filter(|((name, _), _)| *name == model);
    of.map(|(_, answer)| answer.as_str()).collect()
}

#[test]
fn an_adapter_answers_by_its_name_beside_its_base_and_is_read_again_with_it() {
    let workspace = Workspace::new(&pipeline());
    write_polite(&workspace, 1, HIDDEN);
    let served = Served::again(workspace);
    let list = served.send("GET", "/v1/models", &[], "").json();
    let names = list["data"].as_array().unwrap().iter();
    let mut names: Vec<&str> = names.map(|model| model["id"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["polite", "support"]);

    let first = alone(&served);
    assert_ne!(of(&first, "polite"), of(&first, "support"));
    assert_eq!(side_by_side(&served), first);
    let polite = |name: &str, more: &str| {
        let labels = format!("{{model=\"support\",lora=\"polite\"{more}}}");
        served.metric(&format!("tidegate_lora_{name}{labels}"))
    };
    assert_eq!(polite("answered_requests_total", ""), 2 * QUESTIONS as u64);
    assert_eq!(
        served.of_model("answered_requests_total"),
        4 * QUESTIONS as u64
    );
    let generated = polite("tokens_total", ",kind=\"generated\"");
    assert!(
        generated > 0 && generated < served.generated(),
        "{generated}"
    );

    let load = |more: &[&str]| {
        let arguments = [
            &["model", "load", "support"],
            more,
            &["--pipeline", "pipeline.toml"],
        ];
        served.workspace.run(&arguments.concat())
    };
    write_polite(&served.workspace, 2, HIDDEN);
    let loaded = load(&[]);
    assert!(loaded.status.success(), "{loaded:?}");
    let second = alone(&served);
    assert_eq!(of(&second, "support"), of(&first, "support"));
    assert_ne!(of(&second, "polite"), of(&first, "polite"));
    assert_eq!(side_by_side(&served), second);

    // An adapter that does not fit its base any more, and a base that the adapter does not fit: refused by the adapter's name, and
    // what was there goes on.
    let refused = |more: &[&str], words: &[&str]| {
        let refused = load(more);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let told = String::from_utf8(refused.stderr).unwrap();
        for words in ["model.polite"].iter().chain(words) {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert_eq!(alone(&served), second);
    };
    write_polite(&served.workspace, 3, HIDDEN / 2);
    refused(
        &[],
        &["layers.0.self_attn.q_proj.lora_A", "[4, 64]", "[4, 128]"],
    );
    write_polite(&served.workspace, 3, HIDDEN);
    write_shorter_base(&served.workspace);
    refused(&["shorter"], &["adapts layer 4", "the base has 4 layers"]);

    // Another base that it fits.
    let demo = root().join("examples/support-bot/model");
    let demo = demo.to_str().unwrap();
    let converted = served
        .workspace
        .run(&["model", "convert", demo, "int8", "--to", "int8"]);
    assert!(converted.status.success(), "{converted:?}");
    let loaded = load(&["int8"]);
    assert!(loaded.status.success(), "{loaded:?}");
    let third = alone(&served);
    assert_ne!(of(&third, "polite"), of(&second, "polite"));
    assert_ne!(of(&third, "polite"), of(&third, "support"));
    assert_eq!(side_by_side(&served), third);
}
