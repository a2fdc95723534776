//! The thread that commits a worker's transactions while the worker goes on.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::{CommitError, Settled};
use tracing::{debug, warn};

use super::super::deliveries::{NotTaken, Producer, Pushes, Returned, produce};
use super::super::native;
use super::super::rebalance::Context;
use super::super::source::{SAME_TOPIC_ASK, SAME_TOPIC_INTERVAL, other_id};
use super::line::{Failure, Line};
use super::outbox::{Destination, Load};
use super::probe::{self, Unfound};
use super::witness::Witness;

/// The offsets of one group that a cut has.
pub(super) struct GroupOffsets {
    pub(super) consumer: Weak<BaseConsumer<Context>>,
    pub(super) list: TopicPartitionList,
}

/// A cut to be committed.
pub(super) struct Job {
    /// Its number.
    pub(super) number: u64,
    pub(super) load: Load,
    pub(super) groups: Vec<GroupOffsets>,
    /// Where its own position entries are: partition and key by changelog's index, and where to look from.
    pub(super) positions: Vec<PositionEntry>,
}

/// An entry of a changelog by which a cut without a group is known.
pub(super) struct PositionEntry {
    pub(super) changelog: u16,
    pub(super) partition: i32,
    pub(super) key: String,
    /// It is not before this offset.
    pub(super) from: u64,
}

/// Why a transaction was not committed, as far as is known.
enum Stop {
    /// It cannot be, and is to be aborted.
    Abort(String),
    /// Messages of it were refused; these before they were sent.
    Refused(Vec<Returned>),
    /// The group went on without this member.
    Fenced(String),
    /// The producer is broken; nothing is committed.
    Broken(String),
    /// It may be committed.
    Unknown(String),
}

/// What the thread works with. A transaction is begun, sent and committed here, and nowhere else.
pub(super) struct Courier {
    pub(super) line: Line,
    /// None if the last one is of no use any more.
    pub(super) producer: Option<Arc<Producer>>,
    pub(super) transaction_timeout: Duration,
    /// Changelogs and their ids.
    pub(super) changelogs: Vec<(String, String)>,
    /// When the brokers were asked last whether they are still those.
    pub(super) asked: Instant,
    pub(super) destinations: Vec<Destination>,
    pub(super) witness: Witness,
}

impl Courier {
    /// Commits a cut, or makes sure that it is not committed.
    pub(super) fn carry_out(&mut self, job: Job) -> Result<Settled, CommitError> {
        let Job {
            number,
            mut load,
            groups,
            positions,
        } = job;
        let began = Instant::now();
        let producer = self.producer().map_err(|why| self.error(why))?;
        self.check_changelogs(&producer)?;
        let stop = match self.attempt(&producer, &mut load, &groups) {
            Ok(()) => {
                debug!(number, took = ?began.elapsed(), "cut committed");
                return Ok(Settled::Committed { number });
            }
            Err(stop) => stop,
        };
        let aborted = |why: String| Settled::Aborted {
            why,
            refused: Vec::new(),
        };
        let settled = match stop {
            Stop::Refused(returned) => self.refused(&producer, &load, returned, &groups),
            Stop::Abort(why) => {
                let settled = lost(&groups, why.clone()).unwrap_or(aborted(why));
                self.abort(&producer);
                Ok(settled)
            }
            Stop::Fenced(why) => {
                self.abort(&producer);
                Ok(Settled::Fenced { why })
            }
            Stop::Broken(why) => {
                self.producer = None;
                drop(producer);
                Ok(lost(&groups, why.clone()).unwrap_or(aborted(why)))
            }
            Stop::Unknown(why) => {
                warn!(
                    place = self.line.place(),
                    "whether a cut is committed is not known: {why}; asking"
                );
                self.producer = None;
                drop(producer);
                // Connecting settles the transaction, one way or the other.
                let seen = self
                    .producer()
                    .and_then(|_| self.witness.has_seen(number, &groups, &positions));
                seen.map(|seen| match seen {
                    true => Settled::Committed { number },
                    false => lost(&groups, why.clone()).unwrap_or(aborted(why)),
                })
            }
        };
        let settled = settled.map_err(|why| self.error(why))?;
        // What was left open is aborted by the next producer of the name: now, not when the next cut comes.
        self.producer().map_err(|why| self.error(why))?;
        Ok(settled)
    }

