//! Structured output: which tokens may come next so that an answer becomes what was asked for.
//!
//! A [`Vocabulary`] holds the bytes of a model's tokens, a [`Compiler`] makes a JSON Schema, a regular expression, a list
//! of choices or a grammar into a [`Matcher`], and the matcher says, token by token, what may follow. It deliberately
//! does not know models, sampling, requests or tokenizers: tokens are bytes here.
//!
//! Invariants:
//! - only this crate names `llguidance`;
//! - a text whose tokens were all taken from the masks, and that ended where the mask allowed the end, is what the
//!   structure asks for;
//! - a structure is data from outside: a wrong one is an error that says where and why, an excessive one ends at a limit;
//! - nothing here panics, and a refused token leaves the matcher as it was.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod calls;
mod compile;
mod compiler;
mod error;
mod matcher;
mod recent;
mod vocabulary;

pub use calls::{CallGrammar, CallShape, Mark, Otherwise};
pub use compiler::{Compiler, Limits};
pub use error::GrammarError;
pub use matcher::Matcher;
pub use vocabulary::Vocabulary;
