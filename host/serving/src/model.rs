//! A loaded model as its callers see it: requests are rendered, encoded and checked on the caller's thread.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tidegate_contract::{
    Makes, Message, ModelError, ModelFacts, ModelTask, Prompt, Role, Structure,
};
use tidegate_grammar::{Compiler, Matcher};
use tidegate_text::{ChatMessage, Detokenizer, PromptError, Tokenizer};

use crate::constraint;
use crate::parameters;
use crate::request::{Places, Work};
use crate::stats::Counters;

/// What callers need to know of a loaded model.
pub(crate) struct Loaded {
    /// Unique in its engine.
    pub(crate) number: u64,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) facts: ModelFacts,
    pub(crate) makes: Makes,
    /// Token ids it knows; 0 where it is not known.
    pub(crate) vocabulary: usize,
    /// Positions of a sequence or text.
    pub(crate) context: usize,
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) most_choices: u32,
    pub(crate) truncate: bool,
    pub(crate) places: Arc<Places>,
    pub(crate) counters: Arc<Counters>,
    /// Made when the first structure is asked for.
    pub(crate) compiler: OnceLock<Result<Compiler, String>>,
}

impl Loaded {
    /// What a task asks of the engine's thread.
    pub(crate) fn work(&self, seed: u64, task: ModelTask) -> Result<Work, ModelError> {
        match (task, self.makes) {
            (
                ModelTask::Generate {
                    prompt,
                    forced_prefix,
                    parameters,
                },
                Makes::Text,
            ) => {
                parameters::check(&parameters, self.vocabulary, self.most_choices)?;
                let tokens = self.prompt(&prompt, &forced_prefix)?;
                let tokenizer = Arc::clone(&self.tokenizer);
                Ok(Work::Generate {
                    detokenizer: Box::new(match (&parameters.structure, prompt) {
                        // The text that was held against it, to the byte.
                        (Some(_), _) => Detokenizer::verbatim(tokenizer),
                        (None, Prompt::Chat(_)) => Detokenizer::new(tokenizer),
                        (None, Prompt::Raw(_)) => Detokenizer::after(tokenizer, &tokens),
                    }),
                    prompt: tokens,
                    prefix: forced_prefix,
                    seed,
                    matcher: match &parameters.structure {
                        Some(structure) => Some(Box::new(self.compile(structure)?)),
                        None => None,
                    },
                    parameters,
                })
            }
            (ModelTask::Generate { .. }, _) => Err(self.cannot("generate")),
            (ModelTask::Encode { .. }, Makes::Text) => Err(self.cannot("embed or classify")),
            (ModelTask::Encode { text }, _) => Ok(Work::Encode {
                tokens: self.text(&text)?,
            }),
        }
    }

    fn cannot(&self, task: &'static str) -> ModelError {
        ModelError::WrongTask {
            model: self.facts.name.clone(),
            task,
        }
    }

    /// The prompt's tokens, if the model can take them.
    fn prompt(&self, prompt: &Prompt, prefix: &[u32]) -> Result<Vec<u32>, ModelError> {
        let prompt = match prompt {
            Prompt::Chat(messages) => self.chat(messages)?,
            Prompt::Raw(text) => self.tokenizer.encode_raw(text).map_err(refused)?,
        };
        let limit = self.context.saturating_sub(1);
        if prompt.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if prompt.len() > limit {
            return Err(ModelError::PromptTooLong {
                tokens: prompt.len(),
                limit,
            });
        }
        let unknown = |id: &&u32| **id as usize >= self.vocabulary;
        if let Some(id) = prompt.iter().chain(prefix).find(unknown) {
            let limit = self.vocabulary;
            return Err(ModelError::Prompt(format!(
                "token {id} is not below the model's vocabulary of {limit}"
            )));
        }
        Ok(prompt)
    }

    fn chat(&self, messages: &[Message]) -> Result<Vec<u32>, ModelError> {
        if messages.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let messages: Vec<ChatMessage<'_>> = messages
            .iter()
            .map(|message| ChatMessage {
                role: role(message.role),
                content: &message.content,
            })
            .collect();
        self.tokenizer.encode_chat(&messages).map_err(refused)
    }

    /// A text's tokens for an encoder.
    fn text(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        if text.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let limit = self.context;
        let tokens = match self.truncate {
            true => self.tokenizer.encode_text_to(text, limit),
            false => self.tokenizer.encode_text(text),
        };
        let tokens = tokens.map_err(refused)?;
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if tokens.len() > limit {
            return Err(ModelError::PromptTooLong {
                tokens: tokens.len(),
                limit,
            });
        }
        Ok(tokens)
    }

    /// A structure for this model's tokens; quick if it was compiled before.
    pub(crate) fn compile(&self, structure: &Structure) -> Result<Matcher, ModelError> {
        let compiler = self.compiler.get_or_init(|| {
            constraint::compiler(&self.tokenizer, self.vocabulary, &self.end_tokens)
                .map_err(|error| error.to_string())
        });
        match compiler {
            Ok(compiler) => constraint::matcher(compiler, structure),
            Err(reason) => Err(parameters::wrong(
                "structure",
                "asked for",
                &format!("left out, this model's tokens allow none: {reason}"),
            )),
        }
    }
}

/// The role's name in chat templates.
fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn refused(error: PromptError) -> ModelError {
    ModelError::Prompt(error.to_string())
}

/// What stands under a name.
#[derive(Clone)]
pub(crate) enum NameState {
    /// Nothing, or nothing any more.
    Empty,
    /// A model.
    Loaded(Arc<Loaded>),
    /// A model that was given up.
    Ended,
}

/// A name models are loaded under, one after another.
pub(crate) struct Slot {
    pub(crate) name: String,
    state: RwLock<NameState>,
}

impl Slot {
    pub(crate) fn new(name: &str) -> Slot {
        Slot {
            name: name.into(),
            state: RwLock::new(NameState::Empty),
        }
    }

    /// What stands there now.
    pub(crate) fn state(&self) -> NameState {
        self.state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        match self.state() {
            NameState::Loaded(loaded) => Some(loaded),
            NameState::Empty | NameState::Ended => None,
        }
    }

    /// Puts something else there; what stood there before.
    pub(crate) fn put(&self, state: NameState) -> NameState {
        let mut place = self.state.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, state)
    }
}
