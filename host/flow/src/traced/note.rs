//! What is noted with a record, decided once, where the record comes in: in which run it was read, if that tells it from
//! others, and its trace.
//!
//! A note is of the host alone: no operator is given it and none can set it, and it goes with the record through retries,
//! cuts, splits and restarts. What an operator writes into the headers is never read again.

use std::fmt;

use tidegate_record::RecordView;
use tidegate_telemetry::trace::{SpanId, TraceContext, TraceId};

const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;
const CAME: u8 = 4;
/// Begins a note that has the number of a run before anything else; no trace begins with it.
const READ_ONCE: u8 = 8;

/// Which run has read what can only be read once: a number that is drawn when the run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadingRun([u8; 8]);

impl ReadingRun {
    /// The run that begins now; none if the system gives no random numbers.
    pub(crate) fn begins() -> Option<ReadingRun> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).ok()?;
        Some(ReadingRun(number))
    }

    /// The run in which this record was read, if that was noted.
    pub(crate) fn of(record: &RecordView<'_>) -> Option<ReadingRun> {
        split(record.note()?).0
    }

    pub(super) fn number(self) -> u64 {
        u64::from_be_bytes(self.0)
    }

    /// Appends it to an empty note.
    pub(super) fn write(self, note: &mut Vec<u8>) {
        note.push(READ_ONCE);
        note.extend_from_slice(&self.0);
    }
}

impl fmt::Display for ReadingRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.number())
    }
}

/// The run in a note, and what is noted of a trace.
fn split(note: &[u8]) -> (Option<ReadingRun>, &[u8]) {
    if let Some((&READ_ONCE, rest)) = note.split_first()
        && let Some((run, rest)) = rest.split_first_chunk()
    {
        return (Some(ReadingRun(*run)), rest);
    }
    (None, note)
}

/// The trace that a record is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traced<'r> {
    pub trace: TraceId,
    /// The span that those of stages and sinks are below.
    pub entry: SpanId,
    /// The span that it came with.
    pub came: Option<SpanId>,
    /// Whether it is recorded. One that is not is passed on as it came.
    pub sampled: bool,
    /// Whether the trace's id is said to be random.
    pub random: bool,
    /// What other systems keep with the trace.
    pub state: &'r str,
}

impl<'r> Traced<'r> {
    /// What a record came with, and nothing of this process.
    pub(super) fn as_it_came(came: &TraceContext, state: &'r str) -> Traced<'r> {
        Traced {
            trace: came.trace,
            entry: came.span,
            came: Some(came.span),
            sampled: came.sampled,
            random: came.random,
            state,
        }
    }
}

impl Traced<'_> {
    /// The span that others are below, as others name it.
    pub(crate) fn context(&self) -> TraceContext {
        self.span(self.entry)
    }

    pub(super) fn span(&self, span: SpanId) -> TraceContext {
        TraceContext {
            trace: self.trace,
            span,
            sampled: self.sampled,
            random: self.random,
        }
    }

    /// Appends the note.
    pub(super) fn write(&self, note: &mut Vec<u8>) {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let came = flag(self.came.is_some(), CAME);
        note.push(flag(self.sampled, SAMPLED) | flag(self.random, RANDOM) | came);
        note.extend_from_slice(&self.trace.bytes());
        note.extend_from_slice(&self.entry.bytes());
        if let Some(came) = self.came {
            note.extend_from_slice(&came.bytes());
        }
        note.extend_from_slice(self.state.as_bytes());
    }
}

impl<'r> Traced<'r> {
    /// What a note says of a trace; none if it has none.
    pub(super) fn read(note: &'r [u8]) -> Option<Traced<'r>> {
        let (_, note) = split(note);
        let (flags, rest) = note.split_first()?;
        let (trace, rest) = rest.split_first_chunk()?;
        let (entry, rest) = rest.split_first_chunk()?;
        let (came, state) = match flags & CAME {
            0 => (None, rest),
            _ => {
                let (came, rest) = rest.split_first_chunk()?;
                (SpanId::new(*came), rest)
            }
        };
        Some(Traced {
            trace: TraceId::new(*trace)?,
            entry: SpanId::new(*entry)?,
            came,
            sampled: flags & SAMPLED != 0,
            random: flags & RANDOM != 0,
            state: std::str::from_utf8(state).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_what_is_none_is_none() {
        let trace = TraceId::new([7; 16]).unwrap();
        let span = |byte| SpanId::new([byte; 8]).unwrap();
        for (came, state) in [(None, ""), (Some(span(1)), "a=1,b=2"), (None, "a=1")] {
            for (sampled, random) in [(true, false), (false, true)] {
                let traced = Traced {
                    trace,
                    entry: span(9),
                    came,
                    sampled,
                    random,
                    state,
                };
                let mut note = Vec::new();
                traced.write(&mut note);
                assert_eq!(Traced::read(&note), Some(traced));
                assert_eq!(Traced::read(&note[..20]), None);
                assert_eq!(split(&note).0, None);
                // The number of the run stands before it.
                let mut of_run = Vec::new();
                ReadingRun([5; 8]).write(&mut of_run);
                assert_eq!(Traced::read(&of_run), None, "a run is no trace");
                of_run.append(&mut note);
                assert_eq!(Traced::read(&of_run), Some(traced));
                assert_eq!(split(&of_run).0, Some(ReadingRun([5; 8])));
            }
        }
        assert_eq!(Traced::read(&[]), None);
        assert_eq!(Traced::read(&[0; 25]), None);
        assert_eq!(Traced::read(&[0xff; 64]), None);
    }
}
