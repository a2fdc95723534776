//! Requests that come together: the time to the first token of 32 equal prompts, and tokens a second of answers with a form.
//!
//! The engine, its scheduler and its structures are those of a run. The decoder is none: it sleeps as long as a device
//! would compute, 2 ms for a step and 40 us for each of its rows, and what it draws are numbers by chance, by the rules that
//! kernels are held to. A token is a byte, so that a form has many tokens that must come; with a vocabulary of words there are
//! fewer. And what choosing a replica adds to a request's submission, on the thread of whoever asks. A line of JSON for each
//! measurement, the median of its rounds.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_contract::{
    Answer, DecodeError, Decoder, DecoderShape, Made, Message, Model, ModelError, ModelFacts,
    ModelTask, Parameters, Prompt, Reply, Request, RequestId, Role, Sampled, StepSequence,
    Structure,
};
use tidegate_reference::sampling::draw;
use tidegate_serving::{
    Engine, EngineOptions, ModelHandle, ModelLoader, ModelOptions, ModelSource, load_replicas,
};
use tidegate_text::Tokenizer;

const STEP: Duration = Duration::from_millis(2);
const ROW: Duration = Duration::from_micros(40);
const ROUNDS: usize = 9;
const SPECIAL: [&str; 4] = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>"];
const VOCABULARY: usize = 256 + SPECIAL.len();

struct Sleeps(DecoderShape);

impl Decoder for Sleeps {
    fn shape(&self) -> &DecoderShape {
        &self.0
    }

    fn memory(&self) -> u64 {
        0
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        let until = Instant::now() + STEP;
        let rows: usize = step.iter().map(|sequence| sequence.tokens.len()).sum();
        let until = until + ROW * rows as u32;
        sampled.clear();
        let samplings = step.iter().flat_map(|sequence| &sequence.samples);
        sampled.extend(samplings.map(|sampling| {
            // By seed and place, so that answers are the same however they come about.
            let of = |token: u32| {
                (token.wrapping_mul(2_654_435_761) ^ sampling.index.wrapping_mul(40_503)) >> 8
            };
            let mut logits: Vec<f32> = (0..VOCABULARY as u32)
                .map(|token| (of(token) % 1000) as f32 / 250.0)
                .collect();
            // It does not end by itself.
            logits[1] = -1e3;
            draw(&logits, sampling)
        }));
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        let rows: usize = step.iter().map(|sequence| sequence.samples.len()).sum();
        *logits = vec![0.0; rows * VOCABULARY];
        Ok(())
    }
}

