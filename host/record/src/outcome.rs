//! What an operator answers: one outcome for every record of its batch.

use std::fmt;

use crate::layout::{
    CRITICAL, CRITICAL_FLAGS, MAX_PIECES, OUTCOMES_HEADER, OUTCOMES_MAGIC, SAMPLES,
};
use crate::patch::{Patch, PatchBuilder};
use crate::reader::{Malformed, Reader};
use crate::sample::{self, Sample};
use crate::version1;

const PASS: u8 = 0;
const DROP: u8 = 1;
const REPLACE: u8 = 2;
const SPLIT: u8 = 3;
const ROUTE: u8 = 4;
const RETRY: u8 = 5;
const DEAD_LETTER: u8 = 6;

/// The actions in words, by their codes.
const WORDS: [&str; DEAD_LETTER as usize + 1] = [
    "pass",
    "drop",
    "replace",
    "split",
    "route",
    "retry",
    "dead-letter",
];

/// Why bytes are not the outcomes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutcomesError {
    /// The first four bytes are not those of a layout of this host, or the header is cut short.
    Header {
        /// The first bytes, as many as there are of four.
        found: [u8; 4],
    },
    /// The stated length is not the length.
    Length {
        /// What the header states, in bytes.
        stated: usize,
        /// What is there, in bytes.
        found: usize,
    },
    /// There is not exactly one outcome for each record.
    Count {
        /// Records in the batch.
        records: usize,
        /// Outcomes in the answer.
        outcomes: usize,
    },
    /// An action code that this version does not know.
    Action {
        /// Index of the record.
        record: usize,
        /// The code.
        code: u8,
    },
    /// The payload of an outcome is malformed or lies outside the answer.
    Payload {
        /// Index of the record.
        record: usize,
        /// What, and where in the answer.
        malformed: Malformed,
    },
    /// The header or a section is malformed or lies outside the answer.
    Frame(Malformed),
    /// A flag or a section that must be understood, and is not.
    Unknown {
        /// `flag` or `section`.
        what: &'static str,
        /// The flags, or the section's kind.
        bits: u32,
    },
    /// A sample of a record that the batch does not have.
    Sample {
        /// Index of the sample.
        sample: usize,
        /// Index of the record it names.
        record: u32,
    },
    /// An outcome names an output that the operator did not describe.
    Output {
        /// Index of the record.
        record: usize,
        /// The output named.
        output: u16,
        /// How many named outputs there are.
        outputs: u16,
    },
    /// Bytes after the last payload.
    Trailing {
        /// Where they begin.
        at: usize,
        /// How many there are.
        bytes: usize,
    },
}

impl fmt::Display for OutcomesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutcomesError::Header { found } => write!(
                f,
                "answer begins with {found:02x?}, expected {OUTCOMES_MAGIC:02x?} and a header"
            ),
            OutcomesError::Length { stated, found } => {
                write!(f, "answer states {stated} bytes but has {found}")
            }
            OutcomesError::Count { records, outcomes } => {
                write!(f, "answer has {outcomes} outcomes for {records} records")
            }
            OutcomesError::Action { record, code } => {
                write!(
                    f,
                    "outcome of record {record} has the unknown action code {code}"
                )
            }
            OutcomesError::Payload { record, malformed } => {
                write!(f, "outcome of record {record} is malformed at {malformed}")
            }
            OutcomesError::Frame(malformed) => write!(f, "answer is malformed at {malformed}"),
            OutcomesError::Unknown { what, bits } => write!(
                f,
                "answer has the {what} {bits:#010x}, which must be known and is not"
            ),
            OutcomesError::Sample { sample, record } => write!(
                f,
                "sample {sample} is of record {record}, which is not in the batch"
            ),
            OutcomesError::Output {
                record,
                output,
                outputs,
            } => write!(
                f,
                "outcome of record {record} names output {output}, the operator describes {outputs}"
            ),
            OutcomesError::Trailing { at, bytes } => {
                write!(
                    f,
                    "answer has {bytes} bytes at byte {at}, after its last outcome"
                )
            }
        }
    }
}

