//! The HTTP front: requests of OpenAI's clients are records, and their answers the records' ways through the pipeline.
//!
//! The front ([`exchange`]) takes connections and refuses what no request may be; endpoints make records of requests,
//! and answers of what becomes of them. This room knows no model, no operator and no pipeline: it is a source, a sink
//! and the callers of `flow`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod access;
pub mod endpoints;
pub mod exchange;
pub mod front;
pub mod idempotency;
pub mod ingest;
pub mod openai;
pub mod outputs;
pub mod requests;
mod traced;
