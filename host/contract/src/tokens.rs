//! Operators on tokens: the text of an answer as it is made, before anyone has read it.

use crate::model::Lane;
use crate::operator::OperatorError;

/// What one handler sees: one lane of one choice of one attempt at an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerLane<'a> {
    /// The record that the answer is for, as it is written in logs.
    pub record: &'a str,
    /// The model's name in the pipeline.
    pub model: &'a str,
    /// Which of the answers that were asked for.
    pub choice: u32,
    /// Which text of it.
    pub lane: Lane,
    /// Attributes of the record, private ones too.
    pub attributes: &'a [(String, Vec<u8>)],
}

/// What a handler lets through of the text so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Through {
    /// The text that goes on. What a handler holds back it keeps, and it comes with a later one.
    pub text: String,
    /// The answer ends after it, with this reason.
    pub end: Option<AnswerEnd>,
}

/// How a handler ends an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// A word at which it stops, as a stop string: `stop`.
    Stop,
    /// What it says is not to be said: `content_filter`.
    Filtered,
}

/// A slot's handlers of tokens. Each lane of each choice of each answer has a state of its own, made by `open` and gone
/// with `close`. A handler is deterministic: the same texts, however they are cut, let the same text through in sum; it
/// has no clock and no chance. So after a kill, or with another instance, the texts are given to a fresh one, and what was
/// sent is skipped.
///
/// After an error the lane is not open any more. [`OperatorError::Poison`] is a verdict: the lane has failed by itself, and
/// the others go on. [`OperatorError::Lost`] is none: the instance is gone that the lane was open in, and opened again and
/// given its text from the beginning it may go on at once. After any other error it may later.
pub trait TokenHandler: Send {
    /// Begins a lane. The number is the caller's, unique for the handler.
    fn open(&mut self, number: u64, lane: &AnswerLane<'_>) -> Result<(), OperatorError>;

    /// The next text of a lane; with `last` nothing comes after it, and nothing may be held back.
    fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError>;

    /// The lane is done. Closing one that is not open does nothing.
    fn close(&mut self, number: u64);
}
