//! The cut as data: what the commit log records.

use serde::{Deserialize, Serialize};

use crate::files::InUse;
use crate::operator::KeptRevision;

/// Where reading of a partition goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    /// Name of the source.
    pub source: String,
    /// Number of the partition.
    pub partition: u32,
    /// What the partition is (the file's name, the topic), so that a changed input is noticed.
    pub identity: String,
    /// The position.
    pub position: u64,
}

/// Where a truncatable sink's file ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkPosition {
    /// Name of the sink.
    pub sink: String,
    /// What the file is, so that another one is not taken for it: its path as configured, absolute. Empty in logs from
    /// before that was part of it; without links in those from before it was kept as configured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Length of the file in bytes.
    pub length: u64,
}

/// The component a slot runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotVersion {
    /// Name of the slot (its stage).
    pub slot: String,
    /// Version the component describes.
    pub version: String,
    /// Digest of the component, `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Digest of the component that the pipeline file names. While that stays, a deployed component outlives a restart;
    /// a new file in its place wins.
    pub configured: String,
    /// What it runs the component with.
    #[serde(flatten)]
    pub revision: KeptRevision,
}

/// A record that waits for a model, or is finished and held behind its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightEntry {
    /// Number of the entry, unique in its state directory; its order is the order of arrival.
    pub number: u64,
    /// What the flow needs to go on with it. Holds private attributes: the log encrypts it.
    pub payload: Vec<u8>,
}

/// One atomic commit of everything a worker's tasks have done.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// Positions of the partitions that moved.
    pub sources: Vec<SourcePosition>,
    /// Ends of the sinks that grew.
    pub sinks: Vec<SinkPosition>,
    /// Entries that came into flight since the last cut and are still there, or changed.
    pub in_flight_added: Vec<InFlightEntry>,
    /// Entries that were in the log and are done.
    pub in_flight_done: Vec<u64>,
    /// The component of each slot.
    pub slots: Vec<SlotVersion>,
    /// Counters to go on from after a restart: name and value.
    pub counters: Vec<(String, u64)>,
    /// The run ends with this cut: before the next one nothing is written to a sink.
    pub ended: bool,
}

/// The state that the cuts so far add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Number of the last cut; 0 if there was none.
    pub cut: u64,
    /// Positions of every partition known.
    pub sources: Vec<SourcePosition>,
    /// Ends of every file that a sink wrote, in the order in which the log was last told of them: the last of a sink is
    /// the one that it writes, those before it are as it left them.
    pub sinks: Vec<SinkPosition>,
    /// Everything in flight, in order of arrival.
    pub in_flight: Vec<InFlightEntry>,
    /// The component of each slot at the last cut.
    pub slots: Vec<SlotVersion>,
    /// Counters at the last cut.
    pub counters: Vec<(String, u64)>,
    /// The run ended with the last cut: what a sink's file has beyond it is somebody else's.
    pub ended: bool,
}

impl Recovered {
    /// Where the file ends that this sink writes.
    pub fn sink(&self, name: &str) -> Option<&SinkPosition> {
        self.sinks.iter().rev().find(|known| known.sink == name)
    }
}

/// The one committer of a process. Calls from several workers are taken one after the other.
pub trait CommitLog: Send + Sync {
    /// Makes the cut durable; it holds when this returns, and not before. Returns its number.
    fn commit(&self, cut: &Cut) -> Result<u64, CommitLogError>;
}

/// A commit log that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitLogError {
    /// The log cannot be written; whether this cut holds, only a restart tells.
    #[error("cannot write the commit log {path}: {why}")]
    Write {
        /// The file.
        path: String,
        /// What went wrong.
        why: String,
    },
    /// The log cannot be read.
    #[error("cannot read the commit log {path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// What went wrong, with the byte.
        why: String,
    },
    /// What holds the key of the state directory holds none.
    #[error("cannot take the state key from {place}: {why}")]
    StateKey {
        /// The environment variable or the file.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// Somebody uses this state directory.
    #[error("state directory {path} is {by}")]
    Locked {
        /// The directory, or its log.
        path: String,
        /// Who.
        by: InUse,
    },
    /// The directory holds what is not Tidegate's.
    #[error(
        "{path} is not a state directory: it holds {entry}; name a directory of its own, which may be missing"
    )]
    Foreign {
        /// The directory.
        path: String,
        /// The name of something in it.
        entry: String,
    },
    /// Entries of the in-flight set that are not done cannot be read with this key.
    #[error(
        "in-flight entries of {path} cannot be decrypted: the key is not the one they were written with"
    )]
    Key {
        /// The file.
        path: String,
    },
}
