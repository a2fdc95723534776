//! The model port: the request contract.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{Aggregation, Entity, ModelError, TemplateArguments};

/// Number of a request, unique in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Who speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator of the pipeline.
    System,
    /// The record, or the one who asks.
    #[default]
    User,
    /// The model, in an earlier turn.
    Assistant,
    /// What a function that the model called has answered.
    Tool,
}

/// One message of a chat; the model's chat template renders them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text; empty where an assistant only called functions.
    #[serde(default)]
    pub content: String,
    /// Who it is among those of the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What an assistant thought before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Functions that an assistant called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// The call that a [`Role::Tool`] answers, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
}

impl Message {
    /// A message that is a text.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message {
            role,
            content: content.into(),
            ..Message::default()
        }
    }
}

/// A call of a function that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Unique in a conversation.
    pub id: String,
    /// The function.
    pub name: String,
    /// JSON text, as the model wrote it: an object, where the call has its form.
    pub arguments: String,
}

/// A function that a model may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments, JSON text; an object.
    pub parameters: String,
    /// Whether arguments keep to the schema.
    #[serde(default)]
    pub strict: bool,
}

/// Which functions are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FunctionChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// None, though the model sees them.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// A chat, with the functions that may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// At least one.
    pub messages: Vec<Message>,
    /// What may be called; each name once.
    pub functions: Vec<Function>,
    /// Which are.
    pub function_choice: FunctionChoice,
    /// Whether one answer may call several.
    pub parallel_calls: bool,
    /// Whether reasoning and calls are taken out of the text of the answer, each into a lane of its own. Without, an
    /// answer is one text, as the model wrote it.
    pub lanes: bool,
    /// Whether reasoning has a lane of its own also where `lanes` is not asked for: then calls alone stay in the text.
    pub reasoning_apart: bool,
    /// What the chat template is given beside messages and functions.
    pub template_arguments: TemplateArguments,
    /// Whether the last message, an assistant's text, is the beginning of the answer: what is made goes on where it ends.
    pub continues: bool,
}

impl From<Vec<Message>> for Conversation {
    /// Without functions, and the answer is one text.
    fn from(messages: Vec<Message>) -> Conversation {
        Conversation {
            messages,
            ..Conversation::default()
        }
    }
}

/// The class of what is asked beside the stream: behind all that a pipeline file can name, 0 to 9.
pub const CLASS_BESIDE: u8 = 10;

/// Of so many places or rights, those that what is beside the stream may have at once.
#[must_use]
pub const fn share_beside(all: usize) -> usize {
    match all / 4 {
        0 => 1,
        share => share,
    }
}

/// Most stop strings of a request.
pub const MOST_STOPS: usize = 64;

/// Most documents that one request puts in order.
pub const MOST_DOCUMENTS: usize = 1024;

/// Most calls of functions in one answer.
pub const MOST_CALLS: usize = 128;

/// How to generate. How the parts of the sampling follow each other is said at [`crate::Sampling`].
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Most tokens of an answer.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// How many of the likeliest tokens are sampled from; 0 is all.
    pub top_k: u32,
    /// Share of probability that is sampled from, above 0 to 1.
    pub top_p: f32,
    /// Least probability of a token as a share of the likeliest's, 0 to below 1.
    pub min_p: f32,
    /// Divides the logit of what stands in prompt or answer; 1 is none, above 0.
    pub repetition_penalty: f32,
    /// Taken from the logit of what stands in the answer, -2 to 2.
    pub presence_penalty: f32,
    /// Taken from the logit for each time a token stands in the answer, -2 to 2.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens, -100 to 100.
    pub logit_bias: Vec<(u32, f32)>,
    /// `Some(n)`: each token's log-probability and the n likeliest at its place, n at most 20.
    pub logprobs: Option<u8>,
    /// Answers to make; each has a seed of its own, the first the request's.
    pub n: u32,
    /// The answer ends before any of these, [`MOST_STOPS`] at most. Where reasoning has a lane of its own, they are not
    /// looked for in it.
    pub stop: Vec<String>,
    /// Most tokens of the reasoning, where it has a lane of its own: then what ends it is put behind them, and the answer
    /// begins. They are of `max_tokens`, too.
    pub reasoning_tokens: Option<u32>,
    /// What the answer must be.
    pub structure: Option<Structure>,
    /// Whether tokens are guessed ahead and checked together; the answer is the same.
    pub speculation: Speculation,
}

impl Default for Parameters {
    /// Greedy, 256 tokens, one answer.
    fn default() -> Self {
        Parameters {
            max_tokens: 256,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            logprobs: None,
            n: 1,
            stop: Vec::new(),
            reasoning_tokens: None,
            structure: None,
            speculation: Speculation::Auto,
        }
    }
}

