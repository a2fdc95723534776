//! A loaded model as its callers see it: requests are rendered, encoded and checked on the caller's thread.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_contract::{
    Conversation, FunctionChoice, MOST_DOCUMENTS, Makes, Message, ModelError, ModelFacts,
    ModelTask, Parameters, Prompt, Role, Structure,
};
use tidegate_grammar::{Compiler, Matcher};
use tidegate_text::{
    AnswerForm, Detokenizer, EncodedChat, EncodedPair, LaneParser, PlacedText, PromptError,
    TokenPlace, Tokenizer,
};

use crate::constraint;
use crate::entities::Recognizing;
use crate::functions;
use crate::hosted::Asked;
use crate::options::LoadedLora;
use crate::parameters;
use crate::replicas::{Known, Load, Peers};
use crate::request::{Places, Work};
use crate::stats::Counters;
use crate::thoughts::{Thinking, Thoughts};

/// What callers need to know of a loaded model.
pub(crate) struct Loaded {
    /// Unique in its process.
    pub(crate) number: u64,
    /// Its place among all replicas of the model, from the first load on: what it is counted by.
    pub(crate) place: usize,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) facts: ModelFacts,
    /// Its low-rank adapters, in the order of their numbers.
    pub(crate) loras: Vec<LoadedLora>,
    pub(crate) makes: Makes,
    /// Token ids it knows; 0 where it is not known.
    pub(crate) vocabulary: usize,
    /// Positions of a sequence or text.
    pub(crate) context: usize,
    /// Token types that an encoder tells apart.
    pub(crate) types: usize,
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) most_choices: u32,
    pub(crate) truncate: bool,
    /// How long a request waits until it has risen by a class.
    pub(crate) aging: Duration,
    pub(crate) places: Arc<Places>,
    pub(crate) counters: Arc<Counters>,
    /// What it has to do.
    pub(crate) load: Arc<Load>,
    /// Whether it is being loaded again.
    pub(crate) away: AtomicBool,
    /// When it is tried again, if it was left out: milliseconds since time began.
    pub(crate) again_at: AtomicU64,
    /// Whether what it was asked is taken to others, as its engine does not go on.
    pub(crate) relieved: AtomicBool,
    /// What it was asked, for others to take on then.
    pub(crate) asked: OnceLock<Asked>,
    /// What it keeps in blocks, where there are other replicas that may keep it or not.
    pub(crate) known: Option<Arc<Known>>,
    /// The others of its revision.
    pub(crate) peers: Peers,
    /// Made when the first structure is asked for.
    pub(crate) compiler: OnceLock<Result<Compiler, String>>,
    /// Made when the first answer is asked for that has something to keep to, and may think.
    pub(crate) thoughts: OnceLock<Result<Arc<Thoughts>, String>>,
    /// The same of an answer that may call functions, where that has a form of its own.
    pub(crate) thoughts_before_calls: OnceLock<Result<Arc<Thoughts>, String>>,
}

