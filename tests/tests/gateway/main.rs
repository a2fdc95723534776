//! The gateway of whole programs, asked over sockets and by published clients.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod client;
mod keys;
mod published;
mod records;
mod tokens;