/// What an answer must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// A JSON value that the JSON Schema, itself JSON text, accepts.
    JsonSchema(String),
    /// A text that the regular expression matches from its beginning to its end.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A text of a grammar in Lark's syntax, as llguidance reads it.
    Grammar(String),
}

/// Whether tokens are guessed ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speculation {
    /// The draft model's guesses if there is one, else look-up in prompt and answer.
    #[default]
    Auto,
    /// Look-up in prompt and answer only.
    PromptLookup,
    /// No guesses.
    Off,
}

/// What a model makes an answer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A chat, rendered with the model's template.
    Chat(Conversation),
    /// A text to be gone on with, as it is: after the tokens that the tokenizer begins a text with, and no template.
    Raw(String),
}

/// What is asked of a model.
#[derive(Clone, Debug, PartialEq)]
// A task is moved a few times and never kept in numbers: most are of the larger kind anyway.
#[allow(clippy::large_enum_variant)]
pub enum ModelTask {
    /// An answer.
    Generate {
        /// What it answers.
        prompt: Prompt,
        /// Tokens of the first answer that are already made: generation goes on after them.
        forced_prefix: Vec<u32>,
        /// How to generate.
        parameters: Parameters,
    },
    /// The vector, or the scores of the labels, of a text: for models that are encoders.
    Encode {
        /// The text.
        text: String,
    },
    /// The entities in a text: for models that label tokens.
    Recognize {
        /// The text.
        text: String,
        /// How tokens become entities.
        aggregation: Aggregation,
    },
    /// How well each document answers a query: for models that score pairs of texts.
    Rank {
        /// The first text of each pair.
        query: String,
        /// The second ones: 1 to [`MOST_DOCUMENTS`].
        documents: Vec<String>,
    },
}

/// A request to a model.
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// Counted from 1; a reader of tokens keeps those of the highest.
    pub attempt: u32,
    /// Seed of the sampling.
    pub seed: u64,
    /// What is asked.
    pub task: ModelTask,
    /// Lower goes first.
    pub class: u8,
    /// When the answer is of no more use.
    pub deadline: Option<Instant>,
    /// Where tokens and the answer go.
    pub reply: Box<dyn Reply>,
}

/// Receives what the model makes. Called on the engine's thread: must not block.
pub trait Reply: Send {
    /// A token of the first answer: its index, its number, and the text that became certain with it (may be empty: a
    /// character or a stop string may be half made).
    fn token(&mut self, index: u32, token: u32, text: &str);

    /// A part of an answer that became certain, of any choice and lane: for those who show answers as they are made.
    /// Called before [`token`](Reply::token) of the same token. The texts of a lane, one after another, are the text
    /// that the finished answer has there.
    fn piece(&mut self, piece: &Piece<'_>) {
        let _ = piece;
    }

    /// Whether [`piece`](Reply::piece) and [`choice_ended`](Reply::choice_ended) are of any use: where they are not, no
    /// pieces are made. Asked once, before the first.
    fn wants_pieces(&self) -> bool {
        true
    }

    /// The W3C trace context that a request to another server goes on with, if what is asked is traced. Asked once.
    fn traceparent(&self) -> Option<String> {
        None
    }

    /// One of several answers has ended before the others: no piece of it comes after this. That all have ended is said
    /// by [`done`](Reply::done).
    fn choice_ended(&mut self, choice: u32) {
        let _ = choice;
    }

    /// The end of the request. Called exactly once.
    fn done(self: Box<Self>, result: Result<Answer, ModelError>);
}

/// Which text of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// What is said.
    Content,
    /// What is thought before.
    Reasoning,
    /// The arguments of the call with this index, counted from 0: JSON text.
    Arguments(u32),
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<'a> {
    /// Which of the `n` answers.
    pub choice: u32,
    /// Index of the last token of it, counted from 0 in its choice.
    pub index: u32,
    /// Which text it belongs to.
    pub lane: Lane,
    /// The text; may be empty.
    pub text: &'a str,
    /// The call that begins with this piece: id and name.
    pub begins: Option<(&'a str, &'a str)>,
    /// Log-probabilities of the tokens that it is made of, where asked for.
    pub logprobs: &'a [TokenLogprob],
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    End,
    /// A stop string came.
    Stop,
    /// `max_tokens` or the context was reached.
    Length,
    /// It ended with calls of functions.
    Calls,
    /// A handler of its text ended it.
    Filtered,
}

impl Finish {
    /// The word used in records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Finish::End => "end",
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Calls => "calls",
            Finish::Filtered => "filtered",
        }
    }
}

