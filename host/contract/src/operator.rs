//! Operators and the slots they run in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_record::{Batch, Fields};

use crate::tokens::TokenHandler;

/// What a component says of itself, its digest, and the revision of its slot that it is run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorVersion {
    /// Name by `describe`.
    pub name: String,
    /// Version by `describe`.
    pub version: String,
    /// `sha256:` and 64 hexadecimal digits, of the file as it was given.
    pub digest: String,
    /// Fields it reads.
    pub reads: Fields,
    /// Named outputs; the k-th is output k, counted from 1.
    pub outputs: Vec<String>,
    /// What it is run with.
    pub revision: KeptRevision,
}

/// What a slot runs beside a component's bytes, as far as a restart needs it: the log keeps it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRevision {
    /// `sha256:` and 64 hexadecimal digits, of component, configuration, grants and limits together. Empty in logs from
    /// before that was part of them.
    #[serde(default, rename = "revision", skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Its configuration as JSON text, where a deployment brought one in the place of the pipeline file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Digest of the configuration that the pipeline file had then: while that stays, the one brought does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configured_config: String,
    /// What its component said of itself, in words of the room that runs it: one that has run once can be made again
    /// without being asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Why an operator could not answer for a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterCause {
    /// Index of the record in its batch.
    pub record: usize,
    /// Trap, deadline, memory, bad answer: a sentence with value and limit.
    pub reason: String,
    /// The wasm backtrace, if the guest was in wasm.
    pub backtrace: Option<String>,
}

/// An instance that was lost: to a trap, a deadline, a refused allocation or a bad answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Records of the call that it was lost in.
    pub records: usize,
    /// Why: a sentence with value and limit.
    pub reason: String,
}

/// What an answer causes beside its outcomes, by record. What is not accepted leaves no trace.
pub trait Effects: Send + Sync + std::fmt::Debug {
    /// The outcome of this record of the answer, by its index there, has been accepted: what belongs to it counts now.
    fn accept(&mut self, record: usize);
}

/// An operator's answer to a batch: usually one answer for the whole of it; where it was given in pieces several, in
/// order, each for its share of the records, with the poison records between them.
#[derive(Debug)]
pub enum Processed {
    /// The answer to `count` records from `first` on: the outcomes arena, already checked for exactly these records.
    Answer {
        /// Index of the first record.
        first: usize,
        /// Number of records.
        count: usize,
        /// The outcomes arena; parse with `OutcomesView::parse(bytes, count, outputs)`.
        outcomes: Vec<u8>,
        /// What else the answer causes; none for most.
        effects: Option<Box<dyn Effects>>,
    },
    /// A record the operator could not answer for.
    Poison(DeadLetterCause),
    /// The last records of the batch, for which it has no answer yet: its turn was over, or no instance could be
    /// started. They must come again, and this was no attempt at them.
    Untried {
        /// Index of the first record.
        first: usize,
        /// Number of records.
        count: usize,
    },
}

/// A task's instance of an operator. It is used by that task's worker thread alone.
pub trait Operator: Send {
    /// Answers for the records of the batch, in order, as far as it gets in one turn: about 100 ms, or one call of the
    /// guest if that takes longer. The rest, perhaps all, is untried; given again it goes on from there, also if records
    /// by themselves came in between. A trap, a deadline, a refused allocation or a bad answer costs the instance,
    /// not the call: the batch is bisected and only the poison record is named. A batch of one record is never untried.
    /// An error means that there is no instance and none could be started, or that the operator cannot work now: no
    /// record was answered, all of them must come again, and it may be called again.
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError>;

    /// Whether an instance is there, so that the next call need not start one.
    fn is_started(&self) -> bool {
        true
    }

    /// Starts an instance if none is there. An error is no verdict: another call may succeed.
    fn start(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Takes the losses since it was last asked, in order.
    fn take_losses(&mut self) -> Vec<Loss> {
        Vec::new()
    }

    /// The version this instance runs.
    fn version(&self) -> &Arc<OperatorVersion>;
}

/// The place a component is swapped in: holds the current version, hands out instances of it.
pub trait Slot: Send + Sync {
    /// A number that grows with every deployment: a task compares it before each batch.
    fn generation(&self) -> u64;

