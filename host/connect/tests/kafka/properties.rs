//! What is wrong with properties, said without a broker.

use tidegate_connect::kafka::{
    KafkaSinkOptions, KafkaSourceOptions, PropertyFault, check_reader, check_writer,
};

fn owned(properties: &[(&str, &str)]) -> tidegate_connect::kafka::Properties {
    let properties = properties.iter();
    properties
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn of_reader(properties: &[(&str, &str)]) -> Vec<PropertyFault> {
    check_reader(&KafkaSourceOptions {
        properties: owned(properties),
        ..KafkaSourceOptions::new(0, "127.0.0.1:1", "t", "g")
    })
}

fn of_writer(properties: &[(&str, &str)]) -> Vec<PropertyFault> {
    check_writer(&KafkaSinkOptions {
        properties: owned(properties),
        ..KafkaSinkOptions::new("127.0.0.1:1", "t", "support-bot")
    })
}

/// The one thing that is wrong: its property and why.
fn only(faults: Vec<PropertyFault>) -> (String, String) {
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = faults.into_iter().next().unwrap();
    (fault.name.unwrap_or_default(), fault.why)
}

#[test]
fn what_is_right_has_no_fault() {
    assert_eq!(of_reader(&[]), []);
    assert_eq!(of_writer(&[]), []);
    let fetch = [("fetch.wait.max.ms", "50"), ("client.rack", "a")];
    assert_eq!(of_reader(&fetch), []);
    let fast = [("linger.ms", "0.5"), ("compression.type", "zstd")];
    assert_eq!(of_writer(&fast), []);
    let login = [
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "alice"),
        ("sasl.password", "open sesame"),
    ];
    assert_eq!(of_reader(&login), []);
    assert_eq!(of_writer(&login), []);
}

#[test]
fn every_fault_is_found_with_its_property() {
    let faults = of_reader(&[
        ("fetch.wait.max.milliseconds", "50"),
        ("fetch.min.bytes", "many"),
        ("fetch.max.bytes", "-7"),
        ("security.protocol", "tls"),
        ("group.id", "other"),
        ("linger.ms", "5"),
    ]);
    let names: Vec<_> = faults
        .iter()
        .filter_map(|fault| fault.name.as_deref())
        .collect();
    let all = [
        "fetch.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.milliseconds",
        "group.id",
        "linger.ms",
        "security.protocol",
    ];
    assert_eq!(names, all);
    assert!(faults[0].why.contains("range 0..2147483135"), "{faults:?}");
    assert!(faults[1].why.contains("fetch.min.bytes"), "{faults:?}");
    assert!(faults[2].known.contains(&"fetch.wait.max.ms"), "{faults:?}");
    assert_eq!(faults[3].why, "cannot be set: this needs it to be g");
    assert!(faults[4].why.contains("belongs to a sink"), "{faults:?}");
    assert!(faults[5].why.contains("tls"), "{faults:?}");
}

#[test]
fn a_property_with_the_very_value_that_is_needed_is_right() {
    let needed = [
        ("auto.offset.reset", "error"),
        ("auto.commit.enable", "false"),
        ("enable.partition.eof", "false"),
        ("group.id", "g"),
        ("isolation.level", "read_committed"),
        ("partition.assignment.strategy", "cooperative-sticky"),
    ];
    assert_eq!(of_reader(&needed), []);
    let needed = [
        ("request.required.acks", "all"),
        ("enable.idempotence", "true"),
    ];
    assert_eq!(of_writer(&needed), []);
    let (_, why) = only(of_reader(&[("group.id", "G")]));
    assert_eq!(why, "cannot be set: this needs it to be g");
    // What it has in the end depends on more than this end.
    let (_, why) = only(of_writer(&[("delivery.timeout.ms", "120000")]));
    assert!(why.contains("brokers are waited for"), "{why}");
}

#[test]
fn another_name_of_what_is_ours_is_refused_too() {
    let (name, why) = only(of_writer(&[("request.required.acks", "0")]));
    assert_eq!(name, "request.required.acks");
    assert_eq!(why, "cannot be set: this needs it to be all");
    let (_, why) = only(of_writer(&[("transactional.id", "mine")]));
    assert!(why.contains("transactions are"), "{why}");
    let (_, why) = only(of_reader(&[("metadata.broker.list", "other:9092")]));
    assert!(why.contains("127.0.0.1:1"), "{why}");
}

#[test]
fn properties_that_contradict_each_other_are_found() {
    let (name, why) = only(of_reader(&[("max.poll.interval.ms", "60000")]));
    assert_eq!(name, "max.poll.interval.ms");
    assert!(why.contains("less than 180000"), "{why}");
    let (name, why) = only(of_reader(&[
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("security.protocol", "sasl_ssl"),
    ]));
    assert!(why.contains("sasl.username"), "{name}: {why}");
}

#[test]
fn a_file_that_is_not_there_is_found() {
    let (name, why) = only(of_writer(&[
        ("security.protocol", "ssl"),
        ("ssl.ca.location", "/no/such/ca.pem"),
    ]));
    assert_eq!(name, "ssl.ca.location");
    assert!(why.contains("No such file"), "{why}");
}