    /// A changelog that was deleted and made anew lacks what waits: no cut goes to it, as soon as it is noticed.
    fn check_changelogs(&mut self, producer: &Producer) -> Result<(), CommitError> {
        if self.asked.elapsed() < SAME_TOPIC_INTERVAL {
            return Ok(());
        }
        self.asked = Instant::now();
        for (topic, id) in &self.changelogs {
            // One that is missing, or of which nothing is said, shows with what is sent.
            let described = native::describe_topic(producer.client(), topic, SAME_TOPIC_ASK);
            if let Some(now) = other_id(described, id) {
                return Err(CommitError::State(format!(
                    "changelog topic {topic} was deleted and made anew (id {id}, and now {now}): what waited in it is \
                     gone; set the group's position back to where it is to be read again"
                )));
            }
        }
        Ok(())
    }

    fn error(&self, why: String) -> CommitError {
        CommitError::Commit {
            place: self.line.place().to_owned(),
            why,
        }
    }

    /// The producer, a new one if the last is of no use.
    fn producer(&mut self) -> Result<Arc<Producer>, String> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => self.line.connect()?,
        };
        self.producer = Some(Arc::clone(&producer));
        Ok(producer)
    }

    /// Ends the open transaction; where this producer cannot, its successor does.
    fn abort(&mut self, producer: &Producer) {
        if self.line.abort(producer) {
            // What else failed of the aborted transaction is none of the next one's business.
            producer.context().take_failure();
            producer.context().take_returned();
        } else {
            self.producer = None;
        }
    }

    fn attempt(
        &self,
        producer: &Producer,
        load: &mut Load,
        groups: &[GroupOffsets],
    ) -> Result<(), Stop> {
        let deadline = Instant::now() + self.transaction_timeout;
        let begun = producer.begin_transaction();
        begun.map_err(|error| match Failure::of(&error) {
            Failure::Abort(why) => Stop::Abort(why),
            Failure::Again(why) | Failure::Broken(why) => Stop::Broken(why),
        })?;
        self.send(producer, load, deadline)?;
        deliver(producer, deadline)?;
        for group in groups {
            send_offsets(producer, group, deadline)?;
        }
        // Once more if it may be made again; after that only a new producer can tell.
        let commit = || producer.commit_transaction(self.transaction_timeout);
        let Err(error) = commit() else { return Ok(()) };
        let error = match Failure::of(&error) {
            Failure::Again(_) => match commit() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            _ => error,
        };
        Err(Stop::Unknown(error.to_string()))
    }

    /// Gives all messages to librdkafka, in their order.
    fn send(&self, producer: &Producer, load: &mut Load, deadline: Instant) -> Result<(), Stop> {
        let mut too_large = None;
        let sent = load.send(|number, to, message| {
            let topic = match self.destinations.get(usize::from(to)) {
                Some(destination) => destination.topic.as_str(),
                None => return Err(Stop::Abort(format!("message {number} goes nowhere"))),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let Err(why) = produce(producer, topic, message, number, left) else {
                return Ok(());
            };
            // The transaction fails with its first message that is refused, and takes none after that.
            producer.poll(Duration::from_millis(10));
            Err(match why {
                _ if producer.context().has_returned() => Stop::Refused(Vec::new()),
                NotTaken::TooLarge => {
                    too_large = Some(number);
                    Stop::Refused(Vec::new())
                }
                NotTaken::Full => Stop::Abort("the queue to the brokers stayed full".into()),
                NotTaken::Undelivered(why) => Stop::Abort(why),
                NotTaken::Failed(error) => Stop::Abort(error.to_string()),
            })
        });
        match too_large {
            Some(number) => Err(Stop::Refused(returned(load, number))),
            None => sent,
        }
    }

    /// Aborts, and finds out which messages are at fault.
    fn refused(
        &mut self,
        producer: &Arc<Producer>,
        load: &Load,
        mut returned: Vec<Returned>,
        groups: &[GroupOffsets],
    ) -> Result<Settled, String> {
        let why = "a topic refuses records";
        let aborted = self.line.abort(producer);
        returned.extend(producer.context().take_returned());
        producer.context().take_failure();
        if !aborted {
            self.producer = None;
        }
        let mut producer = self.producer()?;
        if let Some(settled) = lost(groups, why.to_owned()) {
            return Ok(settled);
        }
        let mut refused = Vec::new();
        let found = probe::find(
            &mut self.line,
            &mut producer,
            &self.destinations,
            load,
            returned,
            &mut refused,
        );
        self.producer = Some(producer);
        match found {
            Ok(()) => Ok(Settled::Aborted {
                why: why.to_owned(),
                refused,
            }),
            // Those that are not found yet are refused again.
            Err(Unfound::Undelivered(cause)) => {
                let why = format!("{why}, and which was not found: {cause}");
                let aborted = || Settled::Aborted {
                    why: why.clone(),
                    refused,
                };
                Ok(lost(groups, why.clone()).unwrap_or_else(aborted))
            }
            Err(Unfound::Hopeless(why)) => Err(why),
        }
    }
}

