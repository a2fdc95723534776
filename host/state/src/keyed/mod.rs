//! A log of values by key, in one file.
//!
//! What it has is small and may be asked for anew, so it is never a reason not to start: what is damaged is cut away
//! with all that follows it, and what another key of the state sealed is forgotten, each with a message.
//!
//! Invariants:
//! - what `write` has acknowledged outlives the process, and what it has acknowledged as durable the machine;
//! - after a write that failed, what is in the file is not known: before the next one the file is written anew, from what
//!   can be read of it;
//! - the file is at most twice as long as what counts in it, and a little more.

mod format;
mod log;

pub use log::{FileKeyedLog, OpenedKeyedLog};
