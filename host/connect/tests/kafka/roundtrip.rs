use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_codec::DecoderOptions;
use tidegate_contract::{DeadLetter, Sink, Source, SourceEvent};
use tidegate_record::{NewRecord, RecordId};

use crate::broker::{brokers, topic};
use crate::{
    Read, Seen, WAIT, numbers, open, options, partition, produce, read_to_end, sink, write,
};

#[test]
fn records_keep_key_value_headers_and_time() {
    let topic = topic("roundtrip", 1);
    let mut sink = sink(&topic);
    let time = Some(1_763_710_000_123_000);
    let records = [
        NewRecord {
            event_time: time,
            key: Some(b"k\xff"),
            value: Some(b"v"),
            headers: &[
                ("h", Some(b"1")),
                ("h", None),
                ("", Some(b"")),
                ("é", Some(b"\xfe")),
            ],
            ..NewRecord::default()
        },
        NewRecord {
            event_time: time,
            key: Some(b"gone"),
            ..NewRecord::default()
        },
        NewRecord {
            event_time: time,
            value: Some(b"no key"),
            ..NewRecord::default()
        },
        NewRecord {
            event_time: time,
            key: Some(b""),
            value: Some(b""),
            ..NewRecord::default()
        },
    ];
    for record in &records {
        write(&mut sink, record).unwrap();
    }
    assert!(sink.pending() > 0);
    assert_eq!(sink.flush().unwrap(), None);
    assert_eq!(sink.pending(), 0);
    let read = read_to_end(options(&topic, &topic), 1);
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let expected: Vec<Seen> = (0..)
        .zip(&records)
        .map(|(offset, record)| Seen {
            partition: 0,
            offset,
            key: owned(record.key),
            value: owned(record.value),
            headers: record
                .headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), owned(*value)))
                .collect(),
            event_time: record.event_time,
        })
        .collect();
    assert_eq!(read.records, expected);
    assert_eq!(read.next[&0], 4);
}

