//! What a committer of transactions is told.

use std::time::Duration;

use tidegate_telemetry::Works;

use super::super::internal::InternalTopic;
use super::super::{Properties, timeouts};

/// How much longer than its timeout a transaction may stay open: brokers look every 10 s, and may be busy.
const WAIT_FOR_ABORT: Duration = Duration::from_secs(30);

/// How a worker's cuts become transactions of a cluster.
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// `host:port`, several with commas between.
    pub brokers: String,
    /// Name of the one producer of this worker: the same after a restart, so that its predecessor is fenced, and no other
    /// worker's in the cluster. Made of pipeline, instance and the number of the worker.
    pub transactional_id: String,
    /// The changelog of each source whose tasks are committed here. Two sources may share one, if it is for the same
    /// partitions.
    pub changelogs: Vec<ChangelogOptions>,
    /// After how long the brokers end a transaction by themselves. At most the session timeout of the group, so that the
    /// transaction of a killed worker is over when its partitions are given to another: see
    /// [`timeouts::of_transactions`].
    pub transaction_timeout: Duration,
    /// The state directory of the process, by its name: it stands beside every position, and positions that no group
    /// keeps are its own.
    pub instance: String,
    /// How long the brokers may be away.
    pub patience: Duration,
    /// How long a changelog may give nothing while it is read. Longer than an open transaction of a killed worker lives:
    /// the transaction timeout, and the brokers look every 10 s.
    pub no_progress: Duration,
    /// How long reading it may take in all.
    pub whole_load: Duration,
    /// Further settings of librdkafka, for the producer and all that asks the brokers.
    pub properties: Properties,
    /// Where it is listed what is read of changelogs.
    pub works: Works,
}

impl TransactionOptions {
    /// The usual options: transactions of 8 s (a group's session has 10 s), 2 minutes of patience, no progress for 60 s, and 10
    /// minutes to read a changelog.
    pub fn new(
        brokers: impl Into<String>,
        transactional_id: impl Into<String>,
    ) -> TransactionOptions {
        TransactionOptions {
            brokers: brokers.into(),
            transactional_id: transactional_id.into(),
            changelogs: Vec::new(),
            instance: String::new(),
            transaction_timeout: timeouts::TRANSACTION,
            patience: Duration::from_secs(120),
            no_progress: Duration::from_secs(60),
            whole_load: Duration::from_secs(600),
            properties: Properties::new(),
            works: Works::default(),
        }
    }

    /// With transactions that last so long; a changelog is waited for longer than that.
    #[must_use]
    pub fn lasting(mut self, transaction_timeout: Duration) -> TransactionOptions {
        self.transaction_timeout = transaction_timeout;
        self.no_progress = self.no_progress.max(transaction_timeout + WAIT_FOR_ABORT);
        self
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
    /// How it is made if it is missing; compacted, whatever is said here.
    pub made: InternalTopic,
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
            made: InternalTopic::default(),
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
