//! What becomes of messages after librdkafka took them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedHeaders, DeliveryResult, Headers as _, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use tidegate_record::RecordId;
use tracing::debug;

use super::letter::Letter;
use super::native;
use super::source::ASK;
use super::target::Message;
use super::told::{Cause, Told};

/// What is ours in a producer's configuration: only failures are reported, so that a message costs nothing more once it
/// is delivered.
pub(super) const ONLY_FAILURES: (&str, &str) = ("delivery.report.only.error", "true");

/// A producer whose messages have numbers.
pub(super) type Producer = BaseProducer<Deliveries>;

/// What a message stands for.
#[derive(Debug)]
pub(super) enum Sent {
    /// A record. So many of its headers, the last ones, are the host's.
    Record { id: RecordId, of_host: usize },
    /// A dead letter.
    Letter(Box<Letter>),
}

impl Default for Sent {
    /// Nothing any more.
    fn default() -> Sent {
        Sent::Record {
            id: RecordId::default(),
            of_host: 0,
        }
    }
}

/// A message that the broker did not take because of what it is, or that was taken back behind one.
#[derive(Debug)]
pub(super) struct Returned {
    /// The number that it was given away with.
    pub(super) number: usize,
    pub(super) code: RDKafkaErrorCode,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) millis: Option<i64>,
    pub(super) headers: Option<OwnedHeaders>,
}

impl Returned {
    /// Takes the last headers away, so many as are the host's. False if that is none.
    pub(super) fn leave_out(&mut self, of_host: usize) -> bool {
        let Some(headers) = self.headers.as_ref().filter(|_| of_host > 0) else {
            return false;
        };
        let own = headers.count().saturating_sub(of_host);
        let own = headers.iter().take(own);
        self.headers = Some(own.fold(OwnedHeaders::new(), OwnedHeaders::insert));
        true
    }

    /// The message once more.
    pub(super) fn message(&self) -> Message<'_> {
        Message {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            millis: self.millis,
            headers: self.headers.clone(),
            partition: None,
        }
    }
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

/// Whether less of the message may help.
pub(super) fn is_size(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::MessageSizeTooLarge | Code::MessageBatchTooLarge)
}

/// Why a message was refused, for a person.
pub(super) fn refusal(topic: &str, code: RDKafkaErrorCode, has_key: bool) -> String {
    let why = match code {
        code if is_size(code) => "it is larger than the topic's max.message.bytes".to_owned(),
        RDKafkaErrorCode::InvalidRecord if !has_key => {
            format!("{code}; it has no key, and a compacted topic takes only records with one")
        }
        code => code.to_string(),
    };
    format!("topic {topic} refuses the record: {why}")
}

impl Deliveries {
    pub(super) fn fail(&self, why: String) {
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

    pub(super) fn has_returned(&self) -> bool {
        !lock(&self.returned).is_empty()
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
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        use RDKafkaErrorCode as Code;
        let Err((error, message)) = result else {
            return;
        };
        let code = error.rdkafka_error_code();
        let taken_back = matches!(code, Some(Code::PurgeQueue | Code::PurgeInflight));
        match code {
            Some(code) if is_of_the_message(code) || (taken_back && self.has_returned()) => {
                lock(&self.returned).push(Returned {
                    number,
                    code,
                    key: message.key().map(<[u8]>::to_vec),
                    value: message.payload().map(<[u8]>::to_vec),
                    millis: message.timestamp().to_millis(),
                    headers: message.headers().map(BorrowedHeaders::detach),
                });
            }
            _ if taken_back => {}
            _ => self.fail(format!("a record was not delivered: {error}")),
        }
    }
}

/// Why librdkafka did not take a message.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// Its queue stayed full.
    Full,
    /// The message is too large for it.
    TooLarge,
    /// Something was not delivered meanwhile.
    Undelivered(String),
    /// The producer takes none.
    Failed(KafkaError),
}

/// How long a producer is pushed, and then let alone at least; and how long a moment is.
const PUSH: Duration = Duration::from_millis(1);
/// How long it is let alone at most.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// Has a producer send what it has. While it is pushed, librdkafka looks without a rest for the answer to each batch behind
/// which another waits, on a core that its broker may need; so it is only now and then, and the more seldom the longer
/// brokers have answered nothing.
pub(super) struct Pushes {
    in_flight: i32,
    /// Since when there are so many.
    since: Instant,
}

impl Pushes {
    pub(super) fn new() -> Pushes {
        Pushes {
            in_flight: 0,
            since: Instant::now(),
        }
    }

    /// Pushes it once and waits a moment for the answers.
    pub(super) fn push(&mut self, producer: &Producer) {
        let (in_flight, now) = (producer.in_flight_count(), Instant::now());
        if in_flight != self.in_flight {
            (self.in_flight, self.since) = (in_flight, now);
        }
        if !native::flush(producer, PUSH) {
            let silent = now.saturating_duration_since(self.since);
            std::thread::sleep((silent / 8).clamp(PUSH, LONGEST_REST));
        }
        producer.poll(Duration::ZERO);
    }
}

/// Waits a moment, and takes what the brokers have told by then. rdkafka's own wait looks without a rest in its last
/// millisecond, and so for all of a short one: it counts in whole milliseconds, and rounds down. Whoever waits for brokers
/// would take the core that they may need.
pub(super) fn wait_a_moment(producer: &Producer) {
    std::thread::sleep(PUSH);
    producer.poll(Duration::ZERO);
}

/// Gives a message to librdkafka, waiting while its queue is full.
pub(super) fn produce(
    producer: &Producer,
    topic: &str,
    message: Message<'_>,
    number: usize,
    patience: Duration,
) -> Result<(), NotTaken> {
    let mut record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(topic, number);
    (record.key, record.payload) = (message.key, message.value);
    (record.timestamp, record.headers) = (message.millis, message.headers);
    record.partition = message.partition;
    let mut deadline = None;
    let mut asked = None;
    loop {
        let error = match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((error, back)) => {
                record = back;
                error
            }
        };
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + patience) {
                    return Err(NotTaken::Full);
                }
                wait_a_moment(producer);
                if let Some(why) = producer.context().take_failure() {
                    return Err(NotTaken::Undelivered(why));
                }
            }
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => return Err(NotTaken::TooLarge),
            // The topic was made larger: it is asked about anew, and brokers may take a moment to know it all.
            Some(RDKafkaErrorCode::UnknownPartition)
                if *asked.get_or_insert_with(Instant::now) + 2 * ASK > Instant::now() =>
            {
                if producer.client().fetch_metadata(Some(topic), ASK).is_err() {
                    return Err(NotTaken::Failed(error));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => return Err(NotTaken::Failed(error)),
        }
    }
}
