//! Records that own what they hold, for tests.

use serde::Deserialize;
use tidegate_record::{
    BatchBuilder, NewRecord, Pair, Pairs, Patch, RecordId, RecordRefused, RecordView,
};

use crate::record::{json, text};
use crate::{FieldError, Timestamp};

type OwnedPairs = Vec<(String, Option<Vec<u8>>)>;

/// A record that owns its fields: what goes into a test, and what comes out. It is looked at as [`crate::Record`] is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRecord {
    id: RecordId,
    event_time: Option<Timestamp>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: OwnedPairs,
    attributes: OwnedPairs,
}

impl TestRecord {
    /// A record with this value. One whose value is null is `TestRecord::default()`.
    pub fn of(value: impl Into<Vec<u8>>) -> TestRecord {
        TestRecord {
            value: Some(value.into()),
            ..TestRecord::default()
        }
    }

    /// With this key.
    pub fn with_key(mut self, key: impl Into<Vec<u8>>) -> TestRecord {
        self.key = Some(key.into());
        self
    }

    /// With one more header.
    pub fn with_header(mut self, name: &str, value: impl Into<Vec<u8>>) -> TestRecord {
        self.headers.push((name.to_owned(), Some(value.into())));
        self
    }

    /// With one more header, which is null.
    pub fn with_null_header(mut self, name: &str) -> TestRecord {
        self.headers.push((name.to_owned(), None));
        self
    }

    /// With one more private attribute.
    pub fn with_attribute(mut self, name: &str, value: impl Into<Vec<u8>>) -> TestRecord {
        self.attributes.push((name.to_owned(), Some(value.into())));
        self
    }

    /// With one more private attribute, which is null.
    pub fn with_null_attribute(mut self, name: &str) -> TestRecord {
        self.attributes.push((name.to_owned(), None));
        self
    }

    /// With this place in its source.
    pub fn with_id(mut self, id: RecordId) -> TestRecord {
        self.id = id;
        self
    }

    /// With this event time.
    pub fn with_event_time(mut self, time: Timestamp) -> TestRecord {
        self.event_time = Some(time);
        self
    }

    /// Where it comes from.
    pub fn id(&self) -> RecordId {
        self.id
    }

    /// When it happened.
    pub fn event_time(&self) -> Option<Timestamp> {
        self.event_time
    }

    /// The key, or none for null.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// The value, or none for null.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// The value as text.
    pub fn text(&self) -> Result<&str, FieldError> {
        text(self.value())
    }

    /// The value read as JSON.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, FieldError> {
        json(self.value())
    }

    /// The value of the last header of this name, if it has one that is not null.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        last(&self.headers, name)
    }

    /// The same as text; none if it is not UTF-8.
    pub fn header_text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.header(name)?).ok()
    }

    /// All headers in order; a name may repeat.
    pub fn headers(&self) -> impl Iterator<Item = Pair<'_>> {
        pairs(&self.headers)
    }

    /// The value of the private attribute of this name, if it has one that is not null.
    pub fn attribute(&self, name: &str) -> Option<&[u8]> {
        last(&self.attributes, name)
    }

    /// The same as text; none if it is not UTF-8.
    pub fn attribute_text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.attribute(name)?).ok()
    }

    /// All private attributes.
    pub fn attributes(&self) -> impl Iterator<Item = Pair<'_>> {
        pairs(&self.attributes)
    }

    /// Adds it to a batch.
    #[doc(hidden)]
    pub fn push(&self, builder: &mut BatchBuilder) -> Result<(), RecordRefused> {
        let headers = borrowed(&self.headers);
        let attributes = borrowed(&self.attributes);
        builder.push(&NewRecord {
            id: self.id,
            event_time: self.event_time.map(Timestamp::as_micros),
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &headers,
            attributes: &attributes,
        })
    }

    /// The record with a patch applied, by the code the host uses.
    pub(super) fn patched(
        record: &RecordView<'_>,
        patch: &Patch<'_>,
        emit: u64,
    ) -> Result<TestRecord, String> {
        let mut builder = BatchBuilder::default();
        builder
            .push_patched(record, patch, emit)
            .map_err(|error| error.to_string())?;
        let batch = builder.finish(0);
        let record = batch.view().get(0).ok_or("the patched record is missing")?;
        Ok(TestRecord::from(record))
    }
}

impl From<RecordView<'_>> for TestRecord {
    fn from(view: RecordView<'_>) -> TestRecord {
        TestRecord {
            id: view.id(),
            event_time: view.event_time().map(Timestamp::from_micros),
            key: view.key().map(<[u8]>::to_vec),
            value: view.value().map(<[u8]>::to_vec),
            headers: owned(view.headers()),
            attributes: owned(view.attributes()),
        }
    }
}

fn owned(pairs: Pairs<'_>) -> OwnedPairs {
    pairs
        .map(|pair| (pair.name.to_owned(), pair.value.map(<[u8]>::to_vec)))
        .collect()
}

fn borrowed(pairs: &OwnedPairs) -> Vec<(&str, Option<&[u8]>)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect()
}

fn pairs(pairs: &OwnedPairs) -> impl Iterator<Item = Pair<'_>> {
    pairs.iter().map(|(name, value)| Pair {
        name,
        value: value.as_deref(),
    })
}

fn last<'a>(pairs: &'a OwnedPairs, name: &str) -> Option<&'a [u8]> {
    let (_, value) = pairs.iter().rev().find(|(found, _)| found == name)?;
    value.as_deref()
}
