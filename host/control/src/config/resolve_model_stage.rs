//! What a stage that asks a model means: its prompt fits, its schema or grammar is there.

use tidegate_contract::{Parameters, PromptPart, Structure};

use super::answering::reaches;
use super::disk::Directory;
use super::findings::{Findings, Typed};
use super::models::{Ask, Generate, Holds, Into, Model, ModelStage, Order, Truncated};
use super::named::read_text;
use super::pipeline::{Source, Stage, StageKind};
use super::typed::{TypedAsk, TypedGenerate, TypedModelStage, TypedStructure};

/// Default of `max-in-flight`.
const MAX_IN_FLIGHT: usize = 64;
/// Longest schema or grammar, bytes.
const LONGEST_STRUCTURE: u64 = 1 << 20;

/// What only the whole pipeline can say has its default: alternatives, and the order of answers.
pub(crate) fn resolve_model_stage(
    found: &Findings,
    directory: &Directory,
    (typed, tokens, tokens_to): (TypedModelStage, Vec<usize>, Vec<usize>),
    index: usize,
    model: &Model,
) -> ModelStage {
    let prompt = typed.prompt.unwrap_or_default();
    let turns = match &typed.ask {
        TypedAsk::Generate(generate) => generate.turns.as_slice(),
        TypedAsk::Embed
        | TypedAsk::Classify { .. }
        | TypedAsk::Recognize { .. }
        | TypedAsk::Rerank { .. } => &[],
    };
    let parts = turns.iter().flat_map(|turn| &turn.content.parts);
    let parts: Vec<&PromptPart> = parts.chain(&prompt.parts).collect();
    let truncate = typed
        .truncate
        .as_ref()
        .map(|name| truncated(found, name, &parts));
    if let (TypedAsk::Generate(generate), Into::Member) = (&typed.ask, typed.into)
        && let Some(name) = &generate.reasoning
    {
        check_unasked(found, name, &parts);
    }
    let mut typed_max_tokens = None;
    let (mut typed_reasoning, mut typed_reasoning_tokens) = (None, None);
    let mut typed_pin_prefix = None;
    let ask = match typed.ask {
        TypedAsk::Generate(mut generate) => {
            typed_max_tokens = generate.max_tokens.take();
            typed_reasoning_tokens = generate.reasoning_tokens.take();
            typed_reasoning.clone_from(&generate.reasoning);
            typed_pin_prefix.clone_from(&generate.pin_prefix);
            Ask::Generate(Box::new(resolve_generate(found, directory, *generate)))
        }
        TypedAsk::Embed => Ask::Embed,
        TypedAsk::Classify { threshold } => Ask::Classify { threshold },
        TypedAsk::Recognize {
            aggregation,
            threshold,
        } => Ask::Recognize {
            aggregation,
            threshold,
        },
        TypedAsk::Rerank { documents, top } => Ask::Rerank { documents, top },
    };
    let prompt_tokens = typed.prompt_tokens;
    let mut stage = ModelStage {
        model: index,
        alternatives: Vec::new(),
        ask,
        prompt,
        messages: typed.messages,
        tokens,
        tokens_to,
        truncate,
        prompt_tokens: prompt_tokens.as_ref().map(|typed| typed.value),
        seed: typed.seed,
        priority: typed.priority,
        order: Order::Key,
        typed_order: typed.order,
        max_in_flight: typed
            .in_flight
            .as_ref()
            .map_or(MAX_IN_FLIGHT, |typed| typed.value),
        in_flight: typed.in_flight,
        max_in_flight_per_key: MAX_IN_FLIGHT,
        per_key: typed.per_key,
        typed_max_tokens,
        typed_reasoning_tokens,
        typed_reasoning,
        typed_pin_prefix,
        typed_prompt_name: typed.prompt_name,
        deadline: typed.deadline,
        attempts: typed.attempts,
        into: typed.into,
        field: typed.field,
    };
    stage.settle_length([model]);
    check_length(found, &stage, prompt_tokens.as_ref(), model);
    stage
}

/// The part of the prompt that is cut.
fn truncated(found: &Findings, name: &Typed<String>, parts: &[&PromptPart]) -> Truncated {
    let truncated = match name.value.trim_end_matches('?') {
        "$value" => Truncated::Value,
        path => Truncated::Field(path.split('.').map(str::to_owned).collect()),
    };
    let stands = parts.iter().any(|part| truncated.matches(part));
    if !stands && !parts.is_empty() {
        found.about(
            name,
            format!(
                "{:?} is not a field of the prompt; name one that stands there in braces",
                name.value
            ),
        );
    }
    truncated
}

