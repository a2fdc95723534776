//! The gateway onto the pipeline: its sources and sinks, those who wait, and the front that clients speak to.

mod access;
pub(crate) mod door;
mod idle;
mod page;
mod routes;
mod serving;
pub(crate) mod unread;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use tidegate_codec::Encoder;
use tidegate_contract::{IngestLog, Sink, Source};
use tidegate_control::config::{self, Answering, FeedKind, Pipeline, SinkKind, SourceKind};
use tidegate_flow::{Called, Heard, Outdated};
use tidegate_gateway::idempotency::{self, Answers};
use tidegate_gateway::ingest::IngestSource;
use tidegate_gateway::openai;
use tidegate_gateway::outputs::{OutputFeed, OutputLimits, OutputLog, OutputSink};
use tidegate_gateway::requests::{Options, Requests};
use tidegate_state::{FileIngestLog, FileKeyedLog, IngestLimits, PrivateDisk, StateDirectory};
use tidegate_telemetry::WorkKind;

pub(super) use self::idle::Idle;
pub(crate) use self::serving::{Serving, described};
use crate::exit::Failure;
use crate::terminal::works;

/// What the ends of the pipeline and the front meet by.
pub(crate) struct Gateway {
    requests: Requests,
    /// Whether any source is of requests.
    called: bool,
    /// Of ingest sources, by their index.
    logs: BTreeMap<usize, Arc<dyn IngestLog>>,
    /// Of output sinks and feeds, by their name.
    outputs: BTreeMap<String, Arc<OutputLog>>,
    /// Answers to requests with an idempotency key, which outlive the process.
    repeated: Answers,
}

impl Gateway {
    /// Opens the logs of ingest sources and of answers in the state directory; none without a gateway.
    pub(crate) fn open(
        pipeline: &Pipeline,
        state: &StateDirectory,
    ) -> Result<Option<Gateway>, Failure> {
        let Some(configured) = &pipeline.gateway else {
            return Ok(None);
        };
        let mut logs: BTreeMap<usize, Arc<dyn IngestLog>> = BTreeMap::new();
        let mut waiting = BTreeMap::new();
        for (index, source) in pipeline.sources.iter().enumerate() {
            match &source.kind {
                SourceKind::Gateway(route) => {
                    waiting.insert(index as u16, route.max_waiting);
                }
                SourceKind::Ingest(ingest) => {
                    let log = ingest_log(state, &source.name, ingest.log_bytes)
                        .with_context(|| format!("source {}", source.name))?;
                    logs.insert(index, Arc::new(log));
                }
                _ => {}
            }
        }
        let (mut outputs, mut answer) = (BTreeMap::new(), Options::default().answer);
        for sink in &pipeline.sinks {
            match &sink.kind {
                SinkKind::Gateway { field } => answer.clone_from(field),
                SinkKind::Output {
                    max_records,
                    max_bytes,
                } => {
                    outputs.insert(sink.name.clone(), output_log(*max_records, *max_bytes)?);
                }
                _ => {}
            }
        }
        for feed in &pipeline.feeds {
            if let FeedKind::Output {
                max_records,
                max_bytes,
            } = &feed.kind
            {
                outputs.insert(feed.name.clone(), output_log(*max_records, *max_bytes)?);
            }
        }
        let called = !waiting.is_empty();
        let options = Options {
            waiting,
            answer,
            ..Options::default()
        };
        Ok(Some(Gateway {
            requests: Requests::new(options),
            called,
            logs,
            outputs,
            repeated: repeated(&configured.idempotency, state, called)?,
        }))
    }

    /// Those who wait for what becomes of records, if a source has such, and the sinks that answer them.
    pub(crate) fn callers(&self, pipeline: &Pipeline) -> Option<Called> {
        let sinks = pipeline.sinks.iter().enumerate();
        let sinks = sinks.filter(|(_, sink)| matches!(sink.kind, SinkKind::Gateway { .. }));
        let heard = |answering: Answering| Heard {
            stage: answering.stage,
            writes: answering.writes,
        };
        let sinks = sinks.map(|(index, _)| {
            let order = pipeline.answering_order(index).into_iter();
            (index, order.map(heard).collect())
        });
        self.called.then(|| Called {
            callers: Arc::new(self.requests.clone()),
            sinks: sinks.collect(),
            outdated: Outdated::default(),
        })
    }

    /// What tells the log of an ingest source from another.
    pub(crate) fn identity(&self, source: usize) -> Option<String> {
        self.logs.get(&source).map(|log| log.identity())
    }

    /// A source of requests or of ingest, for the one worker that reads it.
    pub(super) fn source(&self, pipeline: &Pipeline, index: usize) -> Box<dyn Source> {
        match self.logs.get(&index) {
            Some(log) => {
                let name = pipeline.sources[index].name.as_str();
                Box::new(IngestSource::new(index as u16, name, log.clone()))
            }
            None => Box::new(self.requests.source(index as u16)),
        }
    }

    /// A sink that answers whoever asked.
    pub(super) fn reply(&self) -> Box<dyn Sink> {
        Box::new(self.requests.sink())
    }

    /// A sink that readers follow.
    pub(super) fn output(&self, name: &str, encoder: Encoder) -> Option<Box<dyn Sink>> {
        let log = self.outputs.get(name)?;
        Some(Box::new(OutputSink::new(log.clone(), encoder)?))
    }

    /// A feed of tokens that readers follow.
    pub(super) fn feed(&self, name: &str) -> Option<OutputFeed> {
        Some(OutputFeed::new(self.outputs.get(name)?.clone()))
    }
}

/// What clients handed over to a source, in plain: nobody but this user may read it.
fn ingest_log(state: &StateDirectory, source: &str, bytes: u64) -> anyhow::Result<FileIngestLog> {
    let directory = state.private(&["ingest", source])?;
    let limits = IngestLimits {
        bytes,
        ..IngestLimits::default()
    };
    let work = works().begin(WorkKind::Replay, &format!("ingest log of {source}"));
    let told = |done| work.done(done);
    let log = FileIngestLog::open_told(Arc::new(PrivateDisk), &directory, limits, &told)?;
    if let Some(torn) = log.torn() {
        tracing::warn!(source, "the ingest log: {torn}");
    }
    Ok(log)
}

/// Answers to requests with an idempotency key. Where nobody asks there is nothing to be kept.
fn repeated(kept: &config::Kept, state: &StateDirectory, called: bool) -> Result<Answers, Failure> {
    let options = idempotency::Options {
        lasting: true,
        ..serving::kept(kept, "idempotent-replayed")?
    };
    if !called {
        return Ok(Answers::new(options));
    }
    let path = state.private(&["answers"])?.join("log");
    let key = Arc::new(state.key().clone());
    let _work = works().begin(WorkKind::Replay, "log of answers");
    let opened = FileKeyedLog::open(Arc::new(PrivateDisk), &path, key, openai::clock());
    let opened = opened.map_err(anyhow::Error::new)?;
    if let Some(lost) = &opened.lost {
        tracing::warn!(path = %path.display(), "the log of answers to requests with an idempotency key: {lost}");
    }
    Ok(Answers::over(options, Box::new(opened.log), opened.values)?)
}

/// Where an output keeps what it shows.
fn output_log(max_records: u64, max_bytes: u64) -> anyhow::Result<Arc<OutputLog>> {
    let limits = OutputLimits {
        records: usize::try_from(max_records).unwrap_or(usize::MAX),
        bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
        ..OutputLimits::default()
    };
    let log = OutputLog::new(limits);
    log.ok_or_else(|| anyhow::anyhow!("the system gives no random numbers"))
}
