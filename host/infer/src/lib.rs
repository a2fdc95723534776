//! The model room: a Llama-family decoder on any GPU that wgpu reaches, and the engine that serves it.
//!
//! It deliberately does not know streams, records, pipelines or HTTP, and downloads nothing: it reads a directory with
//! `config.json`, `model.safetensors` and `tokenizer.json`.
//!
//! Invariants:
//! - only this crate names `wgpu`; no optional wgpu feature is asked for;
//! - the number of dispatches in a step depends on the model, never on the number of rows or sequences;
//! - weights are stored in their own precision, and every sum is accumulated in f32;
//! - a device that fails, stalls or runs out of memory is a typed error, never a panic.

pub mod decoder;

pub use decoder::{DecodeError, Decoder, DecoderShape, StepRow};
