//! The record an operator sees.

use std::fmt;

use serde::Deserialize;
use tidegate_record::{BatchView, Fields, Pairs, RecordId, RecordView};

use crate::{Random, Timestamp};

/// One record, viewed where it lies in the batch. Cheap to copy.
///
/// Only the fields named by the operator's `reads` are there; the others look like null or empty.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    view: RecordView<'a>,
    batch: &'a BatchView<'a>,
}

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn new(view: RecordView<'a>, batch: &'a BatchView<'a>) -> Record<'a> {
        Record { view, batch }
    }

    /// What looks null is null, or else no field of this record is what it seems.
    #[inline]
    fn or_null(&self, field: Option<&'a [u8]>) -> Option<&'a [u8]> {
        if field.is_none() {
            self.check();
        }
        field
    }

    /// The same of what looks empty.
    #[inline]
    fn or_empty(&self, pairs: Pairs<'a>) -> Pairs<'a> {
        if pairs.as_bytes().is_empty() {
            self.check();
        }
        pairs
    }

    /// The host has checked the batch; one that is broken after all is not to be answered as if it were none.
    #[cold]
    fn check(&self) {
        assert!(
            self.view.is_within(),
            "a field of a record does not lie within its batch"
        );
    }

    /// The key, or none for null.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.or_null(self.view.key())
    }

    /// The value, or none for null (a tombstone).
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.or_null(self.view.value())
    }

    /// The value as text.
    #[inline]
    pub fn text(&self) -> Result<&'a str, FieldError> {
        text(self.value())
    }

    /// The value read as JSON into any `serde::Deserialize` type, which may borrow from it.
    pub fn json<T: Deserialize<'a>>(&self) -> Result<T, FieldError> {
        json(self.value())
    }

    /// The value of the last header of this name, if it has one that is not null.
    #[inline]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers().last(name)?.value
    }

    /// The same as text; none if it is not UTF-8.
    #[inline]
    pub fn header_text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.header(name)?).ok()
    }

    /// All headers in order; a name may repeat.
    #[inline]
    pub fn headers(&self) -> Pairs<'a> {
        self.or_empty(self.view.headers())
    }

    /// The value of the private attribute of this name, if it has one that is not null.
    #[inline]
    pub fn attribute(&self, name: &str) -> Option<&'a [u8]> {
        self.attributes().last(name)?.value
    }

    /// The same as text; none if it is not UTF-8.
    #[inline]
    pub fn attribute_text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.attribute(name)?).ok()
    }

    /// All private attributes: seen by later operators, never by a sink.
    #[inline]
    pub fn attributes(&self) -> Pairs<'a> {
        self.or_empty(self.view.attributes())
    }

    /// Where the record comes from: source, partition, offset, and piece of a split. The same after a restart.
    #[inline]
    pub fn id(&self) -> RecordId {
        self.view.id()
    }

    /// When it happened.
    #[inline]
    pub fn event_time(&self) -> Option<Timestamp> {
        self.view.event_time().map(Timestamp::from_micros)
    }

    /// The batch's clock: the one time an operator sees.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.batch.clock())
    }

    /// Random numbers, the same whenever this record comes to this stage.
    pub fn random(&self) -> Random {
        Random::new(self.batch.seed(), self.id())
    }

    /// The fields that were copied in.
    #[inline]
    pub fn fields(&self) -> Fields {
        self.view.fields()
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.fmt(f)
    }
}

pub(crate) fn text(value: Option<&[u8]>) -> Result<&str, FieldError> {
    std::str::from_utf8(value.ok_or(FieldError::Null)?).map_err(|error| FieldError::NotText {
        at: error.valid_up_to(),
    })
}

pub(crate) fn json<'a, T: Deserialize<'a>>(value: Option<&'a [u8]>) -> Result<T, FieldError> {
    let value = value.ok_or(FieldError::Null)?;
    serde_json::from_slice(value).map_err(|error| FieldError::NotJson(error.to_string()))
}

/// Why a field cannot be read as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// The value is null.
    Null,
    /// The value is not UTF-8.
    NotText {
        /// The first byte that is wrong.
        at: usize,
    },
    /// The value is not the JSON that was asked for.
    NotJson(String),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::Null => write!(f, "value is null"),
            FieldError::NotText { at } => write!(f, "value is not UTF-8 at byte {at}"),
            FieldError::NotJson(why) => write!(f, "value is not the expected JSON: {why}"),
        }
    }
}

impl std::error::Error for FieldError {}
