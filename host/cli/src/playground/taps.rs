//! Sinks that show what they are given, and write it nowhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_codec::Encoder;
use tidegate_contract::{DeadLetter, HostHeaders, Sink, SinkError, SinkPosition};
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
    /// Rows of its source that were given and not tried.
    pub(super) rows_left_out: u64,
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

    /// So many rows are not tried.
    pub(super) fn leaves_out(&self, rows: u64) {
        self.lock().rows_left_out = rows;
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

/// The beginning of what is taken for text; with its whole length where that is more.
fn text(bytes: &[u8], most: usize) -> (String, Option<u64>) {
    if bytes.len() <= most {
        return (String::from_utf8_lossy(bytes).into_owned(), None);
    }
    // No character is cut in two; bytes that are no text are shown as they can be.
    let is_within = |at: &usize| bytes[*at] & 0xC0 == 0x80;
    let end = (most - 3..=most).rev().find(|at| !is_within(at));
    let shown = &bytes[..end.unwrap_or(most)];
    (
        String::from_utf8_lossy(shown).into_owned(),
        Some(bytes.len() as u64),
    )
}

/// A sink that shows what it is given.
pub(super) struct Tap {
    pub(super) at: At,
    pub(super) seen: Gathered,
    /// How its sink writes records, where it writes lines.
    pub(super) encoder: Option<Encoder>,
}

impl Sink for Tap {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
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
        let mut truncated = Vec::new();
        let headers: Vec<_> = headers.collect();
        let number = headers.len();
        if number > HEADERS {
            truncated.push(("headers".to_owned(), number as u64));
        }
        let mut part = |name: &str, bytes: &[u8], most: usize| {
            let (text, whole) = text(bytes, most);
            truncated.extend(whole.map(|whole| (name.to_owned(), whole)));
            text
        };
        let headers: Vec<_> = headers
            .into_iter()
            .take(HEADERS)
            .map(|pair| {
                let value = pair.value.unwrap_or_default();
                let name = part("header name", pair.name.as_bytes(), WORDS);
                let value = part(&format!("header {name}"), value, WORDS);
                (name, value)
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
                key: key.map(|key| part("key", key, WORDS)),
                value: value.map(|value| part("value", value, VALUE)),
                length: value.map_or(0, |value| value.len() as u64),
                headers,
                truncated,
            };
            seen.records.push((self.at.clone(), tried));
        }
        Ok(())
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        self.seen.number.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if seen.has_room(letter.reason.len().min(WORDS)) {
            let (reason, truncated) = text(letter.reason.as_bytes(), WORDS);
            seen.dead.push(TriedDeath {
                stage: letter.stage.to_owned(),
                reason,
                truncated,
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

/// What an operator says while a record is tried: level and line, and how many more there were.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<(Vec<(String, String)>, u64)>);

impl Lines {
    pub(super) fn take(&self) -> (Vec<(String, String)>, u64) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Listener for Lines {
    fn line(&self, level: Level, line: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (lines, left_out) = &mut *said;
        match lines.len() < LINES {
            true => lines.push((level.name().to_owned(), line.to_owned())),
            false => *left_out += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so_with_its_whole_length_and_ends_with_a_whole_character() {
        assert_eq!(text("four".as_bytes(), 4), ("four".into(), None));
        assert_eq!(text("fiver".as_bytes(), 4), ("five".into(), Some(5)));
        for (value, shown) in [("aaaé", "aaa"), ("aa€", "aa"), ("a🌊b", "a")] {
            let whole = value.len() as u64;
            assert_eq!(text(value.as_bytes(), 4), (shown.into(), Some(whole)));
        }
        // What is no text is shown as far as it goes.
        assert_eq!(text(&[0x80; 9], 4), ("\u{fffd}".repeat(4), Some(9)));
    }
}
