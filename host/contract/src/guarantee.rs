//! What connectors declare of themselves, once, and what follows from it: where a pipeline's cuts are committed, and how
//! often a record has an effect.

use std::fmt;

/// What a source can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceClass {
    /// It can be read again from any position, and leaves keeping it to whoever takes the cuts: a file.
    Replayable,
    /// What was read is gone: standard input.
    Once,
    /// Somebody waits for what becomes of each record, and is told when nothing will: a request.
    Caller,
    /// A log of this process that was synced before the record was acknowledged, and forgets what is done: ingest.
    Ingest,
    /// A group of this cluster keeps its positions and says who reads what: a topic.
    Group {
        /// The cluster, by its brokers.
        cluster: String,
    },
}

/// What a sink can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkClass {
    /// Written before the cut is known to hold; a crash repeats: standard output, a webhook.
    AtLeastOnce,
    /// It answers whoever waits for the record, once, and before the cut.
    Caller,
    /// A repeated write of the same record id changes nothing.
    Idempotent,
    /// Output after the last cut is taken away on recovery: a file.
    Truncatable,
    /// Output can be part of a transaction of this cluster: a topic.
    Transactional {
        /// The cluster, by its brokers.
        cluster: String,
    },
}

/// How often a record is to have an effect, as the pipeline file asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Once, as far as sources and sinks allow it.
    #[default]
    ExactlyOnce,
    /// A crash may repeat output. It costs less.
    AtLeastOnce,
}

/// How often a record has an effect; a lower one is weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A crash may lose records that were read.
    MayLose,
    /// A crash may repeat output, and loses nothing.
    AtLeastOnce,
    /// Every record has its effect once.
    ExactlyOnce,
}

impl Level {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Level::MayLose => "may lose records on a crash",
            Level::AtLeastOnce => "at least once",
            Level::ExactlyOnce => "exactly once",
        }
    }
}

/// What makes a cut hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitPoint {
    /// An entry of the commit log in the state directory.
    Log,
    /// A transaction of a Kafka cluster, with offsets, output, dead letters and what waits.
    Transaction {
        /// The cluster, by its brokers.
        cluster: String,
    },
}

impl fmt::Display for CommitPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitPoint::Log => f.write_str("an entry of the commit log in the state directory"),
            CommitPoint::Transaction { cluster } => {
                write!(f, "a transaction of the Kafka cluster {cluster}")
            }
        }
    }
}

impl CommitPoint {
    /// That of a pipeline with these sources and sinks (dead letters are not among them).
    ///
    /// A file can only be cut to what the log says, so that a file among the sinks has the log decide. Where all output
    /// goes to topics (and to what can promise nothing), a transaction of the first one's cluster does, if every source can
    /// have its positions in it: a topic of that cluster, or a file.
    pub fn of(wanted: Wanted, sources: &[SourceClass], sinks: &[SinkClass]) -> CommitPoint {
        let files = sinks
            .iter()
            .any(|sink| matches!(sink, SinkClass::Truncatable));
        let first = sinks.iter().find_map(|sink| match sink {
            SinkClass::Transactional { cluster } => Some(cluster),
            _ => None,
        });
        let (Wanted::ExactlyOnce, false, Some(cluster)) = (wanted, files, first) else {
            return CommitPoint::Log;
        };
        let takes_part = |source: &SourceClass| match source {
            SourceClass::Replayable | SourceClass::Caller => true,
            SourceClass::Once | SourceClass::Ingest => false,
            SourceClass::Group { cluster: of } => of == cluster,
        };
        if sources.iter().all(takes_part) {
            CommitPoint::Transaction {
                cluster: cluster.clone(),
            }
        } else {
            CommitPoint::Log
        }
    }

    /// What a source allows where cuts are committed here, and why, in a sentence without final period.
    pub fn source(&self, source: &SourceClass) -> (Level, &'static str) {
        match (source, self) {
            (SourceClass::Once, _) => (
                Level::MayLose,
                "standard input cannot be read again, so what was read after the last cut is gone",
            ),
            (SourceClass::Caller, _) => (
                Level::MayLose,
                "the connection of a request ends with a crash; with the same Idempotency-Key its answer goes on",
            ),
            (SourceClass::Ingest, _) => (
                Level::ExactlyOnce,
                "what was acknowledged is in the ingest log, and the position in it is part of every cut",
            ),
            (SourceClass::Replayable, CommitPoint::Log) => (
                Level::ExactlyOnce,
                "the position in each file is part of every cut",
            ),
            (SourceClass::Replayable, CommitPoint::Transaction { .. }) => (
                Level::ExactlyOnce,
                "the position in each file is part of every transaction, in the changelog",
            ),
            (SourceClass::Group { .. }, CommitPoint::Transaction { .. }) => (
                Level::ExactlyOnce,
                "its offsets, and what waits of it, are part of every transaction",
            ),
            (SourceClass::Group { .. }, CommitPoint::Log) => (
                Level::ExactlyOnce,
                "its positions, and what waits of it, are part of every cut, as long as this process alone reads the \
                 topic in its group; a partition that another member had comes again from its oldest unfinished record",
            ),
        }
    }

