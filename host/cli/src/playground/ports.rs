//! The ends of a pipeline that reads one record and writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_codec::{Decoder, DecoderOptions, Format, Input};
use tidegate_contract::{
    Assigned, AuditDoor, AuditLog, Audited, CommitLog, CommitLogError, Cut, Partition, Rejected,
    SinkError, SinkPosition, Source, SourceError, SourceEvent, TaskId, TaskImage,
};
use tidegate_control::TryRecord;
use tidegate_record::{BatchBuilder, RecordId};

use super::now_micros;

/// Most bytes of input that could not be decoded.
const PREVIEW: usize = 64 << 10;

/// A source with one record, or without any.
pub(super) struct One {
    source: u16,
    /// How it is decoded, and what; none of a source that has none.
    record: Option<(DecoderOptions, TryRecord)>,
    said: Said,
}

/// What a source has said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Assigned,
    End,
}

impl One {
    pub(super) fn new(source: u16, record: Option<(DecoderOptions, TryRecord)>) -> One {
        One {
            source,
            record,
            said: Said::Nothing,
        }
    }
}

impl Source for One {
    fn poll(
        &mut self,
        _records: usize,
        _bytes: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        let partition = Partition {
            source: self.source,
            number: 0,
        };
        if self.said == Said::Nothing {
            self.said = Said::Assigned;
            let assigned = self.record.as_ref().map(|_| Assigned {
                partition,
                kept: None,
            });
            if assigned.is_none() {
                self.said = Said::End;
            }
            return Ok(SourceEvent::Assigned(assigned.into_iter().collect()));
        }
        if let Some((options, record)) = self.record.take() {
            return Ok(read(partition, options, &record));
        }
        if self.said == Said::Assigned {
            self.said = Said::End;
            return Ok(SourceEvent::End(partition));
        }
        std::thread::sleep(wait);
        Ok(SourceEvent::Idle)
    }

    fn pause(&mut self, _partition: Partition) -> Result<(), SourceError> {
        Ok(())
    }

    fn resume(&mut self, _partition: Partition) -> Result<(), SourceError> {
        Ok(())
    }
}

fn read(partition: Partition, options: DecoderOptions, record: &TryRecord) -> SourceEvent {
    let now = now_micros();
    let mut batch = BatchBuilder::default();
    let decoded = decode(partition, options, record, &mut batch);
    let rejected = decoded.err().map(|reason| {
        let header = |(name, value): &(String, String)| {
            let value = value.as_bytes().to_vec();
            (name.clone(), Some(value))
        };
        Rejected {
            offset: 0,
            reason,
            key: record.key.clone().map(String::into_bytes),
            preview: record.value.bytes().take(PREVIEW).collect(),
            length: record.value.len() as u64,
            headers: Some(record.headers.iter().map(header).collect()),
            event_time: Some(now),
            private: 0,
        }
    });
    SourceEvent::Records {
        partition,
        batch: batch.finish(now),
        rejected: rejected.into_iter().collect(),
        next: 1,
    }
}

/// Puts the record into the batch, as its source would. An error says why it is none.
fn decode(
    partition: Partition,
    options: DecoderOptions,
    record: &TryRecord,
    batch: &mut BatchBuilder,
) -> Result<(), String> {
    let (most, format) = (options.max_record, options.format);
    let mut decoder = Decoder::new(options).map_err(|error| error.to_string())?;
    let mut value = record.value.as_str();
    if format == Format::Csv {
        let (header, row) = value
            .split_once('\n')
            .ok_or("a row of CSV is nothing without its header row: give both, each on a line")?;
        let header = header.strip_suffix('\r').unwrap_or(header);
        decoder
            .header(header.as_bytes())
            .map_err(|error| error.reason)?;
        value = row.strip_suffix('\n').unwrap_or(row);
        value = value.strip_suffix('\r').unwrap_or(value);
    }
    if value.len() > most {
        let bytes = value.len();
        return Err(format!("record of {bytes} bytes exceeds max-record {most}"));
    }
    let headers = record.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.as_str(), Some(value.as_bytes())))
        .collect();
    let input = Input {
        id: RecordId {
            source: partition.source,
            partition: partition.number,
            ..RecordId::default()
        },
        key: record.key.as_deref().map(str::as_bytes),
        value: Some(value.as_bytes()),
        headers: &headers,
        event_time: Some(now_micros()),
    };
    decoder
        .decode(&input, batch)
        .map_err(|malformed| malformed.reason)
}

/// A commit log that keeps nothing.
#[derive(Default)]
pub(super) struct Forgetful(AtomicU64);

impl CommitLog for Forgetful {
    fn commit(&self, _cut: &Cut) -> Result<u64, CommitLogError> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn task(&self, _task: &TaskId) -> Option<TaskImage> {
        None
    }
}

/// The audit of the stream's run, which has its lines with its next cut.
#[derive(Clone)]
pub(super) struct Forwarded {
    pub(super) door: Arc<dyn AuditDoor>,
    /// What this trial is called.
    pub(super) trial: String,
}

impl AuditLog for Forwarded {
    fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError> {
        let record = format!("{}/{}", self.trial, audited.record);
        let taken = self.door.take(&Audited {
            record: &record,
            ..*audited
        });
        taken.map_err(|why| SinkError::Write {
            place: "the audit".to_owned(),
            why: why.to_string(),
        })
    }

    fn settled(&mut self, _: bool) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }

    fn logged(&mut self) {}

    fn end(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }

    fn sibling(&self) -> Box<dyn AuditLog> {
        Box::new(self.clone())
    }

    fn pending(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }

    fn discard(&mut self) {}

    fn position(&self) -> Option<SinkPosition> {
        None
    }
}
