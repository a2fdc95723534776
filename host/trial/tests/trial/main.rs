//! Cases over real components: what is read, what is run, what is said of differences and what is written.
//!
//! The guests are built by `cargo xtask operators`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod measured;
mod reading;
mod runs;
mod support;
mod texts;
mod updated;
