//! Assignment of partitions, taken out of librdkafka's callback.
//!
//! The callback only notes what is asked. The source carries it out on its next poll: so `flow` can seek what it was
//! given before anything is fetched, and commit what is taken from it while it still belongs to this member.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::ClientContext;
use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;

use super::told::{Cause, Told};

/// What the group asks of this member.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Take these.
    Assign(TopicPartitionList),
    /// Give these up. `lost`: others may own them already.
    Revoke {
        list: TopicPartitionList,
        lost: bool,
    },
    /// Give up all of them, and come to the group anew: another has this member's name.
    Anew,
}

#[derive(Debug, Default)]
pub(super) struct Context {
    changes: Mutex<VecDeque<Change>>,
    /// The consumer is being dropped: changes are carried out at once, nobody will poll again.
    closing: AtomicBool,
    told: Told,
}

impl Context {
    pub(super) fn next_change(&self) -> Option<Change> {
        lock(&self.changes).pop_front()
    }

    /// Another has this member's name: what the group asked before does not matter any more. False if that was said
    /// before.
    pub(super) fn begin_anew(&self) -> bool {
        let mut changes = lock(&self.changes);
        let said = matches!(changes.front(), Some(Change::Anew));
        changes.clear();
        changes.push_back(Change::Anew);
        !said
    }

    /// Puts back a change that could not be prepared.
    pub(super) fn put_back(&self, change: Change) {
        lock(&self.changes).push_front(change);
    }

    pub(super) fn has_changes(&self) -> bool {
        !lock(&self.changes).is_empty()
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// What librdkafka said about the last error.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.told.last()
    }
}

/// A panic elsewhere leaves the plain values behind these locks whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        super::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.told.note(&error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let change = match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Change::Assign(list.clone()),
            _ => Change::Revoke {
                list: list.clone(),
                lost: consumer.assignment_lost(),
            },
        };
        if self.is_closing() {
            if let Err(error) = carry_out(consumer, &change) {
                tracing::debug!("kafka client closing: {error}");
            }
        } else {
            lock(&self.changes).push_back(change);
        }
    }
}

/// Does what the group asked for.
///
/// A pause belongs to the assignment in which it was made: librdkafka keeps it when the partition goes, and would never
/// fetch it again when it comes back.
pub(super) fn carry_out(consumer: &BaseConsumer<Context>, change: &Change) -> KafkaResult<()> {
    let incremental = matches!(
        consumer.rebalance_protocol(),
        RebalanceProtocol::Cooperative
    );
    if let Change::Assign(list) = change {
        consumer.resume(list)?;
    }
    match change {
        Change::Assign(list) if incremental => consumer.incremental_assign(list),
        Change::Assign(list) => consumer.assign(list),
        Change::Revoke { list, .. } if incremental => consumer.incremental_unassign(list),
        Change::Revoke { .. } => consumer.unassign(),
        // A consumer that was taken over does nothing more.
        Change::Anew => Ok(()),
    }
}
