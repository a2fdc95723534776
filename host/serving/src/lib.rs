//! Serving: many requests, the models of one adapter, and models that stand on several.
//!
//! One thread owns every model of an engine, which is that of an adapter. Between two steps requests join and leave: those whose deadline passed or
//! cannot be met and those that were cancelled go, waiting ones take KV blocks in the order of class, deadline slack and
//! arrival, and the rows of the next step are filled with one row for every answer in the making, then with guesses, and
//! then with pieces of prompts. While a step runs, masks are made for it, and those who asked are told what the step before
//! has made. The schedulers have no thread and no clock; the engine lends them both. A model may have replicas on several
//! engines: each request goes to one of them, and on to another where that one can do no more ([`load_replicas`]).
//!
//! It deliberately does not know streams, records or HTTP, nor devices, weights or kernels: it sees a
//! [`tidegate_contract::Decoder`] or [`tidegate_contract::Encoder`], a tokenizer and grammars.
//!
//! Invariants:
//! - every accepted request ends with exactly one `done`, also when a reply panics, a device fails or the engine ends;
//! - an answer depends on its request only, as far as the decoder's draws do: never on what ran beside it, on how its
//!   prompt was cut into pieces, on blocks it found, lost or shared, on guesses, or on whether it was resumed;
//! - a request that ended holds no block, and what is pinned leaves room for any that is taken; no queue holds more than its limit;
//! - nothing here waits without a limit, and no lock that another thread waits for is held while a decoder, a loader or a reply
//!   is called.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
mod blocks;
mod budget;
mod constraint;
mod costs;
mod counts;
mod device_model;
mod documents;
mod encoding;
mod engine;
mod entities;
mod error;
mod functions;
mod generator;
mod guard;
mod guess;
mod handle;
mod hosted;
mod loader;
mod model;
mod moves;
mod options;
mod order;
mod parameters;
mod pauses;
mod pins;
mod remaining;
mod replicas;
mod reply;
mod request;
mod sequence;
mod shares;
mod slot;
mod stats;
mod thoughts;
mod worker;

#[cfg(test)]
mod tests;

pub use engine::{Engine, MissingReplica, load_replicas};
pub use error::LoadError;
pub use handle::ModelHandle;
pub use options::{
    Draft, EngineOptions, LoadDecoder, LoadEncoder, LoadedLora, MOST_GUESSES, ModelLoader,
    ModelOptions, ModelSource,
};
pub use pauses::Pauses;
pub use pins::{Pin, most_pinned, pinned_blocks};
pub use stats::{EngineStats, LoraStats, ModelStats, ReplacedStats, ReplicaStanding, ReplicaStats};
