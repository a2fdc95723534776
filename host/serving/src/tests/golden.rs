//! The demo's model against the float64 answers that its training wrote: `examples/support-bot/training/golden.json`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tidegate_contract::{Finish, Message, Model, Role};
use tidegate_text::Tokenizer;

use super::support::{Ask, Pending, ask, facts};
use crate::decoder::{Decoder, DecoderOptions, GpuDecoder};
use crate::device::Adapter;
use crate::serving::{Engine, EngineOptions, LoadOptions, load_model};
use crate::{ModelConfig, ReferenceDecoder, Weights};

#[derive(Deserialize)]
struct Case {
    prompt: String,
    prompt_ids: Vec<u32>,
    answer_ids: Vec<u32>,
}

const EOS: u32 = 2;
const MOST: u32 = 24;

fn bot() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/support-bot")
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&std::fs::read(bot().join("training/golden.json")).unwrap()).unwrap()
}

/// The chat behind a rendered prompt.
fn messages(prompt: &str) -> Vec<Message> {
    let body = prompt
        .strip_prefix("<|bos|>")
        .unwrap()
        .strip_suffix("<|assistant|>")
        .unwrap();
    let (system, user) = body.split_once("<|user|>").unwrap();
    let system = system
        .strip_prefix("<|system|>")
        .map(|content| (Role::System, content));
    let chat = system.into_iter().chain([(Role::User, user)]);
    chat.map(|(role, content)| Message {
        role,
        content: content.to_owned(),
    })
    .collect()
}

impl Case {
    fn of(&self, engine: &Engine, prefix: usize) -> Pending {
        let (mut request, pending) = Ask {
            prefix: self.answer_ids[..prefix].to_vec(),
            ..ask("", MOST)
        }
        .request();
        request.messages = messages(&self.prompt);
        assert!(engine.submit(request).is_ok());
        pending
    }

    fn check(&self, pending: &Pending, how: &str) {
        let answer = pending.answer();
        let mut tokens = answer.tokens;
        if answer.finish == Finish::End {
            tokens.push(EOS);
        }
        assert_eq!(tokens, self.answer_ids, "{how}: {}", self.prompt);
        assert_eq!(answer.prompt_tokens as usize, self.prompt_ids.len());
    }
}

fn options() -> DecoderOptions {
    DecoderOptions {
        slots: 4,
        context: 256,
        max_rows: 24,
        ..DecoderOptions::default()
    }
}

/// Alone, together in fewer slots than requests, and resumed in the middle.
fn reproduces(engine: &Engine) {
    let cases = cases();
    for case in &cases[..2] {
        case.check(&case.of(engine, 0), "alone");
    }
    let together: Vec<Pending> = cases.iter().map(|case| case.of(engine, 0)).collect();
    for (case, pending) in cases.iter().zip(&together) {
        case.check(pending, "together");
    }
    let resumed: Vec<Pending> = cases
        .iter()
        .map(|case| case.of(engine, case.answer_ids.len() / 2))
        .collect();
    for (case, pending) in cases.iter().zip(&resumed) {
        case.check(pending, "resumed");
    }
}

fn engine(decoder: Box<dyn Decoder>) -> Engine {
    let tokenizer = Arc::new(Tokenizer::from_dir(bot().join("model")).unwrap());
    Engine::start(decoder, tokenizer, facts(), EngineOptions::default())
}

#[test]
fn the_demos_prompts_are_those_of_its_training() {
    let tokenizer = Tokenizer::from_dir(bot().join("model")).unwrap();
    for case in cases() {
        assert_eq!(tokenizer.encode(&case.prompt).unwrap(), case.prompt_ids);
    }
}

#[test]
fn the_float64_decoder_gives_the_golden_answers() {
    let (config, weights) = parts();
    reproduces(&engine(Box::new(
        ReferenceDecoder::load(&config, &weights, &options()).unwrap(),
    )));
}

#[test]
fn the_gpu_decoder_gives_the_golden_answers() {
    let (config, weights) = parts();
    let adapter = Adapter::choose(Some(&selector())).unwrap();
    reproduces(&engine(Box::new(
        GpuDecoder::load(&adapter, &config, weights, options()).unwrap(),
    )));
}

#[test]
fn a_model_is_loaded_from_its_directory() {
    let options = LoadOptions {
        decoder: DecoderOptions {
            context: 1 << 20,
            ..options()
        },
        ..LoadOptions::default()
    };
    let engine = load_model(bot().join("model"), Some(&selector()), options).unwrap();
    let facts = engine.facts();
    assert_eq!(
        (facts.name.as_str(), facts.context, facts.sequences),
        ("model", 512, 4)
    );
    assert!(facts.digest.starts_with("sha256:") && facts.digest.len() == 7 + 64);
    let case = &cases()[0];
    case.check(&case.of(&engine, 0), "loaded");
}

#[test]
fn a_tokenizer_that_knows_more_than_the_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = bot().join("model");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(model.join(file), dir.path().join(file)).unwrap();
    }
    let config = std::fs::read_to_string(model.join("config.json")).unwrap();
    std::fs::write(
        dir.path().join("config.json"),
        config.replace("2048", "2000"),
    )
    .unwrap();
    let error = load_model(dir.path(), Some("cpu"), LoadOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tokenizer has 2048 tokens, the model only 2000"
    );
}

/// The adapter the tests run on: `TIDEGATE_ADAPTER` as on the command line, else the software one.
fn selector() -> String {
    std::env::var("TIDEGATE_ADAPTER").unwrap_or_else(|_| "cpu".to_owned())
}

fn parts() -> (ModelConfig, Weights) {
    let model = bot().join("model");
    (
        ModelConfig::from_dir(&model).unwrap(),
        Weights::open(&model).unwrap(),
    )
}
