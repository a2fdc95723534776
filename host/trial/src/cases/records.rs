//! Records as cases write them.

use tidegate_record::{Origin, RecordId};

use super::CaseRecord;
use super::bytes::Made;
use crate::json::{Mistake, Node};

/// What an event time or a clock is.
pub(super) const MICROS: &str = "a whole number of microseconds";

/// A record that stands at this index.
pub(super) fn record(
    node: &Node<'_>,
    index: usize,
    made: &mut Made,
) -> Result<CaseRecord, Mistake> {
    let [key, value, headers, attributes, event_time, id] =
        node.fields(["key", "value", "headers", "attributes", "event-time", "id"])?;
    let mut record = CaseRecord {
        id: identity(id.as_ref(), index)?,
        event_time: event_time.as_ref().map_or(Ok(None), time)?,
        ..CaseRecord::default()
    };
    if let Some(key) = &key {
        record.key = made.bytes(key)?;
    }
    if let Some(value) = &value {
        record.value = made.bytes(value)?;
    }
    if let Some(headers) = &headers {
        record.headers = made.pairs(headers)?;
    }
    if let Some(attributes) = &attributes {
        record.attributes = made.pairs(attributes)?;
    }
    Ok(record)
}

/// An event time, or null for none.
pub(crate) fn time(node: &Node<'_>) -> Result<Option<i64>, Mistake> {
    match node.is_null() {
        true => Ok(None),
        false => node.whole(MICROS).map(Some),
    }
}

fn identity(node: Option<&Node<'_>>, index: usize) -> Result<RecordId, Mistake> {
    let mut id = RecordId {
        offset: index as u64,
        ..RecordId::default()
    };
    let Some(node) = node else {
        return Ok(id);
    };
    let [origin, source, partition, offset, emit] =
        node.fields(["origin", "source", "partition", "offset", "emit"])?;
    if let Some(origin) = origin {
        id.origin = match origin.text()?.as_str() {
            "source" => Origin::Source,
            "timer" => Origin::Timer,
            _ => return Err(origin.is_no("\"source\" or \"timer\"")),
        };
    }
    if let Some(source) = source {
        id.source = source.whole("a whole number from 0 to 65535")?;
    }
    if let Some(partition) = partition {
        id.partition = partition.whole("a whole number from 0 to 4294967295")?;
    }
    if let Some(offset) = offset {
        id.offset = offset.whole("a whole number from 0 to 2^64 - 1")?;
    }
    if let Some(emit) = emit {
        id.emit = emit.whole("a whole number from 0 to 2^64 - 1")?;
    }
    Ok(id)
}
