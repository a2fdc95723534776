//! What models on other servers promise, against servers that do as a test says.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alone;
mod beside;
mod broken;
mod chat;
mod encode;
mod ending;
mod secure;
mod server;
mod support;
mod trying;
mod waiting;
