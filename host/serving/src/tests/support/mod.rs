//! A tokenizer of bytes, a decoder that a test can hold, a reply that collects, and an oracle.

mod ask;
mod fake;
mod oracle;
mod phased;
mod sleeping;
mod tags;
mod words;

pub(crate) use ask::{Ask, Dice, Pending, Token, Told, ask};
pub(crate) use fake::{Control, Fake, Logits, Then, hashed, local, scripted, through};
pub(crate) use oracle::{alone, choice_alone};
pub(crate) use phased::{Event, Events, Hook, Phase, phased};
pub(crate) use sleeping::{DeviceTime, sleeping};
pub(crate) use tags::{tagged, tokens_of, with_added, with_special};
pub(crate) use words::{EOS, PARIS, VOCABULARY, byte, bytes, pairing, prompt, tokenizer, words};

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{DecoderShape, ModelFacts};

use crate::{Engine, EngineOptions, ModelHandle, ModelLoader, ModelOptions, ModelSource};

/// Longest wait of a test; none comes near it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The stop string of an answer that panics there from its third token on: in its `text`, its `mask`, its `choice`, the `plan` of
/// its next step, that of a step `ahead`, a `guess`, the `matcher` in one, when it is to `forget` them after that, or when it gives its `blocks` back.
pub(crate) fn panics(at: &str) -> String {
    format!("\u{7}panics in its {at}")
}

/// A decoder with room for `sequences` of full length.
pub(crate) fn shape(sequences: usize, max_rows: usize, context: usize) -> DecoderShape {
    DecoderShape {
        loras: 0,
        vocabulary: VOCABULARY,
        context,
        blocks: sequences * context.div_ceil(16),
        max_rows,
        max_samples: max_rows,
    }
}

pub(crate) fn facts() -> ModelFacts {
    ModelFacts {
        name: "fake".into(),
        digest: String::new(),
        adapter: "none".into(),
        context: 0,
        sequences: 0,
    }
}

/// A source that loads what `load` makes.
pub(crate) fn source(load: ModelLoader, options: ModelOptions) -> ModelSource {
    ModelSource {
        tokenizer: tokenizer(),
        facts: facts(),
        bytes: 100,
        load,
        options,
    }
}

/// As many answers at once as this.
pub(crate) fn at_once(sequences: usize) -> ModelOptions {
    ModelOptions {
        sequences,
        ..ModelOptions::default()
    }
}

/// An engine with one model, whose steps run by themselves.
pub(crate) fn free(shape: DecoderShape, options: ModelOptions) -> (Engine, ModelHandle, Control) {
    start(shape, Arc::new(hashed), false, options)
}

/// An engine with one model, whose steps wait for the test.
pub(crate) fn held(shape: DecoderShape, options: ModelOptions) -> (Engine, ModelHandle, Control) {
    start(shape, Arc::new(hashed), true, options)
}

pub(crate) fn start(
    shape: DecoderShape,
    logits: Arc<Logits>,
    held: bool,
    options: ModelOptions,
) -> (Engine, ModelHandle, Control) {
    let engine = Engine::start(EngineOptions::default());
    let (load, control) = Fake::loader(shape, logits);
    let handle = engine.load("fake", source(load, options)).unwrap();
    if held {
        control.hold();
    }
    (engine, handle, control)
}
