//! Tokens and prompts: what `transformers`, llama.cpp and the makers of models make of them, and text as it comes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gguf;
mod golden;
mod prompts;
mod published;
mod streaming;
mod tools;
