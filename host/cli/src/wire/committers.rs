//! Who takes the cuts of each worker: the commit log, or a Kafka cluster.

use std::sync::Arc;

use tidegate_connect::kafka::{
    ChangelogOptions, ChangelogPartitions, KafkaCommitter, Properties, TransactionOptions,
};
use tidegate_contract::{CommitPoint, Committer, SinkClass};
use tidegate_control::config::{Pipeline, SinkKind, SourceKind, cluster_of};
use tidegate_state::{Cuts, LogCommitter};

use super::ports::Ground;
use crate::exit::Failure;

/// Those of all workers, by number.
pub(crate) enum Committers {
    Log(Arc<Cuts>),
    Transactions {
        cluster: String,
        committers: Vec<KafkaCommitter>,
    },
}

impl Committers {
    pub(crate) fn open(
        pipeline: &Pipeline,
        ground: &Ground<'_>,
        workers: usize,
    ) -> Result<Committers, Failure> {
        let CommitPoint::Transaction { cluster } = pipeline.commit_point() else {
            let instance = ground.state.instance();
            return Ok(Committers::Log(Cuts::of(ground.log.clone(), instance)));
        };
        let mut committers = Vec::with_capacity(workers);
        for worker in 0..workers {
            // The same after a restart, so that what this worker left open is ended.
            let id = format!("{}-{}-{worker}", pipeline.name, ground.state.instance());
            let mut options = TransactionOptions::new(&cluster, id);
            options.instance = ground.state.instance().to_owned();
            options.changelogs = pipeline
                .sources
                .iter()
                .map(|source| changelog(pipeline, &source.name, &source.kind))
                .collect();
            options.properties = properties(pipeline, &cluster);
            let cipher = Arc::new(ground.state.key().clone());
            committers.push(KafkaCommitter::open(options, cipher)?);
        }
        Ok(Committers::Transactions {
            cluster,
            committers,
        })
    }

    /// That of a worker, if it takes part in transactions.
    pub(crate) fn of(&mut self, worker: usize) -> Option<&mut KafkaCommitter> {
        match self {
            Committers::Log(_) => None,
            Committers::Transactions { committers, .. } => committers.get_mut(worker),
        }
    }

    /// The same, if this sink is on its cluster.
    pub(crate) fn of_cluster(
        &mut self,
        worker: usize,
        sink: &SinkKind,
    ) -> Option<&mut KafkaCommitter> {
        let own = match (&*self, sink.class()) {
            (
                Committers::Transactions { cluster, .. },
                SinkClass::Transactional { cluster: of },
            ) => *cluster == of,
            _ => false,
        };
        self.of(worker).filter(|_| own)
    }

    /// That of the worker with the highest number that is left.
    pub(crate) fn take_last(&mut self) -> Option<Box<dyn Committer>> {
        match self {
            Committers::Log(cuts) => Some(Box::new(LogCommitter::new(cuts.clone()))),
            Committers::Transactions { committers, .. } => {
                let committer: Box<dyn Committer> = Box::new(committers.pop()?);
                Some(committer)
            }
        }
    }
}

/// How the cluster is reached, as its first sink or source in the pipeline file says.
fn properties(pipeline: &Pipeline, cluster: &str) -> Properties {
    let sinks = pipeline.sinks.iter().filter_map(|sink| match &sink.kind {
        SinkKind::Kafka(topic) => Some((&topic.brokers, &topic.properties)),
        _ => None,
    });
    let sources = pipeline
        .sources
        .iter()
        .filter_map(|source| match &source.kind {
            SourceKind::Kafka(topic) => Some((&topic.brokers, &topic.properties)),
            _ => None,
        });
    let mut of_it = sinks
        .chain(sources)
        .filter(|(brokers, _)| cluster_of(brokers) == cluster);
    let reaches = |name: &str| {
        let kinds = [
            "security.",
            "sasl.",
            "ssl.",
            "socket.",
            "broker.",
            "client.",
        ];
        kinds.iter().any(|kind| name.starts_with(kind))
    };
    let (_, properties) = of_it.next().unzip();
    let properties = properties.into_iter().flatten();
    properties
        .filter(|(name, _)| reaches(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The topic that keeps what waits of a source.
fn changelog(pipeline: &Pipeline, source: &str, kind: &SourceKind) -> ChangelogOptions {
    let (of, partitions) = match kind {
        // What waits belongs to the positions of the group.
        SourceKind::Kafka(topic) => (
            topic.group.clone(),
            ChangelogPartitions::As(topic.topic.clone()),
        ),
        SourceKind::File { .. } | SourceKind::Stdin => (
            format!("{}-{source}", pipeline.name),
            ChangelogPartitions::Number(1),
        ),
    };
    ChangelogOptions::new(source, format!("{of}-changelog"), partitions)
}
