//! What cases expect.

use tidegate_operator::Level;

use super::bytes::{Made, times_of};
use super::records::time;
use super::{ExpectedFailure, ExpectedOutcome, MAX_RETRIES, Measured, Measurement, Text};
use crate::json::{Mistake, Node};
use crate::outcome::{Class, Patch, Piece};

/// Most pieces that `times` makes of one: one more than an answer may have.
const MAX_PIECES: usize = tidegate_record::layout::MAX_PIECES as usize + 1;

const OUTCOMES: &str = "\"pass\", \"drop\", or an object with one of replace, split, route, retry, dead-letter, poison \
    and raised";

/// What becomes of a record; `again` is how often it has come again before. A replace without changes is a pass, and a
/// split without pieces a drop, as for the host.
pub(super) fn outcome(
    node: &Node<'_>,
    made: &mut Made,
    again: usize,
) -> Result<ExpectedOutcome, Mistake> {
    if node.is_text() {
        return match node.text()?.as_str() {
            "pass" => Ok(ExpectedOutcome::Pass),
            "drop" => Ok(ExpectedOutcome::Drop),
            _ => Err(node.is_no(OUTCOMES)),
        };
    }
    if !node.is_object() {
        return Err(node.is_no(OUTCOMES));
    }
    let members = node.members()?;
    let [(name, value)] = members.as_slice() else {
        return Err(node.is_no(OUTCOMES));
    };
    Ok(match name.as_str() {
        "replace" => {
            let piece = piece(value, made)?;
            if piece.to.is_some() {
                return Err(value.mistake("it has \"to\"; what goes to a named output is a route"));
            }
            match piece.patch.is_empty() {
                true => ExpectedOutcome::Pass,
                false => ExpectedOutcome::Replace(piece.patch),
            }
        }
        "split" => match pieces(value, made)? {
            none if none.is_empty() => ExpectedOutcome::Drop,
            pieces => ExpectedOutcome::Split(pieces),
        },
        "route" => {
            let piece = piece(value, made)?;
            if piece.to.is_none() {
                return Err(value.mistake("it has no \"to\": the named output"));
            }
            ExpectedOutcome::Route(piece)
        }
        "retry" => {
            let [after_ms, reason, then] = value.fields(["after-ms", "reason", "then"])?;
            let after_ms = after_ms.ok_or_else(|| value.mistake("it has no \"after-ms\""))?;
            let reason = reason.ok_or_else(|| value.mistake("it has no \"reason\""))?;
            let then = match then {
                Some(then) if again >= MAX_RETRIES => {
                    let why = format!("a record comes again at most {MAX_RETRIES} times");
                    return Err(then.mistake(why));
                }
                Some(then) => Some(Box::new(outcome(&then, made, again + 1)?)),
                None => None,
            };
            ExpectedOutcome::Retry {
                after_ms: after_ms.whole("a whole number of milliseconds from 0 to 4294967295")?,
                reason: text(&reason)?,
                then,
            }
        }
        "dead-letter" => ExpectedOutcome::DeadLetter(text(value)?),
        "poison" => ExpectedOutcome::Poison(text(value)?),
        "raised" => ExpectedOutcome::Raised(text(value)?),
        _ => return Err(node.is_no(OUTCOMES)),
    })
}

fn pieces(node: &Node<'_>, made: &mut Made) -> Result<Vec<Piece>, Mistake> {
    if node.is_list() {
        return node.items()?.iter().map(|item| piece(item, made)).collect();
    }
    let [repeated, times] = node.fields(["repeat", "times"])?;
    let repeated = repeated.ok_or_else(|| node.mistake("it has no \"repeat\""))?;
    let times = times_of(node, times.as_ref(), MAX_PIECES)?;
    Ok(vec![piece(&repeated, made)?; times])
}

/// An output, none for the main one, and what changes.
fn piece(node: &Node<'_>, made: &mut Made) -> Result<Piece, Mistake> {
    let [to, key, value, headers, attributes, event_time] =
        node.fields(["to", "key", "value", "headers", "attributes", "event-time"])?;
    let mut patch = Patch::default();
    if let Some(key) = key {
        patch.key = Some(made.bytes(&key)?);
    }
    if let Some(value) = value {
        patch.value = Some(made.bytes(&value)?);
    }
    if let Some(headers) = headers {
        patch.headers = made.changes(&headers)?;
    }
    if let Some(attributes) = attributes {
        patch.attributes = made.changes(&attributes)?;
    }
    if let Some(event_time) = event_time {
        patch.event_time = Some(time(&event_time)?);
    }
    Ok(Piece {
        to: to.as_ref().map(Node::text).transpose()?,
        patch,
    })
}

/// The whole of a text, or parts of it.
pub(super) fn text(node: &Node<'_>) -> Result<Text, Mistake> {
    if node.is_text() {
        return Ok(Text::Whole(node.text()?));
    }
    if !node.is_object() {
        return Err(node.is_no("a text or {\"contains\": [texts]}"));
    }
    let [parts] = node.fields(["contains"])?;
    let parts = parts.ok_or_else(|| node.mistake("it has no \"contains\""))?;
    let parts: Result<_, _> = parts.items()?.iter().map(Node::text).collect();
    Ok(Text::Contains(parts?))
}

/// A failure of the whole batch, or a configuration that is refused.
pub(super) fn failure(node: &Node<'_>) -> Result<ExpectedFailure, Mistake> {
    let [class, code, message] = node.fields(["class", "code", "message"])?;
    if class.is_none() && code.is_none() && message.is_none() {
        return Err(node.mistake("it has none of class, code, message"));
    }
    let class =
        match class {
            None => None,
            Some(class) => Some(Class::named(&class.text()?).ok_or_else(|| {
                class.is_no("\"transient\", \"permanent\" or \"bad-configuration\"")
            })?),
        };
    Ok(ExpectedFailure {
        class,
        code: code.as_ref().map(Node::text).transpose()?,
        message: message.as_ref().map(text).transpose()?,
    })
}

/// A line of the log.
pub(super) fn line(node: &Node<'_>) -> Result<(Level, Text), Mistake> {
    match node.items()?.as_slice() {
        [level, line] => match Level::named(&level.text()?) {
            Some(level) => Ok((level, text(line)?)),
            None => Err(level.is_no("trace, debug, info, warn or error")),
        },
        _ => Err(node.is_no("[level, line]")),
    }
}

/// A measurement.
pub(super) fn measurement(node: &Node<'_>) -> Result<Measurement, Mistake> {
    let [name, labels, value] = node.fields(["name", "labels", "value"])?;
    let name = name.ok_or_else(|| node.mistake("it has no \"name\""))?;
    let value = value.ok_or_else(|| node.mistake("it has no \"value\""))?;
    let mut labels: Vec<(String, String)> = match labels {
        None => Vec::new(),
        Some(labels) => {
            let members = labels.members()?.into_iter();
            let labels = members.map(|(name, value)| Ok((name, value.text()?)));
            labels.collect::<Result<_, Mistake>>()?
        }
    };
    labels.sort();
    let value = match value.is_object() {
        false => Measured::Number(value.number()?),
        true => {
            let [count, sum] = value.fields(["count", "sum"])?;
            let count = count.ok_or_else(|| value.mistake("it has no \"count\""))?;
            let sum = sum.ok_or_else(|| value.mistake("it has no \"sum\""))?;
            Measured::Spread {
                count: count.whole("a whole number")?,
                sum: sum.number()?,
            }
        }
    };
    Ok(Measurement {
        name: name.text()?,
        labels,
        value,
    })
}
