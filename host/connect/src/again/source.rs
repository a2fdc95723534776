//! The log of letters that are sent again, as a source.

use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_codec::{Decoder, DecoderOptions};
use tidegate_contract::{
    Assigned, Done, IngestError, IngestLog, Lag, LetterSeal, Partition, Source, SourceError,
    SourceEvent, Unread,
};
use tidegate_record::{BatchBuilder, RecordId};

use super::Again;
use crate::now_micros;

/// What is in its one partition.
const WHAT: &str = "letters that are sent again";

/// Reads what is sent again of one source: one partition, whose positions are the offsets of the log. It is there as soon
/// as the log has something. The cuts hold its position, and the log is told after each what is done.
#[derive(Debug)]
pub struct LetterSource {
    partition: Partition,
    name: String,
    log: Arc<dyn IngestLog>,
    decoder: Decoder,
    seal: LetterSeal,
    /// Ends at the end of the log. What comes later is given too, for as long as somebody asks.
    until_end: bool,
    next: u64,
    spoken: bool,
    assigned: bool,
    ended: bool,
    paused: bool,
}

impl LetterSource {
    /// Reads this log, as the source with this index and name; what could not be decoded is, as this says.
    pub fn new(
        source: u16,
        name: impl Into<String>,
        log: Arc<dyn IngestLog>,
        decoder: DecoderOptions,
        seal: LetterSeal,
        until_end: bool,
    ) -> Result<LetterSource, SourceError> {
        let name = name.into();
        let decoder = Decoder::new(decoder).map_err(|error| SourceError::Read {
            place: name.clone(),
            why: error.to_string(),
        })?;
        let next = log.offsets().start;
        Ok(LetterSource {
            partition: Partition { source, number: 0 },
            name,
            log,
            decoder,
            seal,
            until_end,
            next,
            spoken: false,
            assigned: false,
            ended: false,
            paused: false,
        })
    }

    fn place(&self) -> String {
        format!("the log of {}", self.name)
    }

    fn read(&mut self, records: usize, bytes: usize) -> Result<Option<SourceEvent>, SourceError> {
        let found = self.log.read(self.next, records, bytes);
        let found = found.map_err(|error| self.error(&error))?;
        let mut batch = BatchBuilder::default();
        let mut rejected = Vec::new();
        for logged in found {
            let id = RecordId {
                source: self.partition.source,
                partition: self.partition.number,
                offset: logged.offset,
                ..RecordId::default()
            };
            let again = Again::logged(logged.record);
            match again.take(&mut self.decoder, &self.seal, id, &mut batch) {
                Ok(()) => {}
                // The arena is full: the others come with the next batch.
                Err(_) if !batch.is_empty() => break,
                Err(reason) => rejected.push(again.rejected(logged.offset, reason)),
            }
            self.next = logged.offset + 1;
        }
        if batch.is_empty() && rejected.is_empty() {
            return Ok(None);
        }
        Ok(Some(SourceEvent::Records {
            partition: self.partition,
            batch: batch.finish(now_micros()),
            rejected,
            next: self.next,
        }))
    }

    fn position_error(&self, position: u64, why: String) -> SourceError {
        SourceError::Position {
            place: self.place(),
            position,
            why,
        }
    }

    /// What is before this offset is done. A full or slow disk is no end of the pipeline: the log is told again.
    fn done(&self, offset: u64) -> Result<(), SourceError> {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        self.log.done(offset).map_err(|error| {
            let (place, why) = (self.place(), error.to_string());
            match error {
                IngestError::Slow { .. } => SourceError::NotYet { place, why },
                IngestError::Write { kind, .. } if full.contains(&kind) => {
                    SourceError::NotYet { place, why }
                }
                _ => SourceError::Commit { place, why },
            }
        })
    }

    fn error(&self, error: &IngestError) -> SourceError {
        SourceError::Read {
            place: self.place(),
            why: error.to_string(),
        }
    }
}

impl Source for LetterSource {
    fn poll(
        &mut self,
        records: usize,
        bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        if self.paused || self.log.offsets().end == 0 {
            if !self.spoken {
                self.spoken = true;
                return Ok(SourceEvent::Assigned(Vec::new()));
            }
            sleep(wait);
            return Ok(SourceEvent::Idle);
        }
        self.spoken = true;
        if !self.assigned {
            self.assigned = true;
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition: self.partition,
                kept: None,
            }]));
        }
        if let Some(event) = self.read(records, bytes)? {
            return Ok(event);
        }
        if self.until_end && !self.ended {
            self.ended = true;
            return Ok(SourceEvent::End(self.partition));
        }
        sleep(wait);
        Ok(SourceEvent::Idle)
    }

    fn seek(&mut self, partition: Partition, position: u64) -> Result<(), SourceError> {
        self.partition.is_asked(partition, WHAT)?;
        let held = self.log.offsets();
        if position > held.end {
            let why = format!(
                "the log ends at {}: what was sent again is gone, put back its directory or begin with another state directory",
                held.end
            );
            return Err(self.position_error(position, why));
        }
        if position < held.start {
            let why = format!(
                "the log begins at {}: a newer cut was done with what was before; put back the state directory that goes \
                 with it",
                held.start
            );
            return Err(self.position_error(position, why));
        }
        self.next = position;
        self.ended = false;
        // A cut has what was before: an earlier run may have ended before it said so.
        self.done(position).or_else(|error| match error {
            SourceError::NotYet { .. } => Ok(()),
            error => Err(error),
        })
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
            self.done(done.position)?;
        }
        Ok(())
    }
}
