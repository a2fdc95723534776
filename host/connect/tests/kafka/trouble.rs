use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tidegate_codec::Format;
use tidegate_connect::kafka::{
    KafkaSink, KafkaSinkOptions, KafkaSource, KafkaSourceOptions, Properties,
};
use tidegate_contract::{DeadLetter, Sink, SinkError, Source, SourceError, SourceEvent};
use tidegate_record::{NewRecord, RecordId};

use crate::broker::{brokers, topic};
use crate::{Read, WAIT, numbers, open, options, partition, produce, read_to_end, sink, write};

fn properties(pairs: &[(&str, &str)]) -> Properties {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn value(value: &[u8]) -> NewRecord<'_> {
    NewRecord {
        value: Some(value),
        ..NewRecord::default()
    }
}

#[test]
fn a_record_too_large_for_the_client_is_an_encode_error() {
    let topic = topic("large", 1);
    let mut sink = sink(&topic);
    let error = write(&mut sink, &value(&vec![b'x'; 2 << 20])).unwrap_err();
    assert!(matches!(error, SinkError::Encode { .. }), "{error}");
    // As a dead letter it is cut.
    let large = vec![b'y'; 2 << 20];
    let letter = DeadLetter {
        id: RecordId::default(),
        source: "s",
        input: None,
        stage: "t",
        reason: "r",
        component: None,
        backtrace: None,
        attempts: 1,
        key: None,
        value: Some(&large),
        length: large.len() as u64,
        ..DeadLetter::default()
    };
    sink.write_dead(&letter).unwrap();
    sink.flush().unwrap();
    let read = read_to_end(options(&topic, &topic), 1);
    let dead: serde_json::Value =
        serde_json::from_slice(read.records[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(
        (
            dead["length"].as_u64(),
            dead["value"].as_str().unwrap().len()
        ),
        (Some(2 << 20), 64 << 10)
    );
}

#[test]
fn a_full_queue_holds_the_writer_back() {
    let topic = topic("full", 1);
    let mut sink = KafkaSink::open(KafkaSinkOptions {
        properties: properties(&[("queue.buffering.max.messages", "10")]),
        ..KafkaSinkOptions::new(brokers(), &topic, "support-bot")
    })
    .unwrap();
    for number in numbers(0..500) {
        write(&mut sink, &value(number.as_bytes())).unwrap();
    }
    sink.flush().unwrap();
    let read = read_to_end(options(&topic, &topic), 1);
    assert_eq!(read.values(), numbers(0..500).collect::<Vec<_>>());
}

#[test]
fn a_flush_waits_no_longer_than_it_must() {
    let topic = topic("flush", 1);
    let mut sink = KafkaSink::open(KafkaSinkOptions {
        properties: properties(&[("linger.ms", "5000")]),
        ..KafkaSinkOptions::new(brokers(), &topic, "support-bot")
    })
    .unwrap();
    write(&mut sink, &value(b"first")).unwrap();
    sink.flush().unwrap();
    let began = Instant::now();
    for _ in 0..20 {
        write(&mut sink, &value(b"next")).unwrap();
        sink.flush().unwrap();
    }
    // Batches wait for 5 s each, but not for a flush; rdkafka's own takes 100 ms each time beside that.
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?} for 20 flushes",
        began.elapsed()
    );
}

#[test]
fn times_that_brokers_refuse_are_encode_errors() {
    let topic = topic("ahead", 1);
    let mut sink = sink(&topic);
    let ahead = NewRecord {
        event_time: Some(4_000_000_000_000_000),
        ..value(b"x")
    };
    assert!(matches!(
        write(&mut sink, &ahead),
        Err(SinkError::Encode { .. })
    ));
    let ancient = NewRecord {
        event_time: Some(-5_000_000),
        ..value(b"x")
    };
    write(&mut sink, &ancient).unwrap();
    sink.flush().unwrap();
}

#[test]
fn a_topic_that_does_not_exist_is_named() {
    brokers();
    let source = KafkaSource::open(options("no-such-topic", "g"))
        .unwrap_err()
        .to_string();
    let sink = KafkaSink::open(KafkaSinkOptions::new(
        brokers(),
        "no-such-topic",
        "support-bot",
    ))
    .unwrap_err()
    .to_string();
    for error in [source, sink] {
        assert!(
            error.contains("topic no-such-topic at") && error.contains("does not exist"),
            "{error}"
        );
    }
}

