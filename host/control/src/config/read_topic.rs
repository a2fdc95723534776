//! Reads what sources and sinks of type `kafka` have in common.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::findings::Typed;
use super::pipeline::PropertyPlaces;
use super::reader::Table;
use super::typed::TypedTopic;

pub(crate) fn read_topic(table: &Table<'_>) -> Option<TypedTopic> {
    let brokers = match table.get("brokers") {
        None => {
            table.missing("brokers", "brokers = [\"localhost:9092\"]");
            None
        }
        Some(value) => {
            let typed = value.strings(table.found);
            if typed.as_ref().is_some_and(Vec::is_empty) {
                table.found.mistake(
                    &value.place,
                    &value.key,
                    "is empty; write for example [\"localhost:9092\"]",
                );
            }
            typed
        }
    };
    for broker in brokers.iter().flatten() {
        let port = broker
            .value
            .rsplit_once(':')
            .map(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if port != Some(true) {
            table.found.about(
                broker,
                format!(
                    "{:?} is not host:port; write for example \"localhost:9092\"",
                    broker.value
                ),
            );
        }
    }
    let topic = read_topic_name(table);
    if table.get("topic").is_none() {
        table.missing("topic", "topic = \"tickets\"");
    }
    let (properties, places) = read_properties(table);
    Some(TypedTopic {
        brokers: brokers?.into_iter().map(|typed| typed.value).collect(),
        topic: topic?,
        properties,
        places: Box::new(places),
    })
}

/// `topic`, if there is one.
pub(crate) fn read_topic_name(table: &Table<'_>) -> Option<Typed<String>> {
    let topic = table.string("topic")?;
    if !is_topic(&topic.value) {
        table.found.about(
            &topic,
            format!(
                "{:?} is not a topic: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
                topic.value
            ),
        );
    }
    Some(topic)
}

/// Whether brokers take this as the name of a topic.
pub(crate) fn is_topic(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let number = (1..=249).contains(&name.len());
    number && name.chars().all(fits) && !matches!(name, "." | "..")
}

pub(crate) fn read_properties(table: &Table<'_>) -> (BTreeMap<String, String>, PropertyPlaces) {
    let (mut properties, mut places) = (BTreeMap::new(), PropertyPlaces::default());
    let Some(inner) = table.table("properties") else {
        return (properties, places);
    };
    (places.key, places.table) = (inner.key.clone(), inner.place.clone());
    for (name, value) in inner.all() {
        let of_both = (name.place.clone(), value.place.clone());
        places.names.insert(name.value.clone(), of_both);
        match value.raw {
            DeValue::String(text) => {
                properties.insert(name.value, text.clone().into_owned());
            }
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                properties.insert(name.value, value.to_string());
            }
            DeValue::Table(_) => table.found.about(
                &name,
                format!(
                    "is a table; a setting with dots in its name is quoted: \"{}.more\" = \"...\"",
                    name.value
                ),
            ),
            _ => value.wrong(table.found, "a string, a number or a boolean", "\"...\""),
        }
    }
    (properties, places)
}