impl Loaded {
    /// Whether another can take over what it was asked.
    pub(crate) fn is_like(&self, other: &Loaded) -> bool {
        let shape = |of: &Loaded| (of.makes, of.vocabulary, of.context, of.types);
        shape(self) == shape(other)
    }

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
                if parameters.structure.is_some()
                    && matches!(&prompt, Prompt::Chat(conversation) if conversation.continues)
                {
                    // What must be there from its first character on is not looked for behind another text.
                    return Err(not_continued(
                        "of an answer that must have a form (continues beside a structure)",
                    ));
                }
                let tokens = self.prompt(&prompt, &forced_prefix)?;
                let matcher = self.matcher(&prompt, parameters.structure.as_ref())?;
                let lanes = self.lanes(&prompt, seed, &tokens);
                let before = lanes.as_ref().is_some_and(LaneParser::is_before_content);
                let thinking = match before {
                    true => self.thinking(&prompt, &tokens, &parameters, matcher.is_some())?,
                    // Behind text that is given there are no thoughts to be kept to anything.
                    false => None,
                };
                // One that has a form and does not think has its form from its first character on.
                let has_form = parameters.structure.is_some() && thinking.is_none();
                let lanes = lanes.map(|parser| match has_form {
                    true => parser.without_reasoning(),
                    false => parser,
                });
                let EncodedChat { tokens, begun, .. } = tokens;
                let form = self.form(&prompt);
                let shown = match (&prompt, &lanes) {
                    (Prompt::Chat(conversation), Some(_)) if conversation.lanes => &form.shown,
                    (_, Some(_)) => &form.shown_of_reasoning,
                    (_, None) => &Vec::new(),
                };
                let tokenizer = Arc::clone(&self.tokenizer);
                Ok(Work::Generate {
                    detokenizer: Box::new(
                        match (&matcher, prompt) {
                            // The text that was held against it, to the byte.
                            (Some(_), _) => Detokenizer::verbatim(tokenizer),
                            (None, Prompt::Chat(_)) => {
                                let begun = tokens.len().saturating_sub(begun);
                                Detokenizer::after(tokenizer, &tokens[begun..])
                            }
                            (None, Prompt::Raw(_)) => Detokenizer::after(tokenizer, &tokens),
                        }
                        .showing(shown),
                    ),
                    prompt: tokens,
                    prefix: forced_prefix,
                    seed,
                    matcher,
                    thinking,
                    parameters,
                    lanes: lanes.map(Box::new),
                })
            }
            (ModelTask::Generate { .. }, _) => Err(self.cannot("generate")),
            (ModelTask::Encode { text }, Makes::Embeddings | Makes::Labels) => Ok(Work::Encode {
                texts: vec![single(self.text(&text)?)],
                recognizing: None,
            }),
            (ModelTask::Encode { .. }, _) => Err(self.cannot("embed or classify")),
            (ModelTask::Recognize { text, aggregation }, Makes::Entities) => {
                let (tokens, places) = self.placed(&text)?;
                Ok(Work::Encode {
                    texts: vec![single(tokens)],
                    recognizing: Some(Box::new(Recognizing {
                        text,
                        places,
                        aggregation,
                    })),
                })
            }
            (ModelTask::Recognize { .. }, _) => Err(self.cannot("recognize entities")),
            // The documents of those that can are encoded by themselves: `documents`.
            (ModelTask::Rank { .. }, _) => Err(self.cannot("rank")),
        }
    }

    fn cannot(&self, task: &'static str) -> ModelError {
        ModelError::WrongTask {
            model: self.facts.name.clone(),
            task,
        }
    }

    /// The prompt's tokens, if the model can take them.
    fn prompt(&self, prompt: &Prompt, prefix: &[u32]) -> Result<EncodedChat, ModelError> {
        let prompt = match prompt {
            Prompt::Chat(conversation) => self.chat(conversation)?,
            Prompt::Raw(text) => EncodedChat {
                tokens: self.tokenizer.encode_raw(text).map_err(refused)?,
                thinks: false,
                thought: false,
                begun: 0,
            },
        };
        let tokens = &prompt.tokens;
        let limit = self.context.saturating_sub(1);
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if tokens.len() > limit {
            return Err(ModelError::PromptTooLong {
                tokens: tokens.len(),
                limit,
            });
        }
        let unknown = |id: &&u32| **id as usize >= self.vocabulary;
        if let Some(id) = tokens.iter().chain(prefix).find(unknown) {
            let limit = self.vocabulary;
            return Err(ModelError::Prompt(format!(
                "token {id} is not below the model's vocabulary of {limit}"
            )));
        }
        Ok(prompt)
    }

    fn chat(&self, conversation: &Conversation) -> Result<EncodedChat, ModelError> {
        if conversation.messages.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        functions::check(conversation)?;
        let functions = functions::callable(conversation);
        let arguments = &conversation.template_arguments;
        let encoded = match continued(conversation)? {
            Some((begun, before)) => {
                (self.tokenizer).encode_continued(before, begun, functions, arguments)
            }
            None => {
                self.tokenizer
                    .encode_conversation(&conversation.messages, functions, arguments)
            }
        };
        encoded.map_err(refused)
    }

    /// How many tokens a prompt has.
    pub(crate) fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        match self.makes {
            Makes::Text => Ok(self.prompt(prompt, &[])?.tokens.len()),
            _ => Err(self.cannot("generate")),
        }
    }

    /// How the answer to a prompt is written.
    fn form(&self, prompt: &Prompt) -> &AnswerForm {
        let calls = match prompt {
            Prompt::Chat(conversation) => !functions::callable(conversation).is_empty(),
            Prompt::Raw(_) => false,
        };
        self.tokenizer.answer_form_with(calls)
    }

    /// What takes the lanes out of the answer to a prompt, if they are asked for. The ids of calls come from the seed and
    /// the prompt: a conversation has each once, also where all its requests have one seed.
    fn lanes(&self, prompt: &Prompt, seed: u64, encoded: &EncodedChat) -> Option<LaneParser> {
        let Prompt::Chat(conversation) = prompt else {
            return None;
        };
        if !thinks_apart(conversation) {
            return None;
        }
        let form = self.form(prompt);
        let names = match conversation.lanes {
            true => functions::callable(conversation),
            false => &[],
        };
        let names = names.iter().map(|function| function.name.clone()).collect();
        let several = conversation.parallel_calls;
        let seed = encoded.tokens.iter().fold(seed, |seed, token| {
            (seed ^ u64::from(*token)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut parser = LaneParser::new(form, encoded.thinks, names, several);
        if let (true, Some(begun)) = (conversation.continues, conversation.messages.last()) {
            let reasoning = begun.reasoning.as_deref().unwrap_or_default();
            parser = parser.behind(reasoning, &begun.content);
        }
        Some(parser.with_seed(seed))
    }

    /// What an answer that begins with reasoning, or may, is before its content, where something is to be kept to: a form
    /// that begins to hold behind the reasoning, or so many tokens of that.
    fn thinking(
        &self,
        prompt: &Prompt,
        encoded: &EncodedChat,
        parameters: &Parameters,
        has_form: bool,
    ) -> Result<Option<Box<Thinking>>, ModelError> {
        // A model whose template has no word for it is not asked to, and one whose prompt says that it has thought has.
        let form = self.form(prompt);
        let may = encoded.thinks || (form.reasons && !encoded.thought);
        let most = parameters.reasoning_tokens;
        if !(most.is_some() || (has_form && may)) {
            return Ok(None);
        }
        if has_form && !may {
            return Ok(None);
        }
        let thoughts = match form.channels {
            Some(_) => &self.thoughts_before_calls,
            None => &self.thoughts,
        };
        let thoughts = thoughts.get_or_init(|| {
            Thoughts::new(&self.tokenizer, form, self.vocabulary, &self.end_tokens).map(Arc::new)
        });
        match thoughts {
            Ok(thoughts) => {
                let thoughts = Arc::clone(thoughts);
                let thinking = Thinking::new(thoughts, encoded.thinks, most, has_form);
                Ok(Some(Box::new(thinking)))
            }
            Err(reason) => {
                let limit = format!("left out, this model's tokens allow none: {reason}");
                Err(ModelError::parameter(
                    "reasoning_tokens",
                    "asked for",
                    limit,
                ))
            }
        }
    }

    /// What an answer must be: its structure, the calls that it must have, or both.
    fn matcher(
        &self,
        prompt: &Prompt,
        structure: Option<&Structure>,
    ) -> Result<Option<Box<Matcher>>, ModelError> {
        let compiled = match prompt {
            Prompt::Chat(conversation) => {
                let form = self.form(prompt);
                functions::matcher(conversation, structure, form, |structure| {
                    self.compile(structure)
                })?
            }
            Prompt::Raw(_) => None,
        };
        match (compiled, structure) {
            (Some(matcher), _) => Ok(Some(Box::new(matcher))),
            (None, Some(structure)) => Ok(Some(Box::new(self.compile(structure)?))),
            (None, None) => Ok(None),
        }
    }

    /// A text's tokens for an encoder.
    fn text(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        if text.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let most = if self.truncate {
            self.context
        } else {
            usize::MAX
        };
        let tokens = self.tokenizer.encode_text_to(text, most);
        let tokens = tokens.map_err(refused)?;
        self.check_text(&tokens)?;
        Ok(tokens)
    }

    /// The same with the places of the tokens.
    fn placed(&self, text: &str) -> Result<(Vec<u32>, Vec<Option<TokenPlace>>), ModelError> {
        if text.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let most = if self.truncate {
            self.context
        } else {
            usize::MAX
        };
        let placed = self.tokenizer.encode_places(text, most);
        let PlacedText { tokens, places } = placed.map_err(refused)?;
        self.check_text(&tokens)?;
        Ok((tokens, places))
    }

    fn check_text(&self, tokens: &[u32]) -> Result<(), ModelError> {
        let limit = self.context;
        match tokens.len() {
            0 => Err(ModelError::EmptyPrompt),
            tokens if tokens > limit => Err(ModelError::PromptTooLong { tokens, limit }),
            _ => Ok(()),
        }
    }

    /// The tokens of a query that so many documents are to be ranked by.
    pub(crate) fn query(&self, query: &str, documents: usize) -> Result<Vec<u32>, ModelError> {
        if query.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if !(1..=MOST_DOCUMENTS).contains(&documents) {
            return Err(ModelError::parameter(
                "the count of documents",
                documents,
                format!("1 to {MOST_DOCUMENTS}"),
            ));
        }
        let around = self.tokenizer.around_pair();
        let around = around.ok_or_else(|| refused(PromptError::NoPairs))?;
        if self.context < around + 2 {
            return Err(ModelError::PromptTooLong {
                tokens: around + 2,
                limit: self.context,
            });
        }
        self.tokenizer.encode_literal(query).map_err(refused)
    }

    /// A query of these tokens with a document, cut to what the model can take: see [`Tokenizer::encode_pair`].
    pub(crate) fn pair(&self, query: &[u32], document: &str) -> Result<EncodedPair, ModelError> {
        let encoded = (self.tokenizer).encode_pair_with(query, document, self.context);
        let mut pair = encoded.map_err(refused)?;
        if self.types < 2 {
            // A model with one type has no other for the second text, whatever the template says.
            pair.types.clear();
        }
        Ok(pair)
    }

    /// A structure for this model's tokens; quick if it was compiled before.
    pub(crate) fn compile(&self, structure: &Structure) -> Result<Matcher, ModelError> {
        let compiler = self.compiler.get_or_init(|| {
            constraint::compiler(&self.tokenizer, self.vocabulary, &self.end_tokens)
                .map_err(|error| error.to_string())
        });
        match compiler {
            Ok(compiler) => constraint::matcher(compiler, structure),
            Err(reason) => Err(ModelError::parameter(
                "structure",
                "asked for",
                format!("left out, this model's tokens allow none: {reason}"),
            )),
        }
    }
}

/// A text that is no pair.
fn single(tokens: Vec<u32>) -> EncodedPair {
    EncodedPair {
        tokens,
        types: Vec::new(),
    }
}

/// Whether reasoning has a lane of its own.
fn thinks_apart(conversation: &Conversation) -> bool {
    conversation.lanes || conversation.reasoning_apart
}

/// The beginning of the answer, where the conversation has it, and what stands before.
fn continued(conversation: &Conversation) -> Result<Option<(&Message, &[Message])>, ModelError> {
    if !conversation.continues {
        return Ok(None);
    }
    let must_call = !matches!(
        conversation.function_choice,
        FunctionChoice::Auto | FunctionChoice::None
    );
    match conversation.messages.split_last() {
        Some((last, before)) if last.role == Role::Assistant && last.calls.is_empty() => {
            match (must_call, before) {
                (true, _) => Err(not_continued("of an answer that must call a function")),
                (false, []) => Err(ModelError::EmptyPrompt),
                (false, before) => Ok(Some((last, before))),
            }
        }
        _ => Err(not_continued(
            "where the last message is no text of the assistant",
        )),
    }
}

fn not_continued(what: &str) -> ModelError {
    ModelError::Prompt(format!("the beginning is given {what}"))
}

fn refused(error: PromptError) -> ModelError {
    ModelError::Prompt(error.to_string())
}
