//! A topic that is written, and how records become messages of it.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use tidegate_contract::{DeadLetter, HostHeaders, SinkError};
use tidegate_record::{MAX_PAIRS, PublicRecord};
use tracing::warn;

use super::Properties;
use super::client::{ask, find};
use super::deliveries::Sent;
use super::internal::{InternalTopic, Wanted};
use super::letter::Letter;
use super::topic::{self, Rules};

/// The property that says how large a message may be.
const LARGEST_MESSAGE: &str = "message.max.bytes";
/// What it is in librdkafka unless set, and the most that it can be.
const MESSAGE_MAX_BYTES: usize = 1_000_000;
const LARGEST_OF_ALL: usize = 1_000_000_000;
/// Bytes of a message that are none of its parts, at most.
const MESSAGE_OVERHEAD: usize = 36;

/// What is ours in the configuration of every producer.
pub(super) const PRODUCER: [(&str, &str); 5] = [
    // Batches fill while records come; at a cut what there is goes at once.
    ("linger.ms", "20"),
    ("queue.buffering.max.kbytes", "131072"),
    ("queue.buffering.max.messages", "1000000"),
    ("compression.type", "lz4"),
    // A batch larger than the topic takes is refused whole, even if each record would fit: where a topic tells its limit,
    // it is never larger. librdkafka sends one batch of a partition at a time, and looks without a rest for the answer
    // to it while the next is due: few large ones cost a third less than many of a quarter of this.
    ("batch.size", "1000000"),
];

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
    /// How it is made if it is missing; one that must be there has none.
    pub made: Option<InternalTopic>,
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
            made: None,
            patience: Duration::from_secs(120),
            properties: Properties::new(),
        }
    }
}

/// A message before it is given to librdkafka.
pub(super) struct Message<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) millis: Option<i64>,
    pub(super) headers: Option<OwnedHeaders>,
    /// Where it goes; by its key if none is given.
    pub(super) partition: Option<i32>,
}

impl Message<'_> {
    /// Bytes of all its parts.
    pub(super) fn bytes(&self) -> usize {
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let headers = self.headers.iter().flat_map(|headers| headers.iter());
        let headers: usize = headers
            .map(|header| header.key.len() + size(header.value))
            .sum();
        size(self.key) + size(self.value) + headers
    }

    /// The most bytes that it can have on its way, which is what librdkafka holds against its limit.
    pub(super) fn on_its_way(&self) -> usize {
        // A length is a signed number in sevens of bits.
        let length = |bytes: usize| match bytes {
            0..64 => 1,
            64..8192 => 2,
            8192..1_048_576 => 3,
            1_048_576..134_217_728 => 4,
            _ => 5,
        };
        let headers = self.headers.iter().flat_map(|headers| headers.iter());
        let headers = headers.map(|header| {
            let value: Option<&[u8]> = header.value;
            length(header.key.len()) + length(value.map_or(0, <[u8]>::len))
        });
        MESSAGE_OVERHEAD + self.bytes() + headers.sum::<usize>()
    }
}

/// The most that a message of such a producer holds: librdkafka's `message.max.bytes`.
pub(super) fn largest_message(config: &ClientConfig) -> usize {
    let set = config.get(LARGEST_MESSAGE);
    set.and_then(|bytes| bytes.parse().ok())
        .unwrap_or(MESSAGE_MAX_BYTES)
}

/// Has the producer's messages be as large as a topic takes, which tells it, unless the properties say how large they may be:
/// librdkafka's own limit is a little less than the brokers'. More than its queue holds would wait for ever.
pub(super) fn follow_topic(config: &mut ClientConfig, largest: Option<usize>) {
    let Some(largest) = largest.filter(|_| config.get(LARGEST_MESSAGE).is_none()) else {
        return;
    };
    let queue = config.get("queue.buffering.max.kbytes");
    let queue = queue.and_then(|size| size.parse::<usize>().ok());
    let largest = largest
        .min(queue.map_or(usize::MAX, |size| size.saturating_mul(1024)))
        .min(LARGEST_OF_ALL);
    if largest > MESSAGE_MAX_BYTES {
        config.set(LARGEST_MESSAGE, largest.to_string());
    }
}

/// Keeps batches within what a topic takes.
pub(super) fn limit_batches(config: &mut ClientConfig, largest: usize) {
    let set = config.get("batch.size").and_then(|size| size.parse().ok());
    let size = set.unwrap_or(largest).min(largest).max(1);
    config.set("batch.size", size.to_string());
}

const BY_PROPERTY: &str = "a property of the sinks";

/// A topic that is written.
pub(super) struct Target {
    pub(super) options: KafkaSinkOptions,
    pub(super) place: String,
    /// Most bytes of a message.
    pub(super) largest: usize,
    /// Why it is no more, to stand behind the number.
    limit: &'static str,
    pub(super) rules: Rules,
}

impl Target {
    pub(super) fn place_of(options: &KafkaSinkOptions) -> String {
        format!("topic {} at {}", options.topic, options.brokers)
    }

