//! Processes, brokers and operators that are taken away while records flow. What was promised is proven from outside: by
//! a reader of committed records during the run and after it, and one of all records, which must have seen aborted ones.
//!
//! Whatever is left to chance comes of `TIDEGATE_CHAOS_SEED`, which each run prints; the machine's own timing does not.

mod broker;
mod check;
mod groups;
mod kills;
mod operators;
mod planted;
mod scene;
mod topics;
