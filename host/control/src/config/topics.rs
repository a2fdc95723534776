//! Checks topics that a pipeline reads as well as writes, and groups that read more than one.

use super::findings::Findings;
use super::names::Names;
use super::pipeline::{KafkaSource, Source, SourceKind};
use super::typed::{TypedSinkKind, TypedTopic};

/// A source that read the dead letters would make more of them, without end.
pub(crate) fn check_letters_are_not_read(
    found: &Findings,
    letters: &TypedSinkKind,
    sources: &[Source],
) {
    let TypedSinkKind::Kafka(topic) = letters else {
        return;
    };
    if let Some(reader) = reader(topic, sources) {
        found.about(
            &topic.topic,
            format!(
                "{:?} is read by source {reader:?}, which would make more letters of these; write to another topic",
                topic.topic.value
            ),
        );
    }
}

/// Two sources of one group would wait for partitions that the other has, and fence each other where they have instances.
/// A cluster is known by a broker that both name.
pub(crate) fn check_groups(found: &Findings, sources: &[Source], names: &Names) {
    let topics = sources.iter().filter_map(|source| match &source.kind {
        SourceKind::Kafka(topic) => Some((&source.name, topic)),
        _ => None,
    });
    let topics: Vec<_> = topics.collect();
    for (index, (name, topic)) in topics.iter().enumerate() {
        let same = |(_, other): &&(&String, &KafkaSource)| {
            let mut brokers = other.brokers.iter();
            let named = |broker: &String| {
                let mut ours = topic.brokers.iter();
                ours.any(|ours| ours.eq_ignore_ascii_case(broker))
            };
            other.group == topic.group && brokers.any(named)
        };
        let Some((first, _)) = topics[..index].iter().find(same) else {
            continue;
        };
        if let Some((_, place)) = names.sources.iter().find(|(known, _)| known == *name) {
            found.mistake(
                place,
                &format!("source.{name}.group"),
                format!(
                    "source {first:?} reads in group {:?} of this cluster already; each source has a group of its own",
                    topic.group
                ),
            );
        }
    }
}

/// What a sink writes may be meant to come again; it goes on without end if nothing drops it.
pub(crate) fn warn_read(found: &Findings, sink: &TypedSinkKind, sources: &[Source]) {
    if let TypedSinkKind::Kafka(topic) = sink {
        warn_read_topic(found, topic, sources);
    }
}

/// The same of the topic of whatever writes it.
pub(crate) fn warn_read_topic(found: &Findings, topic: &TypedTopic, sources: &[Source]) {
    if let Some(reader) = reader(topic, sources) {
        found.warning(
            &topic.topic.place,
            &topic.topic.key,
            format!(
                "{:?} is read by source {reader:?}: what is written here comes again",
                topic.topic.value
            ),
        );
    }
}

/// Whether two topics are one. A cluster is known by a broker that both name.
pub(crate) fn same_topic(one: (&str, &[String]), other: (&str, &[String])) -> bool {
    let named = |broker: &String| {
        let mut others = other.1.iter();
        others.any(|other| other.eq_ignore_ascii_case(broker))
    };
    one.0 == other.0 && one.1.iter().any(named)
}

/// The source that reads this topic.
fn reader<'s>(written: &TypedTopic, sources: &'s [Source]) -> Option<&'s str> {
    let same = |source: &&Source| match &source.kind {
        SourceKind::Kafka(read) => same_topic(
            (&read.topic, &read.brokers),
            (&written.topic.value, &written.brokers),
        ),
        _ => false,
    };
    let found = sources.iter().find(same);
    found.map(|source| source.name.as_str())
}
