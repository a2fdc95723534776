//! What a committer of transactions is told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::Properties;

/// How a worker's cuts become transactions of a cluster.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// Name of the one producer of this worker: the same after a restart, so that its predecessor is fenced, and no other
    /// worker's in the cluster. Made of pipeline, instance and the number of the worker.
    pub transactional_id: String,
    /// The changelog of each source whose tasks are committed here.
    pub changelogs: Vec<ChangelogOptions>,
    /// After how long the brokers end a transaction by themselves. Less than the session timeout of the group, so that the
    /// transaction of a killed worker is over when its partitions are given to another.
    pub transaction_timeout: Duration,
    /// The state directory of the process, by its name: it stands beside every position, and positions that no group
    /// keeps are its own.
    pub instance: String,
    /// How long the brokers may be away.
    pub patience: Duration,
    /// How long a changelog may give nothing while it is read. Longer than an open transaction of a killed worker lives:
    /// the transaction timeout, and the brokers look every 10 s.
    pub no_progress: Duration,
    /// Further settings of librdkafka, for the producer and all that asks the brokers.
    pub properties: Properties,
}

impl TransactionOptions {
    /// The usual options: transactions of 8 s (a group's session has 10 s), 2 minutes of patience, no progress for 60 s.
    pub fn new(
        brokers: impl Into<String>,
        transactional_id: impl Into<String>,
    ) -> TransactionOptions {
        TransactionOptions {
            brokers: brokers.into(),
            transactional_id: transactional_id.into(),
            changelogs: Vec::new(),
            instance: String::new(),
            transaction_timeout: Duration::from_secs(8),
            patience: Duration::from_secs(120),
            no_progress: Duration::from_secs(60),
            properties: Properties::new(),
        }
    }
}

/// The topic that keeps what waits of a source. It is made if it is missing.
#[derive(Clone, Debug)]
pub struct ChangelogOptions {
    /// Name of the source, as in [`TaskId`](tidegate_contract::TaskId).
    pub source: String,
    /// Name of the changelog topic.
    pub topic: String,
    /// How many partitions it has.
    pub partitions: ChangelogPartitions,
    /// Copies of each partition; the cluster's default if none is given. Used only when it is made.
    pub replication: Option<u16>,
    /// Further settings of the topic, such as `max.message.bytes`. Used only when it is made.
    pub settings: BTreeMap<String, String>,
}

impl ChangelogOptions {
    /// A changelog with the cluster's own replication and settings.
    pub fn new(
        source: impl Into<String>,
        topic: impl Into<String>,
        partitions: ChangelogPartitions,
    ) -> ChangelogOptions {
        ChangelogOptions {
            source: source.into(),
            topic: topic.into(),
            partitions,
            replication: None,
            settings: BTreeMap::new(),
        }
    }
}

/// How many partitions a changelog has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangelogPartitions {
    /// As many as this topic, which the source reads: more if it has more already, and they grow with it. Its id is kept
    /// too: a topic made anew is refused.
    As(String),
    /// So many: for sources that read no topic. Task `n` is in partition `n` modulo this number.
    Number(u32),
}
