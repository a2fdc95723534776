//! Whether models fit the stages that ask them: mistakes of the configuration, found without a device.

use tidegate_contract::{BLOCK, Makes, Message, PromptPart, PromptTemplate, Role};
use tidegate_control::config::{
    Ask, BiasedToken, DEFAULT_CONTEXT, Generate, Holds, LoraOf, Mistake, Model, ModelStage,
    Pipeline, Stage, StageKind, check_labels,
};
use tidegate_grammar::{Compiler, Vocabulary};
use tidegate_infer::LoadError;
use tidegate_text::{PromptError, Tokenizer};
use tidegate_weights::{Checkpoint, EncoderHead, Pooling};

use super::open::open_lora;
use super::pinned;
use super::sizes::{KvRoom, check_sizes, kv_room, most_step_tokens};
use super::{ModelFile, Splits};
use crate::exit::with_causes;

/// Positions kept free for the chat template around the user message, at least.
const TEMPLATE_TOKENS: usize = 32;
/// Tokens that a user message can have more in the template than alone, where they merge otherwise at its ends.
const SEAMS: usize = 8;

/// What is found of models and the stages that ask them.
#[derive(Default)]
pub(crate) struct Fit {
    /// What keeps them from being asked.
    pub(crate) mistakes: Vec<Mistake>,
    /// What may be asked but comes to nothing.
    pub(crate) warnings: Vec<Mistake>,
}

/// Opens every model that a stage asks, and holds it against its stages; those of other servers as the file has them.
pub(crate) fn check(pipeline: &Pipeline) -> Fit {
    let mut all = Vec::new();
    let mut warnings = Vec::new();
    for (index, model) in pipeline.models.iter().enumerate() {
        if asking(pipeline, index).next().is_none() {
            continue;
        }
        if let Some(remote) = &model.remote {
            all.extend(super::remote::mistakes(pipeline, index, model, remote));
            continue;
        }
        match ModelFile::of(model) {
            Ok(file) => {
                all.extend(mistakes(pipeline, index, &file));
                warnings.extend(pinned::pointless(pipeline, index, &file));
                warnings.extend(thoughtless(pipeline, index, &file));
            }
            Err(error) => all.push(pipeline.mistake_of_model(model, with_causes(&error))),
        }
    }
    all.extend(super::biased::mistakes(pipeline, None));
    Fit {
        mistakes: all,
        warnings,
    }
}

/// Stages that ask a model for its thoughts, or for fewer of them, whose template has no word for them.
fn thoughtless(pipeline: &Pipeline, index: usize, file: &ModelFile) -> Vec<Mistake> {
    let form = file.tokenizer.answer_form();
    if form.reasons || file.makes() != Makes::Text {
        return Vec::new();
    }
    let Some(model) = pipeline.models.get(index) else {
        return Vec::new();
    };
    let said = asking(pipeline, index).flat_map(|(_, _, kind)| {
        pipeline.mistakes_of_reasoning(
            kind,
            format!(
                "has no effect: the chat template of model {:?} has no word for thoughts, so there are none unless it writes {} all the same",
                model.name,
                form.reasoning.0.text()
            ),
        )
    });
    said.collect()
}

/// Whether a model is to be loaded here: a stage asks it, or one that adapts it.
pub(crate) fn is_loaded(pipeline: &Pipeline, index: usize) -> bool {
    let Some(model) = pipeline.models.get(index) else {
        return false;
    };
    model.remote.is_none()
        && model.lora.is_none()
        && (asking(pipeline, index).next().is_some() || adapting(pipeline, index).next().is_some())
}

/// The models that are this one through a low-rank adapter and that a stage asks, by index, in the order of the adapters' numbers.
pub(crate) fn adapting(
    pipeline: &Pipeline,
    base: usize,
) -> impl Iterator<Item = (usize, &Model, &LoraOf)> {
    let models = pipeline.models.iter().enumerate();
    models.filter_map(move |(index, model)| {
        let lora = model.lora.as_ref().filter(|lora| lora.base == base)?;
        asking(pipeline, index).next()?;
        Some((index, model, lora))
    })
}

/// The stages that ask a model, always or under load.
pub(crate) fn asking(
    pipeline: &Pipeline,
    model: usize,
) -> impl Iterator<Item = (usize, &Stage, &ModelStage)> {
    let stages = pipeline.stages.iter().enumerate();
    stages.filter_map(move |(index, stage)| match &stage.kind {
        StageKind::Model(kind) if kind.asks(model) => Some((index, stage, kind.as_ref())),
        _ => None,
    })
}

