//! Records that somebody waits for: what they ask, who hears of them, and how their answers are shown. Sources, sinks,
//! operators and models are native here; tasks, cuts and the log are the real ones.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod again;
mod alternatives;
mod asking;
mod audited;
mod blocks;
mod counts;
mod feeding;
mod gated;
mod gone;
mod lanes;
mod left;
mod listening;
mod losing;
mod makers;
mod native;
mod setting;
mod table;
mod tokens;
