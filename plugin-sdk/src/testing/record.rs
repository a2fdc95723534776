//! Records that own what they hold, for tests.

use tidegate_record::{ArenaFull, BatchBuilder, NewRecord, Pairs, Patch, RecordId, RecordView};

type OwnedPairs = Vec<(String, Option<Vec<u8>>)>;

/// A record that owns its fields: what goes into a test, and what comes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRecord {
    /// Where it comes from.
    pub id: RecordId,
    /// Event time, microseconds since the Unix epoch.
    pub event_time: Option<i64>,
    /// The key, or none for null.
    pub key: Option<Vec<u8>>,
    /// The value, or none for null.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: OwnedPairs,
    /// Private attributes in order.
    pub attributes: OwnedPairs,
}

impl TestRecord {
    /// A record with this value.
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

    /// With one more private attribute.
    pub fn with_attribute(mut self, name: &str, value: impl Into<Vec<u8>>) -> TestRecord {
        self.attributes.push((name.to_owned(), Some(value.into())));
        self
    }

    /// The value as text.
    ///
    /// # Panics
    /// If it is null or not UTF-8.
    #[track_caller]
    pub fn text(&self) -> &str {
        match self.value.as_deref().map(std::str::from_utf8) {
            Some(Ok(text)) => text,
            other => panic!("the value is no text: {other:?}"),
        }
    }

    /// The value as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_str(self.text()) {
            Ok(value) => value,
            Err(error) => panic!("the value is not JSON: {error}: {}", self.text()),
        }
    }

    /// The last header of this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        last(&self.headers, name)
    }

    /// The last private attribute of this name, if it is text.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        last(&self.attributes, name)
    }

    pub(super) fn push(&self, builder: &mut BatchBuilder) -> Result<(), ArenaFull> {
        let headers = borrowed(&self.headers);
        let attributes = borrowed(&self.attributes);
        builder.push(&NewRecord {
            id: self.id,
            event_time: self.event_time,
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
            event_time: view.event_time(),
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

fn last<'a>(pairs: &'a OwnedPairs, name: &str) -> Option<&'a str> {
    let (_, value) = pairs.iter().rev().find(|(found, _)| found == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}
