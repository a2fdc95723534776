//! The cut: what a worker's tasks have done, made durable at once; the port that takes it, and the commit log's data.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::files::InUse;
use crate::mark::{CutWitness, Keeper, Mark};
use crate::operator::KeptRevision;
use crate::sink::{RefusedRecord, SinkError};

/// A task, by what it reads: one partition of one source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// Name of the source.
    pub source: String,
    /// Number of the partition.
    pub partition: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} of source {}", self.partition, self.source)
    }
}

/// Which part of what waits an entry holds. What changes often is apart from what is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryPart {
    /// A record that waits in a stage.
    Record,
    /// The prompt that was made of it.
    Prompt,
    /// How far it is: attempts, tokens so far, an answer that is held.
    Progress,
    /// Records that have come to a stage and are not taken yet, together.
    Batch,
    /// How many of them are taken since.
    Taken,
}

impl EntryPart {
    const NAMES: [(EntryPart, &'static str); 5] = [
        (EntryPart::Record, "record"),
        (EntryPart::Prompt, "prompt"),
        (EntryPart::Progress, "progress"),
        (EntryPart::Batch, "batch"),
        (EntryPart::Taken, "taken"),
    ];
}

/// The name of an in-flight entry in its task: the stage in which a record waits, and the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey {
    /// Name of the stage.
    pub stage: String,
    /// Offset of the record in the partition; of several, that of the first.
    pub offset: u64,
    /// Its emit: 0 for a record as read.
    pub emit: u64,
    /// 0, or more where the same record waits in the stage more than once because it came by several ways.
    pub copy: u32,
    /// What of it this is.
    pub part: EntryPart,
}

/// As a text of one line, which [`EntryKey::parse`] reads: `STAGE/OFFSET/EMIT/COPY/PART`.
impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EntryKey {
            stage,
            offset,
            emit,
            copy,
            part,
        } = self;
        let names = EntryPart::NAMES.iter();
        let name = names.clone().find(|(known, _)| known == part);
        let part = name.map_or("", |(_, name)| name);
        write!(f, "{stage}/{offset}/{emit}/{copy}/{part}")
    }
}

impl EntryKey {
    /// Reads what `Display` writes; none of anything else.
    pub fn parse(text: &str) -> Option<EntryKey> {
        let mut fields = text.rsplitn(5, '/');
        let part = fields.next()?;
        let (part, _) = *EntryPart::NAMES.iter().find(|(_, name)| *name == part)?;
        let copy = fields.next()?.parse().ok()?;
        let emit = fields.next()?.parse().ok()?;
        let offset = fields.next()?.parse().ok()?;
        let stage = fields.next()?.to_owned();
        Some(EntryKey {
            stage,
            offset,
            emit,
            copy,
            part,
        })
    }
}

/// Part of what waits in a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub key: EntryKey,
    /// What the flow needs to go on with it. Holds private attributes: whoever keeps it encrypts it.
    pub payload: Vec<u8>,
}

/// Encrypts entries one by one.
pub trait EntryCipher: Send + Sync {
    /// Encrypts, and binds to a name: the bytes cannot be moved to another. None if the system gives no randomness.
    fn seal(&self, name: &[u8], plain: &[u8]) -> Option<Vec<u8>>;

    /// Decrypts what `seal` made for the same name; none if it was another key's, or is damaged.
    fn open(&self, name: &[u8], sealed: &[u8]) -> Option<Vec<u8>>;

    /// Tells one key from another without telling anything of it, 32 hexadecimal digits.
    fn fingerprint(&self) -> String;
}

/// A partition that is to be read here, before its task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its task.
    pub task: TaskId,
    /// What the partition is (the file's name, the topic), so that a changed input is noticed.
    pub identity: String,
    /// What the source itself keeps of it.
    pub kept: Option<KeptPosition>,
}

