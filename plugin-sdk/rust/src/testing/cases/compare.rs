//! Holds what an operator did against what a case expects. A difference begins where the name of its case ends.

use serde_json::{Value, json};

use crate::Level;

/// Longest text of a value that a difference shows, in bytes.
const SHOWN: usize = 160;

/// A value as a difference shows it.
pub(super) fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > SHOWN {
        let length = text.len();
        text.truncate(text.floor_char_boundary(SHOWN));
        text.push_str(&format!("… ({length} bytes)"));
    }
    text
}

/// Of all records. They are counted from 1, and so are the entries of lists.
pub(super) fn outcomes(expected: &[Value], found: &[Value]) -> Vec<String> {
    let pairs = expected.iter().zip(found).enumerate();
    pairs
        .filter_map(|(index, (expected, found))| {
            outcome(expected, found).map(|why| format!(", record {}{why}", index + 1))
        })
        .collect()
}

fn outcome(expected: &Value, found: &Value) -> Option<String> {
    let kind = |value: &Value| match value {
        Value::Object(members) => members.keys().next().cloned().unwrap_or_default(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    let (wanted, came) = (kind(expected), kind(found));
    // Whether the SDK or the host makes the dead letter is the language's.
    let is_raised = wanted == "raised" && came == "dead-letter";
    if wanted != came && !is_raised {
        return Some(format!(
            ": expected {}, found {}",
            shown(expected),
            shown(found)
        ));
    }
    difference(&expected[&wanted], &found[&came]).map(|why| format!(", {came}{why}"))
}

/// The first difference of two values, after the path to it.
pub(super) fn difference(expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(parts), Value::String(text)) if parts.contains_key("contains") => {
            let parts = expected["contains"].as_array()?;
            let missing = parts
                .iter()
                .filter_map(Value::as_str)
                .find(|part| !text.contains(part))?;
            Some(format!(
                ": expected a text with {missing:?}, found {}",
                shown(found)
            ))
        }
        (Value::Object(wanted), Value::Object(came)) => {
            for (name, expected) in wanted {
                let Some(found) = came.get(name) else {
                    return Some(format!(
                        ", {name}: expected {}, found nothing",
                        shown(expected)
                    ));
                };
                if let Some(why) = difference(expected, found) {
                    return Some(format!(", {name}{why}"));
                }
            }
            let more = came.iter().find(|(name, _)| !wanted.contains_key(*name));
            more.map(|(name, found)| format!(", {name}: expected nothing, found {}", shown(found)))
        }
        (Value::Array(wanted), Value::Array(came)) => {
            for (index, (expected, found)) in wanted.iter().zip(came).enumerate() {
                if let Some(why) = difference(expected, found) {
                    return Some(format!("[{}]{why}", index + 1));
                }
            }
            (wanted.len() != came.len())
                .then(|| format!(": expected {} entries, found {}", wanted.len(), came.len()))
        }
        (Value::Number(wanted), Value::Number(came)) if wanted.as_f64() == came.as_f64() => None,
        (Value::String(wanted), Value::String(came)) if wanted != came => {
            let same = wanted
                .bytes()
                .zip(came.bytes())
                .take_while(|(one, other)| one == other);
            let at = same.count();
            let from = |text: &str| {
                let start = text.floor_char_boundary(at.saturating_sub(SHOWN / 4));
                let cut = if start > 0 { "…" } else { "" };
                format!("{cut}{}", shown(&json!(text[start..])))
            };
            let place = if at > SHOWN / 2 {
                format!(" from byte {at} on")
            } else {
                String::new()
            };
            Some(format!(
                "{place}: expected {}, found {}",
                from(wanted),
                from(came)
            ))
        }
        (expected, found) if expected == found => None,
        _ => Some(format!(
            ": expected {}, found {}",
            shown(expected),
            shown(found)
        )),
    }
}

/// Of class, code and message, those that are expected.
pub(super) fn failure(expected: &Value, found: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in ["class", "code", "message"] {
        let wanted = &expected[name];
        if !wanted.is_null()
            && let Some(why) = difference(wanted, &found[name])
        {
            wrong.push(format!(", {name} of the failure{why}"));
        }
    }
    wrong
}

/// Of all lines.
pub(super) fn log(expected: &[Value], found: &[(Level, String)]) -> Vec<String> {
    let found = found.iter().map(|(level, line)| {
        let level = match level {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        json!([level, line])
    });
    let why = difference(&json!(expected), &found.collect());
    why.map(|why| format!(", log{why}")).into_iter().collect()
}

/// Of all series, in any order.
pub(super) fn metrics(expected: &[Value], found: &[Value]) -> Vec<String> {
    let same = |one: &Value, other: &Value| {
        let none = json!({});
        let labels = |value: &Value| value.get("labels").unwrap_or(&none).clone();
        one["name"] == other["name"] && labels(one) == labels(other)
    };
    let none = json!(0);
    let mut wrong = Vec::new();
    for expected in expected {
        let value = &expected["value"];
        let series = found.iter().find(|found| same(expected, found));
        let why = match series {
            Some(found) if is_near(value, &found["value"]) => None,
            Some(found) => difference(value, &found["value"]),
            None if is_near(value, &none) => None,
            None => Some(format!(": expected {}, found nothing", shown(expected))),
        };
        let name = expected["name"].as_str().unwrap_or_default();
        wrong.extend(why.map(|why| format!(", metric {name}{why}")));
    }
    let more = found.iter().filter(|found| {
        !expected.iter().any(|expected| same(expected, found)) && !is_near(&found["value"], &none)
    });
    wrong.extend(more.map(|found| format!(", metrics: expected nothing, found {}", shown(found))));
    wrong
}

/// Whether two values are the same but for how sums were rounded. A number that stayed at zero is as if it had not been
/// measured.
fn is_near(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64(), other.as_f64());
            let near =
                |(one, other): (f64, f64)| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
            one.zip(other).is_some_and(near)
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_same = |name: &str| match (one.get(name), other.get(name)) {
                (Some(one), Some(other)) => is_near(one, other),
                _ => false,
            };
            one.len() == other.len() && one.keys().all(|name| is_same(name))
        }
        _ => false,
    }
}
