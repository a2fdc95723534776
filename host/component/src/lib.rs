//! Components as files. A core module is given its component type and made a component; a component is stripped, and
//! says what it imports and what made it.
//!
//! The crate reads and writes bytes. It compiles nothing, runs nothing and knows no wasmtime.
//!
//! Invariants:
//! - the same bytes in give the same bytes out;
//! - what is malformed is refused in words before a library that takes it for granted sees it.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod encode;
mod producers;
mod read;
mod strip;

pub use encode::{EncodeError, embed, encode};
pub use producers::{Producer, producers, sign};
pub use read::{digest, digest_of, imports, module_imports};
pub use strip::{Names, strip};