impl std::error::Error for OutcomesError {}

impl OutcomesError {
    /// Index of the record in whose outcome the mistake is, if it is in one.
    pub fn record(&self) -> Option<usize> {
        match self {
            OutcomesError::Action { record, .. }
            | OutcomesError::Payload { record, .. }
            | OutcomesError::Output { record, .. } => Some(*record),
            _ => None,
        }
    }
}

/// One record of an answer: the output it goes to and how it differs from the record it came from.
#[derive(Clone, Copy, Debug)]
pub struct Emission<'a> {
    /// 0 for the main output, k for the k-th named one.
    pub output: u16,
    /// The changes.
    pub patch: Patch<'a>,
}

/// What becomes of one record.
#[derive(Clone, Debug)]
pub enum Outcome<'a> {
    /// It goes on as it is.
    Pass,
    /// It ends here.
    Drop,
    /// It goes on changed.
    Replace(Patch<'a>),
    /// It becomes several records; none is the same as drop.
    Split(Vec<Emission<'a>>),
    /// It goes to a named output, changed or not.
    Route(Emission<'a>),
    /// It comes again to the same operator after a while.
    Retry {
        /// How long to wait, milliseconds.
        delay_ms: u32,
        /// Why.
        reason: &'a str,
    },
    /// It goes to the dead letters.
    DeadLetter {
        /// Why.
        reason: &'a str,
    },
}

/// The checked answer of an operator.
#[derive(Clone, Copy, Debug)]
pub struct OutcomesView<'a> {
    actions: &'a [u8],
    /// The payloads, from the first on.
    payloads: Reader<'a>,
    samples: Reader<'a>,
    sample_count: usize,
}

impl<'a> OutcomesView<'a> {
    /// Checks an answer to a batch of `records` records by an operator with `outputs` named outputs. It may have the
    /// layout of any released contract.
    pub fn parse(
        bytes: &'a [u8],
        records: usize,
        outputs: u16,
    ) -> Result<OutcomesView<'a>, OutcomesError> {
        let view = OutcomesView::of(bytes)?;
        if view.actions.len() != records {
            return Err(OutcomesError::Count {
                records,
                outcomes: view.actions.len(),
            });
        }
        view.check(outputs)?;
        Ok(view)
    }

    /// What an answer says of one of its records, in a word: none if it has no such record. Only the table is looked at:
    /// for an answer that was checked.
    pub fn word(bytes: &'a [u8], record: usize) -> Option<&'static str> {
        let view = OutcomesView::of(bytes).ok()?;
        let code = view.actions.get(record)?;
        WORDS.get(usize::from(*code)).copied()
    }

    /// An answer whose parts lie within it.
    fn of(bytes: &'a [u8]) -> Result<OutcomesView<'a>, OutcomesError> {
        match bytes.first_chunk::<4>() {
            Some(magic) if *magic == version1::OUTCOMES_MAGIC => OutcomesView::frame1(bytes),
            _ => OutcomesView::frame(bytes),
        }
    }

    fn frame(bytes: &'a [u8]) -> Result<OutcomesView<'a>, OutcomesError> {
        let mut header = header(bytes, OUTCOMES_MAGIC, OUTCOMES_HEADER)?;
        let mut next = || header.u32().map_err(OutcomesError::Frame);
        let (own, flags, count, actions) = (next()?, next()?, next()?, next()?);
        let (payloads, length, sections, table) = (next()?, next()?, next()?, next()?);
        let frame = |at, what| OutcomesError::Frame(Malformed { at, what });
        if (own as usize) < OUTCOMES_HEADER {
            return Err(frame(8, "a header shorter than that of its version"));
        }
        if flags & CRITICAL_FLAGS != 0 {
            return Err(OutcomesError::Unknown {
                what: "flag",
                bits: flags,
            });
        }
        let part = |what_at: usize, start: u32, length: u32| {
            let end = (start as usize).checked_add(length as usize);
            end.filter(|end| *end <= bytes.len())
                .filter(|_| length == 0 || start >= own)
                .ok_or(frame(what_at, "a part that lies outside the answer"))
        };
        let actions_end = part(20, actions, count)?;
        let payloads_end = part(24, payloads, length)?;
        let mut view = OutcomesView {
            actions: bytes.get(actions as usize..actions_end).unwrap_or_default(),
            payloads: Reader::new(
                bytes.get(..payloads_end).unwrap_or_default(),
                payloads as usize,
            ),
            samples: Reader::new(&[], 0),
            sample_count: 0,
        };
        if sections > 0 && table < own {
            return Err(frame(36, "a section table that lies within the header"));
        }
        let (mut entry, mut has_samples) = (Reader::new(bytes, table as usize), false);
        for _ in 0..sections {
            let at = entry.at;
            let mut next = || entry.u32().map_err(OutcomesError::Frame);
            let (kind, entries, start, length) = (next()?, next()?, next()?, next()?);
            let end = part(at, start, length)?;
            match kind {
                SAMPLES if has_samples => {
                    return Err(frame(at, "a second section of samples"));
                }
                SAMPLES => {
                    has_samples = true;
                    view.samples =
                        Reader::new(bytes.get(..end).unwrap_or_default(), start as usize);
                    view.sample_count = entries as usize;
                }
                kind if kind >= CRITICAL => {
                    return Err(OutcomesError::Unknown {
                        what: "section",
                        bits: kind,
                    });
                }
                _ => {}
            }
        }
        Ok(view)
    }

    fn frame1(bytes: &'a [u8]) -> Result<OutcomesView<'a>, OutcomesError> {
        let mut header = header(bytes, version1::OUTCOMES_MAGIC, version1::OUTCOMES_HEADER)?;
        let mut next = || header.u32().map_err(OutcomesError::Frame);
        let (count, payloads) = (next()? as usize, next()? as usize);
        let frame = |at, what| OutcomesError::Frame(Malformed { at, what });
        let end = version1::OUTCOMES_HEADER.saturating_add(count);
        let actions = bytes
            .get(version1::OUTCOMES_HEADER..end)
            .ok_or(frame(8, "more outcomes than the answer has bytes"))?;
        if payloads < end || payloads > bytes.len() {
            return Err(frame(12, "an offset that does not follow the outcomes"));
        }
        Ok(OutcomesView {
            actions,
            payloads: Reader::new(bytes, payloads),
            samples: Reader::new(&[], 0),
            sample_count: 0,
        })
    }

    fn check(&self, outputs: u16) -> Result<(), OutcomesError> {
        self.check_samples()?;
        // Most answers are all "pass" and "drop": no payload to walk.
        if self.payloads.is_at_end() && self.actions.iter().all(|&action| action <= DROP) {
            return Ok(());
        }
        let mut reader = self.payloads;
        for (record, &code) in self.actions.iter().enumerate() {
            if code > DEAD_LETTER {
                return Err(OutcomesError::Action { record, code });
            }
            let outcome = read_outcome(code, &mut reader)
                .map_err(|malformed| OutcomesError::Payload { record, malformed })?;
            let emissions = match &outcome {
                Outcome::Split(pieces) => &pieces[..],
                Outcome::Route(emission) => std::slice::from_ref(emission),
                _ => &[],
            };
            for emission in emissions {
                if emission.output > outputs {
                    return Err(OutcomesError::Output {
                        record,
                        output: emission.output,
                        outputs,
                    });
                }
            }
        }
        match reader.left() {
            0 => Ok(()),
            bytes => Err(OutcomesError::Trailing {
                at: reader.at,
                bytes,
            }),
        }
    }

    fn check_samples(&self) -> Result<(), OutcomesError> {
        let mut reader = self.samples;
        for index in 0..self.sample_count {
            let sample = Sample::read(&mut reader).map_err(OutcomesError::Frame)?;
            if sample.record as usize >= self.actions.len() {
                return Err(OutcomesError::Sample {
                    sample: index,
                    record: sample.record,
                });
            }
        }
        match reader.is_at_end() {
            true => Ok(()),
            false => Err(OutcomesError::Frame(
                reader.fault("bytes after the last sample"),
            )),
        }
    }

    /// Number of outcomes.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there is no outcome.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Whether every record goes on as it is, so that the batch itself is the result.
    pub fn all_pass(&self) -> bool {
        self.actions.iter().all(|&action| action == PASS)
    }

    /// How many outcomes there are of each kind: pass, drop, replace, split, route, retry, dead letter.
    pub fn kinds(&self) -> [u64; DEAD_LETTER as usize + 1] {
        let mut kinds = [0; DEAD_LETTER as usize + 1];
        if self.all_pass() {
            kinds[usize::from(PASS)] = self.actions.len() as u64;
            return kinds;
        }
        for &action in self.actions {
            // Checked when the answer was parsed.
            if let Some(kind) = kinds.get_mut(usize::from(action)) {
                *kind += 1;
            }
        }
        kinds
    }

    /// The outcomes, in the order of the records.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + use<'a> {
        let mut reader = self.payloads;
        self.actions
            .iter()
            .map_while(move |&action| read_outcome(action, &mut reader).ok())
    }

    /// What the operator measured, in the order in which it did.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'a>> + use<'a> {
        let mut reader = self.samples;
        (0..self.sample_count).map_while(move |_| Sample::read(&mut reader).ok())
    }
}

/// The header after its magic and length, which are checked.
fn header(bytes: &[u8], magic: [u8; 4], length: usize) -> Result<Reader<'_>, OutcomesError> {
    let mut found = [0; 4];
    for (to, from) in found.iter_mut().zip(bytes) {
        *to = *from;
    }
    if found != magic || bytes.len() < length {
        return Err(OutcomesError::Header { found });
    }
    let mut reader = Reader::new(bytes, 4);
    let stated = reader.u32().map_err(OutcomesError::Frame)? as usize;
    if stated != bytes.len() {
        return Err(OutcomesError::Length {
            stated,
            found: bytes.len(),
        });
    }
    Ok(reader)
}

#[inline]
fn read_outcome<'a>(action: u8, reader: &mut Reader<'a>) -> Result<Outcome<'a>, Malformed> {
    Ok(match action {
        PASS => Outcome::Pass,
        DROP => Outcome::Drop,
        REPLACE => Outcome::Replace(Patch::read(reader)?),
        SPLIT => {
            let at = reader.at;
            let count = reader.u32()?;
            if count > MAX_PIECES {
                return Err(Malformed {
                    at,
                    what: "a split into more than 4095 pieces",
                });
            }
            // A piece takes more room here than in the answer, where it has at least three bytes: a count that cannot
            // be true does not allocate.
            if count as usize > reader.left() / 3 {
                return Err(Malformed {
                    at,
                    what: "a split into more pieces than there are bytes for",
                });
            }
            let mut pieces = Vec::with_capacity(count as usize);
            for _ in 0..count {
                pieces.push(read_emission(reader)?);
            }
            Outcome::Split(pieces)
        }
        ROUTE => Outcome::Route(read_emission(reader)?),
        RETRY => {
            let delay_ms = reader.u32()?;
            let reason = read_text(reader)?;
            Outcome::Retry { delay_ms, reason }
        }
        DEAD_LETTER => Outcome::DeadLetter {
            reason: read_text(reader)?,
        },
        _ => return Err(reader.fault("an outcome of an unknown action")),
    })
}

