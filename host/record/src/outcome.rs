//! What an operator answers: one outcome for every record of its batch.

use std::fmt;

use crate::layout::{MAX_PIECES, OUTCOMES_HEADER, OUTCOMES_MAGIC, u16_at, u32_at};
use crate::patch::{Patch, PatchBuilder};

const PASS: u8 = 0;
const DROP: u8 = 1;
const REPLACE: u8 = 2;
const SPLIT: u8 = 3;
const ROUTE: u8 = 4;
const RETRY: u8 = 5;
const DEAD_LETTER: u8 = 6;

/// Why bytes are not the outcomes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutcomesError {
    /// The first four bytes are not those of this layout and version, or the header is cut short.
    Header,
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
    Trailing(usize),
}

impl fmt::Display for OutcomesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutcomesError::Header => write!(f, "answer does not begin with {OUTCOMES_MAGIC:02x?}"),
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
            OutcomesError::Payload { record } => {
                write!(
                    f,
                    "outcome of record {record} is malformed or lies outside the answer"
                )
            }
            OutcomesError::Output {
                record,
                output,
                outputs,
            } => write!(
                f,
                "outcome of record {record} names output {output}, the operator describes {outputs}"
            ),
            OutcomesError::Trailing(bytes) => {
                write!(f, "answer has {bytes} bytes after its last outcome")
            }
        }
    }
}

impl std::error::Error for OutcomesError {}

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
    payloads: &'a [u8],
}

impl<'a> OutcomesView<'a> {
    /// Checks an answer to a batch of `records` records by an operator with `outputs` named outputs.
    pub fn parse(
        bytes: &'a [u8],
        records: usize,
        outputs: u16,
    ) -> Result<OutcomesView<'a>, OutcomesError> {
        if bytes.len() < OUTCOMES_HEADER || bytes[..4] != OUTCOMES_MAGIC {
            return Err(OutcomesError::Header);
        }
        let header = |at| u32_at(bytes, at).map_or(0, |value| value as usize);
        let (stated, count, at) = (header(4), header(8), header(12));
        if stated != bytes.len() {
            return Err(OutcomesError::Length {
                stated,
                found: bytes.len(),
            });
        }
        if count != records {
            return Err(OutcomesError::Count {
                records,
                outcomes: count,
            });
        }
        let actions = OUTCOMES_HEADER
            .checked_add(count)
            .and_then(|end| bytes.get(OUTCOMES_HEADER..end))
            .ok_or(OutcomesError::Header)?;
        let payloads = bytes
            .get(at..)
            .filter(|_| at >= OUTCOMES_HEADER + count)
            .ok_or(OutcomesError::Header)?;
        let view = OutcomesView { actions, payloads };
        view.check(outputs)?;
        Ok(view)
    }

    fn check(&self, outputs: u16) -> Result<(), OutcomesError> {
        // Most answers are all "pass" and "drop": no payload to walk.
        if self.payloads.is_empty() && self.actions.iter().all(|&action| action <= DROP) {
            return Ok(());
        }
        let mut rest = self.payloads;
        for (record, &action) in self.actions.iter().enumerate() {
            if action > DEAD_LETTER {
                return Err(OutcomesError::Action {
                    record,
                    code: action,
                });
            }
            let (outcome, after) =
                read_outcome(action, rest).ok_or(OutcomesError::Payload { record })?;
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
            rest = after;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(OutcomesError::Trailing(rest.len()))
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

    /// The outcomes, in the order of the records.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + use<'a> {
        let mut rest = self.payloads;
        self.actions.iter().map_while(move |&action| {
            let (outcome, after) = read_outcome(action, rest)?;
            rest = after;
            Some(outcome)
        })
    }
}

