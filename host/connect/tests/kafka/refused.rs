use std::collections::BTreeSet;

use tidegate_connect::kafka::{KafkaSink, KafkaSinkOptions, Properties};
use tidegate_contract::{DeadLetter, Sink, SinkError};
use tidegate_record::{NewRecord, RecordId};

use crate::broker::{alter, brokers, topic, topic_with};
use crate::{TRACED, numbers, options, read_to_end, write, write_with};

/// A sink whose messages are as large on their way as they are here.
fn plain_sink(topic: &str) -> KafkaSink {
    KafkaSink::open(KafkaSinkOptions {
        properties: Properties::from([("compression.type".into(), "none".into())]),
        ..KafkaSinkOptions::new(brokers(), topic, "support-bot")
    })
    .unwrap()
}

fn record<'a>(offset: u64, key: Option<&'a [u8]>, value: &'a [u8]) -> NewRecord<'a> {
    NewRecord {
        id: RecordId {
            offset,
            ..RecordId::default()
        },
        key,
        value: Some(value),
        ..NewRecord::default()
    }
}

fn letter<'a>(key: Option<&'a [u8]>, value: &'a [u8], reason: &'a str) -> DeadLetter<'a> {
    DeadLetter {
        id: RecordId {
            partition: 3,
            offset: 77,
            ..RecordId::default()
        },
        source: "tickets",
        input: None,
        stage: "redact",
        reason,
        component: None,
        backtrace: None,
        attempts: 1,
        key,
        value: Some(value),
        length: value.len() as u64,
        ..DeadLetter::default()
    }
}

#[test]
fn a_record_too_large_for_the_topic_is_handed_back_and_the_rest_is_written() {
    let topic = topic_with("too-large", 1, &[("max.message.bytes", "1000")]);
    let mut sink = plain_sink(&topic);
    let large = [b'x'; 5000];
    for number in 0..20 {
        let text = number.to_string();
        let value = if number == 7 {
            large.as_slice()
        } else {
            text.as_bytes()
        };
        write(&mut sink, &record(number, Some(b"k"), value)).unwrap();
    }
    sink.flush().unwrap();
    let refused = sink.take_refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].id.offset, 7);
    assert_eq!(refused[0].key.as_deref(), Some(b"k".as_slice()));
    assert_eq!(refused[0].value.as_deref(), Some(large.as_slice()));
    let reason = &refused[0].reason;
    assert!(
        reason.contains(&topic) && reason.contains("max.message.bytes"),
        "{reason}"
    );
    assert_eq!(sink.pending(), 0);
    assert!(sink.take_refused().is_empty());
    // The sink goes on.
    write(&mut sink, &record(20, Some(b"k"), b"20")).unwrap();
    sink.flush().unwrap();
    let mut read = read_to_end(options(&topic, &topic), 1).values();
    read.sort_by_key(|value| value.parse::<u32>().unwrap());
    let expected: Vec<String> = numbers(0..21).filter(|number| number != "7").collect();
    assert_eq!(read, expected);
}

#[test]
fn a_batch_too_large_for_the_topic_costs_no_record() {
    let topic = topic_with("small-batches", 1, &[]);
    let mut sink = plain_sink(&topic);
    // The sink was opened before.
    alter(&topic, "max.message.bytes", "1000");
    let values: BTreeSet<String> = (0..200).map(|number| format!("{number:0>300}")).collect();
    for (offset, value) in values.iter().enumerate() {
        write(&mut sink, &record(offset as u64, None, value.as_bytes())).unwrap();
    }
    sink.flush().unwrap();
    assert!(sink.take_refused().is_empty());
    let read = read_to_end(options(&topic, &topic), 1).values();
    assert_eq!(read.len(), 200);
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), values);
}

