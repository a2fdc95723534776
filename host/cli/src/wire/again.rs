//! Letters that are sent again: a way and a source beside each source whose records can come again.
//!
//! Where cuts are in the commit log, letters go through a log in the state directory; where they are transactions of a
//! Kafka cluster, through a topic there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use tidegate_connect::kafka::{KafkaAgain, KafkaCommitter};
use tidegate_connect::{LetterSource, letter_sent};
use tidegate_contract::{CommitPoint, IngestLog as _, LetterSeal, Source, TaskId, TaskImage};
use tidegate_control::config::{Pipeline, SourceKind};
use tidegate_state::{IngestLimits, Passed, PassedKeys, PassingLog, PrivateDisk, StateDirectory};
use tidegate_telemetry::WorkKind;

use super::kafka;
use super::ports::decoder;
use crate::commands::run::Until;
use crate::exit::Failure;
use crate::terminal::works;

/// Where the logs are in the state directory.
pub(crate) const DIRECTORY: &str = "again";
/// What the name of such a source ends in. No source of a file has a dot in its name.
pub(crate) const SUFFIX: &str = ".again";
/// The file of marks there: which letters were sent.
const MARKS: &str = "marks";
/// Letters that can be sent again under one state directory: each stays as its mark.
pub(crate) const MOST: usize = 1_000_000;
/// Most bytes of letters of a source that wait to be read.
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
        keys: MOST,
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
    Log(LetterLog),
    Topic(Arc<KafkaAgain>),
}

impl Again {
    /// Those of a pipeline. Logs that are not there are made; topics, when they are needed. `tasks` is what the commit log
    /// has: letters that went through a log which is gone are told.
    pub(crate) fn all(
        pipeline: &Pipeline,
        state: &Arc<StateDirectory>,
        tasks: &BTreeMap<TaskId, TaskImage>,
    ) -> Result<Vec<Again>, Failure> {
        // A topic has the marks of its letters itself.
        let marks = match in_log(pipeline).next() {
            Some(_) => Some(Marks::open(state)?),
            None => None,
        };
        Again::each(pipeline, |name| {
            let marks = marks.as_ref().context("cuts are not in the commit log")?;
            marks.log(name, state, tasks)
        })
    }

    /// The same, to be looked at alone: nothing is made or locked, and another process may be using the state directory.
    pub(crate) fn read_only(pipeline: &Pipeline) -> Result<Vec<Again>, Failure> {
        let place = pipeline.state.join(DIRECTORY);
        Again::each(pipeline, |name| LetterLog::read_only(name, &place))
    }

    fn each(
        pipeline: &Pipeline,
        log: impl Fn(&str) -> anyhow::Result<LetterLog>,
    ) -> Result<Vec<Again>, Failure> {
        let mut all = Vec::new();
        for (of, name) in of(pipeline) {
            let way = match pipeline.commit_point() {
                CommitPoint::Log => Way::Log(log(&name).with_context(|| name.clone())?),
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
            Way::Log(log) => {
                let log = log.log.as_ref();
                log.map_or_else(String::new, |log| log.identity())
            }
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
                let name = self.name.clone();
                let log = log.log.clone().context("it is only read here")?;
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

/// Which letters were sent again, of all sources.
struct Marks {
    keys: Arc<PassedKeys>,
    place: PathBuf,
}

impl Marks {
    /// What cannot be read of them is told, and is no reason not to start.
    fn open(state: &StateDirectory) -> anyhow::Result<Marks> {
        let place = state.private(&[DIRECTORY])?.join(MARKS);
        let _work = works().begin(WorkKind::Replay, "marks of letters sent again");
        let opened = PassedKeys::open(Arc::new(PrivateDisk), &place)?;
        if let Some(lost) = &opened.lost {
            tracing::warn!(
                path = %place.display(),
                "letters of which the mark is lost can be sent once more: {lost}"
            );
        }
        if let Some(torn) = &opened.torn {
            tracing::warn!(path = %place.display(), "marks of letters that are sent again: {torn}");
        }
        Ok(Marks {
            keys: Arc::new(opened.keys),
            place,
        })
    }

    /// The log of a source. It is made if it is not there: by its name the cuts know it from another that comes in its
    /// place.
    fn log(
        &self,
        name: &str,
        state: &StateDirectory,
        tasks: &BTreeMap<TaskId, TaskImage>,
    ) -> anyhow::Result<LetterLog> {
        let directory = state.private(&[DIRECTORY, name])?;
        let work = works().begin(WorkKind::Replay, &format!("log of {name}"));
        let log = PassingLog::open(
            Arc::new(PrivateDisk),
            &directory,
            limits(),
            (self.keys.clone(), letter_sent),
            &|done| work.done(done),
        )?;
        if log.has_lost_keys() {
            tracing::warn!(
                path = %self.place.display(),
                source = name,
                "letters of which the mark is lost can be sent once more: the log has let go of letters that were read, and \
                 no mark is there"
            );
        }
        if let Some(torn) = log.torn() {
            tracing::warn!(source = name, "letters that are sent again: {torn}");
        }
        let task = TaskId {
            source: name.to_owned(),
            partition: 0,
        };
        if let Some(gone) = tasks.get(&task).and_then(|image| log.gone(image)) {
            tracing::warn!(
                path = %directory.display(),
                source = name,
                "letters that went through and of which the mark is lost with the log can be sent once more, and letters \
                 that were acknowledged as sent and that no cut has are lost: {gone}"
            );
        }
        Ok(LetterLog {
            keys: self.keys.clone(),
            marks: self.place.clone(),
            log: Some(Arc::new(log)),
        })
    }
}

/// The log of a source, in the state directory, and which letters were sent.
#[derive(Debug)]
pub(crate) struct LetterLog {
    keys: Arc<PassedKeys>,
    /// Where they are.
    marks: PathBuf,
    /// None where letters are only looked at, and there is none.
    log: Option<Arc<PassingLog>>,
}

impl LetterLog {
    /// What is in a directory that another process may be using.
    fn read_only(name: &str, place: &Path) -> anyhow::Result<LetterLog> {
        let marks = place.join(MARKS);
        let read = || anyhow::Ok(Arc::new(PassedKeys::read_only(&PrivateDisk, &marks)?));
        let layer = Arc::new(PrivateDisk);
        let log = PassingLog::read_only(layer, &place.join(name), limits(), read, letter_sent)?;
        Ok(LetterLog {
            keys: match &log {
                Some(log) => log.keys().clone(),
                None => read()?,
            },
            marks,
            log: log.map(Arc::new),
        })
    }

    /// When a letter of this death was sent, and where to.
    pub(crate) fn sent(&self, death: &[u8; 32]) -> Option<Passed> {
        match &self.log {
            Some(log) => log.passed(death),
            None => self.keys.get(death),
        }
    }

    /// The log; or why no letter can be put into it.
    pub(crate) fn takes(&self) -> Result<&Arc<PassingLog>, String> {
        if self.keys.count() >= MOST {
            return Err(format!(
                "{MOST} letters were sent again, which is all that {} marks",
                self.marks.display()
            ));
        }
        let log = self.log.as_ref();
        log.ok_or_else(|| "it is only read here".to_owned())
    }
}
