//! Feeds of tokens, as the pipeline file has them and as stages send to them.

use std::sync::Arc;

use anyhow::Context;
use tidegate_connect::kafka::{KafkaFeed, KafkaFeedOptions};
use tidegate_contract::TokenFeed;
use tidegate_control::config::{Feed, FeedKind, KafkaSink, Pipeline};

use super::gateway::Gateway;
use crate::exit::Failure;

/// Opens each feed, in the order of the file. Waits for brokers as long as the feed's patience lasts.
pub(crate) fn feeds(
    pipeline: &Pipeline,
    gateway: Option<&Gateway>,
) -> Result<Vec<Arc<dyn TokenFeed>>, Failure> {
    let open = |feed: &Feed| -> Result<Arc<dyn TokenFeed>, Failure> {
        let name = &feed.name;
        Ok(match &feed.kind {
            FeedKind::Output { .. } => {
                let feed = gateway.and_then(|gateway| gateway.feed(name));
                Arc::new(feed.with_context(|| format!("feed {name} has no gateway"))?)
            }
            FeedKind::Kafka {
                topic,
                queue,
                patience,
            } => {
                let brokers = topic.brokers.join(",");
                let options = KafkaFeedOptions {
                    queue: *queue,
                    patience: *patience,
                    properties: topic.properties.clone(),
                    ..KafkaFeedOptions::new(brokers, &topic.topic, &pipeline.name)
                };
                let feed = KafkaFeed::open(options);
                Arc::new(feed.with_context(|| format!("feed {name}"))?)
            }
        })
    };
    pipeline.feeds.iter().map(open).collect()
}

/// The feeds that are topics: the name of each, its topic, and the stages that send there.
pub(crate) fn topics(pipeline: &Pipeline) -> impl Iterator<Item = (&str, &KafkaSink, Vec<&str>)> {
    let feeds = pipeline.feeds.iter().enumerate();
    feeds.filter_map(|(index, feed)| match &feed.kind {
        FeedKind::Kafka { topic, .. } => Some((feed.name.as_str(), topic, pipeline.senders(index))),
        FeedKind::Output { .. } => None,
    })
}

/// `tokens of answer, sort`.
pub(crate) fn of_stages(stages: &[&str]) -> String {
    format!("tokens of {}", stages.join(", "))
}
