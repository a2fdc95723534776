//! Structures: what an answer may say next, with tokens made for the tests and those of a real model.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
mod hostile;
mod matcher;
mod real_vocabulary;
mod walks;
