//! Ingest and outputs: what clients post is kept before they are told so, and what they follow is never cut in silence.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod asking;
mod events;
mod posting;
mod source;
mod websocket;
