//! A log of values by key, in one file.
//!
//! What it has is small and may be asked for anew, so it is never a reason not to start: of a file that is damaged what can
//! be read is kept and the file put aside, and what another key of the state sealed is forgotten, each with a message.
//!
//! Invariants:
//! - what `write` has acknowledged outlives the process, and what it has acknowledged as durable the machine;
//! - after a write that failed, what is in the file is not known: before the next one the file is written anew, from what
//!   can be read of it;
//! - what is gone of a file that was written is never gone in silence: whoever writes next is told its keys;
//! - the file is at most twice as long as what counts in it and has time left, and a little more.

mod format;
mod log;
mod plain;
mod read;

pub use log::{FileKeyedLog, OpenedKeyedLog};
pub(crate) use plain::InPlain;
