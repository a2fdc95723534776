//! Models on disk: what is read, what is refused, and with which words.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocks;
mod configurations;
mod converted;
mod goldens;
mod hostile_gguf;
mod hostile_lora;
mod hostile_safetensors;
mod made;
mod made_packed;
mod packed;
mod parts;
mod probe;
mod random;
mod refused_configurations;
mod sentence_files;
mod summaries;
mod unread_gguf;
