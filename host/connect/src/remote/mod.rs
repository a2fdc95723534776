//! Models on other servers: those that speak OpenAI's protocol, and encoders and classifiers behind KServe's version 2.
//!
//! It is the only part of this crate that names hyper.

mod address;
mod answering;
mod assembly;
mod batch;
mod breaker;
mod budget;
mod chunks;
mod clock;
mod encoding;
mod estimate;
mod events;
mod fetch;
mod gate;
mod http;
mod json;
mod lateness;
mod model;
mod options;
mod protocol;
mod reply;
mod request;
mod rest;
mod secret;
mod server;
mod side;
mod sse;
mod stats;
mod task;
mod trouble;

pub use clock::Clock;
pub use estimate::tokens as estimated_tokens;
pub use fetch::{fetch, fetch_with};
pub use model::RemoteModel;
pub use options::{
    BreakerOptions, Dialect, Hedge, Kserve, LimitName, OpenAi, RemoteError, RemoteKind,
    RemoteOptions, RemoteTimeouts, RetryBudget, Roots,
};
pub use secret::Secret;
pub use stats::{RemoteStats, Standing};