#[inline]
fn read_emission<'a>(reader: &mut Reader<'a>) -> Result<Emission<'a>, Malformed> {
    let output = reader.u16()?;
    let patch = Patch::read(reader)?;
    Ok(Emission { output, patch })
}

fn read_text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let length = reader.u32()? as usize;
    reader.text(length)
}

/// Writes an answer, outcome by outcome.
#[derive(Clone, Debug)]
pub struct OutcomesBuilder {
    /// The header, the actions and, after the room for as many as were expected, the payloads: what is there already is
    /// not copied when the answer is finished.
    bytes: Vec<u8>,
    records: usize,
    /// Actions that there is room for.
    expected: usize,
    /// Actions beyond them.
    more: Vec<u8>,
    samples: Vec<u8>,
    sample_count: u32,
}

impl Default for OutcomesBuilder {
    fn default() -> OutcomesBuilder {
        OutcomesBuilder::with_capacity(0)
    }
}

impl OutcomesBuilder {
    /// An empty answer with room for `records` outcomes.
    pub fn with_capacity(records: usize) -> OutcomesBuilder {
        OutcomesBuilder {
            bytes: vec![0; OUTCOMES_HEADER + records],
            records: 0,
            expected: records,
            more: Vec::new(),
            samples: Vec::new(),
            sample_count: 0,
        }
    }

