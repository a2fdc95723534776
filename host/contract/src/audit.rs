//! The audit: who asked what, and who answered it.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use crate::commit::{SinkPosition, TaskId};
use crate::mark::{CutWitness, Mark};
use crate::sink::SinkError;

/// A question that has ended, as it goes into the audit.
#[derive(Clone, Copy)]
pub struct Audited<'a> {
    /// The record, `SOURCE/PARTITION/OFFSET/EMIT`; with the next two it names the question.
    pub record: &'a str,
    /// The stage that asked; empty where none did.
    pub stage: &'a str,
    /// Attempts that had ended before.
    pub attempt: u32,
    /// What else is known of it that is nobody's secret: a JSON object, as text.
    pub facts: &'a str,
    /// What was asked and answered, if the line is to have it. It is only ever written sealed.
    pub content: Option<&'a dyn AuditContent>,
    /// Whoever asked has been told already: no cut that comes to nothing takes it back.
    pub told: bool,
}

/// What was asked and answered.
pub trait AuditContent {
    /// Writes it as a JSON object.
    fn write(&self, to: &mut dyn Write) -> io::Result<()>;
}

impl fmt::Debug for Audited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audited")
            .field("record", &self.record)
            .field("stage", &self.stage)
            .field("attempt", &self.attempt)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// A worker's view of the audit. Like a truncatable sink: nothing is final before the cut holds.
pub trait AuditLog: Send {
    /// Collects a line.
    fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError>;

    /// Bytes collected and not yet flushed.
    fn pending(&self) -> usize;

    /// Chains what was collected to what all workers wrote before, and makes it durable. Returns where the file now ends.
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError>;

    /// By this it will be known what became of the cut that is flushed next, if this process does not live to say it.
    fn witnessed(&mut self, _witness: Option<CutWitness>) {}

    /// A task begins, and this stands beside its position: what became of cuts that nobody lived to say is known now, and
    /// the chain says it. Returns where the file now ends.
    fn begun(
        &mut self,
        _task: &TaskId,
        _mark: Option<&Mark>,
    ) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }

    /// The cut that was flushed last holds, or came to nothing. Where that is decided elsewhere than in the commit log, the
    /// chain says it, too: returns where the file now ends.
    fn settled(&mut self, held: bool) -> Result<Option<SinkPosition>, SinkError>;

    /// The commit log has what was flushed last.
    fn logged(&mut self);

    /// A cut came to nothing: what was collected since, and nobody was told, is forgotten.
    fn discard(&mut self);

    /// Where it goes on, before the first line of a run.
    fn position(&self) -> Option<SinkPosition>;

    /// The run has ended in order: says so, and takes no more.
    fn end(&mut self) -> Result<Option<SinkPosition>, SinkError>;

    /// The same audit for somebody else.
    fn sibling(&self) -> Box<dyn AuditLog>;
}

/// A question whose answer is shown while it is made.
pub trait Shown: Send + Sync {
    /// The run has ended: nothing more of it is shown. Gives its line as it stands, unless that was taken before.
    fn close(&self, line: &mut dyn FnMut(&Audited<'_>));
}

/// Where lines come in beside those of workers: of answers that are given and ask no model, or are asked beside the
/// stream. They go out with a worker's next cut, so that the chain has one writer.
pub trait AuditDoor: Send + Sync {
    /// Takes a line.
    ///
    /// # Errors
    /// It takes no more: what has no line is not to be answered.
    fn take(&self, audited: &Audited<'_>) -> Result<(), DoorShut>;

    /// Holds a place for the line of a question, so that whatever is shown of its answer is in a line however it ends:
    /// also where the run ends first.
    ///
    /// # Errors
    /// It takes no more: the question is not to be asked.
    fn begin(&self, question: Arc<dyn Shown>) -> Result<u64, DoorShut>;

    /// The question of a place has ended with this line; with none it was not asked.
    ///
    /// # Errors
    /// The line is not taken. Where the run has ended, the question is told to close, and its line is what it gives then.
    fn end(&self, place: u64, audited: Option<&Audited<'_>>) -> Result<(), DoorShut>;
}

/// Why a line is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DoorShut {
    /// So many bytes of lines wait for a cut.
    #[error("lines of {limit} bytes wait for a cut")]
    Full {
        /// Most bytes that wait.
        limit: usize,
    },
    /// The run has ended.
    #[error("the run has ended")]
    Ended,
    /// There is no randomness to seal a line with.
    #[error("the system gives no random numbers to seal a line with")]
    Randomness,
}
