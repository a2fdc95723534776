//! A dead letter, read again from its JSON form.

use serde_json::{Map, Value};
use tidegate_contract::{LetterForm, SealedFor};

use crate::text::read_base64;
use crate::time::parse_time;

/// A dead letter as it was written. What letters of earlier versions do not have is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredLetter {
    /// The pipeline that wrote it; an earlier version did not say.
    pub pipeline: Option<String>,
    /// The record's id: `SOURCE/PARTITION/OFFSET`, and the emit index of a piece.
    pub id: String,
    /// Its source.
    pub source: String,
    /// Which input that source read it from, if that is known.
    pub input: Option<String>,
    /// Its partition.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// Who gave up.
    pub stage: String,
    /// Why.
    pub reason: String,
    /// Digest of the component.
    pub component: Option<String>,
    /// The wasm backtrace.
    pub backtrace: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Length of the value before it was cut, bytes.
    pub length: u64,
    /// When it was written, microseconds since the Unix epoch.
    pub at: Option<i64>,
    /// What key and value are.
    pub form: Option<LetterForm>,
    /// Its event time, microseconds since the Unix epoch.
    pub event_time: Option<i64>,
    /// Its headers; none where they could not be part of the letter.
    pub headers: Option<Vec<(String, Option<Vec<u8>>)>>,
    /// How many private attributes its record had.
    pub private: u64,
    /// They, sealed for this letter; none if they were not kept.
    pub private_sealed: Option<Vec<u8>>,
    /// The letter of which it was sent again.
    pub sent_from: Option<String>,
    /// What was cut to fit its message.
    pub cut: Vec<String>,
}

impl StoredLetter {
    /// What its private attributes are sealed for.
    pub fn sealed_name(&self) -> String {
        let pipeline = self.pipeline.as_deref().unwrap_or_default();
        SealedFor::letter_name(pipeline, &self.id, &self.stage, self.at.unwrap_or_default())
    }
}

/// Reads a letter. None if these bytes are none.
pub fn decode_dead_letter(bytes: &[u8]) -> Option<StoredLetter> {
    let Value::Object(mut object) = serde_json::from_slice(bytes).ok()? else {
        return None;
    };
    let number = |object: &Map<String, Value>, name: &str| object.get(name)?.as_u64();
    let time = |object: &Map<String, Value>, name: &str| parse_time(object.get(name)?.as_str()?);
    let form = object.get("form").and_then(Value::as_str);
    let cut = object.get("cut").and_then(Value::as_object);
    Some(StoredLetter {
        partition: u32::try_from(number(&object, "partition")?).ok()?,
        offset: number(&object, "offset")?,
        attempts: u32::try_from(number(&object, "attempts")?).ok()?,
        length: number(&object, "length")?,
        at: time(&object, "at"),
        form: form.and_then(LetterForm::named),
        event_time: time(&object, "event_time"),
        cut: cut.map_or(Vec::new(), |cut| cut.keys().cloned().collect()),
        headers: match object.remove("headers") {
            None => Some(Vec::new()),
            Some(Value::Array(headers)) => headers.into_iter().map(header).collect(),
            Some(_) => None,
        },
        key: bytes_of(&mut object, "key")?,
        value: bytes_of(&mut object, "value")?,
        id: text_of(&mut object, "id")?,
        source: text_of(&mut object, "source")?,
        input: text_of(&mut object, "input"),
        stage: text_of(&mut object, "stage")?,
        reason: text_of(&mut object, "reason")?,
        component: text_of(&mut object, "component"),
        backtrace: text_of(&mut object, "backtrace"),
        sent_from: text_of(&mut object, "sent_from"),
        private: number(&object, "private").unwrap_or_default(),
        private_sealed: text_of(&mut object, "private_sealed").and_then(|text| read_base64(&text)),
        pipeline: text_of(&mut object, "pipeline"),
    })
}

fn text_of(object: &mut Map<String, Value>, name: &str) -> Option<String> {
    match object.remove(name)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A member that is text, base64 or null. None if it is not there in any form.
fn bytes_of(object: &mut Map<String, Value>, name: &str) -> Option<Option<Vec<u8>>> {
    match object.remove(name) {
        Some(Value::String(text)) => Some(Some(text.into_bytes())),
        Some(Value::Null) => Some(None),
        Some(_) => None,
        None => {
            let text = text_of(object, &format!("{name}_base64"))?;
            read_base64(&text).map(Some)
        }
    }
}

fn header(value: Value) -> Option<(String, Option<Vec<u8>>)> {
    let Value::Object(mut object) = value else {
        return None;
    };
    let value = bytes_of(&mut object, "value")?;
    Some((text_of(&mut object, "name")?, value))
}
