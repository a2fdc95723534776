//! The ingest log: what clients handed over, durable before they are told so, until the pipeline is done with it.
//!
//! A log is a directory of segment files, see [`format`]. Batches that arrive while others are being written share the
//! next write and its sync. Files are slots that are used again, so that a log needs no list of names: one that is let go
//! of is replaced by an empty one.
//!
//! Invariants:
//! - a batch is kept when `append` has returned, whole or not at all;
//! - an idempotency key keeps one batch, across restarts and when its records are gone, as long as it is among the newest;
//! - after a failed sync of its segment nothing more is written: only a restart, which reads what is really there, goes
//!   on. A write that failed before its sync is cut away, and if that holds the log goes on; so it does where a new file
//!   could not be made, which is made again in the same place;
//! - records are read only once they are durable.

mod format;
mod keys;
mod limits;
mod live;
mod log;
mod open;
mod passed;
mod passing;
mod segment;
mod unread;
mod write;

pub use limits::IngestLimits;
pub use log::FileIngestLog;
pub use passed::{OpenedKeys, Passed, PassedKeys};
pub use passing::{PassingLog, TimeOf};
pub use unread::UnreadLog;
