//! Faults that are put around the source on purpose: what finds them is tested so. `TIDEGATE_PLANTED` names one; the
//! product knows nothing of it.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_connect::kafka::KafkaSource;
use tidegate_contract::{Done, Partition, Source, SourceError, SourceEvent};
use tidegate_tests::mock::{OFFSETS_FIRST, PLANTED, RECORDS_KEPT};

use super::Failure;

/// The source with the fault that is asked for, if one is.
pub(crate) fn around(source: KafkaSource) -> Result<Box<dyn Source>, Failure> {
    match std::env::var(PLANTED).as_deref() {
        Err(_) => Ok(Box::new(source)),
        Ok(RECORDS_KEPT) => Ok(Box::new(KeepsRecords {
            source,
            here: BTreeSet::new(),
            paused: BTreeSet::new(),
            polled: VecDeque::new(),
        })),
        Ok(OFFSETS_FIRST) => Ok(Box::new(CommitsFirst { source })),
        Ok(other) => Err(format!("{PLANTED}={other} names no fault").into()),
    }
}

/// Polls ahead. What it has polled of a partition that is taken away it keeps, and hands on when the partition comes
/// back, as if nobody had read it meanwhile.
struct KeepsRecords {
    source: KafkaSource,
    here: BTreeSet<Partition>,
    paused: BTreeSet<Partition>,
    polled: VecDeque<(Partition, SourceEvent)>,
}

/// How many batches it polls ahead.
const AHEAD: usize = 4;

impl Source for KeepsRecords {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        let may = |(of, _): &(Partition, SourceEvent)| {
            self.here.contains(of) && !self.paused.contains(of)
        };
        let ready = self.polled.iter().position(may);
        let wait = if ready.is_some() {
            Duration::ZERO
        } else {
            wait
        };
        match self.source.poll(records, bytes, wait)? {
            SourceEvent::Idle => {}
            SourceEvent::Records {
                partition,
                batch,
                rejected,
                next,
            } => {
                let event = SourceEvent::Records {
                    partition,
                    batch,
                    rejected,
                    next,
                };
                self.polled.push_back((partition, event));
                if self.polled.len() <= AHEAD {
                    return Ok(SourceEvent::Idle);
                }
            }
            SourceEvent::Assigned(partitions) => {
                self.here.extend(partitions.iter().map(|one| one.partition));
                return Ok(SourceEvent::Assigned(partitions));
            }
            SourceEvent::Revoked(partitions) => {
                for partition in &partitions {
                    self.here.remove(partition);
                    self.paused.remove(partition);
                }
                return Ok(SourceEvent::Revoked(partitions));
            }
            end @ SourceEvent::End(_) => return Ok(end),
        }
        let next = ready.and_then(|ready| self.polled.remove(ready));
        Ok(next.map_or(SourceEvent::Idle, |(_, event)| event))
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.polled.retain(|(of, _)| *of != partition);
        self.source.seek(partition, position)
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.paused.insert(partition);
        self.source.pause(partition)
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.paused.remove(&partition);
        self.source.resume(partition)
    }

    fn commit(&mut self, done: &[Done]) -> Result<(), SourceError> {
        self.source.commit(done)
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.source.close()
    }
}

/// Commits offsets when records are read, and not with their outputs.
struct CommitsFirst {
    source: KafkaSource,
}

impl Source for CommitsFirst {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        let event = self.source.poll(records, bytes, wait)?;
        if let SourceEvent::Records {
            partition, next, ..
        } = &event
        {
            self.source.commit(&[Done {
                partition: *partition,
                position: *next,
                waits: false,
                metadata: String::new(),
            }])?;
        }
        Ok(event)
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.source.seek(partition, position)
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.source.pause(partition)
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.source.resume(partition)
    }

    fn commit(&mut self, done: &[Done]) -> Result<(), SourceError> {
        self.source.commit(done)
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.source.close()
    }
}