    /// The same of a sink.
    pub fn sink(&self, sink: &SinkClass) -> (Level, &'static str) {
        match (sink, self) {
            (SinkClass::AtLeastOnce, _) => (
                Level::AtLeastOnce,
                "what was written cannot be taken back, so a crash repeats what was written after the last cut",
            ),
            (SinkClass::Caller, _) => (
                Level::ExactlyOnce,
                "each caller is answered once, before the cut",
            ),
            (SinkClass::Idempotent, _) => (
                Level::ExactlyOnce,
                "a record that is written again changes nothing",
            ),
            (SinkClass::Truncatable, CommitPoint::Log) => (
                Level::ExactlyOnce,
                "its length is part of every cut, and recovery takes away what lies beyond",
            ),
            (SinkClass::Truncatable, CommitPoint::Transaction { .. }) => (
                Level::AtLeastOnce,
                "it is written before the transaction is committed, so a crash between the two writes it again",
            ),
            (SinkClass::Transactional { cluster }, CommitPoint::Transaction { cluster: of })
                if cluster == of =>
            {
                (
                    Level::ExactlyOnce,
                    "its records are part of every transaction; readers must read committed records only",
                )
            }
            (SinkClass::Transactional { .. }, CommitPoint::Transaction { .. }) => (
                Level::AtLeastOnce,
                "it is on another cluster: records are acknowledged before the transaction is committed, so a crash \
                 between the two writes them again",
            ),
            (SinkClass::Transactional { .. }, CommitPoint::Log) => (
                Level::AtLeastOnce,
                "records are acknowledged before the cut holds, so a crash between the two writes them again",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(cluster: &str) -> SinkClass {
        SinkClass::Transactional {
            cluster: cluster.into(),
        }
    }

    fn group(cluster: &str) -> SourceClass {
        SourceClass::Group {
            cluster: cluster.into(),
        }
    }

    fn at(sources: &[SourceClass], sinks: &[SinkClass]) -> Option<String> {
        match CommitPoint::of(Wanted::ExactlyOnce, sources, sinks) {
            CommitPoint::Log => None,
            CommitPoint::Transaction { cluster } => Some(cluster),
        }
    }

    #[test]
    fn every_pair_of_classes_has_its_commit_point() {
        let (file, a) = (SinkClass::Truncatable, Some("a".to_owned()));
        assert_eq!(
            at(&[SourceClass::Replayable], std::slice::from_ref(&file)),
            None
        );
        assert_eq!(at(&[SourceClass::Replayable], &[topic("a")]), a);
        assert_eq!(at(&[group("a")], &[topic("a")]), a);
        assert_eq!(at(&[group("a")], &[topic("a"), topic("b")]), a);
        assert_eq!(at(&[group("b")], &[topic("a")]), None);
        assert_eq!(at(&[group("a")], std::slice::from_ref(&file)), None);
        assert_eq!(at(&[group("a")], &[topic("a"), file]), None);
        assert_eq!(at(&[group("a")], &[SinkClass::AtLeastOnce]), None);
        assert_eq!(at(&[group("a")], &[topic("a"), SinkClass::AtLeastOnce]), a);
        assert_eq!(at(&[SourceClass::Once], &[topic("a")]), None);
        let wanted = CommitPoint::of(Wanted::AtLeastOnce, &[group("a")], &[topic("a")]);
        assert_eq!(wanted, CommitPoint::Log);
    }

    #[test]
    fn standard_output_weakens_no_other_sink() {
        let log = CommitPoint::of(
            Wanted::ExactlyOnce,
            &[SourceClass::Replayable],
            &[SinkClass::Truncatable, SinkClass::AtLeastOnce],
        );
        assert_eq!(log.sink(&SinkClass::Truncatable).0, Level::ExactlyOnce);
        assert_eq!(log.sink(&SinkClass::AtLeastOnce).0, Level::AtLeastOnce);
    }
}