#[test]
fn brokers_that_stay_away_are_given_up() {
    let patience = Duration::from_secs(2);
    let began = Instant::now();
    let source = KafkaSource::open(KafkaSourceOptions {
        patience,
        ..KafkaSourceOptions::new(0, "127.0.0.1:1", "t", "g")
    });
    let sink = KafkaSink::open(KafkaSinkOptions {
        patience,
        ..KafkaSinkOptions::new("127.0.0.1:1", "t", "support-bot")
    });
    for error in [
        source.unwrap_err().to_string(),
        sink.unwrap_err().to_string(),
    ] {
        assert!(
            error.contains("topic t at 127.0.0.1:1") && error.contains(" s now"),
            "{error}"
        );
    }
    assert!(began.elapsed() < crate::DEADLINE, "{:?}", began.elapsed());
}

/// Brokers that can be taken away: librdkafka's own stand-in, which has no transactions but all of this.
fn mock() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    cluster
}

fn on_mock(brokers: &str, patience: Duration) -> KafkaSourceOptions {
    let mut options = KafkaSourceOptions::new(0, brokers, "t", "g");
    options.decoder.format = Format::Raw;
    options.patience = patience;
    options
}

#[test]
fn reading_and_writing_go_on_when_the_brokers_come_back() {
    let cluster = mock();
    let brokers = cluster.bootstrap_servers();
    let mut sink = KafkaSink::open(KafkaSinkOptions::new(&brokers, "t", "support-bot")).unwrap();
    let mut source = open(on_mock(&brokers, Duration::from_secs(60)));
    let mut read = Read::default();
    write(&mut sink, &value(b"before")).unwrap();
    sink.flush().unwrap();
    read.until(&mut source, |read| !read.records.is_empty());
    cluster.broker_down(1).unwrap();
    write(&mut sink, &value(b"after")).unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    }
    assert_eq!(read.values(), ["before"]);
    cluster.broker_up(1).unwrap();
    sink.flush().unwrap();
    read.until(&mut source, |read| read.records.len() == 2);
    source.commit(&read.positions()).unwrap();
    assert_eq!(read.values(), ["before", "after"]);
}

#[test]
fn brokers_that_go_for_good_end_the_source_and_the_sink() {
    let cluster = mock();
    let brokers = cluster.bootstrap_servers();
    let patience = Duration::from_secs(3);
    let mut source = open(on_mock(&brokers, patience));
    let mut sink = KafkaSink::open(KafkaSinkOptions {
        patience,
        ..KafkaSinkOptions::new(&brokers, "t", "support-bot")
    })
    .unwrap();
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    cluster.broker_down(1).unwrap();
    write(&mut sink, &value(b"lost")).unwrap();
    let error = sink.flush().unwrap_err();
    assert!(matches!(error, SinkError::Write { .. }), "{error}");
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < crate::DEADLINE);
        match source.poll(10, 1 << 20, WAIT) {
            Ok(event) => read.take(event),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        error.contains("topic t at") && error.contains(" s now"),
        "{error}"
    );
}

#[test]
fn a_question_that_is_never_answered_ends_the_source_though_others_are() {
    let cluster = mock();
    let brokers = cluster.bootstrap_servers();
    // Longer than the brokers are asked whether they are there.
    let source = on_mock(&brokers, Duration::from_secs(8));
    let mut source = open(source);
    // Where a partition begins is what its coordinator does not say.
    let loading = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS; 1000];
    for _ in 0..100 {
        cluster.request_errors(RDKafkaApiKey::OffsetFetch, &loading);
    }
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < crate::DEADLINE, "it waits for ever");
        match source.poll(10, 1 << 20, WAIT) {
            Ok(event) => assert!(matches!(event, SourceEvent::Idle), "{event:?}"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        error.contains("topic t at") && error.contains(" s now"),
        "{error}"
    );
}

/// Offsets are not taken until the errors are cleared.
fn takes_no_offsets(cluster: &MockCluster<'static, DefaultProducerContext>) {
    let loading = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS; 1000];
    for _ in 0..100 {
        cluster.request_errors(RDKafkaApiKey::OffsetCommit, &loading);
    }
}

