//! Writing to a topic, at least once.

use std::fmt;
use std::time::{Duration, Instant};

use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::{DeadLetter, Delivery, RefusedRecord, Sink, SinkError, SinkPosition};
use tidegate_record::PublicRecord;
use tracing::warn;

use super::Properties;
use super::client::{Settings, find};
use super::deliveries::{Deliveries, Sent};
use super::letter::Letter;
use super::topic::{self, Rules};

/// How long the drain loop sleeps between looks. `BaseProducer::flush` would look every 100 ms only.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);
/// librdkafka's `message.max.bytes` unless set.
const MESSAGE_MAX_BYTES: usize = 1_000_000;

/// Which topic is written, and how.
#[derive(Clone, Debug)]
pub struct KafkaSinkOptions {
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The pipeline that writes it. Pipelines may share a topic of dead letters: in a compacted one the keys of letters
    /// begin with its name, so that none takes the place of another's.
    pub pipeline: String,
    /// How long the brokers may be away, and how long the delivery of a record may take.
    pub patience: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaSinkOptions {
    /// The usual options: 2 minutes of patience.
    pub fn new(
        brokers: impl Into<String>,
        topic: impl Into<String>,
        pipeline: impl Into<String>,
    ) -> KafkaSinkOptions {
        KafkaSinkOptions {
            brokers: brokers.into(),
            topic: topic.into(),
            pipeline: pipeline.into(),
            patience: Duration::from_secs(120),
            properties: Properties::new(),
        }
    }
}

/// A topic as a sink. Records keep key, value, headers and event time; a null value is a tombstone.
///
/// What the broker refuses is known only when its answer comes: `flush` finds the messages at fault among those that
/// were in a batch with them.
pub struct KafkaSink {
    pub(super) options: KafkaSinkOptions,
    place: String,
    pub(super) producer: BaseProducer<Deliveries>,
    /// Bytes given to librdkafka since the last flush.
    pending: usize,
    /// librdkafka's `message.max.bytes`.
    largest: usize,
    pub(super) rules: Rules,
    pub(super) refused: Vec<RefusedRecord>,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("place", &self.place)
            .finish_non_exhaustive()
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
        let settings = Settings::writer(&options);
        let mut config = settings.config(&options.properties).map_err(fail)?;
        let largest = config
            .get("message.max.bytes")
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or(MESSAGE_MAX_BYTES);
        find(&config, &place, &options.topic, options.patience).map_err(fail)?;
        let asker = topic::asker(&config).map_err(fail)?;
        let rules = Rules::of(&asker, &options.topic).unwrap_or_else(|why| {
            let means =
                "records that share a batch with one that the broker refuses may be written late";
            warn!(
                place,
                "the settings of the topic cannot be read: {why}; {means}"
            );
            Rules::default()
        });
        if let Some(largest) = rules.largest_batch {
            let set = config.get("batch.size").and_then(|size| size.parse().ok());
            let size = set.unwrap_or(largest).min(largest).max(1);
            config.set("batch.size", size.to_string());
        }
        let producer: BaseProducer<Deliveries> = config
            .create_with_context(Deliveries::default())
            .map_err(|error| fail(error.to_string()))?;
        Ok(KafkaSink {
            options,
            place,
            producer,
            pending: 0,
            largest,
            rules,
            refused: Vec::new(),
        })
    }

    pub(super) fn write_error(&self, why: impl Into<String>) -> SinkError {
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
    pub(super) fn send(&mut self, message: Message<'_>, sent: Sent) -> Result<(), SinkError> {
        let bytes = message.bytes();
        if bytes > self.largest {
            return Err(SinkError::Encode {
                format: "a Kafka record",
                why: format!("{bytes} bytes exceed message.max.bytes {}", self.largest),
            });
        }
        let deadline = Instant::now() + self.options.patience;
        let topic = self.options.topic.clone();
        let mut record: BaseRecord<'_, [u8], [u8], Box<Sent>> =
            BaseRecord::with_opaque_to(&topic, Box::new(sent));
        (record.key, record.payload) = (message.key, message.value);
        (record.timestamp, record.headers) = (message.millis, message.headers);
        loop {
            let error = match self.producer.send(record) {
                Ok(()) => {
                    self.pending += bytes + 1;
                    return Ok(());
                }
                Err((error, back)) => {
                    record = back;
                    error
                }
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
                        why: format!("{bytes} bytes exceed message.max.bytes {}", self.largest),
                    });
                }
                _ => return Err(self.write_error(error.to_string())),
            }
        }
    }

    /// Gives a dead letter to librdkafka, as much of it as a message holds.
    pub(super) fn send_letter(&mut self, mut letter: Letter) -> Result<(), SinkError> {
        loop {
            let written = letter.write();
            let message = Message {
                key: written.key.as_deref(),
                value: Some(&written.value),
                millis: None,
                headers: Some(written.headers),
            };
            match self.send(message, Sent::Letter(Box::new(letter.clone()))) {
                Err(SinkError::Encode { .. }) if letter.shorten() => {}
                Err(SinkError::Encode { why, .. }) => {
                    return Err(self.write_error(format!(
                        "a dead letter does not fit, however much of it is cut: {why}"
                    )));
                }
                sent => return sent,
            }
        }
    }

    /// Waits until the brokers have answered for everything.
    pub(super) fn drain(&mut self) -> Result<(), SinkError> {
        let deadline = Instant::now() + self.options.patience;
        loop {
            self.producer.poll(Duration::ZERO);
            self.check()?;
            let in_flight = self.producer.in_flight_count();
            if in_flight == 0 {
                return Ok(());
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
}

/// A message before it is given to librdkafka.
pub(super) struct Message<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) millis: Option<i64>,
    pub(super) headers: Option<OwnedHeaders>,
}

impl Message<'_> {
    /// Bytes of all its parts; librdkafka does not hold headers against its limit.
    fn bytes(&self) -> usize {
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let headers = self.headers.iter().flat_map(|headers| headers.iter());
        let headers: usize = headers
            .map(|header| header.key.len() + size(header.value))
            .sum();
        size(self.key) + size(self.value) + headers
    }
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
        if let Some(why) = self.rules.against(&record, millis) {
            return Err(SinkError::Encode {
                format: "a Kafka record",
                why,
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
        let message = Message {
            key: record.key(),
            value: record.value(),
            millis,
            headers,
        };
        self.send(message, Sent::Record(record.id()))
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let mut letter = Letter::of(letter, &self.options.pipeline, self.largest);
        if self.rules.needs_key {
            letter.key_by_place();
        }
        self.send_letter(letter)
    }

    fn pending(&self) -> usize {
        self.pending
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        self.drain()?;
        let returned = self.producer.context().take_returned();
        self.settle(returned)?;
        self.pending = 0;
        Ok(None)
    }

    fn take_refused(&mut self) -> Vec<RefusedRecord> {
        std::mem::take(&mut self.refused)
    }

    fn recover(&mut self, _known: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}
