//! Dead letters and topics.

use tidegate_contract::Level;

use super::super::*;
use super::{directory, parsed, said};

#[test]
fn dead_letters_go_where_cuts_are_taken_unless_the_file_says_otherwise() {
    let source = |name: &str, brokers: &str, more: &str| {
        format!(
            "[source.{name}]\ntype = \"kafka\"\nbrokers = [\"{brokers}\"]\ntopic = \"{name}\"\n{more}\n"
        )
    };
    let sink = |name: &str, brokers: &str| {
        format!("[sink.{name}]\ntype = \"kafka\"\nbrokers = [\"{brokers}\"]\ntopic = \"{name}\"\n")
    };
    let stdin = "[source.pipe]\ntype = \"stdin\"\n";
    let file = "[sink.file]\ntype = \"file\"\npath = \"out.jsonl\"\n";
    let stdout = "[sink.screen]\ntype = \"stdout\"\n";
    let lines = "[source.lines]\ntype = \"file\"\npaths = [\"tickets.jsonl\"]\n";
    let letters = |parts: &[&str]| {
        let text = parts.concat();
        let pipeline = parsed(&format!("[pipeline]\nname = \"p\"\n{text}")).unwrap();
        let level = guarantee(&pipeline).level;
        match pipeline.dead_letters {
            SinkKind::Kafka(topic) => {
                let made = topic.made.unwrap().replication;
                (
                    format!("{} at {}", topic.topic, topic.brokers.join(",")),
                    made,
                    level,
                )
            }
            SinkKind::File { path } => (path.display().to_string(), None, level),
            other => panic!("dead letters to {other:?}"),
        }
    };
    let in_file = directory()
        .join("state/dead-letters.jsonl")
        .display()
        .to_string();
    let three = "changelog = { replication = 3 }";
    let (a, b) = (source("a", "one:1", three), source("b", "two:2", ""));
    let out = sink("out", "one:1");
    let topic = "p-a-dead-letters at one:1".to_owned();
    for (parts, expected, made, level) in [
        (&[&*a, &*out][..], &topic, Some(3), Level::ExactlyOnce),
        (&[&a, lines, &out], &topic, Some(3), Level::ExactlyOnce),
        // In another order of the file, the same group.
        (&[lines, &a, &out], &topic, Some(3), Level::ExactlyOnce),
        (&[&a, &out, stdout], &topic, Some(3), Level::AtLeastOnce),
        (
            &["delivery = \"at-least-once\"\n", &a, &out],
            &topic,
            Some(3),
            Level::AtLeastOnce,
        ),
        (&[&a, &b, &out], &topic, Some(3), Level::AtLeastOnce),
        (&[&a, stdin, &out], &topic, Some(3), Level::MayLose),
        (&[&a, file], &in_file, None, Level::ExactlyOnce),
        (&[&a, &out, file], &in_file, None, Level::AtLeastOnce),
        (&[&a, stdout], &in_file, None, Level::AtLeastOnce),
        (&[lines, &out], &in_file, None, Level::AtLeastOnce),
        (&[lines, file], &in_file, None, Level::ExactlyOnce),
    ] {
        let expected = (expected.clone(), made, level);
        assert_eq!(letters(parts), expected, "{}", parts.concat());
    }
    // With the passwords of whoever writes to that cluster.
    let secure = |text: &str| {
        format!("{text}properties = {{ \"sasl.username\" = \"me\", \"linger.ms\" = 5 }}\n")
    };
    let text = format!("[pipeline]\nname = \"p\"\n{a}{}", secure(&out));
    let SinkKind::Kafka(topic) = parsed(&text).unwrap().dead_letters else {
        panic!("a file");
    };
    let properties = [("sasl.username".to_owned(), "me".to_owned())];
    assert_eq!(topic.properties, properties.into());
}

/// What is said of dead letters, or of a sink, that write to this topic of these brokers beside a source that reads
/// `tickets`.
fn said_of_topic(table: &str, broker: &str, topic: &str) -> String {
    said(&format!(
        "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"kafka\"\nbrokers = [\"k1:9092\", \"k2:9092\"]\n\
         topic = \"tickets\"\n[sink.b]\ntype = \"stdout\"\n[{table}]\ntype = \"kafka\"\n\
         brokers = [\"k0:9092\", {broker:?}]\ntopic = {topic:?}\n"
    ))
}

#[test]
fn dead_letters_do_not_go_into_a_topic_that_is_read() {
    let text = said_of_topic("dead-letters", "K2:9092", "tickets");
    assert!(
        text.contains(
            "pipeline.toml:12:9: dead-letters.topic: \"tickets\" is read by source \"a\""
        ) && text.contains("1 mistake"),
        "{text}"
    );
    // A sink may want it so.
    let text = said_of_topic("sink.c", "k2:9092", "tickets");
    assert!(
        text.contains(
            "warning: pipeline.toml:12:9: sink.c.topic: \"tickets\" is read by source \"a\""
        ),
        "{text}"
    );
    for (broker, topic) in [("k3:9092", "tickets"), ("k2:9092", "dead")] {
        for table in ["dead-letters", "sink.c"] {
            let text = said_of_topic(table, broker, topic);
            assert!(!text.contains("is read by"), "{text}");
        }
    }
}

#[test]
fn the_topic_of_letters_that_are_sent_again_is_nobody_elses() {
    let text = |sink: &str, more: &str| {
        said(&format!(
            "[pipeline]\nname = \"x\"\n[source.a]\ntype = \"kafka\"\nbrokers = [\"k1:9092\"]\ntopic = \"tickets\"\n\
             group = \"g\"\n{more}[sink.b]\ntype = \"kafka\"\nbrokers = [\"k1:9092\"]\ntopic = {sink:?}\n"
        ))
    };
    let sent_again = "dead letters of source a are sent again through topic \"g-again\"";
    for (sink, more, why) in [
        ("g-again", "", "which sink b writes"),
        (
            "out",
            "changelog = { topic = \"g-again\" }\n",
            "which is a changelog",
        ),
    ] {
        let said = text(sink, more);
        assert!(said.contains(&format!("{sent_again}, {why}")), "{said}");
        assert!(said.contains("1 mistake"), "{said}");
    }
    let said = text("out", "");
    assert!(!said.contains("sent again"), "{said}");
}
