//! Bytes to records and records to bytes: JSON lines, CSV, raw lines, the JSON form of a dead letter, and
//! tokens on their way to readers.
//!
//! Pure: no IO, no clock, no knowledge of files or topics. `connect` brings bytes and places; what cannot become a
//! record comes back as [`Malformed`], a reason with the place and the value, and goes to the dead letters there.
//!
//! Invariants:
//! - a piece of input becomes exactly one record or exactly one reason, never both and never nothing;
//! - JSON lines keep their bytes: what is read is what operators and sinks see, numbers included;
//! - where lines are cut does not depend on how the input was divided into reads;
//! - an encoder appends a whole record, on exactly one line where the format has lines, or nothing.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod csv;
mod cut;
mod dead;
mod dead_read;
mod decode;
mod encode;
mod json;
mod text;
mod time;
pub mod tokens;

pub use csv::{MAX_COLUMN_NAME, MAX_COLUMNS};
pub use cut::{Cutter, PREVIEW, Piece, Rule};
pub use dead::{SENT_FROM, encode_dead_letter, encode_dead_letter_cut};
pub use dead_read::{StoredLetter, decode_dead_letter};
pub use decode::{Decoder, DecoderOptions, Format, Input, Malformed};
pub use encode::{EncodeError, Encoder, EncoderOptions};
pub use text::base64_text;
pub use time::{format_time, parse_time};

/// Options that contradict each other or cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {why}")]
pub struct OptionError {
    /// The option's name.
    pub option: &'static str,
    /// What is wrong, with the value.
    pub why: String,
}
