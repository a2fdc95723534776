//! Cases of what handles tokens: a text in pieces, and what goes on of it.

use serde_json::{Value, json};

use super::read::{Case, Expected, list, only, pairs};
use super::{Run, compare, said};
use crate::testing::TestLane;
use crate::{Described, Ending, LaneKind, Through};

/// A text, and what is to go on of it.
pub(super) struct TokensCase {
    lane: TestLane,
    pieces: Vec<String>,
    /// A text, or one for each piece.
    through: Option<Value>,
    end: Value,
}

const MEMBERS: [&str; 8] = [
    "lane",
    "model",
    "choice",
    "record",
    "attributes",
    "pieces",
    "through",
    "end",
];

pub(super) fn read(value: &Value) -> Result<TokensCase, String> {
    let members = only(value, &MEMBERS)?;
    let mut lane = TestLane::of(match members.get("lane") {
        None => LaneKind::Content,
        Some(Value::String(kind)) if kind == "content" => LaneKind::Content,
        Some(Value::String(kind)) if kind == "reasoning" => LaneKind::Reasoning,
        Some(other) => match other["arguments"].as_u64().map(u32::try_from) {
            Some(Ok(call)) => LaneKind::Arguments(call),
            _ => return Err(format!(".lane is {other}, which is none")),
        },
    });
    for (name, to) in [("model", &mut lane.model), ("record", &mut lane.identity)] {
        if let Some(given) = members.get(name) {
            let given = given.as_str();
            *to = given
                .ok_or_else(|| format!(".{name} is no text"))?
                .to_owned();
        }
    }
    if let Some(choice) = members.get("choice") {
        let choice = choice.as_u64().and_then(|choice| choice.try_into().ok());
        lane.choice = choice.ok_or(".choice is no whole number")?;
    }
    for (name, value) in
        pairs(members.get("attributes")).map_err(|why| format!(".attributes{why}"))?
    {
        lane.attributes.push((name, value.unwrap_or_default()));
    }
    let texts = |values: &[Value]| -> Option<Vec<String>> {
        let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
        texts.collect()
    };
    let pieces = texts(list(value, "pieces")?).filter(|pieces| !pieces.is_empty());
    Ok(TokensCase {
        lane,
        pieces: pieces.ok_or(".pieces are no texts")?,
        through: members.get("through").cloned(),
        end: value["end"].clone(),
    })
}

/// What went on of each piece, as far as the answer went, and how it ended.
type Came = (Vec<String>, Option<Ending>);

fn end(end: Option<Ending>) -> Value {
    match end {
        None => Value::Null,
        Some(Ending::Stop) => "stop".into(),
        Some(Ending::Filtered) => "filtered".into(),
    }
}

/// What differs from a case. Only the lines of the pieces as they stand there count.
pub(super) fn differences<T: Described>(
    run: &mut Run<'_, T>,
    case: &Case,
    tokens: &TokensCase,
) -> Vec<String> {
    let came = give(run, tokens, tokens.pieces.iter().map(String::as_str));
    run.take_lines();
    let (each, ended) = match (&case.expected, came) {
        (Expected::Failure(expected), Err(found)) => return compare::failure(expected, &found),
        (Expected::Failure(_), Ok(_)) => return vec![": expected that it fails".into()],
        (_, Err(found)) => return vec![format!(": it fails: {}", compare::shown(&found))],
        (_, Ok(came)) => came,
    };
    let Some(through) = &tokens.through else {
        return vec![": it expects neither what goes through nor a failure".into()];
    };
    let sum = each.concat();
    let found = match through {
        Value::String(_) => json!(sum),
        _ => json!(each),
    };
    let mut wrong = Vec::new();
    let mut hold = |place: &str, expected: &Value, found: &Value| {
        let why = compare::difference(expected, found);
        wrong.extend(why.map(|why| format!(", {place}{why}")));
    };
    hold("through", through, &found);
    hold("end", &tokens.end, &end(ended));
    let logged = run.lines.len();
    let whole = tokens.pieces.concat();
    let characters: Vec<String> = match whole.is_empty() {
        true => vec![String::new()],
        false => whole.chars().map(String::from).collect(),
    };
    for (cut, pieces) in [
        ("in one piece", vec![whole.clone()]),
        ("character by character", characters),
        // As every lane of a pipeline ends: it is known late that nothing more comes.
        ("with its end apart", vec![whole, String::new()]),
    ] {
        let place = format!("the same text {cut}");
        match give(run, tokens, pieces.iter().map(String::as_str)) {
            Ok((other, other_end)) => {
                hold(&place, &json!(sum), &json!(other.concat()));
                hold(&format!("{place}, end"), &end(ended), &end(other_end));
            }
            Err(why) => hold(&place, &Value::Null, &why),
        }
    }
    run.take_lines();
    run.lines.truncate(logged);
    wrong
}

/// Gives all of a text in these pieces, as far as the answer goes.
fn give<'t, T: Described>(
    run: &Run<'_, T>,
    tokens: &TokensCase,
    pieces: impl Iterator<Item = &'t str>,
) -> Result<Came, Value> {
    let Some(harness) = &run.harness else {
        return Err(json!({"message": "it was not started"}));
    };
    let opened = harness.open_lane(&tokens.lane);
    let none = || json!({"message": "the operator handles no tokens"});
    let mut step = opened.ok_or_else(none)?.map_err(|failure| said(&failure))?;
    let (mut each, mut pieces) = (Vec::new(), pieces.peekable());
    while let Some(piece) = pieces.next() {
        let Through { text, end } = step(piece, pieces.peek().is_none());
        each.push(text);
        if end.is_some() {
            return Ok((each, end));
        }
    }
    Ok((each, None))
}
