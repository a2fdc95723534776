//! The ingest log as a source of the pipeline.

use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_contract::{
    Assigned, Done, IngestError, IngestLog, Lag, Partition, Source, SourceError, SourceEvent,
    Unread,
};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};

/// What is in its one partition.
const WHAT: &str = "ingest";

/// One source of ingest: one partition, whose positions are the offsets of its log.
///
/// The cuts hold its position, so that it is `Positions::CutsAndSource` in the topology: after each cut the log is told
/// what is done. After a restart what no cut has is read again. Its one partition has the log's
/// [`identity`](IngestLog::identity).
#[derive(Debug)]
pub struct IngestSource {
    partition: Partition,
    name: String,
    log: Arc<dyn IngestLog>,
    next: u64,
    assigned: bool,
    paused: bool,
}

impl IngestSource {
    /// Reads this log from its beginning, as the source with this index and name.
    pub fn new(source: u16, name: impl Into<String>, log: Arc<dyn IngestLog>) -> IngestSource {
        IngestSource {
            partition: Partition { source, number: 0 },
            name: name.into(),
            next: log.offsets().start,
            log,
            assigned: false,
            paused: false,
        }
    }

    fn place(&self) -> String {
        format!("the ingest log of source {}", self.name)
    }

    fn position_error(&self, position: u64, why: String) -> SourceError {
        SourceError::Position {
            place: self.place(),
            position,
            why,
        }
    }

    /// The log lets nothing go. A full or slow disk is no end of the pipeline: its records are done, whatever the log still
    /// has of them.
    fn not_let_go(&self, error: &IngestError) -> SourceError {
        let (place, why) = (self.place(), error.to_string());
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        match error {
            IngestError::Slow { .. } => SourceError::NotYet { place, why },
            IngestError::Write { kind, .. } if full.contains(kind) => {
                SourceError::NotYet { place, why }
            }
            _ => SourceError::Commit { place, why },
        }
    }

    fn read(&mut self, records: usize, bytes: usize) -> Result<Option<SourceEvent>, SourceError> {
        let found = self.log.read(self.next, records, bytes);
        let found = found.map_err(|error| match error {
            IngestError::Offset { .. } => self.position_error(self.next, error.to_string()),
            _ => SourceError::Read {
                place: self.place(),
                why: error.to_string(),
            },
        })?;
        let mut batch = BatchBuilder::default();
        for logged in &found {
            let record = &logged.record;
            let headers = record.headers.iter();
            let headers: Vec<_> = headers
                .map(|(name, value)| (name.as_str(), value.as_deref()))
                .collect();
            let new = NewRecord {
                id: RecordId {
                    source: self.partition.source,
                    partition: self.partition.number,
                    offset: logged.offset,
                    ..RecordId::default()
                },
                event_time: record.event_time,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &headers,
                attributes: &[],
            };
            match batch.push(&new) {
                Ok(()) => self.next = logged.offset + 1,
                // The arena is full: the others come with the next batch.
                Err(_) if !batch.is_empty() => break,
                Err(refused) => {
                    return Err(SourceError::Read {
                        place: format!("{} at offset {}", self.place(), logged.offset),
                        why: refused.to_string(),
                    });
                }
            }
        }
        if batch.is_empty() {
            return Ok(None);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Some(SourceEvent::Records {
            partition: self.partition,
            batch: batch.finish(now.map_or(0, |now| now.as_micros() as i64)),
            rejected: Vec::new(),
            next: self.next,
        }))
    }
}

impl Source for IngestSource {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        if !self.assigned {
            self.assigned = true;
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition: self.partition,
                kept: None,
            }]));
        }
        if self.paused {
            sleep(wait);
            return Ok(SourceEvent::Idle);
        }
        if let Some(event) = self.read(records, bytes)? {
            return Ok(event);
        }
        if self.log.wait(self.next, wait)
            && let Some(event) = self.read(records, bytes)?
        {
            return Ok(event);
        }
        Ok(SourceEvent::Idle)
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.partition.is_asked(partition, WHAT)?;
        let held = self.log.offsets();
        if position > held.end {
            return Err(self.position_error(
                position,
                format!(
                    "the log ends at {}: what was acknowledged is gone, put back its directory or begin with another \
                     state directory",
                    held.end
                ),
            ));
        }
        if position < held.start {
            return Err(self.position_error(
                position,
                format!(
                    "the log begins at {}: a newer cut was done with what was before; put back the state directory that \
                     goes with it",
                    held.start
                ),
            ));
        }
        self.next = position;
        Ok(())
    }

    fn pause(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.partition.is_asked(partition, WHAT)?;
        self.paused = true;
        Ok(())
    }

    fn resume(&mut self, partition: Partition) -> Result<(), SourceError> {
        self.partition.is_asked(partition, WHAT)?;
        self.paused = false;
        Ok(())
    }

    fn lag(&mut self) -> Vec<Lag> {
        let records = self.log.offsets().end.saturating_sub(self.next);
        vec![Lag {
            partition: self.partition.number,
            unread: Unread::Records(records),
            known: Instant::now(),
        }]
    }

    fn commit(&mut self, done: &[Done]) -> Result<(), SourceError> {
        for done in done {
            self.partition.is_asked(done.partition, WHAT)?;
            if let Err(error) = self.log.done(done.position) {
                return Err(self.not_let_go(&error));
            }
        }
        Ok(())
    }
}
