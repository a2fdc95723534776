//! What all prompts of a stage begin with, and whose KV blocks so stay on the device.

use tidegate_contract::{BLOCK, Message, PromptPart, PromptTemplate, Role};
use tidegate_control::config::{Ask, Generate, Mistake, ModelStage, Pipeline, Stage};
use tidegate_serving::{Pin, most_pinned, pinned_blocks};
use tidegate_text::{PromptError, Tokenizer};

use super::ModelFile;
use super::fit::{adapting, asking, context};
use super::sizes::decoder_options;

/// What stands in the place of what a record brings, to see where prompts begin to differ. They differ in their first
/// characters, which a tokenizer may merge with what stands before them, each in another way.
const BROUGHT: [&str; 9] = ["a", "The", "7", " b", "\n", "(", "\u{e9}", "\u{4e2d}", ""];

/// The stages that pin something of a model or of those that adapt it, with the number of the adapter.
fn pinning(
    pipeline: &Pipeline,
    base: usize,
) -> impl Iterator<Item = (u32, &Stage, &ModelStage, &Generate)> {
    let adapted = adapting(pipeline, base).map(|(index, ..)| index);
    let models = (0..).zip(std::iter::once(base).chain(adapted));
    let stages = models.flat_map(move |(lora, model)| {
        asking(pipeline, model).map(move |(_, stage, kind)| (lora, stage, kind))
    });
    stages.filter_map(|(lora, stage, kind)| match &kind.ask {
        Ask::Generate(generate) if generate.pin_prefix => Some((lora, stage, kind, &**generate)),
        _ => None,
    })
}

/// What is pinned of a model and of those that adapt it.
///
/// # Errors
/// The chat template does not take the messages of a stage.
pub(super) fn pins(
    pipeline: &Pipeline,
    base: usize,
    file: &ModelFile,
) -> Result<Vec<Pin>, PromptError> {
    let pins = pinning(pipeline, base).map(|(lora, stage, kind, generate)| {
        Ok(Pin {
            stage: stage.name.clone(),
            lora,
            tokens: prefix(&file.tokenizer, kind, generate)?,
        })
    });
    pins.collect()
}

/// What keeps them from being pinned: a model and those that adapt it are one here, and said once.
pub(super) fn mistakes(pipeline: &Pipeline, index: usize, file: &ModelFile) -> Vec<Mistake> {
    let Some(model) = pipeline.models.get(index) else {
        return Vec::new();
    };
    let base = model.lora.as_ref().map_or(index, |lora| lora.base);
    let is_asked = asking(pipeline, base).next().is_some();
    let first = match is_asked {
        true => Some(base),
        false => adapting(pipeline, base).map(|(index, ..)| index).next(),
    };
    let Some((_, stage, ..)) = pinning(pipeline, base)
        .next()
        .filter(|_| first == Some(index))
    else {
        return Vec::new();
    };
    // What a template does not take, and sizes that no device can have, are told elsewhere.
    let Ok(pins) = pins(pipeline, base, file) else {
        return Vec::new();
    };
    let context = context(model, file);
    let pinned = pinned_blocks(&pins);
    let Ok(sizes) = decoder_options(model, pipeline.engine, &file.checkpoint, context, pinned)
    else {
        return Vec::new();
    };
    let most = most_pinned(sizes.blocks, context);
    if pinned <= most {
        return Vec::new();
    }
    let stages: Vec<&str> = pins.iter().map(|pin| pin.stage.as_str()).collect();
    let what = format!(
        "what the prompts of {} begin with takes {pinned} KV blocks of {BLOCK} tokens, and at most {most} of the {} that model \
         {:?} has may be pinned: half, and none that one sequence of its whole context needs; pin fewer, {}",
        stages.join(", "),
        sizes.blocks,
        model.name,
        match model.kv_memory {
            Some(_) => "or give it more kv-memory or less context",
            None => "or give it more sequences",
        }
    );
    vec![pipeline.mistake_of_pin(stage, what)]
}

/// Stages whose prompts begin with too little that is the same to be pinned.
pub(super) fn pointless(pipeline: &Pipeline, index: usize, file: &ModelFile) -> Vec<Mistake> {
    let asked = asking(pipeline, index).filter_map(|(_, stage, kind)| match &kind.ask {
        Ask::Generate(generate) if generate.pin_prefix => {
            let tokens = prefix(&file.tokenizer, kind, generate).ok()?.len();
            let what = format!(
                "has no effect: the first {tokens} tokens of its prompts are the same in all, less than a KV block of {BLOCK}"
            );
            (tokens < BLOCK).then(|| pipeline.mistake_of_pin(stage, what))
        }
        _ => None,
    });
    asked.collect()
}

/// The tokens that all prompts of a stage begin with. One that turns out to begin otherwise finds fewer of them, and has
/// the same answer.
fn prefix(
    tokenizer: &Tokenizer,
    kind: &ModelStage,
    generate: &Generate,
) -> Result<Vec<u32>, PromptError> {
    let mut prompts = BROUGHT
        .map(|brought| prompt(tokenizer, kind, generate, brought))
        .into_iter();
    let mut prefix = prompts.next().unwrap_or_else(|| Ok(Vec::new()))?;
    // A template may refuse one of the texts: nothing at all, for one.
    for other in prompts.flatten() {
        let same = prefix
            .iter()
            .zip(&other)
            .take_while(|(one, other)| one == other);
        prefix.truncate(same.count());
    }
    Ok(prefix)
}

/// A prompt of a stage for a record that brings this text for whatever is asked of it.
fn prompt(
    tokenizer: &Tokenizer,
    kind: &ModelStage,
    generate: &Generate,
    brought: &str,
) -> Result<Vec<u32>, PromptError> {
    let render = |template: &PromptTemplate| -> String {
        let texts = template.parts.iter().map(|part| match part {
            PromptPart::Text(text) => text.as_str(),
            _ => brought,
        });
        texts.collect()
    };
    if generate.raw && !kind.messages {
        return tokenizer.encode_raw(&render(&kind.prompt));
    }
    let turns = generate.turns.iter();
    let mut messages: Vec<Message> = turns
        .map(|turn| Message::new(turn.role, render(&turn.content)))
        .collect();
    if messages.is_empty() {
        let system = generate.system.as_deref();
        messages.extend(system.map(|text| Message::new(Role::System, text)));
        let asked = match kind.messages {
            true => brought.to_owned(),
            false => render(&kind.prompt),
        };
        messages.push(Message::new(Role::User, asked));
    }
    let arguments = &generate.template_arguments;
    let encoded = match messages.split_last() {
        Some((begun, before)) if begun.role == Role::Assistant => {
            tokenizer.encode_continued(before, begun, &[], arguments)?
        }
        _ => tokenizer.encode_conversation(&messages, &[], arguments)?,
    };
    Ok(encoded.tokens)
}
