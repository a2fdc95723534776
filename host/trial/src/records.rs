//! Records to try an operator on: those of a file of JSON lines, or samples.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tidegate_record::{Batch, RecordId, RecordRefused};

use crate::cases::{CaseRecord, batch};
use crate::json::{Mistake, Node};
use crate::outcome::Pairs;

/// Records of a batch: as many as a pipeline gives at once.
pub const BATCH: usize = 256;
/// Longest file, in bytes.
const LONGEST: u64 = 64 << 20;
/// Most records of a file: short ones take more memory than the file.
const MOST: usize = 1_000_000;

/// What a line of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// A record: `{"key": "k", "value": {"text": "hello"}, "headers": {"h": "v"}}`.
    Records,
    /// The value of a record.
    Values,
}

/// Most bytes of records that come again to fill a batch.
const FILLED: usize = 4 << 20;

/// Why there are no records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is too long.
    #[error("{} has more than {LONGEST} bytes, which is the limit", .path.display())]
    TooLong {
        /// Where it is.
        path: PathBuf,
    },
    /// There are too many.
    #[error("{} has more than {MOST} records, which is the limit", .path.display())]
    TooMany {
        /// Where they are.
        path: PathBuf,
    },
    /// A line is no record.
    #[error("{} line {line}: {why}", .path.display())]
    Line {
        /// Where the file is.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What it is, and what would be right.
        why: String,
    },
    /// There is none.
    #[error("{} has no records", .path.display())]
    Empty {
        /// Where the file is.
        path: PathBuf,
    },
    /// They are too large for a batch.
    #[error(transparent)]
    Batch(#[from] RecordRefused),
}

/// The records of a file in batches of so many, with this clock. Blank lines are skipped; offsets count the records.
pub fn read_records(
    path: &Path,
    lines: Lines,
    records: usize,
    clock: i64,
) -> Result<Vec<Batch>, RecordsError> {
    batches(read(path, lines)?, records, clock)
}

/// The same, where what is read is to fill a batch: fewer records than that come again and again, as long as they are not
/// large; with the number of those that were read.
pub fn filled_records(
    path: &Path,
    lines: Lines,
    records: usize,
    clock: i64,
) -> Result<(Vec<Batch>, usize), RecordsError> {
    let mut all = read(path, lines)?;
    let read = all.len();
    let size: usize = all.iter().map(size).sum();
    let passes = (FILLED / size.max(1)).clamp(1, records.div_ceil(read));
    let wanted = records.min(read * passes).max(read);
    if wanted > read {
        all = all.into_iter().cycle().take(wanted).collect();
    }
    Ok((batches(all, records, clock)?, read))
}

/// About as many bytes as a record has in a batch.
fn size(record: &CaseRecord) -> usize {
    let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let pairs = record.headers.iter().chain(&record.attributes);
    let pairs: usize = pairs.map(|(name, value)| name.len() + length(value)).sum();
    tidegate_record::layout::ENTRY + length(&record.key) + length(&record.value) + pairs
}

/// What an operator should bear, as one batch with this clock: every field with something, nothing and what is no text in
/// it.
pub fn sample_records(clock: i64) -> Result<Vec<Batch>, RecordsError> {
    batches(samples(), BATCH, clock)
}

fn batches(
    mut all: Vec<CaseRecord>,
    records: usize,
    clock: i64,
) -> Result<Vec<Batch>, RecordsError> {
    for (offset, record) in all.iter_mut().enumerate() {
        record.id = RecordId {
            offset: offset as u64,
            ..RecordId::default()
        };
    }
    let chunks = all.chunks(records.max(1));
    let batches = chunks.map(|records| Ok(batch(records, clock)?));
    batches.collect()
}

fn read(path: &Path, lines: Lines) -> Result<Vec<CaseRecord>, RecordsError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| RecordsError::Read {
            path: path.to_owned(),
            error,
        })?;
    if bytes.len() as u64 > LONGEST {
        return Err(RecordsError::TooLong {
            path: path.to_owned(),
        });
    }
    let mut records = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        if records.len() == MOST {
            return Err(RecordsError::TooMany {
                path: path.to_owned(),
            });
        }
        let wrong = |why: String| RecordsError::Line {
            path: path.to_owned(),
            line: index + 1,
            why,
        };
        records.push(match lines {
            Lines::Values => valued(line),
            Lines::Records => {
                let text = std::str::from_utf8(line)
                    .map_err(|error| wrong(format!("it is not UTF-8: {error}")))?;
                record(text).map_err(|mistake| wrong(mistake.without_line()))?
            }
        });
    }
    match records.is_empty() {
        true => Err(RecordsError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(records),
    }
}

