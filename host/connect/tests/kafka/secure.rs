//! TLS and SASL: the listener of the broker under test that `TIDEGATE_KAFKA_TLS=host:port` names, whose certificate is the
//! file `TIDEGATE_KAFKA_CA`, and which knows the user `alice`.

use std::time::{Duration, Instant};

use tidegate_connect::kafka::{
    KafkaSink, KafkaSinkOptions, KafkaSource, KafkaSourceOptions, Properties,
};
use tidegate_contract::Sink;
use tidegate_record::NewRecord;

use crate::broker::topic;
use crate::{DEADLINE, numbers, options, produce, read_to_end, write};

const PASSWORD: &str = "open sesame";
/// A busy machine takes some seconds to be refused.
const PATIENCE: Duration = Duration::from_secs(8);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: `cargo xtask kafka` says how, `cargo xtask test` sets it")
    })
}

fn login(mechanism: &str, password: &str) -> Properties {
    [
        ("security.protocol", "sasl_ssl"),
        ("sasl.mechanisms", mechanism),
        ("sasl.username", "alice"),
        ("sasl.password", password),
        ("ssl.ca.location", variable("TIDEGATE_KAFKA_CA").as_str()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn reader(topic: &str, properties: Properties) -> KafkaSourceOptions {
    KafkaSourceOptions {
        brokers: variable("TIDEGATE_KAFKA_TLS"),
        patience: PATIENCE,
        properties,
        ..options(topic, topic)
    }
}

fn writer(topic: &str, properties: Properties) -> KafkaSinkOptions {
    KafkaSinkOptions {
        patience: PATIENCE,
        properties,
        ..KafkaSinkOptions::new(variable("TIDEGATE_KAFKA_TLS"), topic, "support-bot")
    }
}

/// What a source and a sink say that cannot be opened with these properties.
fn refused(properties: &Properties) -> [String; 2] {
    let began = Instant::now();
    let errors = std::thread::scope(|scope| {
        let source = scope.spawn(|| KafkaSource::open(reader("secure", properties.clone())));
        let sink = scope.spawn(|| KafkaSink::open(writer("secure", properties.clone())));
        [
            source.join().unwrap().unwrap_err().to_string(),
            sink.join().unwrap().unwrap_err().to_string(),
        ]
    });
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    errors
}

#[test]
fn records_go_through_tls_with_every_kind_of_login() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let topic = topic("secure", 1);
        let login = login(mechanism, PASSWORD);
        let patience = Duration::from_secs(60);
        let mut sink = KafkaSink::open(KafkaSinkOptions {
            patience,
            ..writer(&topic, login.clone())
        })
        .unwrap();
        for number in numbers(0..10) {
            let record = NewRecord {
                value: Some(number.as_bytes()),
                ..NewRecord::default()
            };
            write(&mut sink, &record).unwrap();
        }
        sink.flush().unwrap();
        let read = read_to_end(
            KafkaSourceOptions {
                patience,
                ..reader(&topic, login)
            },
            1,
        );
        assert_eq!(read.values(), numbers(0..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_wrong_password_is_named() {
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        for error in refused(&login(mechanism, "open barley")) {
            assert!(error.contains("SASL authentication error"), "{error}");
            assert!(!error.contains("barley"), "{error}");
        }
    }
}

#[test]
fn a_certificate_that_nobody_known_has_signed_is_named() {
    let mut login = login("PLAIN", PASSWORD);
    // What the system trusts.
    login.remove("ssl.ca.location");
    for error in refused(&login) {
        assert!(
            error.contains("certificate verify failed") && error.contains("ssl.ca.location"),
            "{error}"
        );
    }
}

#[test]
fn a_client_that_speaks_no_tls_where_it_is_wanted_is_told_so() {
    for error in refused(&Properties::new()) {
        assert!(error.contains("security.protocol"), "{error}");
    }
}

/// What a source says that would wait for brokers for very long, and is told before that it is in vain.
fn in_vain(brokers: &str, properties: &Properties) -> String {
    let options = KafkaSourceOptions {
        patience: 2 * DEADLINE,
        ..reader("secure", properties.clone())
    };
    let began = Instant::now();
    let error = KafkaSource::open(KafkaSourceOptions {
        brokers: brokers.to_owned(),
        ..options
    });
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    error.unwrap_err().to_string()
}

#[test]
fn a_client_without_a_login_where_one_is_wanted_is_told_so() {
    let mut login = login("PLAIN", PASSWORD);
    login.retain(|name, _| !name.starts_with("sasl."));
    login.insert("security.protocol".into(), "ssl".into());
    let error = in_vain(&variable("TIDEGATE_KAFKA_TLS"), &login);
    assert!(
        error.contains("wants a login") && error.contains("security.protocol"),
        "{error}"
    );
}

#[test]
fn a_client_that_speaks_tls_where_nobody_does_is_told_so() {
    for protocol in ["ssl", "sasl_ssl"] {
        let mut login = login("PLAIN", PASSWORD);
        login.insert("security.protocol".into(), protocol.into());
        if protocol == "ssl" {
            login.retain(|name, _| !name.starts_with("sasl."));
        }
        let error = in_vain(&crate::broker::brokers(), &login);
        assert!(
            error.contains("PLAINTEXT") && error.contains("security.protocol"),
            "{error}"
        );
    }
}

#[test]
fn records_with_zstd_are_written_and_read() {
    let topic = topic("zstd", 1);
    let properties: Properties = [("compression.type".to_owned(), "zstd".to_owned())].into();
    let mut sink = KafkaSink::open(KafkaSinkOptions {
        properties,
        ..KafkaSinkOptions::new(crate::broker::brokers(), &topic, "support-bot")
    })
    .unwrap();
    let long = "zstd ".repeat(1000);
    for _ in 0..50 {
        let record = NewRecord {
            value: Some(long.as_bytes()),
            ..NewRecord::default()
        };
        write(&mut sink, &record).unwrap();
    }
    sink.flush().unwrap();
    let read = read_to_end(options(&topic, &topic), 1);
    assert_eq!(read.values(), vec![long; 50]);
    // And what the broker compresses itself.
    let topic = crate::broker::topic_with("zstd-topic", 1, &[("compression.type", "zstd")]);
    produce(&topic, numbers(0..10));
    let read = read_to_end(options(&topic, &topic), 1);
    assert_eq!(read.values(), numbers(0..10).collect::<Vec<_>>());
}
