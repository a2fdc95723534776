//! The ingest log as a source.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    Done, IngestBatch, IngestLog, IngestRecord, Partition, Source, SourceError, SourceEvent,
};
use tidegate_gateway::ingest::IngestSource;
use tidegate_state::MemoryDisk;

use crate::asking::log;

const PARTITION: Partition = Partition {
    source: 3,
    number: 0,
};

fn append(log: &dyn IngestLog, value: &str) {
    let record = IngestRecord {
        key: Some(b"k".to_vec()),
        value: Some(value.into()),
        headers: vec![("h".into(), None)],
        event_time: Some(9),
    };
    let batch = IngestBatch {
        records: vec![record],
        idempotency: None,
    };
    log.append(&batch).unwrap();
}

fn source(log: &Arc<tidegate_state::FileIngestLog>) -> IngestSource {
    let mut source = IngestSource::new(3, "orders", log.clone());
    let event = source.poll(10, 1000, Duration::ZERO).unwrap();
    let SourceEvent::Assigned(assigned) = event else {
        panic!("{event:?}");
    };
    assert_eq!(
        (assigned[0].partition, &assigned[0].kept),
        (PARTITION, &None)
    );
    source
}

/// Values that come within a poll, and the position after them.
fn values(source: &mut IngestSource, records: usize) -> (Vec<String>, Option<u64>) {
    match source.poll(records, 1 << 20, Duration::ZERO).unwrap() {
        SourceEvent::Records { batch, next, .. } => {
            let view = batch.view();
            let values = view.records().map(|record| {
                assert_eq!((record.id().source, record.key()), (3, Some(&b"k"[..])));
                assert_eq!(
                    (record.event_time(), record.headers().count()),
                    (Some(9), 1)
                );
                String::from_utf8(record.value().unwrap().to_vec()).unwrap()
            });
            (values.collect(), Some(next))
        }
        SourceEvent::Idle => (Vec::new(), None),
        other => panic!("{other:?}"),
    }
}

fn done(position: u64) -> Done {
    Done {
        partition: PARTITION,
        position,
        waits: false,
        metadata: String::new(),
    }
}

#[test]
fn what_no_cut_has_is_read_again_after_a_restart() {
    let disk = MemoryDisk::new();
    let log = log(&disk);
    for value in ["a", "b", "c"] {
        append(log.as_ref(), value);
    }
    let mut reading = source(&log);
    assert_eq!(
        values(&mut reading, 2),
        (vec!["a".into(), "b".into()], Some(2))
    );
    assert_eq!(values(&mut reading, 2), (vec!["c".into()], Some(3)));
    assert_eq!(values(&mut reading, 2), (vec![], None));
    drop((reading, log));
    let log = crate::asking::log(&disk.restart(0));
    let mut reading = source(&log);
    reading.seek(PARTITION, 1).unwrap();
    assert_eq!(
        values(&mut reading, 9),
        (vec!["b".into(), "c".into()], Some(3))
    );
    // Nothing before the first cut: all of it.
    assert_eq!(values(&mut source(&log), 9).0.len(), 3);
}

#[test]
fn a_record_that_comes_while_the_source_waits_is_read_at_once() {
    let disk = MemoryDisk::new();
    let log = log(&disk);
    let mut reading = source(&log);
    let writing = log.clone();
    let writer = std::thread::spawn(move || append(writing.as_ref(), "a"));
    let event = reading.poll(10, 1000, Duration::from_secs(20)).unwrap();
    assert!(
        matches!(event, SourceEvent::Records { next: 1, .. }),
        "{event:?}"
    );
    writer.join().unwrap();
}

#[test]
fn a_cut_lets_the_log_go_and_a_pause_holds_records_back() {
    let disk = MemoryDisk::new();
    let log = log(&disk);
    for number in 0..100 {
        append(log.as_ref(), &format!("{number} {}", "x".repeat(100)));
    }
    let mut reading = source(&log);
    reading.pause(PARTITION).unwrap();
    assert_eq!(values(&mut reading, 9), (vec![], None));
    reading.resume(PARTITION).unwrap();
    let mut read = 0;
    while let (values, Some(next)) = values(&mut reading, 9) {
        assert!(values[0].starts_with(&format!("{read} ")), "{values:?}");
        read = next;
    }
    assert_eq!(read, 100);
    let before = disk.used();
    reading.commit(&[done(50)]).unwrap();
    let held = log.offsets();
    assert!(held.start > 30 && held.start <= 50, "{held:?}");
    assert!(disk.used() < before);
    reading.commit(&[done(50)]).unwrap();
    let error = reading.commit(&[done(101)]).unwrap_err();
    assert!(matches!(error, SourceError::Commit { .. }), "{error}");
}

#[test]
fn a_position_that_the_log_does_not_have_is_refused() {
    let disk = MemoryDisk::new();
    let log = log(&disk);
    for _ in 0..100 {
        append(log.as_ref(), &"x".repeat(100));
    }
    let mut reading = source(&log);
    reading.commit(&[done(50)]).unwrap();
    for (position, why) in [(101, "the log ends at 100"), (0, "the log begins at")] {
        let error = reading.seek(PARTITION, position).unwrap_err();
        assert!(matches!(error, SourceError::Position { .. }));
        assert!(error.to_string().contains(why), "{error}");
    }
    reading.seek(PARTITION, 100).unwrap();
    let other = Partition {
        source: 3,
        number: 1,
    };
    reading.seek(other, 0).unwrap_err();
}

#[test]
fn a_full_disk_that_lets_nothing_go_is_told_again_and_ends_nothing() {
    let disk = MemoryDisk::new();
    let log = log(&disk);
    for _ in 0..100 {
        append(log.as_ref(), &"x".repeat(100));
    }
    let mut reading = source(&log);
    disk.limit(Some(disk.used()));
    let error = reading.commit(&[done(50)]).unwrap_err();
    assert!(matches!(error, SourceError::NotYet { .. }), "{error}");
    disk.mend();
    reading.commit(&[done(50)]).unwrap();
    assert!(log.offsets().start > 30);
    append(log.as_ref(), "more");
    reading.seek(PARTITION, 100).unwrap();
    assert_eq!(values(&mut reading, 9).0, ["more"]);
}
