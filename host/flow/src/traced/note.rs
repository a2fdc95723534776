//! The trace of a record as it is noted with it: decided once, where the record comes in.
//!
//! A note is of the host alone: no operator is given it and none can set it, and it goes with the record through retries,
//! cuts, splits and restarts. What an operator writes into the headers is never read again.

use tidegate_telemetry::trace::{SpanId, TraceContext, TraceId};

const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;
const CAME: u8 = 4;

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
    /// What a note says; none if it is not one of these.
    pub(super) fn read(note: &'r [u8]) -> Option<Traced<'r>> {
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
            }
        }
        assert_eq!(Traced::read(&[]), None);
        assert_eq!(Traced::read(&[0; 25]), None);
        assert_eq!(Traced::read(&[0xff; 64]), None);
    }
}
