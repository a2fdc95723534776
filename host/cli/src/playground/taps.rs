//! Sinks that show what they are given, and write it nowhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_codec::Encoder;
use tidegate_contract::{DeadLetter, Sink, SinkError, SinkPosition};
use tidegate_control::{TriedDeath, TriedValue};
use tidegate_operator::{Level, Listener};
use tidegate_record::PublicRecord;

/// Most records that are kept of a trial, and most bytes.
const RECORDS: usize = 1000;
const BYTES: usize = 4 << 20;
/// Most bytes of a value that are kept.
const VALUE: usize = 64 << 10;
/// Most bytes of a key, header or reason.
const WORDS: usize = 4 << 10;
/// Most headers of a record.
const HEADERS: usize = 64;
/// Most lines that are kept of an operator.
const LINES: usize = 200;

/// Where a record was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// It was read.
    Read,
    /// It left a stage by an output.
    Left(usize, String),
    /// It came to a stage that is not run.
    Before(usize),
    /// A sink had it.
    Sink(String),
}

/// All that was seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) records: Vec<(At, TriedValue)>,
    pub(super) dead: Vec<TriedDeath>,
    pub(super) before: BTreeMap<usize, u64>,
    pub(super) cut: bool,
    bytes: usize,
}

/// Where it is gathered.
#[derive(Clone, Default)]
pub(super) struct Gathered {
    seen: Arc<Mutex<Seen>>,
    number: Arc<AtomicU64>,
}

impl Gathered {
    /// How many records were seen, those that are not kept included.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Each change is whole before anything can panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn has_room(&mut self, bytes: usize) -> bool {
        let number = self.records.len() + self.dead.len();
        let has = number < RECORDS && self.bytes + bytes <= BYTES;
        self.cut |= !has;
        self.bytes += if has { bytes } else { 0 };
        has
    }
}

/// The beginning of what is taken for text.
fn text(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}

/// A sink that shows what it is given.
pub(super) struct Tap {
    pub(super) at: At,
    pub(super) seen: Gathered,
    /// How its sink writes records, where it writes lines.
    pub(super) encoder: Option<Encoder>,
}

impl Sink for Tap {
    fn write(&mut self, record: PublicRecord<'_>) -> Result<(), SinkError> {
        let mut line = Vec::new();
        if let Some(encoder) = &mut self.encoder {
            let encoded = encoder.encode(record, &mut line);
            encoded.map_err(|error| SinkError::Encode {
                format: error.format,
                why: error.why,
            })?;
        }
        self.seen.number.fetch_add(1, Ordering::Relaxed);
        let (key, value) = match &self.encoder {
            Some(_) => (None, Some(line.strip_suffix(b"\n").unwrap_or(&line))),
            None => (record.key(), record.value()),
        };
        let headers = record.headers().filter(|_| self.encoder.is_none());
        let headers: Vec<_> = headers
            .take(HEADERS)
            .map(|pair| {
                let value = pair.value.unwrap_or_default();
                (text(pair.name.as_bytes(), WORDS), text(value, WORDS))
            })
            .collect();
        let of_headers = headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = key.map_or(0, |key| key.len().min(WORDS))
            + value.map_or(0, |value| value.len().min(VALUE))
            + of_headers.sum::<usize>();
        let mut seen = self.seen.lock();
        if let At::Before(stage) = self.at {
            *seen.before.entry(stage).or_default() += 1;
            return Ok(());
        }
        if seen.has_room(bytes) {
            let at = match &self.at {
                At::Left(_, name) | At::Sink(name) => name.clone(),
                At::Read | At::Before(_) => String::new(),
            };
            let tried = TriedValue {
                at,
                key: key.map(|key| text(key, WORDS)),
                value: value.map(|value| text(value, VALUE)),
                length: value.map_or(0, |value| value.len() as u64),
                headers,
            };
            seen.records.push((self.at.clone(), tried));
        }
        Ok(())
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        self.seen.number.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if seen.has_room(letter.reason.len().min(WORDS)) {
            seen.dead.push(TriedDeath {
                stage: letter.stage.to_owned(),
                reason: text(letter.reason.as_bytes(), WORDS),
            });
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        0
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }

    fn discard(&mut self) {}

    fn recover(&mut self, _known: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What an operator says while a record is tried.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Vec<(String, String)>>);

impl Lines {
    pub(super) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Listener for Lines {
    fn line(&self, level: Level, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < LINES {
            lines.push((level.name().to_owned(), line.to_owned()));
        }
    }
}
