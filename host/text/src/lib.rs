//! Tokens and text: a model's tokenizer, its chat template, and the way back from tokens to a stream of text.
//!
//! It deliberately does not know models, weights, requests or sampling: it reads `tokenizer.json`,
//! `tokenizer_config.json` and `chat_template.jinja`, or the same from a GGUF file's tables, and turns text into token ids
//! and back.
//!
//! Invariants:
//! - only this crate names `tokenizers` and `minijinja`;
//! - text that streams out is whole characters only, and its parts joined are the text of all tokens;
//! - what a message or a function says never becomes a special token, whatever it is;
//! - a broken file is an error that names the file and the field, never a panic.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod chat;
mod config;
mod conversation;
mod date;
mod detokenize;
mod encode;
mod error;
mod form;
mod functions;
mod gguf;
mod lanes;
mod literal;
mod pair;
mod place;
mod python;
mod reasoning;
mod save;
mod stop;
mod token_bytes;
mod tokenizer;
mod truncate;
mod turn;

#[cfg(test)]
mod fixture;

pub use chat::ChatMessage;
pub use conversation::EncodedChat;
pub use detokenize::Detokenizer;
pub use error::{LoadError, PromptError, SaveError};
pub use form::{AnswerForm, CallForm, Channels, Tag};
pub use lanes::{LaneParser, Segment};
pub use pair::EncodedPair;
pub use place::{PlacedText, TokenPlace};
pub use reasoning::{ReasoningMarks, ReasoningPlace, ReasoningStep, Unit, is_space};
pub use stop::StopStrings;
pub use tokenizer::Tokenizer;
