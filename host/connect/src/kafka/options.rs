//! What a Kafka source is told.

use std::fmt;
use std::time::Duration;

use tidegate_codec::{DecoderOptions, format_time};
use tidegate_contract::LetterSeal;

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
    /// At the first record of this time (milliseconds since 1970) or a later one, in the order of the partition; where
    /// there is none when the first member of the group comes, at the end. Partitions that are added later are read
    /// from their first record.
    At(i64),
}

impl fmt::Display for KafkaStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KafkaStart::Earliest => f.write_str("at the first record"),
            KafkaStart::Latest => f.write_str("at the end of the topic"),
            KafkaStart::At(millis) => {
                let time = format_time(millis.saturating_mul(1000));
                write!(f, "at the first record of {time} or later")
            }
        }
    }
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
    /// Its messages are dead letters that are sent again, which become the records that they were: with what opens their
    /// private attributes.
    pub letters: Option<LetterSeal>,
    /// Where to begin without a position.
    pub start: KafkaStart,
    /// Ends each partition where it ended when the source was opened, whoever reads it until then; one that was added
    /// to the topic since has nothing to be read.
    pub until_end: bool,
    /// How long the brokers may be away before the source gives up.
    pub patience: Duration,
    /// How long one commit is tried before the worker goes on without it; it is tried again with the next cuts, as long
    /// as `patience` lasts.
    pub commit_timeout: Duration,
    /// How long another member may be at saying where the group begins.
    pub begin_timeout: Duration,
    /// Further settings of librdkafka.
    pub properties: Properties,
}

impl KafkaSourceOptions {
    /// The usual options: JSON, from the earliest record, 5 minutes of patience, a commit tried for 3 s.
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
            letters: None,
            start: KafkaStart::Earliest,
            until_end: false,
            patience: Duration::from_secs(300),
            commit_timeout: Duration::from_secs(3),
            begin_timeout: Duration::from_secs(30),
            properties: Properties::new(),
        }
    }
}
