//! The gateway of whole programs, asked over sockets and by published clients.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adapted;
mod answers;
mod audit;
mod beside;
mod client;
mod conversations;
mod doors;
mod echo;
mod feeds;
mod figures;
mod frames;
mod gone;
mod held;
mod hostile;
mod keys;
mod killed;
mod load;
mod metrics;
mod opening;
mod page;
mod private;
mod prometheus;
mod published;
mod records;
mod remote;
mod remote_chain;
mod remote_status;
#[path = "../../../host/connect/tests/remote/server.rs"]
#[allow(dead_code)] // The room it belongs to uses the rest of it.
mod server;
mod signed;
mod starting;
mod streams;
mod tokens;
mod traces;
mod vectors;
mod workers;
