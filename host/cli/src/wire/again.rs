//! Letters that are sent again: a log and a source beside each source whose records can come again.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Context as _;
use tidegate_connect::{LetterLog, LetterSource};
use tidegate_contract::{CommitPoint, IngestLog, Source};
use tidegate_control::config::{Pipeline, SourceKind};
use tidegate_state::{FileIngestLog, IngestLimits, PrivateDisk, StateDirectory};

use super::ports::decoder;
use crate::exit::Failure;

/// Where the logs are in the state directory.
pub(crate) const DIRECTORY: &str = "again";
/// What the name of such a source ends in. No source of a file has a dot in its name.
pub(crate) const SUFFIX: &str = ".again";
/// Letters of a source that can be sent again under one state directory: each stays as its mark.
pub(crate) const MOST: u64 = 1_000_000;
/// Their bytes.
const BYTES: u64 = 4 << 30;

/// The sources whose letters go through a log, and the names of those that read it. Where cuts are transactions there are
/// none: what is in a directory of one process cannot be part of them.
pub(crate) fn of(pipeline: &Pipeline) -> impl Iterator<Item = (usize, String)> + '_ {
    let in_log = pipeline.commit_point() == CommitPoint::Log;
    let sources = pipeline.sources.iter().enumerate();
    sources
        .filter(move |(_, source)| in_log && !matches!(source.kind, SourceKind::Gateway(_)))
        .map(|(index, source)| (index, format!("{}{SUFFIX}", source.name)))
}

/// What is sent again of a source.
#[derive(Debug)]
pub(crate) struct AgainLog {
    /// Index of the source.
    pub(crate) of: usize,
    /// Name of the source that reads it.
    pub(crate) name: String,
    state: Arc<StateDirectory>,
    log: Arc<LetterLog>,
    opening: Mutex<()>,
}

impl AgainLog {
    /// Those of a pipeline. The logs that are there are opened; others are made when they are needed.
    pub(crate) fn all(
        pipeline: &Pipeline,
        state: &Arc<StateDirectory>,
    ) -> Result<Vec<AgainLog>, Failure> {
        let mut logs = Vec::new();
        for (of, name) in of(pipeline) {
            let log = AgainLog {
                of,
                name,
                state: state.clone(),
                log: Arc::new(OnceLock::new()),
                opening: Mutex::default(),
            };
            if state.path().join(DIRECTORY).join(&log.name).is_dir() {
                log.opened()?;
            }
            logs.push(log);
        }
        Ok(logs)
    }

    /// Its log, if it has one.
    pub(crate) fn known(&self) -> Option<&Arc<dyn IngestLog>> {
        self.log.get()
    }

    /// Its log, which is made if it has none.
    pub(crate) fn opened(&self) -> anyhow::Result<Arc<dyn IngestLog>> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = self.log.get() {
            return Ok(log.clone());
        }
        let opened = || {
            let directory = self.state.private(&[DIRECTORY, &self.name])?;
            let limits = IngestLimits {
                bytes: BYTES,
                keys: MOST as usize,
                ..IngestLimits::default()
            };
            let log = FileIngestLog::open(Arc::new(PrivateDisk), &directory, limits)?;
            if let Some(torn) = log.torn() {
                tracing::warn!(source = self.name, "letters that are sent again: {torn}");
            }
            anyhow::Ok(log)
        };
        let log: Arc<dyn IngestLog> = Arc::new(opened().with_context(|| self.name.clone())?);
        Ok(self.log.get_or_init(|| log).clone())
    }

    /// What reads it, as this one of them.
    pub(super) fn source(
        &self,
        pipeline: &Pipeline,
        index: usize,
        until_end: bool,
    ) -> Result<Box<dyn Source>, Failure> {
        let number = (pipeline.sources.len() + index) as u16;
        let decoder = decoder(&pipeline.sources[self.of].decoding);
        let log = self.log.clone();
        let source = LetterSource::new(number, self.name.clone(), log, decoder, until_end)?;
        Ok(Box::new(source))
    }
}