    /// Number of outcomes so far.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there is no outcome yet.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    #[inline]
    fn action(&mut self, action: u8) {
        match self.bytes.get_mut(OUTCOMES_HEADER + self.records) {
            Some(place) if self.records < self.expected => *place = action,
            _ => self.more.push(action),
        }
        self.records += 1;
    }

    /// The record goes on as it is.
    #[inline]
    pub fn pass(&mut self) {
        self.action(PASS);
    }

    /// The record ends here.
    #[inline]
    pub fn drop_record(&mut self) {
        self.action(DROP);
    }

    /// The record goes on changed.
    pub fn replace(&mut self, patch: &PatchBuilder) {
        self.action(REPLACE);
        patch.write(&mut self.bytes);
    }

    /// The record becomes these: output and changes of each.
    pub fn split<'a>(&mut self, pieces: impl ExactSizeIterator<Item = (u16, &'a PatchBuilder)>) {
        self.action(SPLIT);
        self.bytes
            .extend_from_slice(&(pieces.len() as u32).to_le_bytes());
        for (output, patch) in pieces {
            self.bytes.extend_from_slice(&output.to_le_bytes());
            patch.write(&mut self.bytes);
        }
    }

    /// The record goes to an output, counted from 1.
    pub fn route(&mut self, output: u16, patch: &PatchBuilder) {
        self.action(ROUTE);
        self.bytes.extend_from_slice(&output.to_le_bytes());
        patch.write(&mut self.bytes);
    }

    /// The record comes again after a while.
    pub fn retry(&mut self, delay_ms: u32, reason: &str) {
        self.action(RETRY);
        self.bytes.extend_from_slice(&delay_ms.to_le_bytes());
        self.text(reason);
    }

    /// The record goes to the dead letters.
    pub fn dead_letter(&mut self, reason: &str) {
        self.action(DEAD_LETTER);
        self.text(reason);
    }

    /// What was measured for a record: its index, that of the metric, the amount or the bits of the value, the values of
    /// its labels.
    pub fn sample(&mut self, record: u32, metric: u16, bits: u64, labels: &[&str]) {
        sample::write(&mut self.samples, record, metric, bits, labels);
        self.sample_count += 1;
    }

    /// The answer as bytes.
    pub fn finish(mut self) -> Vec<u8> {
        let room = OUTCOMES_HEADER + self.expected;
        // Fewer or more outcomes than were expected: the payloads lie where they are, after what is left or put in.
        let payloads = room + self.more.len();
        self.bytes.splice(room..room, self.more);
        let samples = self.bytes.len();
        self.bytes.extend_from_slice(&self.samples);
        let sections = u32::from(self.sample_count != 0);
        let table = match sections {
            0 => 0,
            _ => self.bytes.len(),
        };
        if sections != 0 {
            let section = [
                SAMPLES,
                self.sample_count,
                samples as u32,
                self.samples.len() as u32,
            ];
            for field in section {
                self.bytes.extend_from_slice(&field.to_le_bytes());
            }
        }
        let header = [
            u32::from_le_bytes(OUTCOMES_MAGIC),
            self.bytes.len() as u32,
            OUTCOMES_HEADER as u32,
            0,
            self.records as u32,
            OUTCOMES_HEADER as u32,
            payloads as u32,
            (samples - payloads) as u32,
            sections,
            table as u32,
        ];
        for (place, field) in self.bytes.chunks_exact_mut(4).zip(header) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.bytes
    }

    fn text(&mut self, text: &str) {
        self.bytes
            .extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }
}
