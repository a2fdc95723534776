//! The endpoints over a flow that plays a script.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bodies;
mod chat;
mod cuts;
mod doors;
mod flow;
mod going;
mod kept;
mod left;
mod lives;
mod load;
mod meanings;
mod quotas;
mod repeating;
mod responses;
mod sharing;
mod texts;
