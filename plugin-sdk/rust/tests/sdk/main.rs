//! What authors of operators are given: the committed bindings, and a record that is plain.

#![allow(clippy::unwrap_used, missing_docs)]

mod bindings;
mod cases;
mod configurations;
mod operators;
