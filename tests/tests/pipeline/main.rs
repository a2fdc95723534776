//! Whole pipelines: what a user was promised.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod accounts;
mod asking;
mod compile;
mod crash;
mod disk;
mod examples;
mod hostile;
mod house;
mod inputs;
mod kill;
mod malformed;
mod minilm;
mod model_commands;
mod models;
mod native;
mod pressure;
mod readme;
mod refused;
mod revisions;
mod slots;
mod swap;
mod toolchains;
mod try_out;
mod waiting;
mod workers;