#[test]
fn positions_that_are_not_taken_yet_are_told_again_until_patience_is_over() {
    let cluster = mock();
    let brokers = cluster.bootstrap_servers();
    let mut options = on_mock(&brokers, Duration::from_secs(6));
    options.commit_timeout = Duration::from_millis(200);
    let mut sink = KafkaSink::open(KafkaSinkOptions::new(&brokers, "t", "support-bot")).unwrap();
    write(&mut sink, &value(b"one")).unwrap();
    sink.flush().unwrap();
    let mut source = open(options);
    let mut read = Read::default();
    read.until(&mut source, |read| read.records.len() == 1);
    takes_no_offsets(&cluster);
    let error = source.commit(&read.positions()).unwrap_err();
    assert!(matches!(error, SourceError::NotYet { .. }), "{error}");
    // Records go on.
    write(&mut sink, &value(b"two")).unwrap();
    sink.flush().unwrap();
    read.until(&mut source, |read| read.records.len() == 2);
    cluster.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    // A busy machine may take longer than a try does.
    while let Err(error) = source.commit(&read.positions()) {
        assert!(matches!(error, SourceError::NotYet { .. }), "{error}");
    }
    // For good, it is an end.
    write(&mut sink, &value(b"three")).unwrap();
    sink.flush().unwrap();
    read.until(&mut source, |read| read.records.len() == 3);
    takes_no_offsets(&cluster);
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < crate::DEADLINE, "it waits for ever");
        match source.commit(&read.positions()).unwrap_err() {
            SourceError::NotYet { .. } => {}
            error => break error,
        }
        read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    };
    let text = error.to_string();
    assert!(
        matches!(error, SourceError::Commit { .. }) && text.contains(" s now"),
        "{text}"
    );
}

#[test]
fn nothing_is_read_before_the_group_has_taken_where_it_begins() {
    let cluster = mock();
    let brokers = cluster.bootstrap_servers();
    let mut options = on_mock(&brokers, Duration::from_secs(60));
    options.commit_timeout = Duration::from_millis(200);
    let mut sink = KafkaSink::open(KafkaSinkOptions::new(&brokers, "t", "support-bot")).unwrap();
    write(&mut sink, &value(b"one")).unwrap();
    sink.flush().unwrap();
    takes_no_offsets(&cluster);
    let mut source = open(options);
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    for _ in 0..10 {
        read.take(source.poll(10, 1 << 20, WAIT).unwrap());
    }
    assert!(read.records.is_empty());
    cluster.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    read.until(&mut source, |read| read.records.len() == 1);
}

#[test]
fn settings_that_would_break_the_guarantee_are_refused() {
    let source = |pairs: &[(&str, &str)]| {
        let options = KafkaSourceOptions {
            properties: properties(pairs),
            ..KafkaSourceOptions::new(0, "127.0.0.1:1", "t", "g")
        };
        KafkaSource::open(options).unwrap_err().to_string()
    };
    let error = source(&[("enable.auto.commit", "true")]);
    assert!(
        error.contains("property enable.auto.commit cannot be set: this needs it to be false"),
        "{error}"
    );
    let error = source(&[("no.such.property", "1")]);
    assert!(error.contains("no.such.property"), "{error}");
    let error = source(&[("isolation.level", "read_uncommitted")]);
    assert!(
        error.contains("property isolation.level cannot be set"),
        "{error}"
    );
    let error = source(&[("session.timeout.ms", "6000")]);
    assert!(
        error.contains("property session.timeout.ms contradicts others")
            && error.contains("more than a third"),
        "{error}"
    );
    let sink = KafkaSink::open(KafkaSinkOptions {
        properties: properties(&[("acks", "0")]),
        ..KafkaSinkOptions::new("127.0.0.1:1", "t", "support-bot")
    });
    assert!(
        sink.unwrap_err()
            .to_string()
            .contains("property acks cannot be set")
    );
    let mut csv = KafkaSourceOptions::new(0, "127.0.0.1:1", "t", "g");
    csv.decoder.format = Format::Csv;
    assert!(
        KafkaSource::open(csv)
            .unwrap_err()
            .to_string()
            .contains("csv is for files")
    );
}

#[test]
fn a_position_that_is_gone_is_an_error_and_no_jump() {
    let topic = topic("gone", 1);
    produce(&topic, numbers(0..5));
    let mut source = open(options(&topic, &topic));
    let mut read = Read::default();
    read.until(&mut source, |read| !read.assigned.is_empty());
    source.seek(partition(0), 1000).unwrap();
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < crate::DEADLINE);
        match source.poll(10, 1 << 20, WAIT) {
            Ok(event) => read.take(event),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("Offset out of range"), "{error}");
    assert!(read.records.is_empty());
}
