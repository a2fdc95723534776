//! Cases: batches of records, and what an operator is to answer; texts, and what goes on of them. One format for all languages, whose SDKs run the same
//! files natively; `plugin-sdk/cases.schema.json` is its schema.

mod bytes;
mod expected;
mod read;
mod records;
mod tokens;

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_operator::{Level, Limits};
use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId, RecordRefused};

use crate::outcome::{Class, Pairs, Patch, Piece};

pub use read::CasesError;
pub(crate) use records::time;
pub(crate) use tokens::{ExpectedThrough, TokensCase, word};

/// Most cases of a file.
pub const MAX_CASES: usize = 10_000;
/// Most records of a case.
pub const MAX_RECORDS: usize = 10_000;
/// Longest file of cases, in bytes.
pub const MAX_FILE: u64 = 64 << 20;
/// Most bytes of all keys, values, headers and attributes of a file, where `times` and `base64` are written out.
pub const MAX_BYTES: usize = 256 << 20;
/// Most times that a record comes again within a case: as often as a stage lets it by default.
pub const MAX_RETRIES: usize = 3;

/// The schema of a file of cases, as JSON text.
pub const SCHEMA: &str = include_str!("../../../plugin-sdk/cases.schema.json");

/// A file of cases.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its cases, in order.
    pub cases: Vec<Case>,
    /// As it is written.
    pub(crate) text: String,
}

/// One batch or text, and what an operator that was started for it is to answer.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows; no two of a file have the same.
    pub name: String,
    /// Its line in the file, counted from 1.
    pub line: usize,
    /// The configuration, JSON text.
    pub(crate) config: String,
    /// The clock of the batch, microseconds since the Unix epoch.
    pub(crate) clock: i64,
    /// What random numbers are drawn from.
    pub(crate) seed: [u8; 16],
    pub(crate) limits: LimitChanges,
    pub(crate) records: Vec<CaseRecord>,
    /// In place of records, a text that a model makes.
    pub(crate) tokens: Option<TokensCase>,
    pub(crate) expected: Expected,
    /// Every line that is logged.
    pub(crate) log: Option<Vec<(Level, Text)>>,
    /// Everything that is measured.
    pub(crate) metrics: Option<Vec<Measurement>>,
    pub(crate) places: Places,
}

/// Limits that differ from those of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitChanges {
    pub(crate) memory: Option<usize>,
    pub(crate) total_memory: Option<u64>,
    pub(crate) output: Option<usize>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) bisect: Option<Duration>,
}

impl LimitChanges {
    /// These limits with the changes.
    pub(crate) fn applied_to(&self, usual: &Limits) -> Limits {
        Limits {
            memory: self.memory.unwrap_or(usual.memory),
            total_memory: self.total_memory.or(usual.total_memory),
            output: self.output.unwrap_or(usual.output),
            deadline: self.deadline.unwrap_or(usual.deadline),
            bisect: self.bisect.unwrap_or(usual.bisect),
            ..usual.clone()
        }
    }
}

/// A record of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaseRecord {
    pub(crate) id: RecordId,
    pub(crate) event_time: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Pairs,
    pub(crate) attributes: Pairs,
}

/// Records as a batch with this clock.
pub(crate) fn batch(records: &[CaseRecord], clock: i64) -> Result<Batch, RecordRefused> {
    let mut builder = BatchBuilder::default();
    for record in records {
        builder.push(&NewRecord {
            id: record.id,
            event_time: record.event_time,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &borrowed(&record.headers),
            attributes: &borrowed(&record.attributes),
        })?;
    }
    Ok(builder.finish(clock))
}

fn borrowed(pairs: &Pairs) -> Vec<(&str, Option<&[u8]>)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect()
}

/// What is to come of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// It does not say; of a text its `tokens` do.
    Nothing,
    /// One outcome for each record.
    Outcomes(Vec<ExpectedOutcome>),
    /// The whole batch fails, in words.
    Failure(ExpectedFailure),
    /// The configuration is refused.
    Refused(ExpectedFailure),
}

/// What is to become of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExpectedOutcome {
    Pass,
    Drop,
    Replace(Patch),
    Split(Vec<Piece>),
    Route(Piece),
    Retry {
        after_ms: u32,
        reason: Text,
        /// What becomes of it when it comes again.
        then: Option<Box<ExpectedOutcome>>,
    },
    /// In the operator's words.
    DeadLetter(Text),
    /// In the host's.
    Poison(Text),
    /// In either's.
    Raised(Text),
}

/// A text that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// The whole of it.
    Whole(String),
    /// Parts of it, or of what stands beneath it.
    Contains(Vec<String>),
}

/// A failure in words. What is not there is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpectedFailure {
    pub(crate) class: Option<Class>,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<Text>,
}

/// What is measured under one combination of labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) name: String,
    /// Names and values, by name.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: Measured,
}

/// The sum or last value of a counter or gauge, or how many values a histogram has and their sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measured {
    Number(f64),
    Spread { count: u64, sum: f64 },
}

/// Where in the file a case has what can be written anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The whole case.
    pub(crate) case: Range<usize>,
    /// The last of its members.
    pub(crate) last: Range<usize>,
    pub(crate) outcomes: Option<Range<usize>>,
    /// Each of the outcomes.
    pub(crate) each: Vec<Range<usize>>,
    pub(crate) log: Option<Range<usize>>,
    pub(crate) metrics: Option<Range<usize>>,
}