/// Positions of a sequence: no more than all sequences together have.
pub(crate) fn context(model: &Model, file: &ModelFile) -> usize {
    let own = file.own_context();
    let context = model.context.unwrap_or(own.min(DEFAULT_CONTEXT));
    match kv_room(model, &file.checkpoint) {
        Some(room) => context.min(room.positions),
        None => context,
    }
}

/// What keeps a model from being asked by its stages.
pub(crate) fn mistakes(pipeline: &Pipeline, index: usize, file: &ModelFile) -> Vec<Mistake> {
    let Some(model) = pipeline.models.get(index) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if let Some(lora) = &model.lora
        && let Err(error) = open_lora(&lora.path, &file.checkpoint)
    {
        found.push(pipeline.mistake_of_model(model, with_causes(&error)));
    }
    let own = file.own_context();
    if let Some(asked) = model.context.filter(|asked| *asked > own) {
        found.push(pipeline.mistake_of_model(
            model,
            format!("context = {asked} exceeds the model's own of {own} positions"),
        ));
    }
    let room = kv_room(model, &file.checkpoint);
    if let Some(KvRoom {
        positions: 0,
        block,
    }) = room
    {
        let memory = model.kv_memory.unwrap_or_default();
        found.push(pipeline.mistake_of_model(
            model,
            format!(
                "kv-memory = {memory} bytes holds no block: one of {BLOCK} positions takes {block}"
            ),
        ));
        return found;
    }
    if let Some(draft) = &model.draft {
        let mistake = match ModelFile::open(draft, Splits::IfNeeded(model.pre_tokenizer.as_deref()))
        {
            Err(error) => Some(format!("draft: {}", with_causes(&error))),
            Ok(draft) if draft.makes() != Makes::Text => {
                Some("draft: the model makes no text".to_owned())
            }
            Ok(draft) if draft.vocabulary() != file.vocabulary() => Some(format!(
                "draft has a vocabulary of {} tokens, the model one of {}; both must be the same",
                draft.vocabulary(),
                file.vocabulary()
            )),
            Ok(draft) => {
                let name = format!("the draft of model {:?}", model.name);
                found.extend(too_many_step_tokens(
                    pipeline,
                    model,
                    (&name, &draft.checkpoint),
                ));
                None
            }
        };
        found.extend(mistake.map(|mistake| pipeline.mistake_of_model(model, mistake)));
    }
    found.extend(size_mistake(pipeline, model, file));
    let holds = Holds::positions(context(model, file));
    let mut compiler = None;
    for (number, stage, kind) in asking(pipeline, index) {
        let mut wrong = |what: String| found.push(pipeline.mistake_of_stage(stage, what));
        let (wanted, verb) = match kind.ask {
            Ask::Generate(_) => (Makes::Text, "generate"),
            Ask::Embed => (Makes::Embeddings, "embed"),
            Ask::Classify { .. } => (Makes::Labels, "classify"),
            Ask::Recognize { .. } => (Makes::Entities, "recognize entities"),
            Ask::Rerank { .. } => (Makes::Relevance, "rank"),
        };
        let makes = file.makes();
        if makes != wanted {
            wrong(format!(
                "model {:?} cannot {verb}: it makes {}",
                model.name,
                match makes {
                    Makes::Text => "text",
                    Makes::Embeddings => "embeddings",
                    Makes::Labels => "labels",
                    Makes::Entities => "entities",
                    Makes::Relevance => "scores of pairs of texts",
                }
            ));
            continue;
        }
        match &kind.ask {
            Ask::Generate(generate) => {
                for what in generate_mistakes(generate, file, &mut compiler) {
                    wrong(what);
                }
                match around_prompt(&file.tokenizer, generate) {
                    Ok(around) => {
                        let all_of_memory = room.filter(|room| room.positions == holds.context);
                        let asked = Length {
                            model: &model.name,
                            holds,
                            held: all_of_memory.map_or("", |_| " that kv-memory holds"),
                            around,
                            fixed: fixed(&file.tokenizer, kind, generate),
                            taken: match generate.raw {
                                true => "the tokenizer's own tokens",
                                false => "chat template and system message",
                            },
                        };
                        let wrong = asked.mistake(kind);
                        found.extend(wrong.map(|what| pipeline.mistake_of_length(stage, what)));
                    }
                    Err(error) => wrong(match generate.raw {
                        true => format!("the model's tokenizer does not take a text: {error}"),
                        false => format!(
                            "the model's chat template does not take the stage's messages{}: {error}",
                            match generate.template_arguments.is_empty() {
                                true => "",
                                false => " with its template-arguments",
                            }
                        ),
                    }),
                }
            }
            Ask::Classify { .. } => {
                if let Err(mistakes) = check_labels(pipeline, number, &file.labels()) {
                    found.extend(mistakes);
                }
            }
            Ask::Rerank { .. } => {
                if file.tokenizer.around_pair().is_none() {
                    wrong(format!(
                        "model {:?} cannot rank: {}",
                        model.name,
                        PromptError::NoPairs
                    ));
                }
            }
            Ask::Embed => {
                let wrong = text_prompt_mistake(kind, file, (&model.name, holds.context));
                found.extend(wrong.map(|what| pipeline.mistake_of_prompt_name(stage, what)));
            }
            Ask::Recognize { .. } => {}
        }
    }
    found.extend(pinned::mistakes(pipeline, index, file));
    found
}

