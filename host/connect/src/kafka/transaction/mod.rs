//! Cuts as transactions: output, dead letters, what waits and the offsets become visible together, or not at all.
//!
//! One producer for each worker, with a transactional id that stays the same, carries the transactions of all its sinks.
//! A cut is handed to a thread of the committer, and the worker goes on; what it writes meanwhile is held and goes into
//! the next transaction. The group's generation, read just before the offsets are sent, fences a worker whose
//! partitions are another's by now. The number of the cut, in the metadata of each offset, tells what became of a commit
//! whose answer never came.

mod options;

pub use options::{ChangelogOptions, ChangelogPartitions, TransactionOptions};
