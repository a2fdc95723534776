//! Reads `[feed.NAME]`.

use std::time::Duration;

use super::findings::Typed;
use super::read_gateway_ends::{COUNT_KEYS, OUTPUT_KEYS, read_output_limits};
use super::read_topic::read_topic;
use super::reader::Table;
use super::typed::{TypedFeed, TypedFeedKind};

const KAFKA_KEYS: [&str; 5] = ["brokers", "topic", "properties", "queue", "patience"];

/// Settings of the client that follow from keys, or are not for the file to say.
const SAID_OTHERWISE: [(&str, &str); 3] = [
    ("queue.buffering.max.messages", "is called queue here"),
    ("linger.ms", "cannot be set: tokens are to be seen soon"),
    (
        "queue.buffering.max.ms",
        "cannot be set: tokens are to be seen soon",
    ),
];

#[derive(Clone, Copy)]
enum Kind {
    Output,
    Kafka,
}

pub(crate) fn read_feed(name: Typed<String>, table: Table<'_>) -> TypedFeed {
    let kinds = [("output", Kind::Output), ("kafka", Kind::Kafka)];
    if table.get("type").is_none() {
        table.missing("type", "type = one of \"output\", \"kafka\"");
    }
    let kind = table.word("type", &kinds).map(|typed| typed.value);
    let read = match kind {
        Some(Kind::Output) => {
            let (max_records, max_bytes) = read_output_limits(&table);
            Some(TypedFeedKind::Output {
                max_records,
                max_bytes,
            })
        }
        Some(Kind::Kafka) => read_kafka(&table),
        None => None,
    };
    // A section whose type is not known says nothing of its other keys: they may well be right.
    if kind.is_some() {
        table.misplaced(&KAFKA_KEYS, "belongs to type = \"kafka\" only");
        table.misplaced(&COUNT_KEYS, "belongs to type = \"output\" only");
        table.misplaced(&OUTPUT_KEYS, "belongs to type = \"output\" only");
        table.finish();
    }
    TypedFeed { name, kind: read }
}

fn read_kafka(table: &Table<'_>) -> Option<TypedFeedKind> {
    let topic = read_topic(table);
    let queue = table.count("queue", 100..=10_000_000);
    let times = Duration::from_secs(1)..=Duration::from_secs(600);
    let patience = table.duration("patience", "s", times);
    let topic = topic?;
    for (name, why) in SAID_OTHERWISE {
        if let Some((place, _)) = topic.places.names.get(name) {
            let key = format!("{}.{name}", topic.places.key);
            table.found.mistake(place, &key, why);
        }
    }
    Some(TypedFeedKind::Kafka {
        topic,
        queue: queue.map_or(10_000, |typed| typed.value),
        patience: patience.map_or(Duration::from_secs(10), |typed| typed.value),
    })
}