/// What of the sizes that the file says keeps a model from being loaded on any device, or is more than it can have. Of a low-rank
/// adapter that is said of its base, where that is asked too.
fn size_mistake(pipeline: &Pipeline, model: &Model, file: &ModelFile) -> Option<Mistake> {
    let base = model.lora.as_ref().map(|lora| lora.base);
    if base.is_some_and(|base| asking(pipeline, base).next().is_some()) {
        return None;
    }
    let name = format!("model {:?}", model.name);
    let too_many = too_many_step_tokens(pipeline, model, (&name, &file.checkpoint));
    if too_many.is_some() {
        return too_many;
    }
    let (sequences, tokens) = (model.sequences, pipeline.engine.step_tokens);
    if file.makes() == Makes::Text && sequences > tokens {
        let what = format!(
            "sequences = {sequences} is more than step-tokens = {tokens} of [engine]: each answer being made has a token in every step"
        );
        return Some(pipeline.mistake_of_sequences(model, what));
    }
    // A longer context than the model's own has been said.
    let context = context(model, file).min(file.own_context());
    let checked = check_sizes(model, pipeline.engine, &file.checkpoint, context);
    let what = in_words_of_the_file(model, &checked.err()?);
    Some(pipeline.mistake_of_model(model, what))
}

/// Why a model cannot be loaded for what the file says.
fn in_words_of_the_file(model: &Model, error: &LoadError) -> String {
    match error {
        LoadError::Option {
            what: "blocks",
            value,
            most,
            ..
        } => {
            let keys = match model.kv_memory {
                Some(_) => "kv-memory comes",
                None => "sequences and context come",
            };
            format!(
                "{keys} to {value} KV blocks of {BLOCK} positions, and there are at most {most}"
            )
        }
        // The tokens of a step are enough for one text of whole length.
        LoadError::Option {
            what: "max_rows",
            value,
            most,
            ..
        } => format!("context = {value} is more than the {most} tokens that a text can have"),
        error => error.to_string(),
    }
}

/// Says so if a step is to have more tokens than this model, by its name, can have in one.
fn too_many_step_tokens(
    pipeline: &Pipeline,
    model: &Model,
    (name, checkpoint): (&str, &Checkpoint),
) -> Option<Mistake> {
    let (tokens, most) = (pipeline.engine.step_tokens, most_step_tokens(checkpoint));
    let what =
        || format!("step-tokens = {tokens} is more than the {most} that a step of {name} can have");
    (tokens > most).then(|| pipeline.mistake_of_step_tokens(model, what()))
}

/// Most names of prompts that are listed.
const LISTED: usize = 10;
/// Most characters of each.
const NAME: usize = 64;

