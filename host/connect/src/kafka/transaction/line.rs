//! The producer of a worker's transactions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer as _, PurgeConfig};
use tracing::debug;

use super::super::deliveries::{Deliveries, Producer, wait_a_moment};
use super::super::target::limit_batches;
use super::super::{Trouble, is_transient, topic};
use super::outbox::Destination;

/// How long one call may take before it is looked whether time is up.
const STEP: Duration = Duration::from_secs(1);

/// How a transaction's call failed.
#[derive(Debug)]
pub(in super::super) enum Failure {
    /// The same call again may work.
    Again(String),
    /// The transaction must be aborted.
    Abort(String),
    /// The producer is of no use any more.
    Broken(String),
}

impl Failure {
    pub(in super::super) fn of(error: &KafkaError) -> Failure {
        let KafkaError::Transaction(of) = error else {
            return Failure::Broken(error.to_string());
        };
        let why = of.string();
        match () {
            _ if of.is_fatal() => Failure::Broken(why),
            _ if of.txn_requires_abort() => Failure::Abort(why),
            _ if of.is_retriable() => Failure::Again(why),
            _ => Failure::Broken(why),
        }
    }
}

/// The way to the brokers: makes producers that have the same transactional id, one after the other.
pub(in super::super) struct Line {
    config: ClientConfig,
    /// For questions.
    plain: ClientConfig,
    place: String,
    patience: Duration,
}

impl Line {
    pub(in super::super) fn new(
        config: ClientConfig,
        plain: ClientConfig,
        place: String,
        patience: Duration,
    ) -> Line {
        Line {
            config,
            plain,
            place,
            patience,
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    fn batch_size(&self) -> usize {
        let set = self.config.get("batch.size");
        set.and_then(|size| size.parse().ok()).unwrap_or(1 << 18)
    }

    /// Keeps batches within what these topics take now; whether they are smaller than before. What a topic does not tell,
    /// it is not held to.
    pub(super) fn ask_limits(&mut self, destinations: &[Destination]) -> bool {
        let Ok(asker) = topic::asker(&self.plain) else {
            return false;
        };
        let before = self.batch_size();
        let topics: BTreeSet<&str> = destinations.iter().map(|to| to.topic.as_str()).collect();
        for topic in topics {
            let rules = topic::Rules::of(&asker, topic).ok();
            if let Some(largest) = rules.and_then(|rules| rules.largest_batch) {
                limit_batches(&mut self.config, largest);
            }
        }
        self.batch_size() < before
    }

    /// Batches of half the size, as librdkafka counts them: for topics that take less than they told.
    pub(super) fn halve_batches(&mut self) {
        let half = self.batch_size() / 2;
        limit_batches(&mut self.config, half);
    }

    /// Connects, and ends what a predecessor left open. The predecessor is fenced.
    pub(in super::super) fn connect(&self) -> Result<Arc<Producer>, String> {
        let mut trouble = Trouble::new(self.patience);
        loop {
            let producer: Producer = self
                .config
                .create_with_context(Deliveries::default())
                .map_err(|error| error.to_string())?;
            // A call that may be made again goes on where it was.
            loop {
                let error = match producer.init_transactions(10 * STEP) {
                    Ok(()) => {
                        trouble.clear(&self.place);
                        return Ok(Arc::new(producer));
                    }
                    Err(error) => error,
                };
                trouble.note(&self.place, &error.to_string())?;
                match Failure::of(&error) {
                    Failure::Again(_) => {}
                    Failure::Abort(_) | Failure::Broken(_) if is_transient(&error) => break,
                    Failure::Abort(why) | Failure::Broken(why) => return Err(why),
                }
            }
            std::thread::sleep(STEP / 5);
        }
    }

    /// Aborts the open transaction; false if this producer cannot, and another one must take its place.
    pub(in super::super) fn abort(&self, producer: &Producer) -> bool {
        let deadline = Instant::now() + self.patience;
        // The call waits for the reports of what it takes back, and serves none itself.
        producer.purge(PurgeConfig::default().queue());
        loop {
            producer.poll(Duration::ZERO);
            if producer.in_flight_count() > 0 && Instant::now() < deadline {
                wait_a_moment(producer);
                continue;
            }
            let error = match producer.abort_transaction(STEP) {
                Ok(()) => return true,
                Err(error) => error,
            };
            match Failure::of(&error) {
                Failure::Again(_) if Instant::now() < deadline => {}
                failure => {
                    debug!(place = self.place, "cannot abort: {failure:?}");
                    return false;
                }
            }
        }
    }
}
