//! Where records go.

use tidegate_record::{Pairs, PublicRecord, RecordId};

use crate::commit::SinkPosition;

/// Most bytes of the headers that a dead letter has.
pub const LETTER_HEADERS: usize = 64 << 10;

/// A header: its name and value.
pub type LetterHeader<'a> = (&'a str, Option<&'a [u8]>);

/// What the key and value of a dead letter are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LetterForm {
    /// A record's.
    #[default]
    Record,
    /// Input that could not become a record.
    Input,
    /// Those of a record as its sink was to write it.
    Output,
}

impl LetterForm {
    /// As letters have it.
    pub fn name(self) -> &'static str {
        match self {
            LetterForm::Record => "record",
            LetterForm::Input => "input",
            LetterForm::Output => "output",
        }
    }

    /// The form of this name.
    pub fn named(name: &str) -> Option<LetterForm> {
        let all = [LetterForm::Record, LetterForm::Input, LetterForm::Output];
        all.into_iter().find(|form| form.name() == name)
    }
}

/// A record that ends as a dead letter. Of private attributes it has only what the key of the state has sealed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeadLetter<'a> {
    /// Name of the pipeline: several may have one topic of letters.
    pub pipeline: &'a str,
    /// Where the record comes from.
    pub id: RecordId,
    /// Name of the source, as in the pipeline file.
    pub source: &'a str,
    /// Which input that source read it from: the file, the topic with its id, the standard input of one run. None where
    /// that is not known, or records cannot be sent again.
    pub input: Option<&'a str>,
    /// Name of the stage that gave up, or `decode`.
    pub stage: &'a str,
    /// Why, in a sentence for a person.
    pub reason: &'a str,
    /// Digest of the component, if an operator was the cause.
    pub component: Option<&'a str>,
    /// The wasm backtrace, if there is one.
    pub backtrace: Option<&'a str>,
    /// How often it was tried.
    pub attempts: u32,
    /// The record's key.
    pub key: Option<&'a [u8]>,
    /// The record's value as it was at that stage, or a cut of input that could not be decoded.
    pub value: Option<&'a [u8]>,
    /// Length of the value before it was cut, bytes.
    pub length: u64,
    /// When it ends, microseconds since the Unix epoch.
    pub at: i64,
    /// What key and value are.
    pub form: LetterForm,
    /// The record's event time, microseconds since the Unix epoch.
    pub event_time: Option<i64>,
    /// The record's headers; none if they cannot be part of a letter.
    pub headers: Option<&'a [LetterHeader<'a>]>,
    /// How many private attributes the record had.
    pub private: u64,
    /// They, sealed for this letter; none if they could not be kept.
    pub private_sealed: Option<&'a [u8]>,
}

impl DeadLetter<'_> {
    /// The record's id as text: `SOURCE/PARTITION/OFFSET`, and the emit index if it is a piece of another one.
    pub fn record(&self) -> String {
        let RecordId {
            partition,
            offset,
            emit,
            ..
        } = self.id;
        let name = format!("{}/{partition}/{offset}", self.source);
        match emit {
            0 => name,
            emit => format!("{name}/{emit}"),
        }
    }
}

/// A record that was collected, and that the output then refused for good: it is too large for the topic, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRecord {
    /// Where the record comes from.
    pub id: RecordId,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value, as it was to be written.
    pub value: Option<Vec<u8>>,
    /// Why, in a sentence for a person.
    pub reason: String,
}

/// Headers that are the host's, such as those that say where a trace goes on: what a record has under their names is not
/// passed on, whoever wrote it there, and these are in its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostHeaders<'a> {
    /// Their names. Without any the headers of a record go on as they are.
    pub names: &'a [&'a str],
    /// Those that this record has. Where the output has no room for them, it goes without.
    pub written: &'a [(&'a str, &'a [u8])],
}

impl<'a> HostHeaders<'a> {
    /// The same without those that the record has.
    #[must_use]
    pub fn unwritten(self) -> HostHeaders<'a> {
        HostHeaders {
            written: &[],
            ..self
        }
    }

    /// The headers of a record as they go on: its own in their order, and these behind them.
    pub fn over(self, own: Pairs<'a>) -> impl Iterator<Item = LetterHeader<'a>> {
        let own = own.filter(move |header| !self.names.contains(&header.name));
        let own = own.map(|header| (header.name, header.value));
        own.chain(
            self.written
                .iter()
                .map(|(name, value)| (*name, Some(*value))),
        )
    }
}

/// A worker's view of one sink. Output is collected by `write` and made real by `flush`; for a truncatable sink
/// nothing reaches its file before `flush`, and nothing is final before the commit log says so.
///
/// A sink never sees private attributes: [`PublicRecord`] has none.
pub trait Sink: Send {
    /// Whether what it was given is known to be taken only once it is flushed: until then it may refuse it.
    fn settles_late(&self) -> bool {
        false
    }

    /// Collects a record. A sink whose output has headers writes those of the host, and leaves them out where they are what
    /// makes the record too large: nothing ends as a dead letter for them. `Err` with [`SinkError::Encode`] turns this
    /// record into a dead letter; other errors end the run.
    fn write(&mut self, record: PublicRecord<'_>, host: HostHeaders<'_>) -> Result<(), SinkError>;

    /// Collects a dead letter.
    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError>;

    /// Bytes collected and not yet flushed.
    fn pending(&self) -> usize;

    /// Writes what was collected and makes it durable (fsync, or the broker's acknowledgement). Returns where a
    /// truncatable sink's file now ends. On error nothing of it counts.
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError>;

    /// The cut came to nothing: what was collected and not flushed is forgotten, as far as it can be. Its records come
    /// again.
    fn discard(&mut self);

    /// Records of the last [`flush`](Sink::flush) that the output refused for good: everything else of it is written,
    /// these are not. Tells each once.
    fn take_refused(&mut self) -> Vec<RefusedRecord> {
        Vec::new()
    }

    /// Before the first write: takes away what lies after the last cut. `known` is
    /// [`Recovered::sinks`](crate::Recovered::sinks), of which a sink takes its own. If the commit log knows nothing of
    /// its file, that means: begin empty (a file with content that no cut knows of is an error, not overwritten). A file
    /// that it did not write last is an error too, unless the one it did is whole, and this one empty or as it left it.
    fn recover(&mut self, known: &[SinkPosition]) -> Result<(), SinkError>;

    /// Where a truncatable sink that has been recovered, and written nothing since, goes on. The commit log is told
    /// before the first write, so that a crash before the first cut leaves a file that recovery knows how to cut.
    fn position(&self) -> Option<SinkPosition> {
        None
    }
}

/// A sink that cannot go on, or a record it cannot take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The record cannot be written in the sink's format.
    #[error("record cannot be written as {format}: {why}")]
    Encode {
        /// The format.
        format: &'static str,
        /// What is wrong with the record.
        why: String,
    },
    /// The output cannot be written.
    #[error("cannot write {place}: {why}")]
    Write {
        /// File, or broker and topic.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// The output is not what the last cut left.
    #[error("cannot recover {place}: {why}")]
    Recover {
        /// The file.
        place: String,
        /// What was found and what the commit log says.
        why: String,
    },
}
