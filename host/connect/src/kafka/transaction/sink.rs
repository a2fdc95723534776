//! A topic that is written in the transactions of a committer.

use std::fmt;
use std::sync::Arc;

use tidegate_contract::{DeadLetter, HostHeaders, Sink, SinkError, SinkPosition};
use tidegate_record::PublicRecord;

use super::super::deliveries::Sent;
use super::super::target::{Message, Target, send_letter};
use super::outbox::{Learnt, Outbox, Stub};

/// A topic as a sink whose records are seen once the cut holds that they are part of. What the broker refuses is told by
/// the committer, which aborts the cut for it.
pub(super) struct TransactionalSink {
    target: Target,
    outbox: Arc<Outbox>,
    learnt: Arc<Learnt>,
    /// Index of its destination.
    to: u16,
}

impl fmt::Debug for TransactionalSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionalSink")
            .field("place", &self.target.place)
            .finish_non_exhaustive()
    }
}

impl TransactionalSink {
    pub(super) fn new(
        target: Target,
        outbox: Arc<Outbox>,
        learnt: Arc<Learnt>,
        to: u16,
    ) -> TransactionalSink {
        TransactionalSink {
            target,
            outbox,
            learnt,
            to,
        }
    }

    /// `largest`: most bytes of this message.
    fn send(&self, message: Message<'_>, sent: Sent, largest: usize) -> Result<(), SinkError> {
        let bytes = message.on_its_way();
        if bytes > largest {
            return Err(self.target.too_large(bytes));
        }
        let stub = Stub {
            to: self.to,
            sent: Some(sent),
        };
        self.outbox.give(stub, message);
        Ok(())
    }
}

impl Sink for TransactionalSink {
    fn write(&mut self, record: PublicRecord<'_>, host: HostHeaders<'_>) -> Result<(), SinkError> {
        // It may have become a compacted topic.
        self.target.rules.needs_key |= self.learnt.needs_key();
        self.target.hold_to(self.learnt.message());
        let largest = self.target.largest;
        let with_host = largest.min(self.learnt.with_host_headers());
        let (message, sent) = self.target.message(&record, host, with_host)?;
        self.send(message, sent, largest)
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let mut letter = self.target.letter(letter);
        if self.learnt.needs_key() {
            letter.key_by_place();
        }
        let largest = self.learnt.largest();
        send_letter(&self.target.place, letter, |message, letter| {
            let sent = Sent::Letter(Box::new(letter.clone()));
            self.send(message, sent, largest)
        })
    }

    fn pending(&self) -> usize {
        self.outbox.pending(self.to)
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        // The committer does, with all that the cut has.
        Ok(None)
    }

    fn discard(&mut self) {
        // The committer did, with all that waited for its transaction.
    }

    fn recover(&mut self, _known: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}