#[test]
fn a_few_at_fault_are_found_among_many() {
    let topic = topic_with("few", 2, &[]);
    let mut sink = plain_sink(&topic);
    alter(&topic, "cleanup.policy", "compact");
    let bad = [3, 700, 701, 1999];
    for number in 0..2000 {
        let text = number.to_string();
        let key = (!bad.contains(&number)).then_some(text.as_bytes());
        write(&mut sink, &record(number, key, text.as_bytes())).unwrap();
    }
    sink.flush().unwrap();
    let mut refused: Vec<u64> = sink
        .take_refused()
        .iter()
        .map(|refused| refused.id.offset)
        .collect();
    refused.sort();
    assert_eq!(refused, bad);
    let read = read_to_end(options(&topic, &topic), 2).values();
    let values: BTreeSet<String> = read.iter().cloned().collect();
    assert_eq!((read.len(), values.len()), (1996, 1996));
}

#[test]
fn a_record_without_a_key_is_handed_back_by_a_compacted_topic() {
    let topic = topic_with("compacted", 1, &[]);
    let mut sink = plain_sink(&topic);
    // The sink was opened before.
    alter(&topic, "cleanup.policy", "compact");
    for number in 0..10 {
        let key = (number != 4).then_some(b"k".as_slice());
        let value = number.to_string();
        write(&mut sink, &record(number, key, value.as_bytes())).unwrap();
    }
    sink.flush().unwrap();
    let refused = sink.take_refused();
    let offsets: Vec<u64> = refused.iter().map(|refused| refused.id.offset).collect();
    assert_eq!(offsets, [4]);
    assert!(
        refused[0].reason.contains("it has no key"),
        "{}",
        refused[0].reason
    );
    let read = read_to_end(options(&topic, &topic), 1).values();
    let expected: Vec<String> = numbers(0..10).filter(|number| number != "4").collect();
    let read: BTreeSet<String> = read.into_iter().collect();
    assert_eq!(read, expected.into_iter().collect());
}

#[test]
fn what_the_topic_refuses_does_not_move_the_records_beside_it() {
    let topic = topic_with(
        "in-order",
        1,
        &[
            ("max.message.bytes", "2000"),
            ("cleanup.policy", "compact"),
            ("message.timestamp.before.max.ms", "3600000"),
        ],
    );
    let mut sink = plain_sink(&topic);
    let (small, large) = ("v".repeat(300), "x".repeat(5000));
    let mut expected = Vec::new();
    let mut dead = 0;
    for number in 0..2000_u64 {
        let value = match number % 97 {
            13 => format!("{number} {large}"),
            _ => format!("{number} {small}"),
        };
        let record = NewRecord {
            event_time: (number % 97 == 61).then_some(1_000_000),
            ..record(
                number,
                (number % 97 != 37).then_some(b"k".as_slice()),
                value.as_bytes(),
            )
        };
        match (number % 97, write(&mut sink, &record)) {
            (37 | 61, Err(SinkError::Encode { why, .. })) => {
                assert!(
                    why.contains("no key") || why.contains("event time"),
                    "{why}"
                );
                dead += 1;
            }
            (13, Ok(())) => {}
            (37 | 61, other) => panic!("{number}: {other:?}"),
            (_, written) => {
                written.unwrap();
                expected.push(value);
            }
        }
    }
    sink.flush().unwrap();
    assert_eq!(dead, 2 * 21 - 1);
    assert_eq!(sink.take_refused().len(), 21);
    let read = read_to_end(options(&topic, &topic), 1).values();
    assert_eq!(read.len(), expected.len());
    let first = |value: &String| value.split(' ').next().unwrap().to_owned();
    assert!(
        read == expected,
        "order: {:?}",
        read.iter().map(first).collect::<Vec<_>>()
    );
}

/// More than librdkafka takes by itself, and less than brokers do.
const BETWEEN: usize = 1_030_000;

