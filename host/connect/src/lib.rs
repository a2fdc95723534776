//! Sources and sinks, named by protocol: files, standard input and output, Kafka. And models on other servers.
//!
//! This crate knows bytes, places and positions. It does not know pipelines, operators, models or cuts: `flow` polls
//! the sources, decides what is done and calls `commit`, `flush` and `recover`. It is the only crate that names rdkafka.
//!
//! Invariants:
//! - a source gives every piece of its input once and in order, as a record or as a rejection with its reason, and
//!   goes on from any position it has given as if it had never stopped; blank lines of JSON and CSV are no pieces;
//! - a poll returns after a bounded number of reads, whatever they hold;
//! - memory is bounded whatever the input: a line is skipped as it streams by once it is longer than `max-record`;
//! - a sink sees [`PublicRecord`](tidegate_record::PublicRecord) alone, so private attributes cannot leave through it;
//! - a file that is written is held by its one sink: nobody else's bytes are cut away, counted or written between;
//! - files are reached through the directory handle taken when they were opened, by name, and by nothing else.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod again;
pub mod file;
pub mod kafka;
mod lines;
pub mod remote;
pub mod standard;

pub use again::{
    LetterSource, MAX_LETTER_ID, letter_batch, letter_death, letter_sent, unsealable, unsendable,
};

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_codec::EncodeError;
use tidegate_contract::SinkError;

/// Now, microseconds since the Unix epoch: the clock of a batch.
fn now_micros() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}

fn encode_error(error: EncodeError) -> SinkError {
    SinkError::Encode {
        format: error.format,
        why: error.why,
    }
}
