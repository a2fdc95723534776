//! Cuts as transactions: output, dead letters, what waits and the offsets become visible together, or not at all.
//!
//! One producer for each worker, with a transactional id that stays the same, carries the transactions of all its sinks.
//! A cut is handed to a thread of the committer, and the worker goes on; what it writes meanwhile is held and goes into
//! the next transaction. The group's generation, read just before the offsets are sent, fences a worker whose
//! partitions are another's by now. The number of the cut, in the metadata of each offset, tells what became of a commit
//! whose answer never came.

mod changelog;
mod committer;
mod courier;
mod image;
mod line;
mod load;
mod options;
mod outbox;
mod pieces;
mod probe;
mod restore;
mod sink;
mod witness;

pub(super) use changelog::check_rules;
pub use committer::KafkaCommitter;
pub(super) use courier::{Undelivered, deliver_all};
pub(super) use line::{Failure, Line};
pub use options::{ChangelogOptions, ChangelogPartitions, TransactionOptions};
