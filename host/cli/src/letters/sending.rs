//! Letters on their way again: durable before it is said that they are sent, each once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_codec::format_time;
use tidegate_connect::{letter_batch, letter_key, letter_sent, unsendable};
use tidegate_contract::{IngestError, IngestLog, Ingested, LetterForm, LetterStore};
use tidegate_control::config::{Format, Pipeline, SourceKind};
use tidegate_control::{LettersRefused, SendResult, SendState};

use super::{refused, report};
use crate::wire::again::{AgainLog, MOST, SUFFIX};

/// Letters that are looked up and kept at once: those that come together share a sync of the disk.
const AT_ONCE: usize = 16;

/// Sends letters again through the logs of their sources.
pub(crate) struct Sender {
    logs: Vec<AgainLog>,
    /// Of each source, index of its log, or why it has none.
    sources: BTreeMap<String, Result<usize, String>>,
    /// Sources of rows, which are nothing without their header row.
    rows: Vec<String>,
}

impl Sender {
    pub(crate) fn new(pipeline: &Pipeline, logs: Vec<AgainLog>) -> Sender {
        let log = |index: usize| logs.iter().position(|log| log.of == index);
        let sources = pipeline.sources.iter().enumerate();
        let sources = sources.map(|(index, source)| {
            let how = log(index).ok_or_else(|| match source.kind {
                SourceKind::Gateway(_) => {
                    "whoever asked was told that there is no answer, and asks again".to_owned()
                }
                _ => format!(
                    "a cut of this pipeline is {}, and letters that are sent again are in the state directory, which \
                     has no part in that",
                    pipeline.commit_point()
                ),
            });
            (source.name.clone(), how)
        });
        let rows = pipeline.sources.iter();
        let rows = rows.filter(|source| source.decoding.format == Format::Csv);
        Sender {
            sources: sources.collect(),
            rows: rows.map(|source| source.name.clone()).collect(),
            logs,
        }
    }

    fn log(&self, source: &str) -> Result<&AgainLog, String> {
        let source = source.strip_suffix(SUFFIX).unwrap_or(source);
        let how = self.sources.get(source);
        match how.ok_or_else(|| format!("the pipeline has no source {source}"))? {
            Ok(index) => Ok(&self.logs[*index]),
            Err(why) => Err(why.clone()),
        }
    }

    /// Why no letter of a source can be sent again; none if they can.
    pub(super) fn refusal(&self, source: &str) -> Option<String> {
        self.log(source).err()
    }

    /// When a letter was sent again, if it was, and as which record.
    pub(super) fn sent(&self, source: &str, id: &str) -> Option<(String, String)> {
        let again = self.log(source).ok()?;
        let log = again.known()?;
        let kept = log.kept(&letter_key(id))?;
        Some(sent(again, log.as_ref(), &kept))
    }

    /// What becomes of each, in their order.
    pub(super) fn send(
        &self,
        store: &dyn LetterStore,
        ids: &[String],
        each: Duration,
    ) -> Result<Vec<SendResult>, LettersRefused> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(id) = ids.get(index) else {
                    return Ok(done);
                };
                let (state, why) = self.send_one(store, id, Instant::now() + each)?;
                let id = id.clone();
                done.push((index, SendResult { id, state, why }));
            }
        };
        let done: Vec<Result<Vec<_>, LettersRefused>> = std::thread::scope(|scope| {
            let workers = 0..ids.len().min(AT_ONCE);
            let workers: Vec<_> = workers.map(|_| scope.spawn(work)).collect();
            let panicked = || LettersRefused::Failed("the one who sends panicked".to_owned());
            let joined = workers.into_iter().map(|worker| worker.join());
            joined
                .map(|done| done.unwrap_or_else(|_| Err(panicked())))
                .collect()
        });
        let mut results = Vec::with_capacity(ids.len());
        for done in done {
            results.extend(done?);
        }
        results.sort_by_key(|(index, _)| *index);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    fn send_one(
        &self,
        store: &dyn LetterStore,
        id: &str,
        until: Instant,
    ) -> Result<(SendState, Option<String>), LettersRefused> {
        let no = |why: String| Ok((SendState::Refused, Some(why)));
        let found = report::find(store, id, until).map_err(refused)?;
        let Some((written, letter)) = found else {
            return no(LettersRefused::Unknown { id: id.to_owned() }.to_string());
        };
        let again = match self.log(&letter.source) {
            Ok(again) => again,
            Err(why) => return no(why),
        };
        if let Some(why) = unsendable(&letter) {
            return no(why.to_owned());
        }
        let of = letter.source.strip_suffix(SUFFIX).unwrap_or(&letter.source);
        if letter.form == Some(LetterForm::Input) && self.rows.iter().any(|name| name == of) {
            return no("a row of CSV is nothing without its header row".to_owned());
        }
        let log = match again.opened() {
            Ok(log) => log,
            Err(error) => return no(format!("{error:#}")),
        };
        if log.offsets().end >= MOST && log.kept(&letter_key(id)).is_none() {
            return no(format!(
                "{MOST} letters of this source were sent again, which is all that a state directory marks"
            ));
        }
        let bytes = written.bytes.unwrap_or_default();
        let batch = letter_batch(id, letter, &bytes, now());
        match log.append(&batch) {
            Ok(kept) if kept.replayed => {
                let (at, record) = sent(again, log.as_ref(), &kept);
                let why = format!("it was sent again as {record} at {at}");
                Ok((SendState::Already, Some(why)))
            }
            Ok(_) => Ok((SendState::Sent, None)),
            Err(IngestError::OtherBody) => {
                no("another letter was at this place when one was sent again".to_owned())
            }
            Err(error @ (IngestError::Full { .. } | IngestError::TooLarge { .. })) => {
                no(error.to_string())
            }
            // It may be kept or not: who asks again is told.
            Err(error) => Err(LettersRefused::Failed(error.to_string())),
        }
    }
}

fn sent(again: &AgainLog, log: &dyn IngestLog, kept: &Ingested) -> (String, String) {
    let record = format!("{}/0/{}", again.name, kept.first);
    let found = log.read(kept.first, 1, 0).unwrap_or_default();
    let at = found.first().and_then(|logged| letter_sent(&logged.record));
    (at.map(format_time).unwrap_or_default(), record)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}
