//! The float64 reference: every kernel as plain loops on the CPU, and the decoder and encoder made of them.
//!
//! It is the yardstick that device kernels and whole models are tested against, and slow on purpose: one row at a time,
//! in the order the formulas are written. It deliberately does not know devices, text, or how work is scheduled.
//!
//! Invariants:
//! - every sum, norm and softmax is float64, from the first row to the logits; only what leaves through the ports of
//!   `contract` is rounded to f32;
//! - a row's result depends on its sequence's tokens alone: not on the batch, the chunk, or which blocks are used.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod decoder;
mod encoder;
mod error;
mod experts;
pub mod golden;
pub mod kernels;
pub mod sampling;
mod weights;
pub mod wide;

pub use decoder::ReferenceDecoder;
pub use encoder::ReferenceEncoder;
pub use error::LoadError;
