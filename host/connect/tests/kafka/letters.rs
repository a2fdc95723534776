//! Dead letters of a topic, looked at again.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tidegate_codec::decode_dead_letter;
use tidegate_connect::kafka::{KafkaLetters, KafkaSink, KafkaSinkOptions, Properties};
use tidegate_contract::{DeadLetter, LetterError, LetterStore as _, Sink as _};
use tidegate_record::RecordId;

use crate::DEADLINE;
use crate::broker::{brokers, records, topic};

fn letters(topic: &str) -> KafkaLetters {
    KafkaLetters::new(brokers(), topic, Properties::new())
}

fn soon() -> Instant {
    Instant::now() + DEADLINE
}

/// All letters, by pages of so many: place and value.
fn paged(letters: &KafkaLetters, page: usize) -> Vec<(String, Vec<u8>)> {
    let (mut all, mut before) = (Vec::new(), None::<String>);
    loop {
        let mut here = 0;
        let next = letters.newest(before.as_deref(), soon(), &mut |letter| {
            here += 1;
            all.push((letter.place, letter.bytes.unwrap()));
            match here == page {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        before = next.unwrap();
        if before.is_none() {
            return all;
        }
    }
}

#[test]
fn letters_of_a_topic_come_newest_first_by_pages_of_any_size_and_are_found_by_their_place() {
    let topic = topic("letters", 3);
    let options = KafkaSinkOptions::new(brokers(), &topic, "support-bot");
    let mut sink = KafkaSink::open(options).unwrap();
    let count = 500;
    for offset in 0..count {
        let key = offset.to_string();
        let letter = DeadLetter {
            id: RecordId {
                offset,
                ..RecordId::default()
            },
            source: "tickets",
            input: None,
            stage: "redact",
            reason: "trap",
            attempts: 1,
            key: Some(key.as_bytes()),
            value: Some(b"value"),
            length: 5,
            at: 1_000_000,
            event_time: Some(2_000_000),
            headers: Some(&[("trace", Some(b"1"))]),
            ..DeadLetter::default()
        };
        sink.write_dead(&letter).unwrap();
        if offset % 50 == 0 {
            sink.flush().unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    sink.flush().unwrap();
    let letters = letters(&topic);
    let all = paged(&letters, 1000);
    let mut offsets: Vec<u64> = all
        .iter()
        .map(|(_, bytes)| decode_dead_letter(bytes).unwrap().offset)
        .collect();
    // Of one flush the partitions have them in any order; those of an earlier one are older.
    assert!(
        offsets[..40].iter().all(|offset| *offset >= count - 100),
        "{offsets:?}"
    );
    offsets.sort_unstable();
    assert_eq!(offsets, (0..count).collect::<Vec<_>>());
    for page in [7, 64] {
        let mut again = paged(&letters, page);
        let mut all = all.clone();
        again.sort();
        all.sort();
        assert!(again == all, "pages of {page} are not all of them once");
    }
    for (place, bytes) in all.iter().step_by(50) {
        let found = letters.find(place, soon()).unwrap().unwrap();
        assert_eq!(found.bytes.as_ref(), Some(bytes));
    }
    let read = decode_dead_letter(&all[0].1).unwrap();
    assert_eq!(
        read.headers.unwrap(),
        [("trace".to_owned(), Some(b"1".to_vec()))]
    );
    assert_eq!(
        (read.at, read.event_time),
        (Some(1_000_000), Some(2_000_000))
    );
    for nowhere in ["7.0", "0.999999", "0", "x.1", "0.-1", "-1.0", ""] {
        assert_eq!(letters.find(nowhere, soon()).unwrap(), None, "{nowhere:?}");
    }
    let refused = letters.newest(Some("5120"), soon(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(refused, Err(LetterError::Cursor("5120".into())));
}

#[test]
fn letters_of_a_cut_that_came_to_nothing_are_not_there() {
    let topic = topic("letters-aborted", 1);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    for (value, holds) in [
        ("one", true),
        ("lost", false),
        ("two", true),
        ("open", false),
    ] {
        producer.begin_transaction().unwrap();
        let record: BaseRecord<'_, str, str> = BaseRecord::to(&topic).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
        producer.flush(DEADLINE).unwrap();
        match (holds, value) {
            (true, _) => producer.commit_transaction(DEADLINE).unwrap(),
            (false, "lost") => producer.abort_transaction(DEADLINE).unwrap(),
            // It stays open.
            _ => {}
        }
    }
    let letters = letters(&topic);
    let values: Vec<Vec<u8>> = paged(&letters, 1)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(values, [b"two".to_vec(), b"one".to_vec()]);
}

#[test]
fn a_call_whose_time_is_over_gets_on_a_little_and_says_where_it_goes_on_be_it_among_holes() {
    let topic = topic("letters-holes", 1);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("transactional.id", &topic)
        .create()
        .unwrap();
    producer.init_transactions(DEADLINE).unwrap();
    for (values, holds) in [(1, true), (500, false), (1, true)] {
        producer.begin_transaction().unwrap();
        for _ in 0..values {
            let record: BaseRecord<'_, str, str> = BaseRecord::to(&topic).payload("letter");
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(DEADLINE).unwrap();
        match holds {
            true => producer.commit_transaction(DEADLINE).unwrap(),
            false => producer.abort_transaction(DEADLINE).unwrap(),
        }
    }
    // A broker answers a commit before its marker is in the topic.
    let deadline = soon();
    while records(&topic, "read_committed").len() < 2 {
        assert!(Instant::now() < deadline, "the last one is not there");
    }
    let letters = letters(&topic);
    let (mut found, mut calls, mut before) = (0, 0, None::<String>);
    loop {
        let next = letters.newest(before.as_deref(), Instant::now(), &mut |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        calls += 1;
        before = next.unwrap();
        if before.is_none() {
            break;
        }
    }
    assert_eq!(found, 2);
    assert!(calls >= 4, "{calls} calls over 502 offsets");
}

#[test]
fn letters_for_which_there_is_no_room_at_once_are_read_when_it_is_their_turn() {
    let topic = topic("letters-large", 20);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers())
        .set("compression.type", "zstd")
        .create()
        .unwrap();
    let letter = "x".repeat(900_000);
    for number in 0..160 {
        let payload = format!("{number:03}{letter}");
        let record: BaseRecord<'_, str, str> = BaseRecord::to(&topic)
            .partition(number % 20)
            .payload(&payload);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(DEADLINE).unwrap();
    let mut numbers: Vec<Vec<u8>> = paged(&letters(&topic), 10)
        .into_iter()
        .map(|(_, value)| value[..3].to_vec())
        .collect();
    numbers.sort_unstable();
    let all: Vec<Vec<u8>> = (0..160)
        .map(|number| format!("{number:03}").into_bytes())
        .collect();
    assert!(numbers == all, "{} letters", numbers.len());
}
