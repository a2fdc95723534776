//! Outcomes, lines and measurements as cases write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tidegate_operator::Level;

use crate::cases::{ExpectedFailure, ExpectedOutcome, Measured, Measurement, Text};
use crate::outcome::{Came, Change, Patch, Piece, Refusal};

/// Shortest text that is written as one that is repeated, in bytes.
const REPEATED: usize = 256;

/// Bytes: a text where they are UTF-8.
pub(crate) fn bytes(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else {
        return Value::Null;
    };
    if let [first, ..] = bytes
        && bytes.len() >= REPEATED
        && first.is_ascii()
        && bytes.iter().all(|byte| byte == first)
    {
        let text = char::from(*first).to_string();
        return json!({"repeat": text, "times": bytes.len()});
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

/// A change of headers or attributes.
pub(crate) fn change(change: &Change) -> Value {
    match change {
        Change::Set(name, value) => json!(["set", name, bytes(value.as_deref())]),
        Change::Add(name, value) => json!(["add", name, bytes(value.as_deref())]),
        Change::Remove(name) => json!(["remove", name]),
    }
}

/// Changes of headers or attributes.
pub(crate) fn changes(changes: &[Change]) -> Value {
    changes.iter().map(change).collect()
}

/// An event time.
pub(crate) fn time(time: Option<i64>) -> Value {
    time.map_or(Value::Null, Value::from)
}

fn members(to: Option<&str>, patch: &Patch) -> Value {
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
    if let Some(to) = to {
        put("to", to.into());
    }
    if let Some(key) = &patch.key {
        put("key", bytes(key.as_deref()));
    }
    if let Some(value) = &patch.value {
        put("value", bytes(value.as_deref()));
    }
    if !patch.headers.is_empty() {
        put("headers", changes(&patch.headers));
    }
    if !patch.attributes.is_empty() {
        put("attributes", changes(&patch.attributes));
    }
    if let Some(event_time) = patch.event_time {
        put("event-time", time(event_time));
    }
    Value::Object(members)
}

fn piece(piece: &Piece) -> Value {
    members(piece.to.as_deref(), &piece.patch)
}

fn pieces(pieces: &[Piece]) -> Value {
    match pieces {
        [first, _, ..] if pieces.iter().all(|other| other == first) => {
            json!({"repeat": piece(first), "times": pieces.len()})
        }
        _ => pieces.iter().map(piece).collect(),
    }
}

/// What became of a record.
pub(crate) fn came(came: &Came) -> Value {
    match came {
        Came::Pass => "pass".into(),
        Came::Drop => "drop".into(),
        Came::Replace(patch) => json!({"replace": members(None, patch)}),
        Came::Split(all) => json!({"split": pieces(all)}),
        Came::Route(routed) => json!({"route": piece(routed)}),
        Came::Retry {
            after_ms,
            reason,
            then,
        } => {
            let mut retry = json!({"after-ms": after_ms, "reason": reason});
            if let (Some(then), Some(members)) = (then, retry.as_object_mut()) {
                members.insert("then".into(), self::came(then));
            }
            json!({"retry": retry})
        }
        Came::DeadLetter(reason) => json!({"dead-letter": reason}),
        Came::Poison { reason, .. } => json!({"poison": reason}),
    }
}

/// What is to become of a record.
pub(crate) fn expected(outcome: &ExpectedOutcome) -> Value {
    match outcome {
        ExpectedOutcome::Pass => "pass".into(),
        ExpectedOutcome::Drop => "drop".into(),
        ExpectedOutcome::Replace(patch) => json!({"replace": members(None, patch)}),
        ExpectedOutcome::Split(all) => json!({"split": pieces(all)}),
        ExpectedOutcome::Route(routed) => json!({"route": piece(routed)}),
        ExpectedOutcome::Retry {
            after_ms, reason, ..
        } => json!({"retry": {"after-ms": after_ms, "reason": text(reason)}}),
        ExpectedOutcome::DeadLetter(reason) => json!({"dead-letter": text(reason)}),
        ExpectedOutcome::Poison(reason) => json!({"poison": text(reason)}),
        ExpectedOutcome::Raised(reason) => json!({"raised": text(reason)}),
    }
}

/// A text that is expected.
pub(crate) fn text(text: &Text) -> Value {
    match text {
        Text::Whole(text) => text.as_str().into(),
        Text::Contains(parts) => json!({"contains": parts}),
    }
}

/// A failure that is expected.
pub(crate) fn failure(failure: &ExpectedFailure) -> Value {
    let mut members = Map::new();
    if let Some(class) = failure.class {
        members.insert("class".into(), class.name().into());
    }
    if let Some(code) = &failure.code {
        members.insert("code".into(), code.as_str().into());
    }
    if let Some(message) = &failure.message {
        members.insert("message".into(), text(message));
    }
    Value::Object(members)
}

/// A failure that came.
pub(crate) fn refusal(refusal: &Refusal) -> Value {
    let mut members = Map::new();
    if let Some(class) = refusal.class {
        members.insert("class".into(), class.name().into());
    }
    if let Some(code) = &refusal.code {
        members.insert("code".into(), code.as_str().into());
    }
    members.insert("message".into(), refusal.message.as_str().into());
    Value::Object(members)
}

/// A line of the log.
pub(crate) fn line(level: Level, line: impl Into<Value>) -> Value {
    json!([level.name(), line.into()])
}

/// A measurement.
pub(crate) fn measurement(measurement: &Measurement) -> Value {
    let mut members = Map::new();
    members.insert("name".into(), measurement.name.as_str().into());
    if !measurement.labels.is_empty() {
        let labels = measurement.labels.iter();
        let labels = labels.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        members.insert("labels".into(), labels.collect());
    }
    members.insert("value".into(), measured(measurement.value));
    Value::Object(members)
}

/// What was measured.
pub(crate) fn measured(measured: Measured) -> Value {
    match measured {
        Measured::Number(number) => self::number(number),
        Measured::Spread { count, sum } => json!({"count": count, "sum": number(sum)}),
    }
}

/// Whole numbers without a point, as people write them.
fn number(number: f64) -> Value {
    let whole = number as i64;
    match whole as f64 == number && whole.unsigned_abs() < 1 << 53 {
        true => whole.into(),
        false => number.into(),
    }
}

/// JSON on one line, with spaces as people write them: `{"a": [1, 2]}`.
pub(crate) fn spaced(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items = items.iter().map(spaced);
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_they_are_read_best() {
        let shown = |value: &[u8]| spaced(&bytes(Some(value)));
        assert_eq!(shown("grüße\n".as_bytes()), r#""grüße\n""#);
        assert_eq!(shown(b"\xff\x00"), r#"{"base64": "/wA="}"#);
        assert_eq!(shown(&[b'x'; 300]), r#"{"repeat": "x", "times": 300}"#);
        assert_eq!(spaced(&bytes(None)), "null");
        assert_eq!(shown(b""), r#""""#);
    }

    #[test]
    fn numbers_are_written_as_people_do() {
        for (value, shown) in [(3.0, "3"), (-0.5, "-0.5"), (1e300, "1e+300"), (0.0, "0")] {
            assert_eq!(number(value).to_string(), shown);
        }
    }
}
