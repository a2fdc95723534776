//! The audit: who asked what, and who answered it.

use crate::commit::SinkPosition;
use crate::sink::SinkError;

/// A question that has ended, as it goes into the audit.
#[derive(Clone, Copy, Debug)]
pub struct Audited<'a> {
    /// The record, `SOURCE/PARTITION/OFFSET/EMIT`.
    pub record: &'a str,
    /// What is known of it that is nobody's secret: a JSON object, as text.
    pub facts: &'a str,
    /// What was asked and answered: a JSON object, as text. It is only ever written sealed.
    pub content: &'a str,
}

/// A worker's view of the audit. Like a truncatable sink: nothing is final before the cut holds.
pub trait AuditLog: Send {
    /// Collects a line.
    fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError>;

    /// Bytes collected and not yet flushed.
    fn pending(&self) -> usize;

    /// Chains what was collected to what all workers wrote before, and makes it durable. Returns where the file now ends.
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError>;

    /// The cut came to nothing: what was collected is forgotten.
    fn discard(&mut self);

    /// Where it goes on, before the first line of a run.
    fn position(&self) -> Option<SinkPosition>;
}
