//! Models on disk: what is read, what is refused, and with which words.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocks;
mod configurations;
mod converted;
mod documented;
mod goldens;
mod hostile_gguf;
mod hostile_safetensors;
mod made;
mod parts;
mod probe;
mod random;
mod refused_configurations;
mod summaries;