impl Assignment {
    /// What stands beside its position, if anything does: with its source, or, where that keeps none, in its store. None
    /// where it is none of ours: somebody has set the position.
    pub fn mark(&self, stored: Option<&Mark>) -> Option<Option<Mark>> {
        let Some(kept) = &self.kept else {
            return Some(stored.cloned());
        };
        match kept.metadata.as_deref() {
            None => Some(None),
            Some(text) => Mark::read(text).ok()?.map(Some),
        }
    }
}

/// Where a partition begins as far as its source knows: a Kafka group keeps positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPosition {
    /// The position; where the source keeps none of this partition, where it would begin.
    pub position: u64,
    /// What was committed with it, see [`Mark`]; none if the source keeps no position of this partition.
    pub metadata: Option<String>,
    /// What tells this input from another one of the same name: the id of the topic. Empty if that is not known.
    pub id: String,
}

/// What a store, the commit log or a changelog, has of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskImage {
    /// What the partition was; empty where that is not known.
    pub identity: String,
    /// Where reading goes on; none where the store does not know.
    pub position: Option<u64>,
    /// The lowest offset that was not done.
    pub unfinished: Option<u64>,
    /// What waits.
    pub entries: BTreeMap<EntryKey, Vec<u8>>,
    /// Counters of the task.
    pub counters: Vec<(String, u64)>,
    /// What a changelog has with the position of a task whose source keeps none.
    pub mark: Option<Mark>,
    /// What the commit log says of a task whose state is in a changelog.
    pub moved: Option<Moved>,
    /// Whether marks are kept beside its positions: not by versions before there were any.
    pub marked: bool,
    /// Other tasks of which the changelog has entries where its own are, and how many.
    pub beside: Vec<(TaskId, u64)>,
}

/// That the state of a task whose source keeps no positions has gone from the commit log to a changelog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The changelog topic.
    pub topic: String,
    /// How far.
    pub state: MoveState,
}

/// How far the state of a task has gone to a changelog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoveState {
    /// It is to go there with the next cut; there may have been none.
    Begun,
    /// It is there.
    There,
    /// The run ended with nothing waiting, and the log has its position too.
    Ended,
}

/// What a task brings to a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCut {
    /// What the partition is.
    pub identity: String,
    /// Where reading goes on, if anything was read yet. It is part of every cut, also where it did not move.
    pub position: Option<u64>,
    /// The lowest offset that is not done yet; the position, if nothing waits.
    pub unfinished: Option<u64>,
    /// Entries that are new, or otherwise than in the last cut.
    pub put: Vec<Entry>,
    /// Entries that are done. One that is put again in the same cut is there.
    pub done: Vec<EntryKey>,
    /// Counters of the task, as they stand.
    pub counters: Vec<(String, u64)>,
    /// Records that wait.
    pub waits: u64,
    /// That the state is in a changelog, if the commit log is told so.
    pub moved: Option<Moved>,
}

/// What became of a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It holds.
    Committed {
        /// Its number.
        number: u64,
    },
    /// It does not, and nothing of it is seen by anybody. Its tasks go back to their last cut and go on.
    Aborted {
        /// Why.
        why: String,
        /// Records that an output refuses for good, whichever way they come again.
        refused: Vec<(String, RefusedRecord)>,
    },
    /// Nothing of it is seen by anybody, and the partitions are others' now.
    Fenced {
        /// Why.
        why: String,
    },
}

/// What takes part in a cut beside the tasks: the sinks of a worker.
pub trait Participants {
    /// Has every sink write what it collected and make it durable. `cut` learns where files end, and what records became
    /// dead letters because their output refused them.
    fn flush(&mut self, cut: &mut Cut) -> Result<(), CommitError>;
}

/// Takes the cuts of one worker. It is used by that worker's thread alone.
///
/// A cut that is begun is not done: a worker goes on while a slow one is under way, and learns what became of it from
/// [`settled`](Committer::settled). Only one is under way at a time.
pub trait Committer: Send {
    /// Where it keeps the state of the tasks of this source, and for whom.
    fn keeper(&self, _source: &str) -> Keeper {
        Keeper::default()
    }

