//! The gateway of whole programs, asked over sockets and by published clients.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod client;
mod feeds;
mod keys;
mod published;
mod records;
mod remote;
mod remote_chain;
#[path = "../../../host/connect/tests/remote/server.rs"]
#[allow(dead_code)] // The room it belongs to uses the rest of it.
mod server;
mod tokens;
