//! The reference against the transformers library, and against itself under other schedules.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod converted;
mod decoders;
mod encoders;
mod other_names;
mod schedules;
mod support;
mod supported;