    /// Has what the store knows of these tasks read, which are to begin here, and answers whether it is there:
    /// [`load`](Committer::load) then takes no time. Until then it is asked again, of the same tasks or of those of them
    /// that are not released meanwhile; the worker goes on. A store that needs no time has nothing to begin.
    fn fetch(&mut self, _tasks: &[Assignment]) -> Result<bool, CommitError> {
        Ok(true)
    }

    /// These tasks begin here: what the store has of each, in their order. Asked again of a task that runs here, it is
    /// what its last cut has. Waits for what is not fetched.
    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError>;

    /// Begins a cut of everything that was done since the last one.
    fn begin(&mut self, cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError>;

    /// What became of the cut that was begun; none if it is not known within this time. Told once.
    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError>;

    /// What is to stand beside the position of this task, where its source keeps it too: of the last cut that holds.
    fn mark(&self, task: &TaskId) -> Mark {
        Mark {
            keeper: Some(self.keeper(&task.source)),
            source: task.source.clone(),
            ..Mark::default()
        }
    }

    /// These tasks run here no more, or never began: what is being read of them is let go.
    fn release(&mut self, tasks: &[TaskId]);

    /// Called once, after the last cut.
    fn close(&mut self) -> Result<(), CommitError> {
        Ok(())
    }
}

/// A cut that cannot be taken, or an image that cannot be read: the worker cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The commit log.
    #[error(transparent)]
    Log(#[from] CommitLogError),
    /// A sink.
    #[error("sink {sink}: {error}")]
    Sink {
        /// Its name.
        sink: String,
        /// What went wrong.
        error: SinkError,
    },
    /// An earlier cut failed, here or in another worker.
    #[error("nothing is committed after a commit that failed")]
    AfterFailure,
    /// What was kept does not fit what is there now.
    #[error("{0}")]
    State(String),
    /// Whoever takes the cuts cannot be reached, or refuses.
    #[error("cannot commit to {place}: {why}")]
    Commit {
        /// Brokers, group or topic.
        place: String,
        /// What went wrong.
        why: String,
    },
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
    /// Of a file whose end can be told from others of the same length, what tells it: the hash of the audit's last line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
    /// The last run that wrote it has ended in order: what it has beyond this is somebody else's, and no rest of a crash.
    #[serde(skip)]
    pub ended: bool,
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

/// One atomic commit of everything a worker's tasks have done.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The tasks that have something to say.
    pub tasks: BTreeMap<TaskId, TaskCut>,
    /// By what it is known later what became of it, where that is decided elsewhere than in the commit log.
    pub witness: Option<CutWitness>,
    /// Ends of the sinks that grew.
    pub sinks: Vec<SinkPosition>,
    /// The component of each slot, where that changed: said by itself, before the first cut of what they did.
    pub slots: Vec<SlotVersion>,
}

/// The state that the cuts so far add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Number of the last cut; 0 if there was none.
    pub cut: u64,
    /// What every task known begins with.
    pub tasks: BTreeMap<TaskId, TaskImage>,
    /// Ends of every file that a sink wrote, in the order in which the log was last told of them: the last of a sink is
    /// the one that it writes, those before it are as it left them.
    pub sinks: Vec<SinkPosition>,
    /// The component of each slot at the last cut.
    pub slots: Vec<SlotVersion>,
    /// Counters of logs from before tasks had counters of their own.
    pub counters: Vec<(String, u64)>,
}

impl Recovered {
    /// What waits, task by task.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let entries = self.tasks.values().flat_map(|task| &task.entries);
        entries.map(|(key, payload)| Entry {
            key: key.clone(),
            payload: payload.clone(),
        })
    }

    /// Where the file ends that this sink writes.
    pub fn sink(&self, name: &str) -> Option<&SinkPosition> {
        self.sinks.iter().rev().find(|known| known.sink == name)
    }
}

/// The commit log of a process. Calls from several workers are taken one after the other.
pub trait CommitLog: Send + Sync {
    /// Makes the cut durable; it holds when this returns, and not before. Returns its number.
    fn commit(&self, cut: &Cut) -> Result<u64, CommitLogError>;

    /// What its cuts have of a task.
    fn task(&self, task: &TaskId) -> Option<TaskImage>;
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