/// Why the texts of a stage that wants vectors cannot have before them what it or the model says, of so many positions.
fn text_prompt_mistake(
    stage: &ModelStage,
    file: &ModelFile,
    (model, context): (&str, usize),
) -> Option<String> {
    let config = file.checkpoint.encoder()?;
    let prompts = &config.prompts;
    let Some(prompt) = prompts.get(stage.prompt_name()) else {
        let names = prompts.named.keys().take(LISTED);
        let names: Vec<String> = names
            .map(|name| format!("{:?}", name.chars().take(NAME).collect::<String>()))
            .collect();
        let name = stage.prompt_name().unwrap_or_default();
        return Some(match names.is_empty() {
            true => format!(
                "is {name:?}, and model {model:?} has no prompts (config_sentence_transformers.json); write what its \
                 makers say into text"
            ),
            false => format!(
                "is {name:?}, which is no prompt of model {model:?}; it has {}",
                names.join(", ")
            ),
        });
    };
    if prompt.is_empty() {
        return None;
    }
    let name = stage.prompt_name().or(prompts.usual.as_deref());
    let name: String = name.unwrap_or_default().chars().take(NAME).collect();
    let none = "prompt-name = \"\" puts none there";
    if prompts.left_out && config.head != EncoderHead::Embedding(Pooling::Last) {
        return Some(format!(
            "of prompt {name:?}: by its 1_Pooling/config.json (include_prompt) model {model:?} pools the rows behind a prompt alone, \
             which is not done here; {none}"
        ));
    }
    // A byte makes at most one token, and a token seldom has as many bytes as this.
    let within = prompt.len() / 64 < context;
    let taken = match within {
        true => file
            .tokenizer
            .encode_text_to(prompt, context)
            .map(|tokens| tokens.len()),
        false => Ok(context),
    };
    let special = within && file.tokenizer.names_special_tokens(prompt).unwrap_or(false);
    match taken {
        Err(error) => Some(format!(
            "of prompt {name:?}: the model's tokenizer does not take it: {error}; {none}"
        )),
        Ok(taken) if taken >= context => Some(format!(
            "of prompt {name:?}: it leaves none of the {context} tokens of model {model:?} for a text; {none}"
        )),
        Ok(_) if special => Some(format!(
            "of prompt {name:?}: it has special tokens of model {model:?} in it, which are only text before a text; {none}"
        )),
        Ok(_) => None,
    }
}

/// Positions that are no room for a user message: those of the chat template, which may write a page of its own, and of
/// the system message; of a raw prompt only what the tokenizer begins a text with.
///
/// # Errors
/// The template does not take such messages; some refuse a system message. Of a raw prompt: the tokenizer failed.
pub(crate) fn around_prompt(
    tokenizer: &Tokenizer,
    generate: &Generate,
) -> Result<usize, PromptError> {
    if generate.raw {
        return Ok(tokenizer.encode_raw("")?.len());
    }
    let greeting = "hello";
    let arguments = &generate.template_arguments;
    if !generate.turns.is_empty() {
        let turns = generate.turns.iter();
        let messages: Vec<Message> = turns
            .map(|turn| Message::new(turn.role, greeting))
            .collect();
        let encoded = match messages.split_last() {
            Some((begun, before)) if begun.role == Role::Assistant => {
                tokenizer.encode_continued(before, begun, &[], arguments)?
            }
            _ => tokenizer.encode_conversation(&messages, &[], arguments)?,
        };
        let said = tokenizer.count(greeting)? * messages.len();
        let around = encoded.tokens.len().saturating_sub(said) + SEAMS * messages.len();
        return Ok(around.max(TEMPLATE_TOKENS));
    }
    let system = generate.system.as_deref();
    let mut messages: Vec<Message> = system
        .map(|text| Message::new(Role::System, text))
        .into_iter()
        .collect();
    messages.push(Message::new(Role::User, greeting));
    let whole = tokenizer
        .encode_conversation(&messages, &[], arguments)?
        .tokens
        .len();
    let around = whole.saturating_sub(tokenizer.count(greeting)?) + SEAMS;
    let usual = TEMPLATE_TOKENS + system.map_or(Ok(0), |text| tokenizer.count(text))?;
    Ok(around.max(usual))
}

/// What is the same in every prompt of a stage: the key that says it, and its tokens without what a record brings. None where
/// records say it all, or the tokenizer fails on it, which is said elsewhere.
fn fixed(
    tokenizer: &Tokenizer,
    kind: &ModelStage,
    generate: &Generate,
) -> Option<(&'static str, usize)> {
    let of = |template: &PromptTemplate| {
        let texts = template.parts.iter().map(|part| match part {
            PromptPart::Text(text) => text.as_str(),
            _ => "",
        });
        tokenizer.count(&texts.collect::<String>()).ok()
    };
    let (key, tokens): (_, Option<usize>) = match generate.turns.as_slice() {
        [] => ("prompt", of(&kind.prompt)),
        turns => ("messages", turns.iter().map(|turn| of(&turn.content)).sum()),
    };
    tokens.map(|tokens| (key, tokens))
}

/// The verb of a key of a stage.
fn has(key: &str) -> &'static str {
    match key {
        "messages" => "have",
        _ => "has",
    }
}

