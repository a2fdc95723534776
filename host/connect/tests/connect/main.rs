//! What files, standard input and standard output promise.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod file_sink;
mod file_source;
mod memory;
mod standard;

use std::time::Duration;

use tidegate_contract::{Partition, Source, SourceError, SourceEvent};

/// A record as a test compares it: offset, key, value.
type Seen = (u64, Option<String>, String);

/// What a source gave until its ends.
#[derive(Debug, Default, PartialEq)]
struct Read {
    records: Vec<(u32, Seen)>,
    rejected: Vec<(u32, u64, String)>,
    nexts: Vec<(u32, u64)>,
    ends: Vec<Partition>,
}

impl Read {
    fn values(&self) -> Vec<&str> {
        self.records
            .iter()
            .map(|(_, (_, _, value))| value.as_str())
            .collect()
    }

    fn reasons(&self) -> Vec<&str> {
        self.rejected
            .iter()
            .map(|(_, _, reason)| reason.as_str())
            .collect()
    }

    fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Records {
                partition,
                batch,
                rejected,
                next,
            } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                for record in batch.view().records() {
                    assert_eq!(record.id().partition, partition.number);
                    assert_eq!(record.id().source, partition.source);
                    let seen = (
                        record.id().offset,
                        record.key().map(text),
                        text(record.value().unwrap()),
                    );
                    self.records.push((partition.number, seen));
                }
                for rejected in rejected {
                    assert!(rejected.preview.len() <= 64 << 10);
                    self.rejected
                        .push((partition.number, rejected.offset, rejected.reason));
                }
                self.nexts.push((partition.number, next));
            }
            SourceEvent::End(partition) => self.ends.push(partition),
            other => panic!("{other:?}"),
        }
    }
}

const WAIT: Duration = Duration::from_millis(20);

/// Polls until every partition has ended.
fn read_to_end(source: &mut dyn Source, records: usize, bytes: usize) -> Result<Read, SourceError> {
    let mut read = Read::default();
    let mut expected = None;
    while expected != Some(read.ends.len()) {
        match source.poll(records, bytes, WAIT)? {
            SourceEvent::Assigned(partitions) => expected = Some(partitions.len()),
            SourceEvent::Idle => {}
            event => read.take(event),
        }
    }
    Ok(read)
}
