//! The ends of a pipeline that reads one record and writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_codec::{Cutter, Decoder, DecoderOptions, Format, Input, Piece, Rule};
use tidegate_contract::{
    Assigned, AuditDoor, AuditLog, Audited, CommitLog, CommitLogError, Cut, Partition, Rejected,
    SinkError, SinkPosition, Source, SourceError, SourceEvent, TaskId, TaskImage,
};
use tidegate_control::TryRecord;
use tidegate_record::{BatchBuilder, RecordId};

use super::now_micros;
use super::taps::Gathered;

/// Most bytes of input that could not be decoded.
const PREVIEW: usize = 64 << 10;

/// A source with one record, or without any.
pub(super) struct One {
    source: u16,
    /// How it is decoded, and what; none of a source that has none.
    record: Option<(DecoderOptions, TryRecord)>,
    /// What is not read of it is said there.
    seen: Gathered,
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
    pub(super) fn new(
        source: u16,
        record: Option<(DecoderOptions, TryRecord)>,
        seen: Gathered,
    ) -> One {
        One {
            source,
            record,
            seen,
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
            return Ok(read(partition, options, &record, &self.seen));
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

fn read(
    partition: Partition,
    options: DecoderOptions,
    record: &TryRecord,
    seen: &Gathered,
) -> SourceEvent {
    let now = now_micros();
    let mut batch = BatchBuilder::default();
    let decoded = decode(partition, options, record, (&mut batch, seen));
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
    (batch, seen): (&mut BatchBuilder, &Gathered),
) -> Result<(), String> {
    let (most, format, rule) = (options.max_record, options.format, options.rule());
    let mut decoder = Decoder::new(options).map_err(|error| error.to_string())?;
    let mut value = record.value.as_bytes();
    let row;
    if format == Format::Csv {
        let mut rows = Rows::new(rule, most, value);
        let header = rows.next().transpose()?;
        let header = header.ok_or("a row of CSV is nothing without its header row: give both")?;
        decoder.header(&header).map_err(|error| error.reason)?;
        let first = rows.next().transpose();
        // Those that are wrong were given too.
        seen.leaves_out(rows.count() as u64);
        row = first?.ok_or("there is a header row of CSV, and no row after it: give both")?;
        value = &row;
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
        value: Some(value),
        headers: &headers,
        event_time: Some(now_micros()),
    };
    decoder
        .decode(&input, batch)
        .map_err(|malformed| malformed.reason)
}

/// Rows of CSV as files have them, those that are empty left out; an error says why one is none.
struct Rows<'a> {
    cutter: Cutter,
    most: usize,
    rest: &'a [u8],
}

impl Rows<'_> {
    fn new(rule: Rule, most: usize, text: &[u8]) -> Rows<'_> {
        Rows {
            cutter: Cutter::new(rule, most, 0),
            most,
            rest: text,
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Vec<u8>, String>;

    fn next(&mut self) -> Option<Result<Vec<u8>, String>> {
        loop {
            match self.cutter.cut(self.rest.is_empty()) {
                Some(Piece::Whole { bytes: [], .. }) => {}
                Some(Piece::Whole { bytes, .. }) => return Some(Ok(bytes.to_vec())),
                Some(Piece::TooLong { length, .. }) => {
                    let most = self.most;
                    return Some(Err(format!(
                        "row of {length} bytes exceeds max-record {most}"
                    )));
                }
                Some(Piece::Unclosed { .. }) => {
                    let most = self.most;
                    return Some(Err(format!(
                        "quoted field is not closed within max-record {most} or the end of the value"
                    )));
                }
                None if self.rest.is_empty() => return None,
                None => {
                    let space = self.cutter.space();
                    let (now, later) = self.rest.split_at(space.len().min(self.rest.len()));
                    space[..now.len()].copy_from_slice(now);
                    let read = now.len();
                    self.rest = later;
                    self.cutter.filled(read);
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Result<String, String>> {
        let rule = Rule::Rows { delimiter: b',' };
        let rows = Rows::new(rule, 16, text.as_bytes());
        rows.map(|row| row.map(|row| String::from_utf8(row).unwrap()))
            .collect()
    }

    #[test]
    fn rows_are_cut_as_those_of_a_file_are() {
        let ok = |row: &str| Ok(row.to_owned());
        assert_eq!(rows(""), []);
        assert_eq!(rows("id,t\r\n1,a"), [ok("id,t"), ok("1,a")]);
        // A line end within quotes ends no row, in the header either.
        let cut = rows("id,\"a\nb\"\n\n1,\"c\nd\"\n2,e\n");
        assert_eq!(cut, [ok("id,\"a\nb\""), ok("1,\"c\nd\""), ok("2,e")]);
        let long = rows("id\n12345678901234567\n2");
        let why = "row of 17 bytes exceeds max-record 16";
        assert_eq!(long, [ok("id"), Err(why.to_owned()), ok("2")]);
        let open = rows("id\n\"1\n2");
        assert!(
            open[1]
                .as_ref()
                .unwrap_err()
                .starts_with("quoted field is not closed")
        );
        assert_eq!(open[2], ok("2"));
        // More than is read at once.
        let many = "1,2\n".repeat(200_000);
        assert_eq!(rows(&many).len(), 200_000);
    }
}