/// The length of what a stage asks of a model, and what the model holds.
pub(super) struct Length<'a> {
    pub(super) model: &'a str,
    pub(super) holds: Holds,
    /// Why it holds no more positions, where it is not the model itself.
    pub(super) held: &'a str,
    /// Positions that are no room for the prompt's own text, and what takes them.
    pub(super) around: usize,
    pub(super) taken: &'a str,
    /// Of the prompt's own text what is the same for every record: the key that says it, and its tokens.
    pub(super) fixed: Option<(&'static str, usize)>,
}

impl Length<'_> {
    /// Why the answers that a stage asks for do not fit the model, or leave no room for what is asked.
    pub(super) fn mistake(&self, kind: &ModelStage) -> Option<String> {
        let (model, most) = (self.model, kind.max_tokens([self.holds]));
        let Holds { context, answer } = self.holds;
        if answer < context && most > answer {
            return Some(format!(
                "max-tokens = {most} is more than the {answer} tokens that max-tokens of model {model:?} allows an answer; \
                 no request would be taken"
            ));
        }
        let room = context.saturating_sub(most + self.around);
        let since = match self.around {
            0 => String::new(),
            around => format!(", since {} take {around}", self.taken),
        };
        if room > 0 && kind.prompt_tokens.is_none_or(|tokens| tokens <= room) {
            let (key, fixed) = self.fixed?;
            let allowed = kind.prompt_tokens.unwrap_or(room);
            if fixed <= allowed {
                return None;
            }
            return Some(match kind.prompt_tokens {
                Some(tokens) => format!(
                    "prompt-tokens = {tokens} is less than the {fixed} tokens that {key} {} without what a record brings; \
                     no record would be asked",
                    has(key)
                ),
                None => format!(
                    "max-tokens = {most} leaves {room} positions of {context}{} for the prompt of model {model:?}{since}, and \
                     {key} {} {fixed} tokens without what a record brings; no record would be asked",
                    self.held,
                    has(key)
                ),
            });
        }
        let needs = kind.prompt_tokens.map_or_else(String::new, |tokens| {
            format!(", prompt-tokens = {tokens} needs more")
        });
        Some(format!(
            "max-tokens = {most} leaves {room} positions of {context}{} for the prompt of model {model:?}{since}{needs}",
            self.held
        ))
    }
}

fn generate_mistakes(
    generate: &Generate,
    file: &ModelFile,
    compiler: &mut Option<Result<Compiler, String>>,
) -> Vec<String> {
    let mut found = Vec::new();
    if let Err(what) = bias(generate, file) {
        found.push(what);
    }
    if let Some(structure) = &generate.parameters.structure {
        let compiler = compiler.get_or_insert_with(|| compiler_of(file));
        let compiled = match compiler {
            Ok(compiler) => compiler
                .matcher(structure)
                .map(drop)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = compiled {
            found.push(format!("what the answer must be: {error}"));
        }
    }
    found
}

/// The biases of a stage by token, ascending.
pub(crate) fn bias(generate: &Generate, file: &ModelFile) -> Result<Vec<(u32, f32)>, String> {
    let mut biases: Vec<(u32, f32)> = Vec::new();
    for (token, amount) in &generate.bias {
        let id = match token {
            BiasedToken::Id(id) if (*id as usize) < file.vocabulary() => *id,
            BiasedToken::Id(id) => {
                return Err(format!(
                    "logit-bias: token {id} is not below the model's vocabulary of {}",
                    file.vocabulary()
                ));
            }
            BiasedToken::Text(text) => file
                .token_id(text)
                .ok_or_else(|| format!("logit-bias: {text:?} is not one token of the model"))?,
        };
        if biases.iter().any(|(other, _)| *other == id) {
            return Err(format!("logit-bias: token {id} stands there twice"));
        }
        biases.push((id, *amount));
    }
    biases.sort_by_key(|(id, _)| *id);
    Ok(biases)
}

/// Tokens that end an answer.
pub(crate) fn end_tokens(file: &ModelFile) -> Vec<u32> {
    let mut tokens = file
        .checkpoint
        .decoder()
        .map_or_else(Vec::new, |config| config.eos_tokens.clone());
    tokens.extend(file.tokenizer.end_tokens());
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

fn compiler_of(file: &ModelFile) -> Result<Compiler, String> {
    // A model's rows beyond the tokenizer's are padding.
    let size = file.tokenizer.vocabulary() as u32;
    let bytes = (0..size).map(|id| file.tokenizer.token_bytes(id)).collect();
    let vocabulary =
        Vocabulary::new(bytes, &end_tokens(file)).map_err(|error| error.to_string())?;
    Ok(Compiler::new(vocabulary))
}