#[test]
fn json_messages_are_checked_and_keyed() {
    let topic = topic("json", 1);
    let mut sink = sink(&topic);
    let values: [Option<&[u8]>; 6] = [
        Some(br#"{"customer":"c1"}"#),
        Some(b"hello"),
        Some(b""),
        Some(br#"{"customer":null}"#),
        Some(b"{\"customer\":\"a long one, longer than 40 bytes\"}"),
        None,
    ];
    for value in values {
        let record = NewRecord {
            key: Some(b"message key"),
            value,
            ..NewRecord::default()
        };
        write(&mut sink, &record).unwrap();
    }
    sink.flush().unwrap();
    let mut json = options(&topic, &topic);
    json.decoder = DecoderOptions {
        key: Some("customer".into()),
        max_record: 40,
        ..DecoderOptions::default()
    };
    let read = read_to_end(json, 1);
    let keys: Vec<_> = read
        .records
        .iter()
        .map(|record| record.key.clone().unwrap())
        .collect();
    assert_eq!(keys, [b"c1".to_vec(), b"message key".to_vec()]);
    let reasons: Vec<_> = read
        .rejected
        .iter()
        .map(|rejected| (rejected.offset, rejected.reason.as_str()))
        .collect();
    let expected = [
        (1, "not JSON: expected a value at column 1, found `h`"),
        (2, "empty value"),
        (3, "field customer is null"),
        (4, "value of 47 bytes exceeds max-record 40 bytes"),
    ];
    assert_eq!(reasons, expected);
    // What is wrong with it is its value.
    for rejected in &read.rejected {
        assert_eq!(rejected.key.as_deref(), Some(&b"message key"[..]));
    }
    assert_eq!(read.next[&0], 6);
}

#[test]
fn private_attributes_stay_out_of_topics_and_dead_letters() {
    let topic = topic("private", 1);
    let mut sink = sink(&topic);
    let record = NewRecord {
        key: Some(b"k"),
        value: Some(b"[masked]"),
        headers: &[("trace", Some(b"1"))],
        attributes: &[("pii", Some(b"SECRET"))],
        ..NewRecord::default()
    };
    write(&mut sink, &record).unwrap();
    let letter = DeadLetter {
        id: RecordId::default(),
        source: "tickets",
        input: None,
        stage: "redact",
        reason: "trap",
        component: Some("sha256:00"),
        backtrace: None,
        attempts: 1,
        key: record.key,
        value: record.value,
        length: 8,
        ..DeadLetter::default()
    };
    sink.write_dead(&letter).unwrap();
    sink.flush().unwrap();
    let read = read_to_end(options(&topic, &topic), 1);
    assert_eq!(read.records.len(), 2);
    let all = format!(
        "{:?}",
        read.records
            .iter()
            .map(|record| {
                let texts: Vec<_> = [&record.key, &record.value]
                    .map(|bytes| String::from_utf8(bytes.clone().unwrap()).unwrap())
                    .into();
                (
                    texts,
                    record
                        .headers
                        .iter()
                        .map(|(name, value)| (name, String::from_utf8(value.clone().unwrap())))
                        .collect::<Vec<_>>(),
                )
            })
            .collect::<Vec<_>>()
    );
    assert!(!all.contains("SECRET") && !all.contains("pii"), "{all}");
    let dead: serde_json::Value =
        serde_json::from_slice(read.records[1].value.as_ref().unwrap()).unwrap();
    assert_eq!(
        (dead["stage"].as_str(), dead["value"].as_str()),
        (Some("redact"), Some("[masked]"))
    );
    assert!(
        read.records[1]
            .headers
            .contains(&("tidegate-reason".into(), Some(b"trap".to_vec())))
    );
}

#[test]
fn reading_until_the_end_stops_where_the_topic_stood() {
    let topic = topic("until", 3);
    produce(&topic, ["only".into()]);
    let mut source = open(options(&topic, &topic));
    let mut read = Read::default();
    read.until(&mut source, |read| read.assigned.len() == 3);
    produce(&topic, numbers(0..50));
    read.until(&mut source, |read| read.ends.len() == 3);
    assert_eq!(read.values(), ["only"]);
    for _ in 0..3 {
        assert!(matches!(
            source.poll(10, 1 << 20, WAIT).unwrap(),
            SourceEvent::Idle
        ));
    }
}

#[test]
fn transaction_markers_at_the_end_do_not_stall_it() {
    let topic = topic("markers", 1);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    let timeout = Duration::from_secs(30);
    producer.init_transactions(timeout).unwrap();
    for (value, commit) in [("kept", true), ("aborted", false)] {
        producer.begin_transaction().unwrap();
        producer
            .send(BaseRecord::<str, str>::to(&topic).payload(value))
            .map_err(|(error, _)| error)
            .unwrap();
        producer.flush(timeout).unwrap();
        if commit {
            producer.commit_transaction(timeout).unwrap()
        } else {
            producer.abort_transaction(timeout).unwrap()
        }
    }
    let read = read_to_end(options(&topic, &topic), 1);
    assert_eq!((read.values(), read.next[&0]), (vec!["kept".to_owned()], 1));
}

#[test]
fn a_paused_partition_gives_nothing_until_it_is_resumed() {
    let topic = topic("pause", 1);
    produce(&topic, numbers(0..500));
    let mut source = open(options(&topic, &topic));
    let mut read = Read::default();
    read.until(&mut source, |read| !read.records.is_empty());
    let before = read.records.len();
    source.pause(partition(0)).unwrap();
    for _ in 0..5 {
        assert!(matches!(
            source.poll(10, 1 << 20, WAIT).unwrap(),
            SourceEvent::Idle
        ));
    }
    source.resume(partition(0)).unwrap();
    read.until(&mut source, |read| read.ends.len() == 1);
    assert!(before < 500);
    assert_eq!(read.values(), numbers(0..500).collect::<Vec<_>>());
}

#[test]
fn a_long_pause_holds_little_and_loses_nothing() {
    let topic = topic("held", 2);
    produce(&topic, numbers(0..5_000));
    let mut source = open(options(&topic, &topic));
    let mut read = Read::default();
    read.until(&mut source, |read| read.assigned.len() == 2);
    source.pause(partition(0)).unwrap();
    read.until(&mut source, |read| read.ends == [1]);
    assert!(read.records.iter().all(|record| record.partition == 1));
    source.resume(partition(0)).unwrap();
    // What was held comes within the bounds asked for.
    let deadline = std::time::Instant::now() + crate::DEADLINE;
    while read.ends.len() < 2 {
        assert!(std::time::Instant::now() < deadline);
        let before = read.records.len();
        read.take(source.poll(7, 1 << 20, WAIT).unwrap());
        assert!(read.records.len() - before <= 7);
        let last = read.records.iter().rfind(|record| record.partition == 0);
        if let Some(last) = last {
            assert_eq!(read.next[&0], last.offset + 1);
        }
    }
    let mut all: Vec<u32> = read
        .values()
        .iter()
        .map(|value| value.parse().unwrap())
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..5_000).collect::<Vec<_>>());
}

#[test]
fn many_records_come_through_in_order() {
    let topic = topic("many", 2);
    produce(&topic, numbers(0..20_000));
    let read = read_to_end(options(&topic, &topic), 2);
    let mut all: Vec<u32> = read
        .values()
        .iter()
        .map(|value| value.parse().unwrap())
        .collect();
    for number in 0..2 {
        let of_partition = read
            .records
            .iter()
            .filter(|record| record.partition == number);
        let offsets: Vec<u64> = of_partition.map(|record| record.offset).collect();
        assert_eq!(offsets, (0..offsets.len() as u64).collect::<Vec<_>>());
    }
    all.sort_unstable();
    assert_eq!(all, (0..20_000).collect::<Vec<_>>());
}