    /// Waits for the brokers, as long as its patience lasts; a topic that does not exist is made, or is an error.
    pub(super) fn open(options: KafkaSinkOptions, config: &ClientConfig) -> Result<Target, String> {
        let place = Target::place_of(&options);
        let asker = topic::asker(config)?;
        match &options.made {
            None => drop(find(config, &place, &options.topic, options.patience)?),
            Some(made) => {
                ask(config, &place, &options.topic, options.patience)?;
                let wanted = Wanted {
                    what: "topic",
                    topic: &options.topic,
                    partitions: None,
                    made,
                    said: made,
                };
                wanted.find_or_make(&asker, &place, options.patience)?;
            }
        }
        let rules = Rules::of(&asker, &options.topic).unwrap_or_else(|why| {
            let means =
                "records that share a batch with one that the broker refuses may be written late";
            warn!(
                place,
                "the settings of the topic cannot be read: {why}; {means}"
            );
            Rules::default()
        });
        let mut followed = config.clone();
        follow_topic(&mut followed, rules.largest_batch);
        let limit = match (config.get(LARGEST_MESSAGE), followed.get(LARGEST_MESSAGE)) {
            (Some(_), _) => BY_PROPERTY,
            (None, Some(_)) => {
                "which follows the topic's max.message.bytes unless the sink sets it"
            }
            (None, None) => "which the sink may set higher",
        };
        Ok(Target {
            largest: largest_message(&followed),
            limit,
            options,
            place,
            rules,
        })
    }

    /// The producer takes no more than this, which another sink has said.
    pub(super) fn hold_to(&mut self, largest: usize) {
        if largest < self.largest {
            (self.largest, self.limit) = (largest, BY_PROPERTY);
        }
    }

    pub(super) fn write_error(&self, why: impl Into<String>) -> SinkError {
        SinkError::Write {
            place: self.place.clone(),
            why: why.into(),
        }
    }

    pub(super) fn encode_error(&self, why: String) -> SinkError {
        SinkError::Encode {
            format: "a Kafka record",
            why,
        }
    }

    /// The error of a message that is too large for librdkafka.
    pub(super) fn too_large(&self, bytes: usize) -> SinkError {
        self.encode_error(format!(
            "{bytes} bytes exceed {LARGEST_MESSAGE} {}, {}",
            self.largest, self.limit
        ))
    }

    /// The error of a queue that did not empty.
    pub(super) fn full(&self) -> SinkError {
        let patience = self.options.patience.as_secs();
        self.write_error(format!(
            "the queue to the brokers stayed full for {patience} s"
        ))
    }

    /// A record as a message, if the topic may take it. It is without the headers of the host where it would be larger than
    /// this with them, or have more than whoever reads it takes.
    pub(super) fn message<'a>(
        &self,
        record: &'a PublicRecord<'_>,
        host: HostHeaders<'a>,
        largest: usize,
    ) -> Result<(Message<'a>, Sent), SinkError> {
        // 0 stands for "now" in librdkafka, and Kafka has no time before its epoch.
        let millis = record
            .event_time()
            .map(|micros| micros.div_euclid(1000))
            .filter(|millis| *millis > 0);
        if let Some(why) = self.rules.against(record, millis) {
            return Err(self.encode_error(why));
        }
        let own = usize::from(record.headers().number());
        let mut sent = Sent::Record {
            id: record.id(),
            of_host: host.written.len(),
        };
        let mut message = Message {
            key: record.key(),
            value: record.value(),
            millis,
            headers: headers(record, host),
            partition: None,
        };
        let has_room = message.on_its_way() <= largest && own + host.written.len() <= MAX_PAIRS;
        if let Sent::Record { of_host, .. } = &mut sent
            && *of_host > 0
            && !has_room
        {
            *of_host = 0;
            message.headers = headers(record, host.unwritten());
        }
        Ok((message, sent))
    }

    pub(super) fn letter(&self, letter: &DeadLetter<'_>) -> Letter {
        let mut letter = Letter::of(letter, &self.options.pipeline, self.largest);
        if self.rules.needs_key {
            letter.key_by_place();
        }
        letter
    }
}

fn headers(record: &PublicRecord<'_>, host: HostHeaders<'_>) -> Option<OwnedHeaders> {
    host.over(record.headers())
        .fold(None, |list, (key, value)| {
            let list: OwnedHeaders = list.unwrap_or_default();
            Some(list.insert(Header { key, value }))
        })
}

/// Gives a dead letter to `send`, as much of it as it takes.
pub(super) fn send_letter(
    place: &str,
    mut letter: Letter,
    mut send: impl FnMut(Message<'_>, &Letter) -> Result<(), SinkError>,
) -> Result<(), SinkError> {
    loop {
        let written = letter.write();
        let message = Message {
            key: written.key.as_deref(),
            value: Some(&written.value),
            millis: None,
            headers: Some(written.headers),
            partition: None,
        };
        match send(message, &letter) {
            Err(SinkError::Encode { .. }) if letter.shorten() => {}
            Err(SinkError::Encode { why, .. }) => {
                return Err(SinkError::Write {
                    place: place.to_owned(),
                    why: format!("a dead letter does not fit, however much of it is cut: {why}"),
                });
            }
            sent => return sent,
        }
    }
}
