//! The front on loopback sockets, byte by byte, and who is let in.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod begun;
mod bodies;
mod client;
mod cors;
mod framing;
mod gone;
mod keys;
mod life;
mod limits;
mod quotas;
mod refused;
mod secure;
mod served;
