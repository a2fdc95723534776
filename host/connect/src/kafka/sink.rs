//! Writing to a topic, at least once.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use tidegate_codec::{PREVIEW, encode_dead_letter};
use tidegate_contract::{DeadLetter, Delivery, Sink, SinkError, SinkPosition};
use tidegate_record::PublicRecord;
use tracing::debug;

use super::{Properties, client_config, wait_for_topic};
use crate::now_micros;

/// How long the drain loop sleeps between looks. `BaseProducer::flush` would look every 100 ms only.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);
/// Kafka 4 refuses records from further in the future (`message.timestamp.after.max.ms`).
const MAX_AHEAD: Duration = Duration::from_secs(3600);

/// Which topic is written, and how.
#[derive(Clone, Debug)]
pub struct KafkaSinkOptions {
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// How long the brokers may be away, and how long the delivery of a record may take.
    pub patience: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaSinkOptions {
    /// The usual options: 2 minutes of patience.
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> KafkaSinkOptions {
        KafkaSinkOptions {
            brokers: brokers.into(),
            topic: topic.into(),
            patience: Duration::from_secs(120),
            properties: Properties::new(),
        }
    }
}

/// A topic as a sink. Records keep key, value, headers and event time; a null value is a tombstone.
pub struct KafkaSink {
    options: KafkaSinkOptions,
    place: String,
    producer: BaseProducer<Deliveries>,
    /// Bytes given to librdkafka since the last flush.
    pending: usize,
    letter: Vec<u8>,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// What became of the records: the first failure is kept.
#[derive(Debug, Default)]
struct Deliveries {
    failed: Mutex<Option<String>>,
}

impl Deliveries {
    fn fail(&self, why: String) {
        let mut failed = self
            .failed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        failed.get_or_insert(why);
    }

    fn take_failure(&self) -> Option<String> {
        self.failed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        super::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.fail(reason.to_owned());
        } else {
            debug!("kafka client: {error}: {reason}");
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _)) = result {
            self.fail(format!("a record was not delivered: {error}"));
        }
    }
}

impl KafkaSink {
    /// Connects. Waits for the brokers, as long as its patience lasts; a topic that does not exist is an error.
    pub fn open(options: KafkaSinkOptions) -> Result<KafkaSink, SinkError> {
        let place = format!("topic {} at {}", options.topic, options.brokers);
        let fail = |why: String| SinkError::Write {
            place: place.clone(),
            why,
        };
        let timeout = options.patience.as_millis().max(1).to_string();
        let ours = [
            ("linger.ms", "1"),
            ("queue.buffering.max.kbytes", "65536"),
            ("compression.type", "lz4"),
            ("allow.auto.create.topics", "false"),
        ];
        let reserved = [
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("message.timeout.ms", timeout.as_str()),
        ];
        let config =
            client_config(&options.brokers, &ours, &reserved, &options.properties).map_err(fail)?;
        let producer: BaseProducer<Deliveries> = config
            .create_with_context(Deliveries::default())
            .map_err(|error| fail(error.to_string()))?;
        wait_for_topic(&place, &options.topic, options.patience, |wait| {
            producer.client().fetch_metadata(Some(&options.topic), wait)
        })
        .map_err(fail)?;
        Ok(KafkaSink {
            options,
            place,
            producer,
            pending: 0,
            letter: Vec::new(),
        })
    }

    fn write_error(&self, why: impl Into<String>) -> SinkError {
        SinkError::Write {
            place: self.place.clone(),
            why: why.into(),
        }
    }

    fn check(&self) -> Result<(), SinkError> {
        match self.producer.context().take_failure() {
            Some(why) => Err(self.write_error(why)),
            None => Ok(()),
        }
    }

    /// Gives a message to librdkafka, waiting while its queue is full.
    fn send(&mut self, message: &Message<'_>) -> Result<(), SinkError> {
        let deadline = Instant::now() + self.options.patience;
        let bytes = message.value.map_or(0, <[u8]>::len) + message.key.map_or(0, <[u8]>::len);
        loop {
            let mut record = BaseRecord::<[u8], [u8]>::to(&self.options.topic);
            (record.key, record.payload) = (message.key, message.value);
            record.timestamp = message.millis;
            record.headers = message.headers.clone();
            let error = match self.producer.send(record) {
                Ok(()) => {
                    self.pending += bytes + 1;
                    return Ok(());
                }
                Err((error, _)) => error,
            };
            match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) if Instant::now() < deadline => {
                    self.producer.poll(Duration::from_millis(1));
                    self.check()?;
                }
                Some(RDKafkaErrorCode::QueueFull) => {
                    let patience = self.options.patience.as_secs();
                    return Err(self.write_error(format!(
                        "the queue to the brokers stayed full for {patience} s"
                    )));
                }
                Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
                    return Err(SinkError::Encode {
                        format: "a Kafka record",
                        why: format!("{bytes} bytes exceed message.max.bytes"),
                    });
                }
                _ => return Err(self.write_error(error.to_string())),
            }
        }
    }
}

struct Message<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    millis: Option<i64>,
    headers: Option<OwnedHeaders>,
}

impl Sink for KafkaSink {
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn write(&mut self, record: PublicRecord<'_>) -> Result<(), SinkError> {
        // 0 stands for "now" in librdkafka, and Kafka has no time before its epoch.
        let millis = record
            .event_time()
            .map(|micros| micros.div_euclid(1000))
            .filter(|millis| *millis > 0);
        if millis.is_some_and(|millis| millis > now_micros() / 1000 + MAX_AHEAD.as_millis() as i64)
        {
            return Err(SinkError::Encode {
                format: "a Kafka record",
                why: "its event time lies more than an hour ahead, which brokers refuse".into(),
            });
        }
        let mut headers: Option<OwnedHeaders> = None;
        for header in record.headers() {
            let list = headers.unwrap_or_default();
            headers = Some(list.insert(Header {
                key: header.name,
                value: header.value,
            }));
        }
        self.send(&Message {
            key: record.key(),
            value: record.value(),
            millis,
            headers,
        })
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let text = |key, value| Header {
            key,
            value: Some(value),
        };
        let headers = OwnedHeaders::new()
            .insert(text("tidegate-source", letter.source))
            .insert(text("tidegate-stage", letter.stage))
            .insert(text("tidegate-reason", letter.reason));
        let mut bytes = std::mem::take(&mut self.letter);
        // A value that makes the letter too large is cut; `length` still says how long it was.
        for value_limit in [usize::MAX, PREVIEW, 0] {
            let value = letter
                .value
                .map(|value| &value[..value.len().min(value_limit)]);
            bytes.clear();
            encode_dead_letter(
                &mut bytes,
                &DeadLetter {
                    value,
                    ..letter.clone()
                },
            );
            let message = Message {
                key: letter.key,
                value: Some(&bytes),
                millis: None,
                headers: Some(headers.clone()),
            };
            match self.send(&message) {
                Err(SinkError::Encode { .. }) if value_limit > 0 => {}
                sent => {
                    self.letter = bytes;
                    return sent;
                }
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.pending
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        let deadline = Instant::now() + self.options.patience;
        loop {
            self.producer.poll(Duration::ZERO);
            self.check()?;
            let in_flight = self.producer.in_flight_count();
            if in_flight == 0 {
                self.pending = 0;
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let patience = self.options.patience.as_secs();
                return Err(self.write_error(format!(
                    "{in_flight} records were not acknowledged within {patience} s"
                )));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn recover(&mut self, _position: Option<&SinkPosition>) -> Result<(), SinkError> {
        Ok(())
    }
}
