//! What the admin API says of dead letters.

use serde::{Deserialize, Serialize};

use crate::api::or_default;

/// Most letters of a page.
pub const MAX_LETTERS: usize = 500;
/// Letters of a page whose request says no number.
pub const LETTERS: usize = 50;
/// Most letters that are sent again by one request.
pub const MAX_SENT: usize = 1_000;

/// Which dead letters are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterQuery {
    /// Most letters of the answer.
    pub limit: usize,
    /// Older than the page that named this cursor; the newest if there is none.
    pub before: Option<String>,
    /// Of this stage alone.
    pub stage: Option<String>,
    /// Of this source alone, those that were sent again included.
    pub source: Option<String>,
    /// Only those whose reason has this text, in whatever case.
    pub text: Option<String>,
}

impl Default for LetterQuery {
    fn default() -> LetterQuery {
        LetterQuery {
            limit: LETTERS,
            before: None,
            stage: None,
            source: None,
            text: None,
        }
    }
}

/// Dead letters, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterPage {
    /// The letters. There may be fewer than were asked for, or none, before the end: a request looks at so many bytes only.
    pub letters: Vec<LetterReport>,
    /// What `before` is to be for older ones; none if there are none.
    pub next: Option<String>,
    /// Where the letters are, for a person.
    pub place: String,
    /// How far back was looked: when the oldest letter of those died that were looked at, also if it is none of these.
    /// RFC 3339; none if none says when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<String>,
    /// How many were looked at.
    #[serde(default)]
    pub looked: u64,
    /// Why they cannot be browsed, if so: then there are no letters here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// A dead letter. In a page, long members are cut: then `truncated` is true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterReport {
    /// What tells it from every other one: `SOURCE/PARTITION/OFFSET[/EMIT]@PLACE`. The record's own id, and where the letter
    /// is: the byte in the file, or the partition and offset in the topic (`0.17`). A record that dies twice has two letters.
    pub id: String,
    /// When it was written, RFC 3339; none of letters of earlier versions.
    pub at: Option<String>,
    /// The stage or sink that gave up, or `decode`.
    pub stage: String,
    /// Why.
    pub reason: String,
    /// The record's source; of one that was sent again, that source and `.again`.
    pub source: String,
    /// Its partition there.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// Digest of the component, if an operator was the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The wasm backtrace, of a whole letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// The record's event time, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
    /// Its key, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its key, if that is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// Its value, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value, if that is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Its headers, of a whole letter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<LetterHeader>,
    /// Length of the value when the record died, bytes.
    pub length: u64,
    /// Whether key, value or reason are longer than they are here: the whole letter has more, unless it is one.
    pub truncated: bool,
    /// Why it cannot be sent again, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsendable: Option<String>,
    /// How many private attributes its record had.
    #[serde(default)]
    pub private: u64,
    /// Whether the letter has them, sealed, so that the record has them when it is sent again.
    #[serde(default)]
    pub private_kept: bool,
    /// Which input its source read it from, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The letter that the record was sent from, if it is one that was sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_from: Option<String>,
    /// Whether it was sent again.
    pub sent: Option<LetterSent>,
}

/// A header of a dead letter's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterHeader {
    /// Its name.
    pub name: String,
    /// Its value, if that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value, if that is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
}

/// That a letter was sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterSent {
    /// When, RFC 3339.
    pub at: String,
    /// The record it became: `SOURCE.again/0/OFFSET`.
    pub record: String,
}

/// Letters that are to be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendLetters {
    /// Their ids.
    pub ids: Vec<String>,
    /// Also those whose records had private attributes that cannot be had again: they go without.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "is_false"
    )]
    pub without_private: bool,
}

/// What became of letters that were to be sent again, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentLetters {
    /// One for each id.
    pub results: Vec<SendResult>,
}

/// What became of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendResult {
    /// The letter.
    pub id: String,
    /// What became of it.
    pub state: SendState,
    /// Why it is not sent; when it had been sent, of one that was sent already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it was refused for the private attributes that it would go without: `without_private` sends it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub without_private: bool,
}

fn is_false(is: &bool) -> bool {
    !is
}

/// What became of a letter that was to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SendState {
    /// It is on its way, also if the host is killed now.
    Sent,
    /// It was sent before, and is not sent twice.
    Already,
    /// It is not sent.
    Refused,
    /// It may be sent or not: who sends it once more is told.
    Unknown,
    /// It is not sent: the time of the request was over before, or it could not be looked up now.
    Unreached,
}

/// A request for dead letters that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LettersRefused {
    /// There is no such letter.
    #[error("there is no dead letter {id:?}")]
    Unknown {
        /// The id asked for.
        id: String,
    },
    /// The cursor is none.
    #[error("before={cursor:?} is no cursor of a page")]
    Cursor {
        /// What was given.
        cursor: String,
    },
    /// They cannot be browsed where they go.
    #[error("{0}")]
    Unavailable(String),
    /// They cannot be read now.
    #[error("{0}")]
    Failed(String),
}