fn read_outcome(action: u8, rest: &[u8]) -> Option<(Outcome<'_>, &[u8])> {
    Some(match action {
        PASS => (Outcome::Pass, rest),
        DROP => (Outcome::Drop, rest),
        REPLACE => {
            let (patch, rest) = Patch::read(rest)?;
            (Outcome::Replace(patch), rest)
        }
        SPLIT => {
            let count = u32_at(rest, 0)?;
            let mut rest = &rest[4..];
            // A piece takes more room here than in the answer, where it has at least three bytes: a count that no
            // record may have, or that cannot be true, does not allocate.
            if count > MAX_PIECES || count as usize > rest.len() / 3 + 1 {
                return None;
            }
            let mut pieces = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let (emission, after) = read_emission(rest)?;
                pieces.push(emission);
                rest = after;
            }
            (Outcome::Split(pieces), rest)
        }
        ROUTE => {
            let (emission, rest) = read_emission(rest)?;
            (Outcome::Route(emission), rest)
        }
        RETRY => {
            let delay_ms = u32_at(rest, 0)?;
            let (reason, rest) = read_text(&rest[4..])?;
            (Outcome::Retry { delay_ms, reason }, rest)
        }
        DEAD_LETTER => {
            let (reason, rest) = read_text(rest)?;
            (Outcome::DeadLetter { reason }, rest)
        }
        _ => return None,
    })
}

fn read_emission(bytes: &[u8]) -> Option<(Emission<'_>, &[u8])> {
    let output = u16_at(bytes, 0)?;
    let (patch, rest) = Patch::read(&bytes[2..])?;
    Some((Emission { output, patch }, rest))
}

fn read_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let (text, rest) = bytes[4..].split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// Writes an answer, outcome by outcome.
#[derive(Clone, Debug, Default)]
pub struct OutcomesBuilder {
    actions: Vec<u8>,
    payloads: Vec<u8>,
}

impl OutcomesBuilder {
    /// An empty answer with room for `records` outcomes.
    pub fn with_capacity(records: usize) -> OutcomesBuilder {
        OutcomesBuilder {
            actions: Vec::with_capacity(records),
            payloads: Vec::new(),
        }
    }

    /// Number of outcomes so far.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there is no outcome yet.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// The record goes on as it is.
    pub fn pass(&mut self) {
        self.actions.push(PASS);
    }

    /// The record ends here.
    pub fn drop_record(&mut self) {
        self.actions.push(DROP);
    }

    /// The record goes on changed.
    pub fn replace(&mut self, patch: &PatchBuilder) {
        self.actions.push(REPLACE);
        patch.write(&mut self.payloads);
    }

    /// The record becomes these: output and changes of each.
    pub fn split<'a>(&mut self, pieces: impl ExactSizeIterator<Item = (u16, &'a PatchBuilder)>) {
        self.actions.push(SPLIT);
        self.payloads
            .extend_from_slice(&(pieces.len() as u32).to_le_bytes());
        for (output, patch) in pieces {
            self.payloads.extend_from_slice(&output.to_le_bytes());
            patch.write(&mut self.payloads);
        }
    }

    /// The record goes to an output, counted from 1.
    pub fn route(&mut self, output: u16, patch: &PatchBuilder) {
        self.actions.push(ROUTE);
        self.payloads.extend_from_slice(&output.to_le_bytes());
        patch.write(&mut self.payloads);
    }

    /// The record comes again after a while.
    pub fn retry(&mut self, delay_ms: u32, reason: &str) {
        self.actions.push(RETRY);
        self.payloads.extend_from_slice(&delay_ms.to_le_bytes());
        self.text(reason);
    }

    /// The record goes to the dead letters.
    pub fn dead_letter(&mut self, reason: &str) {
        self.actions.push(DEAD_LETTER);
        self.text(reason);
    }

    /// The answer as bytes.
    pub fn finish(self) -> Vec<u8> {
        let at = OUTCOMES_HEADER + self.actions.len();
        let total = at + self.payloads.len();
        let mut bytes = Vec::with_capacity(total);
        bytes.extend_from_slice(&OUTCOMES_MAGIC);
        bytes.extend_from_slice(&(total as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.actions.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(at as u32).to_le_bytes());
        bytes.extend_from_slice(&self.actions);
        bytes.extend_from_slice(&self.payloads);
        bytes
    }

    fn text(&mut self, text: &str) {
        self.payloads
            .extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.payloads.extend_from_slice(text.as_bytes());
    }
}
