//! What survives: the commit log and the disk beneath it.
//!
//! A pipeline that runs alone has one state directory and one committer. The commit log in it is the only place where
//! "this happened" is written; sinks and positions mean nothing until it says so. See [`format`](mod@format) for the
//! bytes.
//!
//! This crate knows nothing of records, operators or models: an in-flight entry is bytes to it. What it does with them
//! is to encrypt them, because they hold private attributes.
//!
//! Invariants:
//! - a cut holds when `commit` returns, and a torn write at the end of the log is a cut that never was;
//! - after one failed write nothing more is written: only a restart, which reads what is really there, goes on; a
//!   failed compaction counts as one, but the cut that called for it holds and is answered as such;
//! - a log has one committer: its own file is locked, and every cut looks whether its path still leads to it;
//! - all disk access goes through [`FileLayer`], so that a test can fail any write or fsync.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod audit;
mod cipher;
mod committer;
mod directory;
mod disk;
pub mod format;
mod holder;
mod ingest;
mod keyed;
mod log;
mod memory_disk;
mod owner;
mod paths;

pub use cipher::StateKey;
pub use committer::{Cuts, LogCommitter};
pub use directory::{StateDirectory, TakenLog};
pub use disk::{Disk, PrivateDisk};
pub use ingest::{
    FileIngestLog, IngestLimits, OpenedKeys, Passed, PassedKeys, PassingLog, TimeOf, UnreadLog,
};
pub use keyed::{FileKeyedLog, OpenedKeyedLog};
pub use log::FileCommitLog;
pub use memory_disk::{Crash, Fault, Lasting, MemoryDisk};
pub use paths::{real_path, without_dots};
pub use tidegate_contract::{AppendFile, FileLayer, InUse};