    /// A warm instance of the current version, with its generation. An error is no verdict on the version: another call
    /// may succeed.
    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError>;

    /// Whether the current version handles tokens.
    fn handles_tokens(&self) -> bool {
        false
    }

    /// Handlers of tokens of the current version, in an instance of their own.
    fn tokens(&self) -> Result<Handling, OperatorError> {
        Err(OperatorError::Unfit {
            component: self.version().digest.clone(),
            why: "it handles no tokens".to_owned(),
        })
    }

    /// The current version: that of its instances, so that whoever holds one knows by the pointer whether it still is
    /// the current one.
    fn version(&self) -> Arc<OperatorVersion>;
}

/// Handlers of tokens, as a slot gives them.
pub struct Handling {
    /// That of the slot.
    pub generation: u64,
    /// Whose they are.
    pub version: Arc<OperatorVersion>,
    /// They themselves.
    pub handler: Box<dyn TokenHandler>,
}

fn way_out(may_trap: &bool) -> &'static str {
    match may_trap {
        true => "; with ungranted = \"trap\" it starts, and a call of that is a trap",
        false => "",
    }
}

/// An operator that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The bytes are not a component of the operator world.
    #[error("{component} is not an operator: {why}")]
    NotAnOperator {
        /// Path or digest.
        component: String,
        /// What is missing or wrong.
        why: String,
    },
    /// It imports what the pipeline file does not grant.
    #[error(
        "{component} imports {import}, which the pipeline does not grant to this slot{}",
        way_out(.may_trap)
    )]
    NotGranted {
        /// Path or digest.
        component: String,
        /// The import's name.
        import: String,
        /// Whether the slot could let the component start without it.
        may_trap: bool,
    },
    /// It does not compile.
    #[error("{component} does not compile: {why}")]
    Compile {
        /// Path or digest.
        component: String,
        /// The compiler's words.
        why: String,
    },
    /// Its deployment took longer than it may.
    #[error("{component} is not ready in time: {why}")]
    Late {
        /// Path or digest.
        component: String,
        /// How far it was, and the limit.
        why: String,
    },
    /// It cannot be instantiated, or `describe` or `init` failed.
    #[error("{component} does not start: {why}")]
    Start {
        /// Path or digest.
        component: String,
        /// The trap with its backtrace, or the operator's own words.
        why: String,
    },
    /// An instance of it would make more instances, memories or tables than one may.
    #[error("{component} is too large: {why}")]
    TooLarge {
        /// Path or digest.
        component: String,
        /// What was counted, and the limit.
        why: String,
    },
    /// It has failed more often than its slot allows.
    #[error("{component} is run no more: {why}")]
    Tripped {
        /// Path or digest.
        component: String,
        /// How often in which time, and the limit.
        why: String,
    },
    /// Its outputs or other promises do not fit the running pipeline.
    #[error("{component} does not fit the slot: {why}")]
    Unfit {
        /// Path or digest.
        component: String,
        /// What does not fit.
        why: String,
    },
    /// It says that it cannot work now, or not with its configuration.
    #[error("{component} cannot work: {why}")]
    Failed {
        /// Path or digest.
        component: String,
        /// Its own words, with code and class.
        why: String,
    },
    /// An instance was lost: to a trap, a deadline, a refused allocation or a bad answer.
    #[error("an instance of {component} was lost: {why}")]
    Lost {
        /// Path or digest.
        component: String,
        /// Why: a sentence with value and limit.
        why: String,
    },
    /// A lane of an answer that it has no text for: it says so, or an instance is lost that has seen no other lane.
    #[error("{component} fails on this answer: {why}")]
    Poison {
        /// Path or digest.
        component: String,
        /// Its own words, with code and class, or why the instance was lost.
        why: String,
    },
    /// The host cannot run wasm here.
    #[error("the wasm engine failed: {0}")]
    Engine(String),
}
