//! The records of `tidegate component --try`: those of a file, or samples.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId};

/// Records of a batch: as many as a pipeline gives at once.
const BATCH: usize = 256;
/// Longest file, in bytes.
const LONGEST: u64 = 64 << 20;

/// A record that is not in a batch yet.
#[derive(Debug, Default, PartialEq)]
struct Made {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Pairs,
    attributes: Pairs,
    event_time: Option<i64>,
}

/// The records of a file of JSON lines, or samples without one, in batches with this clock.
pub(super) fn batches(file: Option<&Path>, clock: i64) -> Result<Vec<Batch>> {
    let records = match file {
        Some(path) => read(path)?,
        None => samples(),
    };
    let mut batches = Vec::new();
    for (number, records) in records.chunks(BATCH).enumerate() {
        let mut builder = BatchBuilder::default();
        for (index, record) in records.iter().enumerate() {
            push(&mut builder, record, (number * BATCH + index) as u64)?;
        }
        batches.push(builder.finish(clock));
    }
    Ok(batches)
}

type Pairs = Vec<(String, Option<Vec<u8>>)>;

fn borrowed(pairs: &Pairs) -> Vec<(&str, Option<&[u8]>)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect()
}

fn push(builder: &mut BatchBuilder, record: &Made, offset: u64) -> Result<()> {
    builder.push(&NewRecord {
        id: RecordId {
            offset,
            ..RecordId::default()
        },
        event_time: record.event_time,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &borrowed(&record.headers),
        attributes: &borrowed(&record.attributes),
    })?;
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Made>> {
    let shown = path.display();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() as u64 > LONGEST {
        bail!("{shown} has more than {LONGEST} bytes, which is the limit");
    }
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| record(line).with_context(|| format!("{shown} line {}", index + 1)))
        .collect()
}

/// A record as one line of JSON: `{"key": "k", "value": {"text": "hello"}, "headers": {"h": "v"}}`.
fn record(line: &str) -> Result<Made> {
    let json: Value = serde_json::from_str(line).context("it is not JSON")?;
    let Value::Object(fields) = json else {
        bail!("it is no object with key, value, headers, attributes, event-time");
    };
    let mut record = Made::default();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("key", value) => record.key = bytes(value),
            ("value", value) => record.value = bytes(value),
            ("headers", Value::Object(headers)) => record.headers = pairs(headers),
            ("attributes", Value::Object(attributes)) => record.attributes = pairs(attributes),
            ("event-time", Value::Null) => record.event_time = None,
            ("event-time", Value::Number(time)) if time.is_i64() => {
                record.event_time = time.as_i64();
            }
            ("headers" | "attributes", _) => bail!("{name} is no object"),
            ("event-time", _) => bail!("event-time is no whole number of microseconds"),
            _ => bail!("it has {name:?}; there are key, value, headers, attributes, event-time"),
        }
    }
    Ok(record)
}

fn pairs(members: Map<String, Value>) -> Pairs {
    let members = members.into_iter();
    members.map(|(name, value)| (name, bytes(value))).collect()
}

/// A text as it is, null as null, and anything else as JSON.
fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}

/// What an operator should bear: every field with something, nothing and what is no text in it.
fn samples() -> Vec<Made> {
    let value = |value: &[u8]| Made {
        value: Some(value.to_vec()),
        ..Made::default()
    };
    let pair = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    vec![
        Made {
            key: Some(b"key".to_vec()),
            value: Some(br#"{"text": "hello"}"#.to_vec()),
            headers: vec![pair("name", Some(b"value")), pair("name", None)],
            attributes: vec![pair("private", Some(b"secret"))],
            event_time: Some(1_700_000_000_000_000),
        },
        value("plain text, grüße".as_bytes()),
        value(b""),
        Made::default(),
        Made {
            key: Some(Vec::new()),
            headers: vec![pair("", Some(b""))],
            event_time: Some(-1),
            ..value(b"[1, 2")
        },
        value(b"\xff\xfe\x00"),
        value(&[b'x'; 64 << 10]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_or_a_reason_with_its_place() -> Result<()> {
        let line = r#"{"key": "k", "value": {"a": 1}, "headers": {"h": null}, "event-time": -5}"#;
        assert_eq!(
            record(line)?,
            Made {
                key: Some(b"k".to_vec()),
                value: Some(br#"{"a":1}"#.to_vec()),
                headers: vec![("h".into(), None)],
                attributes: Vec::new(),
                event_time: Some(-5),
            }
        );
        for (line, why) in [
            ("[]", "it is no object with key"),
            (r#"{"val": 1}"#, "it has \"val\"; there are key, value"),
            (r#"{"headers": []}"#, "headers is no object"),
            (r#"{"event-time": 1.5}"#, "event-time is no whole number"),
            ("{", "it is not JSON"),
        ] {
            let error = record(line).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.starts_with(why)), "{line}");
        }
        Ok(())
    }

    #[test]
    fn samples_go_into_a_batch() -> Result<()> {
        let batches = batches(None, 7)?;
        assert_eq!((batches.len(), batches[0].len()), (1, samples().len()));
        Ok(())
    }
}