#[test]
fn what_the_topic_takes_is_written_however_much_it_is() {
    let topics = [
        (topic("as-brokers", 1), BETWEEN),
        (
            topic_with("larger", 1, &[("max.message.bytes", "3000000")]),
            2_900_000,
        ),
    ];
    for (topic, bytes) in topics {
        let mut sink = plain_sink(&topic);
        let large = vec![b'x'; bytes];
        write(&mut sink, &record(0, Some(b"k"), &large)).unwrap();
        sink.flush().unwrap();
        assert!(sink.take_refused().is_empty());
        let mut reader = options(&topic, &topic);
        reader.decoder.max_record = 4 << 20;
        let read = read_to_end(reader, 1);
        assert!(read.records[0].value.as_deref() == Some(large.as_slice()));
        let beyond = vec![b'x'; 3_000_001];
        let error = write(&mut sink, &record(1, Some(b"k"), &beyond)).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("message.max.bytes") && said.contains("the topic's max.message.bytes"),
            "{said}"
        );
    }
}

#[test]
fn a_property_that_lets_a_message_be_no_larger_is_named() {
    let topic = topic("by-property", 1);
    let limit = ("message.max.bytes".to_owned(), "5000".to_owned());
    let mut sink = KafkaSink::open(KafkaSinkOptions {
        properties: Properties::from([limit]),
        ..KafkaSinkOptions::new(brokers(), &topic, "support-bot")
    })
    .unwrap();
    let error = write(&mut sink, &record(0, None, &[b'x'; 6000])).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("6036 bytes exceed message.max.bytes 5000, a property"),
        "{said}"
    );
}

#[test]
fn a_record_whose_headers_are_too_large_is_an_encode_error() {
    let topic = topic("headers", 1);
    let mut sink = plain_sink(&topic);
    let large = vec![b'h'; 2 << 20];
    let headers = [("trace", Some(large.as_slice()))];
    let record = NewRecord {
        headers: &headers,
        ..record(0, None, b"v")
    };
    let error = write(&mut sink, &record).unwrap_err();
    assert!(matches!(error, SinkError::Encode { .. }), "{error}");
    assert!(error.to_string().contains("message.max.bytes"), "{error}");
}

#[test]
fn a_dead_letter_fits_whatever_its_key_reason_and_value() {
    let topic = topic_with("letters", 1, &[("max.message.bytes", "1000")]);
    let mut sink = plain_sink(&topic);
    let large = vec![b'x'; 2 << 20];
    let long = "ä".repeat(40_000);
    sink.write_dead(&letter(Some(&large), b"v", "r")).unwrap();
    sink.write_dead(&letter(Some(b"k"), &large, "r")).unwrap();
    sink.write_dead(&letter(Some(b"k"), b"v", &long)).unwrap();
    sink.write_dead(&letter(Some(b"k"), b"v", "r")).unwrap();
    sink.flush().unwrap();
    assert!(sink.take_refused().is_empty());
    let read = read_to_end(options(&topic, &topic), 1);
    let mut cuts = Vec::new();
    for seen in &read.records {
        let dead: serde_json::Value =
            serde_json::from_slice(seen.value.as_deref().unwrap()).unwrap();
        assert_eq!(dead["id"], "tickets/3/77", "{dead}");
        assert_eq!(
            dead["key"].as_str().unwrap().as_bytes(),
            seen.key.as_deref().unwrap()
        );
        let reason = ("tidegate-reason".to_owned(), dead["reason"].as_str());
        assert!(seen.headers.iter().any(|(name, value)| {
            *name == reason.0 && value.as_deref() == reason.1.map(str::as_bytes)
        }));
        cuts.push(dead["cut"].to_string());
    }
    cuts.sort();
    assert_eq!(
        cuts,
        [
            "null",
            "{\"key\":2097152}",
            "{\"reason\":80000}",
            "{\"value\":2097152}"
        ]
    );
}

#[test]
fn a_compacted_topic_takes_and_keeps_every_dead_letter() {
    for compacted_first in [true, false] {
        let topic = topic_with("compacted-letters", 1, &[]);
        if compacted_first {
            alter(&topic, "cleanup.policy", "compact");
        }
        let mut sink = plain_sink(&topic);
        alter(&topic, "cleanup.policy", "compact");
        // What the topic is shows with the first letter without a key; no later one goes under the key of its record,
        // of which the topic would keep the last one only.
        for (offset, key) in [(0, None), (1, Some(&b"k"[..])), (2, Some(b"k"))] {
            let mut letter = letter(key, b"v", "r");
            letter.id.offset = offset;
            sink.write_dead(&letter).unwrap();
            sink.flush().unwrap();
        }
        let read = read_to_end(options(&topic, &topic), 1);
        let keys: Vec<String> = read
            .records
            .iter()
            .map(|seen| String::from_utf8(seen.key.clone().unwrap()).unwrap())
            .collect();
        let place = |offset| format!("support-bot/tickets/3/{offset}@redact");
        assert_eq!(keys, [place(0), place(1), place(2)]);
    }
}