/// A message that librdkafka does not take at all, as one that the broker sent back.
fn returned(load: &Load, number: usize) -> Vec<Returned> {
    let message = load.message(number).map(|message| Returned {
        number,
        code: RDKafkaErrorCode::MessageSizeTooLarge,
        key: message.key.map(<[u8]>::to_vec),
        value: message.value.map(<[u8]>::to_vec),
        millis: message.millis,
        headers: message.headers,
    });
    message.into_iter().collect()
}

/// That the partitions are others' now, if one of the groups has gone on without this member.
fn lost(groups: &[GroupOffsets], why: String) -> Option<Settled> {
    let lost = |group: &GroupOffsets| {
        let consumer = group.consumer.upgrade();
        consumer.is_none_or(|consumer| consumer.assignment_lost())
    };
    groups.iter().any(lost).then_some(Settled::Fenced { why })
}

/// Waits until the brokers have all messages.
pub(in super::super) fn deliver_all(
    producer: &Producer,
    deadline: Instant,
) -> Result<(), Undelivered> {
    let mut pushes = Pushes::new();
    loop {
        pushes.push(producer);
        if producer.context().has_returned() {
            return Err(Undelivered::Refused);
        }
        if let Some(why) = producer.context().take_failure() {
            return Err(Undelivered::Failed(why));
        }
        let in_flight = producer.in_flight_count();
        if in_flight == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Undelivered::Failed(format!(
                "{in_flight} messages were not acknowledged in time"
            )));
        }
    }
}

/// Why messages were not delivered.
pub(in super::super) enum Undelivered {
    /// For what they are.
    Refused,
    /// For something else.
    Failed(String),
}

fn deliver(producer: &Producer, deadline: Instant) -> Result<(), Stop> {
    deliver_all(producer, deadline).map_err(|undelivered| match undelivered {
        Undelivered::Refused => Stop::Refused(Vec::new()),
        Undelivered::Failed(why) => Stop::Abort(why),
    })
}

/// Adds a group's offsets to the transaction.
///
/// The generation is read first and whether the assignment was lost after it. A member that is out of its group has none:
/// the coordinator would take its offsets unchecked.
fn send_offsets(producer: &Producer, group: &GroupOffsets, deadline: Instant) -> Result<(), Stop> {
    loop {
        let closed = || Stop::Fenced("the source was closed".into());
        let consumer = group.consumer.upgrade().ok_or_else(closed)?;
        let out = || Stop::Fenced("the group went on without this member".into());
        let generation = consumer.group_metadata().ok_or_else(out)?;
        let assigned = consumer.assignment().map_or(0, |list| list.count());
        if consumer.assignment_lost() || assigned == 0 {
            return Err(out());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let sent = producer.send_offsets_to_transaction(&group.list, &generation, left);
        let Err(error) = sent else { return Ok(()) };
        let code = error.rdkafka_error_code();
        match Failure::of(&error) {
            Failure::Again(_) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            _ if is_out_of_group(code) => return Err(Stop::Fenced(describe(&error))),
            Failure::Broken(_) => return Err(Stop::Broken(describe(&error))),
            Failure::Again(why) | Failure::Abort(why) => return Err(Stop::Abort(why)),
        }
    }
}

/// Whether the coordinator does not know this member any more, or another has its name.
fn is_out_of_group(code: Option<RDKafkaErrorCode>) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Some(Code::UnknownMemberId | Code::FencedInstanceId))
}

fn describe(error: &KafkaError) -> String {
    match error {
        KafkaError::Transaction(of) => of.string(),
        _ => error.to_string(),
    }
}
