//! Ingest: records that clients post, in the ingest log before they are told so.
//!
//! `POST /v1/ingest/SOURCE` takes JSON lines, one JSON document or one raw record. All records of a request are kept, or
//! none: a line that is wrong refuses the request, with its number. [`IngestSource`] reads the log into the pipeline; the
//! cuts hold how far that has come, and the log lets go of what they are done with.

mod decode;
mod endpoint;
mod idempotency;
mod refusal;
mod source;

pub use endpoint::{Ingest, IngestOptions};
pub use source::IngestSource;

pub(crate) use refusal::Refusal;