#[test]
fn a_topic_that_refuses_every_dead_letter_is_named() {
    let topic = topic_with("no-letters", 1, &[("max.message.bytes", "100")]);
    let mut sink = plain_sink(&topic);
    sink.write_dead(&letter(None, b"v", "r")).unwrap();
    let error = sink.flush().unwrap_err().to_string();
    assert!(
        error.contains(&topic) && error.contains("dead letter") && error.contains("larger"),
        "{error}"
    );
}

#[test]
fn headers_of_the_host_take_the_place_of_those_of_their_names_and_nothing_is_too_large_for_them() {
    let topic = topic("host-headers", 1);
    let mut sink = plain_sink(&topic);
    // The sink was opened before. Each is a batch of its own; one of them has no room for 66 bytes more.
    alter(&topic, "max.message.bytes", "1000");
    let narrow = [b'x'; 860];
    let own: [(&str, Option<&[u8]>); 3] = [
        ("traceparent", Some(b"forged")),
        ("own", Some(b"1")),
        ("tracestate", None),
    ];
    for (number, value) in (0..).zip([b"small".as_slice(), &narrow, b"small"]) {
        let record = NewRecord {
            headers: &own,
            ..record(number, None, value)
        };
        let host = match number {
            2 => TRACED.unwritten(),
            _ => TRACED,
        };
        write_with(&mut sink, &record, host).unwrap();
        sink.flush().unwrap();
    }
    assert!(sink.take_refused().is_empty());
    let (name, written) = TRACED.written[0];
    let traced = (name.to_owned(), Some(written.to_vec()));
    let own = ("own".to_owned(), Some(b"1".to_vec()));
    let read = read_to_end(options(&topic, &topic), 1).records;
    let headers: Vec<_> = read.into_iter().map(|seen| seen.headers).collect();
    let expected = [vec![own.clone(), traced], vec![own.clone()], vec![own]];
    assert_eq!(headers, expected);
    // Without the host's headers it is what it is: its own of that name are not taken for them.
    let record = NewRecord {
        headers: &[("traceparent", Some(&[b'x'; 200]))],
        ..record(3, None, &narrow)
    };
    write(&mut sink, &record).unwrap();
    sink.flush().unwrap();
    assert_eq!(sink.take_refused().len(), 1);
}

#[test]
fn what_a_message_has_no_room_for_with_headers_of_the_host_goes_without_them() {
    let topic = topic("host-headers-by-property", 1);
    let limit = ("message.max.bytes".to_owned(), "5000".to_owned());
    let mut sink = KafkaSink::open(KafkaSinkOptions {
        properties: Properties::from([limit]),
        ..KafkaSinkOptions::new(brokers(), &topic, "support-bot")
    })
    .unwrap();
    let value = [b'x'; 4900];
    write_with(&mut sink, &record(0, None, &value), TRACED).unwrap();
    write_with(&mut sink, &record(1, None, &value[..4800]), TRACED).unwrap();
    sink.flush().unwrap();
    // As many headers as a record may have.
    let mut sink = plain_sink(&topic);
    let many = vec![("", None); 65_535];
    let record = NewRecord {
        headers: &many,
        ..record(2, None, b"v")
    };
    write_with(&mut sink, &record, TRACED).unwrap();
    sink.flush().unwrap();
    let read = read_to_end(options(&topic, &topic), 1).records;
    let headers: Vec<_> = read.iter().map(|seen| seen.headers.len()).collect();
    assert_eq!(headers, [0, 1, 65_535]);
}
