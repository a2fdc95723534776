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

use super::super::deliveries::Producer;
use super::super::native;
use super::super::rebalance::Context;
use super::line::{Failure, Line};
use super::outbox::{Destination, Load, Stub};
use super::probe::{self, Unfound};
use super::witness::Witness;

/// How long is waited for deliveries before it is looked what failed.
const LOOK: Duration = Duration::from_millis(50);

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

/// What became of a cut.
pub(super) struct Report {
    pub(super) settled: Result<Settled, CommitError>,
    /// What goes on; none if the brokers are gone.
    pub(super) producer: Option<Arc<Producer>>,
}

/// Why a transaction was not committed, as far as is known.
enum Stop {
    /// It cannot be, and is to be aborted.
    Abort(String),
    /// Messages of it were refused.
    Refused,
    /// The group went on without this member.
    Fenced(String),
    /// The producer is broken; nothing is committed.
    Broken(String),
    /// It may be committed.
    Unknown(String),
}

/// What the thread works with.
pub(super) struct Courier {
    pub(super) line: Line,
    pub(super) transaction_timeout: Duration,
    pub(super) destinations: Vec<Destination>,
    pub(super) witness: Witness,
}

impl Courier {
    /// Commits a cut, or makes sure that it is not committed.
    pub(super) fn carry_out(&mut self, job: Job) -> Report {
        let Job {
            number,
            load,
            groups,
            positions,
        } = job;
        let Load {
            producer,
            stubs,
            doomed,
        } = load;
        let began = Instant::now();
        let stop = match self.attempt(&producer, doomed, &groups) {
            Ok(()) => {
                debug!(number, took = ?began.elapsed(), "cut committed");
                let settled = Ok(Settled::Committed { number });
                return Report {
                    settled,
                    producer: Some(producer),
                };
            }
            Err(stop) => stop,
        };
        let aborted = |why: String| Settled::Aborted {
            why,
            refused: Vec::new(),
        };
        match stop {
            Stop::Refused => self.refused(producer, &stubs, &groups),
            Stop::Abort(why) => {
                let settled = lost(&groups, why.clone()).unwrap_or(aborted(why));
                let producer = self.line.abort(&producer).then_some(producer);
                self.report(settled, producer)
            }
            Stop::Fenced(why) => {
                let producer = self.line.abort(&producer).then_some(producer);
                self.report(Settled::Fenced { why }, producer)
            }
            Stop::Broken(why) => {
                drop(producer);
                let settled = lost(&groups, why.clone()).unwrap_or(aborted(why));
                self.report(settled, None)
            }
            Stop::Unknown(why) => {
                drop(producer);
                warn!(
                    place = self.line.place(),
                    "whether a cut is committed is not known: {why}; asking"
                );
                // Connecting settles the transaction, one way or the other.
                let producer = match self.line.connect() {
                    Ok(producer) => producer,
                    Err(why) => return self.broken(why),
                };
                let seen = self.witness.has_seen(number, &groups, &positions);
                let settled = match seen {
                    Ok(true) => Ok(Settled::Committed { number }),
                    Ok(false) => Ok(lost(&groups, why.clone()).unwrap_or(aborted(why))),
                    Err(why) => Err(self.error(why)),
                };
                Report {
                    settled,
                    producer: Some(producer),
                }
            }
        }
    }

    fn error(&self, why: String) -> CommitError {
        CommitError::Commit {
            place: self.line.place().to_owned(),
            why,
        }
    }

    fn broken(&self, why: String) -> Report {
        Report {
            settled: Err(self.error(why)),
            producer: None,
        }
    }

    /// With a new producer, if the old one is of no use: that aborts what it left open.
    fn report(&self, settled: Settled, producer: Option<Arc<Producer>>) -> Report {
        let producer = match producer {
            Some(producer) => Ok(producer),
            None => self.line.connect(),
        };
        match producer {
            Ok(producer) => {
                // What else failed of the aborted transaction is none of the next one's business.
                producer.context().take_failure();
                producer.context().take_returned();
                Report {
                    settled: Ok(settled),
                    producer: Some(producer),
                }
            }
            Err(why) => self.broken(why),
        }
    }

    fn attempt(
        &self,
        producer: &Producer,
        doomed: Option<String>,
        groups: &[GroupOffsets],
    ) -> Result<(), Stop> {
        let deadline = Instant::now() + self.transaction_timeout;
        if let Some(why) = doomed {
            // What was refused may be among the reports that are not read yet.
            producer.poll(Duration::from_millis(10));
            return Err(match producer.context().has_returned() {
                true => Stop::Refused,
                false => Stop::Abort(why),
            });
        }
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

    /// Aborts, and finds out which messages are at fault.
    fn refused(
        &mut self,
        producer: Arc<Producer>,
        stubs: &[Stub],
        groups: &[GroupOffsets],
    ) -> Report {
        let why = "a topic refuses records";
        let aborted = self.line.abort(&producer);
        let returned = producer.context().take_returned();
        producer.context().take_failure();
        let mut producer = match aborted {
            true => producer,
            false => {
                drop(producer);
                match self.line.connect() {
                    Ok(producer) => producer,
                    Err(why) => return self.broken(why),
                }
            }
        };
        if let Some(settled) = lost(groups, why.to_owned()) {
            return self.report(settled, Some(producer));
        }
        let mut refused = Vec::new();
        let found = probe::find(
            &mut self.line,
            &mut producer,
            &self.destinations,
            stubs,
            returned,
            &mut refused,
        );
        let settled = match found {
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
            Err(Unfound::Hopeless(why)) => Err(self.error(why)),
        };
        Report {
            settled,
            producer: Some(producer),
        }
    }
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
pub(super) fn deliver_all(producer: &Producer, deadline: Instant) -> Result<(), Undelivered> {
    loop {
        if native::flush(producer, LOOK) {
            producer.poll(Duration::ZERO);
        } else {
            producer.poll(Duration::from_millis(1));
        }
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
pub(super) enum Undelivered {
    /// For what they are.
    Refused,
    /// For something else.
    Failed(String),
}

fn deliver(producer: &Producer, deadline: Instant) -> Result<(), Stop> {
    deliver_all(producer, deadline).map_err(|undelivered| match undelivered {
        Undelivered::Refused => Stop::Refused,
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
