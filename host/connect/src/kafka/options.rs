//! What a Kafka source is told.

use std::time::Duration;

use tidegate_codec::DecoderOptions;

use super::Properties;

/// Where a group begins that has no position in the topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KafkaStart {
    /// At the first record.
    #[default]
    Earliest,
    /// Where the topic ends when the first member of the group comes. Partitions that are added to it later are read
    /// from their first record.
    Latest,
}

/// Which topic is read, and how.
#[derive(Clone, Debug)]
pub struct KafkaSourceOptions {
    /// Index of the source in the pipeline.
    pub source: u16,
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The consumer group.
    pub group: String,
    /// This member's name in the group, the same after a restart: it then takes its partitions back without a rebalance.
    pub instance: Option<String>,
    /// Format (`json` or `raw`), key, event time, limits.
    pub decoder: DecoderOptions,
    /// Where to begin without a position.
    pub start: KafkaStart,
    /// Ends each partition where it ended when it was assigned.
    pub until_end: bool,
    /// How long the brokers may be away before the source gives up.
    pub patience: Duration,
    /// How long a commit may be tried.
    pub commit_timeout: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaSourceOptions {
    /// The usual options: JSON, from the earliest record, 5 minutes of patience, commits tried for 30 s.
    pub fn new(
        source: u16,
        brokers: impl Into<String>,
        topic: impl Into<String>,
        group: impl Into<String>,
    ) -> Self {
        KafkaSourceOptions {
            source,
            brokers: brokers.into(),
            topic: topic.into(),
            group: group.into(),
            instance: None,
            decoder: DecoderOptions::default(),
            start: KafkaStart::Earliest,
            until_end: false,
            patience: Duration::from_secs(300),
            commit_timeout: Duration::from_secs(30),
            properties: Properties::new(),
        }
    }
}
