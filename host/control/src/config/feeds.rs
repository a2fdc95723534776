//! Feeds of tokens: where answers go as they are made, beside the cuts, and which stages send there.

use std::time::Duration;

use super::findings::{Findings, Typed};
use super::nearest::nearest;
use super::pipeline::{KafkaSink, Pipeline, Sink, SinkKind, Source, StageKind};
use super::topics::{same_topic, warn_read_topic};
use super::typed::{TypedFeed, TypedFeedKind, TypedStage, TypedStageKind};

/// Where tokens go beside the cuts.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Name, unique over feeds.
    pub name: String,
    /// What it is.
    pub kind: FeedKind,
}

/// What a feed is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// Those who follow `/v1/outputs/NAME` at the gateway.
    Output {
        /// Most events that are kept for those who come later.
        max_records: u64,
        /// Most bytes of them.
        max_bytes: u64,
    },
    /// A topic, which must be there.
    Kafka {
        /// Which.
        topic: KafkaSink,
        /// Most events that wait for the brokers.
        queue: usize,
        /// How long the brokers may take for an event.
        patience: Duration,
    },
}

impl Pipeline {
    /// The names of the stages that send to a feed.
    pub fn senders(&self, feed: usize) -> Vec<&str> {
        let stages = self.stages.iter();
        let sends = stages.filter(
            |stage| matches!(&stage.kind, StageKind::Model(asks) if asks.tokens_to.contains(&feed)),
        );
        sends.map(|stage| stage.name.as_str()).collect()
    }
}

/// Which feeds each stage sends to. Every feed has a stage.
pub(crate) fn resolve_tokens_to(
    found: &Findings,
    stages: &[TypedStage],
    feeds: &[TypedFeed],
) -> Vec<Vec<usize>> {
    let (mut used, mut unknown) = (vec![false; feeds.len()], false);
    let mut resolve = |each: &Typed<String>| {
        let index = feeds.iter().position(|feed| feed.name.value == each.value);
        if let Some(index) = index {
            used[index] = true;
            return Some(index);
        }
        unknown = true;
        let known = feeds.iter().map(|feed| feed.name.value.as_str());
        let instead = match nearest(&each.value, known.clone()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if feeds.is_empty() => {
                format!("write [feed.{}] with type = \"output\"", each.value)
            }
            None => format!("to be had here: {}", known.collect::<Vec<_>>().join(", ")),
        };
        found.about(
            each,
            format!("there is no feed {:?}; {instead}", each.value),
        );
        None
    };
    let resolved = stages.iter().map(|stage| match &stage.kind {
        Some(TypedStageKind::Model(asks)) => {
            asks.tokens_to.iter().filter_map(&mut resolve).collect()
        }
        _ => Vec::new(),
    });
    let resolved = resolved.collect();
    // Where a stage or a name is wrong, what is not sent to may follow from that.
    if !unknown && stages.iter().all(|stage| stage.kind.is_some()) {
        let unused = feeds.iter().zip(used).filter(|(_, used)| !used);
        for (feed, _) in unused {
            found.about(
                &feed.name,
                format!(
                    "no stage sends tokens here; write tokens-to = [{:?}] in a stage that asks for an answer",
                    feed.name.value
                ),
            );
        }
    }
    resolved
}

/// The feeds, in the order of the file.
pub(crate) fn resolve_feeds(
    found: &Findings,
    feeds: Vec<TypedFeed>,
    sources: &[Source],
    sink_names: &[(Typed<String>, bool)],
) -> Vec<Feed> {
    let resolve = |feed: TypedFeed| {
        let kind = match feed.kind? {
            TypedFeedKind::Output {
                max_records,
                max_bytes,
            } => {
                let same = |(name, is_output): &&(Typed<String>, bool)| {
                    *is_output && name.value == feed.name.value
                };
                if let Some((sink, _)) = sink_names.iter().find(same) {
                    found.about(
                        &feed.name,
                        format!(
                            "{:?} is the name of an output sink already (line {}): both would be /v1/outputs/{}",
                            feed.name.value,
                            found.text.position(&sink.place).line,
                            feed.name.value
                        ),
                    );
                }
                FeedKind::Output {
                    max_records,
                    max_bytes,
                }
            }
            TypedFeedKind::Kafka {
                topic,
                queue,
                patience,
            } => {
                warn_read_topic(found, &topic, sources);
                FeedKind::Kafka {
                    topic: KafkaSink {
                        brokers: topic.brokers,
                        topic: topic.topic.value,
                        properties: topic.properties,
                        made: None,
                        places: topic.places,
                    },
                    queue,
                    patience,
                }
            }
        };
        Some(Feed {
            name: feed.name.value,
            kind,
        })
    };
    feeds.into_iter().filter_map(resolve).collect()
}

/// The names of feeds that the gateway serves.
pub(crate) fn output_feeds(feeds: &[TypedFeed]) -> Vec<Typed<String>> {
    let served = |feed: &&TypedFeed| matches!(feed.kind, Some(TypedFeedKind::Output { .. }));
    let names = feeds.iter().filter(served).map(|feed| feed.name.clone());
    names.collect()
}

/// Which sinks are outputs, by name.
pub(crate) fn output_names(sinks: &[Sink], names: &[Typed<String>]) -> Vec<(Typed<String>, bool)> {
    let is_output = |sink: &Sink| matches!(sink.kind, SinkKind::Output { .. });
    let both = names.iter().zip(sinks);
    both.map(|(name, sink)| (name.clone(), is_output(sink)))
        .collect()
}

/// The topics that feeds write, with their places: the name, and the brokers.
pub(crate) fn feed_topics(feeds: &[TypedFeed]) -> Vec<(Typed<String>, Vec<String>)> {
    let topic = |feed: &TypedFeed| match &feed.kind {
        Some(TypedFeedKind::Kafka { topic, .. }) => {
            Some((topic.topic.clone(), topic.brokers.clone()))
        }
        _ => None,
    };
    feeds.iter().filter_map(topic).collect()
}

/// Tokens are no records: who reads the records of a sink, or dead letters, could not tell them from these.
pub(crate) fn check_feed_topics(
    found: &Findings,
    feeds: &[(Typed<String>, Vec<String>)],
    sinks: &[Sink],
    letters: &SinkKind,
) {
    let named = sinks
        .iter()
        .map(|sink| (format!("sink {}", sink.name), &sink.kind))
        .chain([("[dead-letters]".to_owned(), letters)]);
    for (name, kind) in named {
        let SinkKind::Kafka(written) = kind else {
            continue;
        };
        for (topic, brokers) in feeds {
            if same_topic((&topic.value, brokers), (&written.topic, &written.brokers)) {
                found.about(
                    topic,
                    format!(
                        "{:?} is written by {name}, whose readers would find tokens between records; name another topic",
                        topic.value
                    ),
                );
            }
        }
    }
}
