//! What becomes of messages after librdkafka took them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedHeaders, DeliveryResult, Message as _, OwnedHeaders};
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_record::RecordId;
use tracing::debug;

use super::letter::Letter;
use super::told::{Cause, Told};

/// What a message stands for; it travels through librdkafka and comes back with the delivery report.
#[derive(Debug)]
pub(super) enum Sent {
    /// A record.
    Record(RecordId),
    /// A dead letter.
    Letter(Box<Letter>),
}

/// A message that the broker did not take because of what it is.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) sent: Sent,
    pub(super) code: RDKafkaErrorCode,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) millis: Option<i64>,
    pub(super) headers: Option<OwnedHeaders>,
}

/// What came of the messages: those that were returned, and the first failure that is not of a message's making.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    returned: Mutex<Vec<Returned>>,
    failed: Mutex<Option<String>>,
    told: Told,
}

/// A panic elsewhere leaves the plain values behind these locks whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is about the message, or about another in its batch, and would be the same at every later try.
/// Everything else is the broker's or the topic's: another time, or another setting, can mend it.
pub(super) fn is_of_the_message(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::InvalidDifferentRecord
            | Code::InvalidTimestamp
    )
}

impl Deliveries {
    fn fail(&self, why: String) {
        lock(&self.failed).get_or_insert(why);
    }

    pub(super) fn take_failure(&self) -> Option<String> {
        lock(&self.failed).take()
    }

    /// What librdkafka said about the last error of a connection.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.told.last()
    }

    /// In the order in which they were given to librdkafka, partition by partition.
    pub(super) fn take_returned(&self) -> Vec<Returned> {
        std::mem::take(&mut lock(&self.returned))
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.told.note_line(facility, message);
        super::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.told.note(&error, reason);
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.fail(reason.to_owned());
        } else {
            debug!("kafka client: {error}: {reason}");
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let Err((error, message)) = result else {
            return;
        };
        match error.rdkafka_error_code() {
            Some(code) if is_of_the_message(code) => lock(&self.returned).push(Returned {
                sent: *sent,
                code,
                key: message.key().map(<[u8]>::to_vec),
                value: message.payload().map(<[u8]>::to_vec),
                millis: message.timestamp().to_millis(),
                headers: message.headers().map(BorrowedHeaders::detach),
            }),
            _ => self.fail(format!("a record was not delivered: {error}")),
        }
    }
}
