//! Reads `changelog` of a source.

use super::internal::NewTopic;
use super::read_topic::{read_properties, read_topic_name};
use super::reader::Table;
use super::typed::TypedChangelog;

/// Settings of a topic that the file does not have as they are called by the brokers, and what it has for them.
const SAID_OTHERWISE: [(&str, &str); 2] = [
    (
        "cleanup.policy",
        "cannot be set: a changelog is compacted, and dead letters stay until you remove them",
    ),
    ("max.message.bytes", "is called max-message here"),
];

pub(crate) fn read_changelog(table: &Table<'_>) -> Option<TypedChangelog> {
    let inner = table.table("changelog")?;
    let topic = read_topic_name(&inner);
    let replication = inner.number("replication", 1..=1000);
    let max_message = inner.size("max-message", 4096..=256 << 20);
    let (properties, places) = read_properties(&inner);
    for (name, why) in SAID_OTHERWISE {
        if let Some((place, _)) = places.names.get(name) {
            let key = format!("{}.{name}", places.key);
            inner.found.mistake(place, &key, why);
        }
    }
    let typed = TypedChangelog {
        place: inner.place.clone(),
        key: inner.key.clone(),
        topic,
        made: NewTopic {
            replication: replication.map(|typed| typed.value as u16),
            max_message: max_message.map(|typed| typed.value),
            properties,
        },
    };
    inner.finish();
    Some(typed)
}
