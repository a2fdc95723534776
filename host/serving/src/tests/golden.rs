//! Whole: the float64 reference on the tiny models of every family, served in every way.

use tidegate_contract::{BLOCK, Decoder, DecoderShape, Model, Sampled, Sampling, StepSequence};
use tidegate_reference::{ReferenceDecoder, golden};
use tidegate_weights::{Checkpoint, ReadWhole};

use super::support::*;
use crate::{Draft, Engine, EngineOptions, LoadDecoder, ModelLoader, ModelOptions, ModelSource};

const CONTEXT: usize = 64;

fn checkpoint(name: &str) -> Checkpoint {
    Checkpoint::open(&golden::model(name), &ReadWhole).unwrap()
}

/// A tiny model knows fewer tokens than the tests' tokenizer: its own are the first of them, and the others, which it is
/// never given, stand for its last.
struct Widened {
    inner: ReferenceDecoder,
    shape: DecoderShape,
}

impl Widened {
    fn narrow(&self, step: &[StepSequence]) -> Vec<StepSequence> {
        let own = self.inner.shape().vocabulary as u32;
        let mut step = step.to_vec();
        for sequence in &mut step {
            for token in &mut sequence.tokens {
                *token %= own;
            }
            for sampling in &mut sequence.samples {
                assert!(sampling.allowed.is_none());
                sampling.adjustments.retain(|a| a.token < own);
            }
        }
        step
    }
}

impl Decoder for Widened {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn memory(&self) -> u64 {
        self.inner.memory()
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), tidegate_contract::DecodeError> {
        self.inner.step(&self.narrow(step), sampled)
    }

    fn logits(
        &mut self,
        step: &[StepSequence],
        logits: &mut Vec<f32>,
    ) -> Result<(), tidegate_contract::DecodeError> {
        self.inner.logits(&self.narrow(step), logits)
    }
}

fn widened(name: &str, blocks: usize, max_rows: usize) -> Widened {
    let inner = ReferenceDecoder::load(&checkpoint(name), CONTEXT, blocks, max_rows).unwrap();
    let mut shape = inner.shape().clone();
    shape.vocabulary = shape.vocabulary.max(VOCABULARY);
    Widened { inner, shape }
}

fn loader(name: &'static str, blocks: usize, max_rows: usize) -> LoadDecoder {
    Box::new(move || Ok(Box::new(widened(name, blocks, max_rows)) as Box<dyn Decoder>))
}

fn served(load: LoadDecoder, options: ModelOptions, asks: &[Ask]) -> Vec<Vec<u32>> {
    let engine = Engine::start(EngineOptions::default());
    let source = ModelSource {
        bytes: 0,
        ..source(ModelLoader::Decoder(load), options)
    };
    let model = engine.load("golden", source).unwrap();
    assert_eq!(model.facts().context as usize, CONTEXT);
    let pending: Vec<Pending> = asks.iter().map(|ask| ask.of(&model)).collect();
    pending.iter().map(|p| p.choice().tokens).collect()
}

/// A prompt and its answer, token by token, in one sequence and nothing beside it.
fn by_hand(name: &str, ask: &Ask) -> Vec<u32> {
    let mut decoder = widened(name, CONTEXT.div_ceil(BLOCK), CONTEXT);
    let mut tokens = prompt(&ask.content);
    let start = tokens.len();
    let mut sampled = Vec::new();
    while tokens.len() < CONTEXT && tokens.len() - start < ask.parameters.max_tokens as usize {
        // Everything anew each time: no cache to be wrong.
        let step = [StepSequence {
            lora: 0,
            position: 0,
            tokens: tokens.clone(),
            blocks: (0..CONTEXT.div_ceil(BLOCK) as u32).collect(),
            samples: vec![Sampling {
                temperature: ask.parameters.temperature,
                seed: ask.seed,
                index: (tokens.len() - start) as u32,
                ..Sampling::default()
            }],
        }];
        decoder.step(&step, &mut sampled).unwrap();
        match sampled[0].token.unwrap() {
            EOS => break,
            token => tokens.push(token),
        }
    }
    tokens.split_off(start)
}

fn asks() -> Vec<Ask> {
    (0..8)
        .map(|n| {
            let mut ask = ask(&format!("the same beginning {n}"), 14);
            ask.seed = n;
            ask.parameters.temperature = if n % 2 == 0 { 0.0 } else { 0.8 };
            ask
        })
        .collect()
}

#[test]
fn every_family_gives_the_same_tokens_in_every_way_of_serving() {
    for name in golden::DECODERS {
        let asks = asks();
        let wanted: Vec<Vec<u32>> = asks.iter().map(|ask| by_hand(name, ask)).collect();
        assert!(wanted.iter().any(|tokens| tokens.len() > 5), "{wanted:?}");
        for (batch, rows, blocks) in [(1, 64, 4), (3, 24, 12), (8, 64, 32), (8, 9, 7)] {
            let got = served(loader(name, blocks, rows), at_once(batch), &asks);
            assert_eq!(
                got, wanted,
                "{name} at batch {batch}, {rows} rows, {blocks} blocks"
            );
        }
        // Resumed in the middle.
        let resumed: Vec<Ask> = asks
            .iter()
            .zip(&wanted)
            .map(|(ask, tokens)| Ask {
                prefix: tokens[..tokens.len() / 2].to_vec(),
                ..ask.clone()
            })
            .collect();
        let got = served(loader(name, 16, 32), at_once(4), &resumed);
        assert_eq!(got, wanted, "{name} resumed");
    }
}

#[test]
fn a_draft_of_another_family_changes_nothing() {
    let mut names = golden::DECODERS.iter().copied();
    let name = names.next().unwrap();
    let asks = asks();
    let wanted: Vec<Vec<u32>> = asks.iter().map(|ask| by_hand(name, ask)).collect();
    let size = |name: &str| widened(name, 4, 8).shape.vocabulary;
    let alike = names.find(|other| size(other) == size(name)).unwrap();
    for draft in [name, alike] {
        let options = ModelOptions {
            draft: Some(Draft {
                load: loader(draft, 32, 32),
                bytes: 0,
            }),
            ..at_once(4)
        };
        let got = served(loader(name, 32, 64), options, &asks);
        assert_eq!(got, wanted, "guessed by {draft}");
    }
}
