//! Writes what came into a file of cases: all else in it stays as it was, byte by byte.

use std::ops::Range;

use serde_json::Value;

use crate::cases::{Case, CaseFile, Expected, ExpectedThrough, Places, TokensCase, word};
use crate::outcome::Came;
use crate::run::{End, Ran};
use crate::tokens::Through;
use crate::write::{self, spaced};

/// Longest list that is written on one line.
const LINE: usize = 100;

/// What differs of a case, as far as it can be written anew.
#[derive(Debug, Default)]
pub(crate) struct Differs {
    /// The records whose outcomes do.
    pub(crate) records: Vec<usize>,
    /// What goes on of a text, or how it ends.
    pub(crate) through: bool,
    pub(crate) log: bool,
    pub(crate) metrics: bool,
}

/// What takes the place of a part of the file.
#[derive(Debug)]
pub(crate) struct Edit {
    place: Range<usize>,
    text: String,
}

/// What makes the file say what came; none where that cannot be: a record that the host makes a dead letter is a mistake
/// rather than an outcome, and so is a batch that fails or a configuration that is refused.
pub(crate) fn edits(
    file: &CaseFile,
    case: &Case,
    ran: &Ran,
    differs: &Differs,
) -> Option<Vec<Edit>> {
    let mut edits = Vec::new();
    match (&ran.end, &case.tokens) {
        (End::Answered { came, .. }, None) => of_outcomes(file, case, came, differs, &mut edits)?,
        (End::Handled(handled), Some(text)) if differs.through => {
            of_text(file, text, &handled.came, &mut edits);
        }
        (End::Handled(_), Some(_)) => {}
        _ => return None,
    }
    let places = &case.places;
    if let (true, Some(place)) = (differs.log, &places.log) {
        if ran.lines.more > 0 {
            return None;
        }
        let lines = ran.lines.kept.iter();
        let lines = lines.map(|(level, line)| write::line(*level, line.as_str()));
        edits.push(in_place(&file.text, place, lines.collect()));
    }
    if let (true, Some(place)) = (differs.metrics, &places.metrics) {
        let metrics = ran.metrics.iter().map(write::measurement).collect();
        edits.push(in_place(&file.text, place, metrics));
    }
    Some(edits)
}

/// What makes a case say what became of its records.
fn of_outcomes(
    file: &CaseFile,
    case: &Case,
    came: &[Came],
    differs: &Differs,
    edits: &mut Vec<Edit>,
) -> Option<()> {
    let poisoned = |came: &Came| matches!(came, Came::Poison { .. });
    let written = |at: &usize| came.get(*at).is_none_or(poisoned);
    if differs.records.iter().any(written) {
        return None;
    }
    let places = &case.places;
    match (&case.expected, &places.outcomes) {
        (Expected::Outcomes(_), Some(_)) => {
            for &at in &differs.records {
                edits.push(Edit {
                    place: places.each.get(at)?.clone(),
                    text: spaced(&write::came(came.get(at)?)),
                });
            }
        }
        (Expected::Nothing, None) => {
            if came.iter().any(poisoned) {
                return None;
            }
            let outcomes = came.iter().map(write::came).collect();
            edits.push(new_member(&file.text, case, "outcomes", outcomes));
        }
        _ => return None,
    }
    Some(())
}

/// What makes a case say what went on of its text: of each piece, if it said that before.
fn of_text(file: &CaseFile, text: &TokensCase, came: &Through, edits: &mut Vec<Edit>) {
    let places = &text.places;
    let mut more = String::new();
    let through = match &text.through {
        Some(ExpectedThrough::Each(_)) => spaced(&Value::from(came.each.clone())),
        _ => Value::from(came.sum()).to_string(),
    };
    let end = came.end.map(|end| format!("\"{}\"", word(end)));
    for (name, place, now) in [
        ("through", &places.through, Some(through)),
        ("end", &places.end, end),
    ] {
        match (place, now) {
            (Some(place), Some(text)) => edits.push(Edit {
                place: place.clone(),
                text,
            }),
            // Without one the answer does not end, and null says so.
            (Some(place), None) => edits.push(Edit {
                place: place.clone(),
                text: "null".to_owned(),
            }),
            (None, Some(text)) => {
                more += &behind(&file.text, &places.tokens, &places.last, name, &text)
            }
            (None, None) => {}
        }
    }
    if !more.is_empty() {
        edits.push(Edit {
            place: places.last.end..places.last.end,
            text: more,
        });
    }
}

/// The text with all of the edits, which do not overlap.
pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.place.start);
    let mut edited = String::with_capacity(text.len());
    let mut at = 0;
    for edit in &edits {
        edited.push_str(&text[at..edit.place.start]);
        edited.push_str(&edit.text);
        at = edit.place.end;
    }
    edited.push_str(&text[at..]);
    edited
}

fn in_place(text: &str, place: &Range<usize>, items: Vec<Value>) -> Edit {
    Edit {
        place: place.clone(),
        text: list(&items, indentation(text, place.start)),
    }
}

/// A member after the last one of a case, on a line of its own if that has one.
fn new_member(text: &str, case: &Case, name: &str, items: Vec<Value>) -> Edit {
    let Places { case, last, .. } = &case.places;
    let list = list(&items, indentation(text, last.start));
    Edit {
        place: last.end..last.end,
        text: behind(text, case, last, name, &list),
    }
}

/// What stands behind the last member of an object where another one follows.
fn behind(
    text: &str,
    object: &Range<usize>,
    last: &Range<usize>,
    name: &str,
    value: &str,
) -> String {
    let is_on_lines = text[object.start..last.start].contains('\n');
    let between = match is_on_lines {
        true => format!(",\n{}", indentation(text, last.start)),
        false => ", ".to_owned(),
    };
    format!("{between}\"{name}\": {value}")
}

/// What the line of this byte begins with.
fn indentation(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[start..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// A list on one line, or each item on a line of its own.
fn list(items: &[Value], indentation: &str) -> String {
    let items: Vec<String> = items.iter().map(spaced).collect();
    let length: usize = items.iter().map(|item| item.len() + 2).sum();
    if length <= LINE {
        return format!("[{}]", items.join(", "));
    }
    let between = format!(",\n{indentation}  ");
    format!("[\n{indentation}  {}\n{indentation}]", items.join(&between))
}