/// How long the parts of a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From submission to the first step.
    pub queued: Duration,
    /// From the first step to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What was made.
    pub made: Made,
    /// Tokens of the prompt or text.
    pub prompt_tokens: u32,
    /// The adapter that it was made on, with its backend; all of them in their order where it went on on another. Empty where
    /// another server made it, or nobody knows any more.
    pub adapter: String,
    /// How long its parts took.
    pub timings: Timings,
}

/// What a model made of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// One for each of the `n` answers, at least one.
    Choices(Vec<Choice>),
    /// A vector of unit length.
    Embedding(Vec<f32>),
    /// A probability for each label, in the model's order.
    Labels(Vec<(String, f32)>),
    /// The entities of a text, in the order in which they stand there.
    Entities(Vec<Entity>),
    /// The score of each document, in the order in which they were asked for; higher is better.
    Relevance(Vec<f32>),
}

/// One generated answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The text, without stop string.
    pub text: String,
    /// What was thought before it, where it has a lane of its own.
    pub reasoning: String,
    /// Of `tokens`, the first so many are the reasoning, with what begins and ends it. Of another server's answer it is
    /// what that says.
    pub reasoning_tokens: u32,
    /// Functions that it calls, where lanes are asked for.
    pub calls: Vec<Call>,
    /// The tokens made, forced prefix included.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// One for each token that was made here, where asked for; none for a forced prefix.
    pub logprobs: Vec<TokenLogprob>,
}

impl Choice {
    /// Its log-probabilities of the content alone.
    pub fn said_logprobs(&self) -> impl Iterator<Item = &TokenLogprob> {
        self.logprobs.iter().filter(|each| each.said)
    }
}

/// A token's probability and its rivals'.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// The likeliest tokens at its place, likeliest first.
    pub top: Vec<(u32, f32)>,
    /// Whether it is of the content: not of the reasoning or a call, nor of what begins and ends either, nor white space
    /// between them and the content, nor of a stop string.
    pub said: bool,
}

/// What a model is, for messages, summaries and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Name: that of the directory.
    pub name: String,
    /// Digest of the weights, `sha256:` and hexadecimal digits.
    pub digest: String,
    /// The adapter it runs on, with its backend.
    pub adapter: String,
    /// Positions of a sequence.
    pub context: u32,
    /// Sequences that run at once.
    pub sequences: u32,
}

/// What a model makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// Text.
    Text,
    /// Vectors.
    Embeddings,
    /// Labels with probabilities.
    Labels,
    /// Entities in texts.
    Entities,
    /// Scores of pairs of texts.
    Relevance,
}

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// Takes a request; never blocks. A full queue refuses with [`ModelError::Full`] and gives the request back, so
    /// that the task waits.
    #[allow(clippy::result_large_err)]
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)>;

    /// The request is of no more use; its reply still ends, with [`ModelError::Cancelled`] or an answer.
    fn cancel(&self, id: RequestId);

    /// A request has said enough: each of its answers ends with what it has, as [`Finish::Filtered`]. One that has ended
    /// stays as it is.
    fn end(&self, id: RequestId) {
        self.cancel(id);
    }

    /// How many tokens a text has.
    fn count_tokens(&self, text: &str) -> Result<usize, ModelError>;

    /// How many tokens a prompt has with everything around it, checked as for a request: for those who must know before
    /// they submit one. Where the model cannot say so it is the tokens of the texts alone.
    ///
    /// # Errors
    /// What a request with this prompt would end with: among others [`ModelError::PromptTooLong`],
    /// [`ModelError::EmptyPrompt`] and [`ModelError::Prompt`].
    fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        self.text_tokens(prompt)
    }

    /// How many tokens the texts of a prompt have, without what stands around them.
    fn text_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        match prompt {
            Prompt::Raw(text) => self.count_tokens(text),
            Prompt::Chat(chat) => {
                let texts = chat.messages.iter().map(|message| &message.content);
                let texts = texts.chain(chat.functions.iter().map(|function| &function.parameters));
                texts.map(|text| self.count_tokens(text)).sum()
            }
        }
    }

    /// What it makes.
    fn makes(&self) -> Makes {
        Makes::Text
    }

    /// The longest beginning of a text that has at most this many tokens, cut between characters.
    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError>;

    /// A token as text, for people: what is no whole character becomes U+FFFD. None if it is no token with a text.
    fn token_text(&self, token: u32) -> Option<String> {
        let _ = token;
        None
    }

    /// The token that is exactly this text; none if the text is more than one token, or the model takes no tokens.
    fn token_id(&self, text: &str) -> Option<u32> {
        let _ = text;
        None
    }

    /// What it is.
    fn facts(&self) -> ModelFacts;

    /// Whether another server makes its answers.
    fn is_remote(&self) -> bool {
        false
    }

    /// How often something was loaded in its place: between two equal numbers and digests there was no other.
    fn loads(&self) -> u64 {
        0
    }
}