/// What a stage asks for is not replaced by what the model thinks.
fn check_unasked(found: &Findings, name: &Typed<String>, parts: &[&PromptPart]) {
    let asks = |part: &&PromptPart| match part {
        PromptPart::Field { path, .. } => path.first() == Some(&name.value),
        _ => false,
    };
    if parts.iter().any(asks) {
        found.about(
            name,
            format!(
                "{:?} is a field that the stage itself asks for, and the reasoning would take its place; choose another",
                name.value
            ),
        );
    }
}

/// What only the whole pipeline says of the reasoning of its stages: whether its member is one that records bring, and
/// whether it leaves room for an answer.
pub(crate) fn check_reasoning(found: &Findings, sources: &[Source], stages: &[Stage]) {
    for stage in stages {
        let StageKind::Model(asks) = &stage.kind else {
            continue;
        };
        let required = |name: &str| {
            let brings = sources.iter().enumerate().find(|(index, source)| {
                let mut required = source.decoding.required.iter();
                required.any(|path| path.split('.').next() == Some(name))
                    && reaches(*index, &stage.inputs, stages)
            });
            brings.map(|(_, source)| source.name.clone())
        };
        if let (Some(name), Into::Member) = (&asks.typed_reasoning, asks.into)
            && let Some(source) = required(&name.value)
        {
            found.about(
                name,
                format!(
                    "{:?} is required of every record of source {source:?}, and the reasoning would take its place; choose another",
                    name.value
                ),
            );
        }
        let Ask::Generate(generate) = &asks.ask else {
            continue;
        };
        let most = generate.parameters.max_tokens;
        if let Some(thoughts) = &asks.typed_reasoning_tokens
            && thoughts.value >= u64::from(most)
        {
            let usual = match asks.typed_max_tokens {
                Some(_) => "",
                None => ", its default here,",
            };
            found.warning(
                &thoughts.place,
                &thoughts.key,
                format!(
                    "leaves nothing of max-tokens = {most}{usual} for the answer, which is empty where the model thinks for so long"
                ),
            );
        }
    }
}

/// Prompt and answer must fit the context, as far as the file says it.
fn check_length(
    found: &Findings,
    stage: &ModelStage,
    prompt: Option<&Typed<usize>>,
    model: &Model,
) {
    let (Ask::Generate(generate), Some(Holds { context, .. })) = (&stage.ask, model.told()) else {
        return;
    };
    let Some(last) = prompt.or(stage.typed_max_tokens.as_ref()) else {
        return;
    };
    let most = generate.parameters.max_tokens as usize;
    let wanted = prompt.map_or(1, |typed| typed.value) + most;
    if wanted > context {
        let usual = match model.context {
            Some(_) => "",
            None => ", where the file says no other",
        };
        found.about(
            last,
            format!(
                "prompt and answer may take {wanted} tokens, and model {:?} has a context of {context}{usual}",
                model.name
            ),
        );
    }
}

fn resolve_generate(found: &Findings, directory: &Directory, typed: TypedGenerate) -> Generate {
    let text = |path: &Typed<String>| read_text(found, directory, path, LONGEST_STRUCTURE);
    let structure = typed.structure.and_then(|structure| match structure {
        TypedStructure::Here(structure) => Some(structure),
        TypedStructure::GrammarFile(path) => text(&path).map(Structure::Grammar),
        TypedStructure::SchemaFile(path) => {
            let schema = text(&path)?;
            match serde_json::from_str::<serde_json::Value>(&schema) {
                Ok(serde_json::Value::Object(_) | serde_json::Value::Bool(_)) => {}
                Ok(_) => found.about(
                    &path,
                    format!("{:?} is not a JSON Schema: it is no object", path.value),
                ),
                Err(error) => {
                    found.about(&path, format!("{:?} is not JSON: {error}", path.value));
                }
            }
            Some(Structure::JsonSchema(schema))
        }
    });
    Generate {
        pin_prefix: typed.pin_prefix.is_some(),
        raw: typed.raw,
        system: typed.system,
        turns: typed.turns,
        template_arguments: typed.template_arguments,
        reasoning: typed.reasoning.map(|typed| typed.value),
        parameters: Parameters {
            structure,
            ..typed.parameters
        },
        bias: typed.bias,
    }
}