/// A record as one line of JSON.
fn record(line: &str) -> Result<CaseRecord, Mistake> {
    let names = ["key", "value", "headers", "attributes", "event-time"];
    let [key, value, headers, attributes, event_time] = Node::parse(line)?.fields(names)?;
    Ok(CaseRecord {
        id: RecordId::default(),
        key: key.map_or(Ok(None), bytes)?,
        value: value.map_or(Ok(None), bytes)?,
        headers: headers.map_or(Ok(Pairs::new()), pairs)?,
        attributes: attributes.map_or(Ok(Pairs::new()), pairs)?,
        event_time: event_time.map_or(Ok(None), |time| crate::cases::time(&time))?,
    })
}

fn pairs(node: Node<'_>) -> Result<Pairs, Mistake> {
    let members = node.members()?.into_iter();
    members
        .map(|(name, value)| Ok((name, bytes(value)?)))
        .collect()
}

/// A text as it is, null as null, and anything else as JSON.
fn bytes(node: Node<'_>) -> Result<Option<Vec<u8>>, Mistake> {
    Ok(match (node.is_null(), node.is_text()) {
        (true, _) => None,
        (_, true) => Some(node.text()?.into_bytes()),
        _ => Some(node.compact()?.into_bytes()),
    })
}

fn valued(value: &[u8]) -> CaseRecord {
    CaseRecord {
        value: Some(value.to_vec()),
        ..CaseRecord::default()
    }
}

fn samples() -> Vec<CaseRecord> {
    let pair = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    vec![
        CaseRecord {
            key: Some(b"key".to_vec()),
            headers: vec![pair("name", Some(b"value")), pair("name", None)],
            attributes: vec![pair("private", Some(b"secret"))],
            event_time: Some(1_700_000_000_000_000),
            ..valued(br#"{"text": "hello"}"#)
        },
        valued("plain text, grüße".as_bytes()),
        valued(b""),
        CaseRecord::default(),
        CaseRecord {
            key: Some(Vec::new()),
            headers: vec![pair("", Some(b""))],
            event_time: Some(-1),
            ..valued(b"[1, 2")
        },
        valued(b"\xff\xfe\x00"),
        valued(&[b'x'; 64 << 10]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_or_a_reason_with_its_place() {
        let line =
            r#"{"key": "k", "value": {"b": 1, "a": 2}, "headers": {"h": null}, "event-time": -5}"#;
        assert_eq!(
            record(line).unwrap(),
            CaseRecord {
                key: Some(b"k".to_vec()),
                headers: vec![("h".into(), None)],
                event_time: Some(-5),
                ..valued(br#"{"b":1,"a":2}"#)
            }
        );
        for (line, why) in [
            ("[]", "[] is not an object"),
            (r#"{"val": 1}"#, "it has \"val\"; there are key, value"),
            (r#"{"headers": []}"#, "headers: [] is not an object"),
            (
                r#"{"event-time": 1.5}"#,
                "event-time: 1.5 is not a whole number of microseconds",
            ),
            ("{", "it is not JSON"),
        ] {
            let why_not = record(line).unwrap_err().without_line();
            assert!(why_not.starts_with(why), "{line}: {why_not}");
        }
    }

    #[test]
    fn samples_go_into_a_batch_and_lines_into_as_many_as_are_asked_for() {
        assert_eq!(sample_records(7).unwrap()[0].len(), samples().len());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        std::fs::write(&path, b"one\r\n\n\xff\nthree").unwrap();
        let batches = read_records(&path, Lines::Values, 2, 7).unwrap();
        let values: Vec<_> = batches
            .iter()
            .flat_map(|batch| {
                batch
                    .view()
                    .records()
                    .map(|record| (record.id().offset, record.value().unwrap().to_vec()))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            values,
            [
                (0, b"one".to_vec()),
                (1, b"\xff".to_vec()),
                (2, b"three".to_vec())
            ]
        );
        std::fs::write(&path, "1\n".repeat(MOST + 1)).unwrap();
        let error = read_records(&path, Lines::Values, 2, 7).unwrap_err();
        assert!(matches!(error, RecordsError::TooMany { .. }), "{error}");
        std::fs::write(&path, "\n \n").unwrap();
        let error = read_records(&path, Lines::Values, 2, 7)
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("lines has no records"), "{error}");
    }
}
