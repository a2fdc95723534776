//! Who takes the cuts of each worker: the commit log, or a Kafka cluster.

use std::sync::Arc;

use tidegate_connect::kafka::timeouts::TRANSACTION;
use tidegate_connect::kafka::{KafkaCommitter, TransactionOptions};
use tidegate_contract::{CommitPoint, Committer, SinkClass};
use tidegate_control::config::{Pipeline, SinkKind};
use tidegate_state::{Cuts, LogCommitter};

use super::kafka::{changelog, transaction_timeout};
use super::ports::Ground;
use crate::exit::Failure;
use crate::terminal::works;

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
        // A contradiction was refused when the file was read.
        let timeout = transaction_timeout(pipeline).unwrap_or(TRANSACTION);
        let mut committers = Vec::with_capacity(workers);
        for worker in 0..workers {
            // The same after a restart, so that what this worker left open is ended.
            let id = format!("{}-{}-{worker}", pipeline.name, ground.state.instance());
            let mut options = TransactionOptions::new(&cluster, id).lasting(timeout);
            options.instance = ground.state.instance().to_owned();
            options.changelogs = pipeline.sources.iter().map(changelog).collect();
            // What waits of a letter that is sent again is beside what waits of its source; the first worker reads those.
            for again in ground.again.iter().filter(|_| worker == 0) {
                let mut beside = changelog(&pipeline.sources[again.of]);
                beside.source.clone_from(&again.name);
                options.changelogs.push(beside);
            }
            options.properties = pipeline.connection(&cluster);
            options.works = works().clone();
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