/// A token is a byte.
fn tokenizer() -> Arc<Tokenizer> {
    let mut vocabulary = serde_json::Map::new();
    for (id, name) in SPECIAL.iter().enumerate() {
        vocabulary.insert((*name).into(), json!(id));
    }
    let mut next = 256;
    for value in 0..=255u8 {
        let plain = matches!(value, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if plain { u32::from(value) } else { next };
        next += u32::from(!plain);
        let id = u32::from(value) + SPECIAL.len() as u32;
        vocabulary.insert(char::from_u32(code).unwrap().to_string(), json!(id));
    }
    let special = |id: usize| {
        json!({"id": id, "content": SPECIAL[id], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": (0..SPECIAL.len()).map(special).collect::<Vec<_>>(),
        "pre_tokenizer": bytes, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    let config = json!({"bos_token": "<|bos|>", "eos_token": "<|eos|>",
        "chat_template": "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"});
    let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
    let made = Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None);
    Arc::new(made.unwrap())
}

fn model(engine: &Engine, max_rows: usize) -> ModelHandle {
    engine.load("sleeps", source(max_rows)).unwrap()
}

fn source(max_rows: usize) -> ModelSource {
    let shape = DecoderShape {
        vocabulary: VOCABULARY,
        context: 1024,
        blocks: 32 * 64,
        max_rows,
        max_samples: max_rows.min(256),
        loras: 0,
    };
    let load = move || Ok(Box::new(Sleeps(shape.clone())) as Box<dyn Decoder>);
    ModelSource {
        tokenizer: tokenizer(),
        facts: ModelFacts {
            name: "sleeps".into(),
            digest: String::new(),
            adapter: "none".into(),
            context: 0,
            sequences: 0,
        },
        bytes: 0,
        load: ModelLoader::Decoder(Box::new(load)),
        options: ModelOptions::default(),
    }
}

enum Heard {
    First(Duration),
    Done(usize, String),
}

struct Ear {
    began: Instant,
    tell: Sender<Heard>,
}

impl Reply for Ear {
    fn token(&mut self, index: u32, _: u32, _: &str) {
        if index == 0 {
            self.tell.send(Heard::First(self.began.elapsed())).unwrap();
        }
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        let Made::Choices(choices) = result.unwrap().made else {
            unreachable!("choices")
        };
        let heard = Heard::Done(choices[0].tokens.len(), choices[0].text.clone());
        self.tell.send(heard).unwrap();
    }
}

/// What a round of requests came to.
struct Round {
    first: Vec<Duration>,
    tokens: usize,
    texts: Vec<String>,
    took: Duration,
}

fn round(model: &ModelHandle, contents: &[String], parameters: &Parameters) -> Round {
    let (tell, heard) = channel();
    let began = Instant::now();
    for (number, content) in contents.iter().enumerate() {
        let request = Request {
            id: RequestId(number as u64),
            attempt: 1,
            seed: number as u64,
            task: ModelTask::Generate {
                prompt: Prompt::Chat(vec![Message::new(Role::User, content.clone())].into()),
                forced_prefix: Vec::new(),
                parameters: parameters.clone(),
            },
            class: 0,
            deadline: None,
            reply: Box::new(Ear {
                began,
                tell: tell.clone(),
            }),
        };
        assert!(model.submit(request).is_ok());
    }
    drop(tell);
    let (mut first, mut tokens, mut texts) = (Vec::new(), 0, Vec::new());
    for heard in heard {
        match heard {
            Heard::First(after) => first.push(after),
            Heard::Done(made, text) => {
                tokens += made;
                texts.push(text);
            }
        }
    }
    first.sort_unstable();
    texts.sort_unstable();
    Round {
        first,
        tokens,
        texts,
        took: began.elapsed(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn equal_prompts(max_rows: usize) {
    let engine = Engine::start(EngineOptions::default());
    let model = model(&engine, max_rows);
    let parameters = Parameters {
        max_tokens: 8,
        ..Parameters::default()
    };
    let before = model.stats();
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|number| {
            // 500 tokens with those of the template, and another prompt in each round: none is in the cache.
            let content = format!("{number:03} {}", "x".repeat(493));
            round(&model, &vec![content; 32], &parameters)
        })
        .collect();
    let milliseconds = |of: fn(&Round) -> Duration| {
        median(rounds.iter().map(|r| of(r).as_secs_f64() * 1e3).collect())
    };
    let after = model.stats();
    let line = json!({
        "what": "32 equal prompts of 500 tokens", "rows_of_a_step": max_rows,
        "first_token_of_the_first_ms": milliseconds(|r| r.first[0]),
        "first_token_of_the_middle_ms": milliseconds(|r| r.first[16]),
        "first_token_of_the_last_ms": milliseconds(|r| r.first[31]),
        "prompt_tokens_computed_a_round": (after.prompt_tokens - before.prompt_tokens) / ROUNDS as u64,
    });
    println!("{line}");
}

fn forms(batch: usize) {
    let engine = Engine::start(EngineOptions::default());
    let model = model(&engine, 512);
    let schema = r#"{"type": "object", "additionalProperties": false,
        "required": ["category", "priority", "reason"], "properties": {
        "category": {"enum": ["delivery", "payment", "account", "other"]},
        "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        "reason": {"type": "string", "maxLength": 20}}}"#;
    let parameters = Parameters {
        max_tokens: 200,
        temperature: 0.7,
        structure: Some(Structure::JsonSchema(schema.into())),
        ..Parameters::default()
    };
    let contents: Vec<String> = (0..batch).map(|n| format!("record {n}")).collect();
    // The form is compiled once.
    round(&model, &contents, &parameters);
    let before = model.stats();
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|_| round(&model, &contents, &parameters))
        .collect();
    let after = model.stats();
    assert!(rounds.iter().all(|r| r.texts == rounds[0].texts));
    let rates = rounds
        .iter()
        .map(|r| r.tokens as f64 / r.took.as_secs_f64());
    let line = json!({
        "what": "answers to a JSON Schema", "at_a_time": batch,
        "tokens_a_second": median(rates.collect()),
        "tokens_a_round": rounds[0].tokens,
        "steps_a_round": (after.steps - before.steps) / ROUNDS as u64,
        "texts": rounds[0].texts.first(),
    });
    println!("{line}");
}

struct Deaf;

impl Reply for Deaf {
    fn token(&mut self, _: u32, _: u32, _: &str) {}

    fn done(self: Box<Self>, _: Result<Answer, ModelError>) {}
}

/// Microseconds of a submission: the prompt is rendered and encoded, and a replica is chosen.
fn choosing(replicas: usize) {
    const REQUESTS: u64 = 512;
    let first = Engine::start(EngineOptions::default());
    let others: Vec<Engine> = (1..replicas).map(|_| first.start_beside()).collect();
    let engines = std::iter::once(&first).chain(&others);
    let sources = engines.map(|engine| (engine, source(512)));
    let model = load_replicas("sleeps", sources.collect(), &[]).unwrap();
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        for number in 0..REQUESTS {
            let content = format!("{number:03} {}", "x".repeat(393));
            let request = Request {
                id: RequestId(number),
                attempt: 1,
                seed: number,
                task: ModelTask::Generate {
                    prompt: Prompt::Chat(vec![Message::new(Role::User, content)].into()),
                    forced_prefix: Vec::new(),
                    parameters: Parameters {
                        max_tokens: 1,
                        ..Parameters::default()
                    },
                },
                class: 0,
                deadline: None,
                reply: Box::new(Deaf),
            };
            assert!(model.submit(request).is_ok());
        }
        let took = began.elapsed().as_secs_f64() * 1e6 / REQUESTS as f64;
        // What is asked is no part of it: the next round begins when nothing is left of this one.
        for number in 0..REQUESTS {
            model.cancel(RequestId(number));
        }
        while model.stats().waiting + model.stats().running > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        took
    });
    let line = json!({
        "what": "submissions of prompts of 400 tokens", "replicas": replicas,
        "submission_us": median(rounds.collect()),
    });
    println!("{line}");
}

fn main() {
    for replicas in [1, 2, 4, 16] {
        choosing(replicas);
    }
    for max_rows in [512, 2048, 8192] {
        equal_prompts(max_rows);
    }
    for batch in [1, 8, 32] {
        forms(batch);
    }
}
