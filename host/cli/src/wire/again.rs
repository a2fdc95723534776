//! Letters that are sent again: a way and a source beside each source whose records can come again.
//!
//! Where cuts are in the commit log, letters go through a log in the state directory; where they are transactions of a
//! Kafka cluster, through a topic there.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Context as _;
use tidegate_connect::kafka::{KafkaAgain, KafkaCommitter};
use tidegate_connect::{LetterLog, LetterSource};
use tidegate_contract::{CommitPoint, IngestLog, LetterSeal, Source};
use tidegate_control::config::{Pipeline, SourceKind};
use tidegate_state::{FileIngestLog, IngestLimits, PrivateDisk, StateDirectory};

use super::kafka;
use super::ports::decoder;
use crate::commands::run::Until;
use crate::exit::Failure;

/// Where the logs are in the state directory.
pub(crate) const DIRECTORY: &str = "again";
/// What the name of such a source ends in. No source of a file has a dot in its name.
pub(crate) const SUFFIX: &str = ".again";
/// Letters of a source that can be sent again under one state directory: each stays as its mark.
pub(crate) const MOST: u64 = 1_000_000;
/// Their bytes.
const BYTES: u64 = 4 << 30;

/// The sources whose letters can be sent again, and the names of those that read them.
pub(crate) fn of(pipeline: &Pipeline) -> impl Iterator<Item = (usize, String)> + '_ {
    let sources = pipeline.sources.iter().enumerate();
    sources
        .filter(|(_, source)| !matches!(source.kind, SourceKind::Gateway(_)))
        .map(|(index, source)| (index, format!("{}{SUFFIX}", source.name)))
}

/// Those of them that go through a log. Where cuts are transactions there are none: what is in a directory of one process
/// cannot be part of them.
pub(crate) fn in_log(pipeline: &Pipeline) -> impl Iterator<Item = (usize, String)> + '_ {
    let in_log = pipeline.commit_point() == CommitPoint::Log;
    of(pipeline).filter(move |_| in_log)
}

fn limits() -> IngestLimits {
    IngestLimits {
        bytes: BYTES,
        keys: MOST as usize,
        ..IngestLimits::default()
    }
}

/// What is sent again of a source.
#[derive(Debug)]
pub(crate) struct Again {
    /// Index of the source.
    pub(crate) of: usize,
    /// Name of the source that reads it.
    pub(crate) name: String,
    pub(crate) way: Way,
}

/// How it goes.
#[derive(Debug)]
pub(crate) enum Way {
    Log(AgainLog),
    Topic(Arc<KafkaAgain>),
}

impl Again {
    /// Those of a pipeline. Logs that are not there are made; topics, when they are needed.
    pub(crate) fn all(
        pipeline: &Pipeline,
        state: &Arc<StateDirectory>,
    ) -> Result<Vec<Again>, Failure> {
        Again::each(pipeline, |name| AgainLog::find(name, state))
    }

    /// The same, to be looked at alone: nothing is made or locked, and another process may be using the state directory.
    pub(crate) fn read_only(pipeline: &Pipeline) -> Result<Vec<Again>, Failure> {
        Again::each(pipeline, |name| AgainLog::read_only(name, &pipeline.state))
    }

    fn each(
        pipeline: &Pipeline,
        log: impl Fn(String) -> Result<AgainLog, Failure>,
    ) -> Result<Vec<Again>, Failure> {
        let mut all = Vec::new();
        for (of, name) in of(pipeline) {
            let way = match pipeline.commit_point() {
                CommitPoint::Log => Way::Log(log(name.clone())?),
                CommitPoint::Transaction { cluster } => {
                    let options = kafka::again(pipeline, &pipeline.sources[of], &cluster);
                    Way::Topic(Arc::new(KafkaAgain::new(options)))
                }
            };
            all.push(Again { of, name, way });
        }
        Ok(all)
    }

    /// What the partition of its source is called, for who notices that it is another.
    pub(super) fn identity(&self, pipeline: &Pipeline) -> String {
        let source = &pipeline.sources[self.of];
        match &self.way {
            Way::Log(log) => log.known().map_or_else(String::new, |log| log.identity()),
            Way::Topic(_) => format!("kafka topic {}", source.again_topic(&pipeline.name)),
        }
    }

    /// What reads it, as this one of them; one that a group reads is followed by the worker's transactions.
    pub(super) fn source(
        &self,
        (pipeline, seal): (&Pipeline, &LetterSeal),
        index: usize,
        until: Until,
        committer: Option<&mut KafkaCommitter>,
    ) -> Result<Box<dyn Source>, Failure> {
        let number = (pipeline.sources.len() + index) as u16;
        let source = &pipeline.sources[self.of];
        let decoder = decoder(&source.decoding);
        Ok(match &self.way {
            Way::Log(log) => {
                let (name, log) = (self.name.clone(), log.log.clone());
                let until_end = until != Until::Forever;
                Box::new(LetterSource::new(
                    number,
                    name,
                    log,
                    decoder,
                    seal.clone(),
                    until_end,
                )?)
            }
            Way::Topic(topic) => {
                let (mut options, properties) = kafka::again_reader(pipeline, source, number);
                options.decoder = decoder;
                options.until_end = until != Until::Forever;
                let opened = topic.source(options, properties, seal.clone())?;
                if let Some(committer) = committer {
                    committer.follow_letters(&self.name, &opened)?;
                }
                Box::new(opened)
            }
        })
    }
}

/// The log of a source, in the state directory.
#[derive(Debug)]
pub(crate) struct AgainLog {
    name: String,
    /// None where letters are only looked at.
    state: Option<Arc<StateDirectory>>,
    log: Arc<LetterLog>,
    opening: Mutex<()>,
}

impl AgainLog {
    fn find(name: String, state: &Arc<StateDirectory>) -> Result<AgainLog, Failure> {
        let log = AgainLog::new(name, Some(state.clone()));
        // Made if it is not there: by its name the cuts know it from another that comes in its place.
        log.opened()?;
        Ok(log)
    }

    /// What is in a directory that another process may be using.
    fn read_only(name: String, state: &Path) -> Result<AgainLog, Failure> {
        let place = state.join(DIRECTORY).join(&name);
        let found = FileIngestLog::read_only(Arc::new(PrivateDisk), &place, limits())?;
        let log = AgainLog::new(name, None);
        if let Some(found) = found {
            log.log.get_or_init(|| Arc::new(found));
        }
        Ok(log)
    }

    fn new(name: String, state: Option<Arc<StateDirectory>>) -> AgainLog {
        AgainLog {
            name,
            state,
            log: Arc::new(OnceLock::new()),
            opening: Mutex::default(),
        }
    }

    /// It, if there is one.
    pub(crate) fn known(&self) -> Option<&Arc<dyn IngestLog>> {
        self.log.get()
    }

    /// It, which is made if there is none.
    pub(crate) fn opened(&self) -> anyhow::Result<Arc<dyn IngestLog>> {
        let state = self.state.as_ref().context("it is only read here")?;
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = self.log.get() {
            return Ok(log.clone());
        }
        let opened = || {
            let directory = state.private(&[DIRECTORY, &self.name])?;
            let log = FileIngestLog::open(Arc::new(PrivateDisk), &directory, limits())?;
            if let Some(torn) = log.torn() {
                tracing::warn!(source = self.name, "letters that are sent again: {torn}");
            }
            anyhow::Ok(log)
        };
        let log: Arc<dyn IngestLog> = Arc::new(opened().with_context(|| self.name.clone())?);
        Ok(self.log.get_or_init(|| log).clone())
    }
}
