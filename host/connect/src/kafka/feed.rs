//! Tokens to a topic, beside the transactions of the pipeline.
//!
//! An idempotent producer of its own, whose messages have the answer as key: all events of an answer are in one partition,
//! in order. A worker never waits for it. What does not fit its queue is refused and comes again with what follows; what
//! the brokers do not take within its patience is gone, which readers see by the places in the events.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode;
use tidegate_codec::tokens::encode_token_event;
use tidegate_contract::{TokenEvent, TokenFeed};
use tracing::{debug, warn};

use super::client::{Settings, find};
use super::target::KafkaSinkOptions;
use super::{LOG_INTERVAL, Properties};

/// How long the last events may take to go out when the feed ends.
const GOODBYE: Duration = Duration::from_secs(5);
/// Of the queue, the share that is left free for the ends of answers: one in so many.
const FOR_ENDS: usize = 8;

/// Which topic is fed, and how.
#[derive(Clone, Debug)]
pub struct KafkaFeedOptions {
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// The topic, which must be there.
    pub topic: String,
    /// The pipeline that feeds it.
    pub pipeline: String,
    /// Most events that wait for the brokers.
    pub queue: usize,
    /// How long the brokers may take for an event; later it is of no more use.
    pub patience: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaFeedOptions {
    /// The usual options: 10,000 events, 10 seconds.
    pub fn new(
        brokers: impl Into<String>,
        topic: impl Into<String>,
        pipeline: impl Into<String>,
    ) -> KafkaFeedOptions {
        KafkaFeedOptions {
            brokers: brokers.into(),
            topic: topic.into(),
            pipeline: pipeline.into(),
            queue: 10_000,
            patience: Duration::from_secs(10),
            properties: Properties::new(),
        }
    }
}

/// Why a topic cannot be fed.
#[derive(Debug, thiserror::Error)]
#[error("tokens cannot go to {place}: {why}")]
pub struct FeedFailure {
    place: String,
    why: String,
}

/// A topic that tokens go to.
pub struct KafkaFeed {
    topic: String,
    queue: usize,
    producer: ThreadedProducer<Events>,
}

impl fmt::Debug for KafkaFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaFeed")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

/// What became of events.
struct Events {
    place: String,
    lost: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

impl ClientContext for Events {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        super::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            warn!(place = self.place, "no more tokens go out: {reason}");
        } else {
            debug!("kafka client: {error}: {reason}");
        }
    }
}

impl ProducerContext for Events {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.lose(&error.to_string());
        }
    }
}

impl Events {
    fn lose(&self, why: &str) {
        let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
        // Whoever holds the lock logs just now.
        if let Ok(mut logged) = self.logged.try_lock()
            && logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL)
        {
            *logged = Some(Instant::now());
            warn!(
                place = self.place,
                lost, "events of tokens did not go out: {why}"
            );
        }
    }
}

impl KafkaFeed {
    /// Connects. Waits for the brokers, as long as its patience lasts; a topic that does not exist is an error.
    pub fn open(options: KafkaFeedOptions) -> Result<KafkaFeed, FeedFailure> {
        let place = format!("topic {} at {}", options.topic, options.brokers);
        let fail = |why: String| FeedFailure {
            place: place.clone(),
            why,
        };
        let mut sink = KafkaSinkOptions::new(&options.brokers, &options.topic, &options.pipeline);
        sink.patience = options.patience;
        let settings = Settings::writer(&sink);
        let mut config = settings.config(&options.properties).map_err(fail)?;
        find(&config, &place, &options.topic, options.patience).map_err(fail)?;
        let queue = options.queue.max(FOR_ENDS);
        config.set("queue.buffering.max.messages", queue.to_string());
        // Tokens are to be seen soon.
        config.set("linger.ms", "5");
        let events = Events {
            place: place.clone(),
            lost: AtomicU64::new(0),
            logged: Mutex::new(None),
        };
        let producer = config
            .create_with_context(events)
            .map_err(|error| fail(error.to_string()))?;
        Ok(KafkaFeed {
            topic: options.topic,
            queue,
            producer,
        })
    }

    /// Events that were taken and did not go out, or were the last of an answer and had no room.
    pub fn lost(&self) -> u64 {
        self.producer.context().lost.load(Ordering::Relaxed)
    }
}

impl TokenFeed for KafkaFeed {
    fn send(&self, event: &TokenEvent<'_>) -> bool {
        let waiting = usize::try_from(self.producer.in_flight_count()).unwrap_or_default();
        waiting < self.queue - self.queue / FOR_ENDS && self.enqueue(event, false)
    }

    fn send_last(&self, event: &TokenEvent<'_>) -> bool {
        self.enqueue(event, true)
    }
}

impl KafkaFeed {
    fn enqueue(&self, event: &TokenEvent<'_>, is_last: bool) -> bool {
        let value = encode_token_event(event);
        let record = BaseRecord::to(&self.topic)
            .key(event.request)
            .payload(&value);
        match self.producer.send(record) {
            Ok(()) => true,
            Err((error, _)) => {
                let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                if is_last || !is_full {
                    self.producer.context().lose(&error.to_string());
                }
                false
            }
        }
    }
}

impl Drop for KafkaFeed {
    fn drop(&mut self) {
        // What is left then is lost, and counted nowhere any more.
        if let Err(error) = self.producer.flush(GOODBYE) {
            warn!(
                topic = self.topic,
                "events of tokens did not go out: {error}"
            );
        }
    }
}
