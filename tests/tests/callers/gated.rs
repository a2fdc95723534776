//! A model of a serving engine whose steps a test lets go one by one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;
use tidegate_contract::{
    DecodeError, Decoder, DecoderShape, Makes, Model, ModelError, ModelFacts, Prompt, Request,
    RequestId, Sampled, StepSequence,
};
use tidegate_serving::{ModelHandle, ModelLoader, ModelOptions, ModelSource, ModelStats};
use tidegate_tests::until;
use tidegate_text::Tokenizer;

use crate::setting::PATIENCE;

/// The token of `word`, which is all that the model ever says.
const WORD: u32 = 3;
/// Rows of a step: a longer prompt goes in pieces.
pub(crate) const ROWS: usize = 32;

/// A word is a token.
fn tokenizer() -> Arc<Tokenizer> {
    let names = ["<unk>", "<s>", "</s>", "▁word"];
    let vocabulary: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let special = |id: usize| {
        json!({"id": id, "content": names[id], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "post_processor": null,
        "added_tokens": (0..3).map(special).collect::<Vec<_>>(),
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext", "invert": false},
        "decoder": {"type": "Sequence", "decoders": [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    let config = json!({"bos_token": "<s>", "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"});
    let (tokenizer, config) = (tokenizer.to_string(), config.to_string());
    Arc::new(Tokenizer::from_parts(tokenizer.as_bytes(), Some(config.as_bytes()), None).unwrap())
}

/// Which step is under way, and how many may be taken.
#[derive(Default)]
struct Steps {
    begun: usize,
    ended: usize,
    /// Steps that may end; none is as many as there are.
    may_end: Option<usize>,
}

/// Where each step waits for the test.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Steps>, Condvar)>);

impl Gate {
    fn with<T>(&self, act: impl FnOnce(&mut Steps) -> T) -> T {
        let result = act(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        result
    }

    /// Counts from here on, and lets no step end.
    pub(crate) fn hold(&self) {
        self.with(|steps| {
            *steps = Steps {
                may_end: Some(0),
                ..Steps::default()
            }
        });
    }

    /// Lets all steps end.
    pub(crate) fn run_free(&self) {
        self.with(|steps| steps.may_end = None);
    }

    /// One more step may end.
    pub(crate) fn step(&self) {
        self.with(|steps| *steps.may_end.get_or_insert(0) += 1);
    }

    /// Waits for the step of this number, counted from 1, to begin.
    pub(crate) fn has_begun(&self, number: usize) {
        until("a step begins", PATIENCE, || self.begun() >= number);
    }

    /// How many steps have begun.
    pub(crate) fn begun(&self) -> usize {
        self.with(|steps| steps.begun)
    }
}

struct Gated {
    shape: DecoderShape,
    gate: Gate,
}

impl Decoder for Gated {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn memory(&self) -> u64 {
        1
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.shape.check(step)?;
        let (steps, changed) = &*self.gate.0;
        let mut steps = steps.lock().unwrap();
        steps.begun += 1;
        changed.notify_all();
        while steps.may_end.is_some_and(|may| steps.ended >= may) {
            let (again, waited) = changed.wait_timeout(steps, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "the test lets no step end");
            steps = again;
        }
        steps.ended += 1;
        let samples = step.iter().flat_map(|sequence| &sequence.samples);
        sampled.clear();
        sampled.extend(samples.map(|_| Sampled {
            token: Some(WORD),
            ..Sampled::default()
        }));
        Ok(())
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        let rows = step.iter().map(|sequence| sequence.samples.len()).sum();
        *logits = [0.0, 0.0, 0.0, 1.0].repeat(rows);
        Ok(())
    }
}

/// The engine's model, and what the flow asks of it.
pub(crate) struct Watched {
    model: ModelHandle,
    submitted: Mutex<Vec<RequestId>>,
    cancelled: Mutex<Vec<RequestId>>,
}

impl Model for Watched {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        self.submitted.lock().unwrap().push(request.id);
        self.model.submit(request)
    }
    fn cancel(&self, id: RequestId) {
        self.model.cancel(id);
        self.cancelled.lock().unwrap().push(id);
    }
    fn end(&self, id: RequestId) {
        self.model.end(id);
    }
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        self.model.count_tokens(text)
    }
    fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        self.model.prompt_tokens(prompt)
    }
    fn makes(&self) -> Makes {
        self.model.makes()
    }
    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        self.model.truncate(text, tokens)
    }
    fn facts(&self) -> ModelFacts {
        self.model.facts()
    }
}

impl Watched {
    pub(crate) fn new(model: ModelHandle) -> Watched {
        Watched {
            model,
            submitted: Mutex::default(),
            cancelled: Mutex::default(),
        }
    }

    pub(crate) fn submitted(&self) -> Vec<RequestId> {
        self.submitted.lock().unwrap().clone()
    }

    pub(crate) fn cancelled(&self) -> Vec<RequestId> {
        self.cancelled.lock().unwrap().clone()
    }

    pub(crate) fn stats(&self) -> ModelStats {
        self.model.stats()
    }
}

/// A model that says one word for ever, a step at a time.
pub(crate) fn source(gate: &Gate) -> ModelSource {
    let gate = gate.clone();
    let load = move || {
        let shape = DecoderShape {
            vocabulary: 4,
            context: 256,
            blocks: 32,
            max_rows: ROWS,
            max_samples: ROWS,
            loras: 0,
        };
        let gate = gate.clone();
        Ok(Box::new(Gated { shape, gate }) as Box<dyn Decoder>)
    };
    ModelSource {
        tokenizer: tokenizer(),
        facts: ModelFacts {
            name: "gated".into(),
            digest: "sha256:00".into(),
            adapter: "none".into(),
            context: 0,
            sequences: 0,
        },
        bytes: 1,
        load: ModelLoader::Decoder(Box::new(load)),
        options: ModelOptions {
            look_ahead: 0,
            ..ModelOptions::default()
        },
    }
}
