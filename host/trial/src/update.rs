//! Writes what came into a file of cases: all else in it stays as it was, byte by byte.

use std::ops::Range;

use serde_json::Value;

use crate::cases::{Case, CaseFile, Expected};
use crate::outcome::Came;
use crate::run::{End, Ran};
use crate::write::{self, spaced};

/// Longest list that is written on one line.
const LINE: usize = 100;

/// What differs of a case, as far as it can be written anew.
#[derive(Debug, Default)]
pub(crate) struct Differs {
    /// The records whose outcomes do.
    pub(crate) records: Vec<usize>,
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
    let End::Answered { came, .. } = &ran.end else {
        return None;
    };
    let poisoned = |came: &Came| matches!(came, Came::Poison { .. });
    let written = |at: &usize| came.get(*at).is_none_or(poisoned);
    if differs.records.iter().any(written) {
        return None;
    }
    let places = &case.places;
    let mut edits = Vec::new();
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
    let last = &case.places.last;
    let indentation = indentation(text, last.start);
    let is_on_lines = text[case.places.case.start..last.start].contains('\n');
    let between = match is_on_lines {
        true => format!(",\n{indentation}"),
        false => ", ".to_owned(),
    };
    Edit {
        place: last.end..last.end,
        text: format!("{between}\"{name}\": {}", list(&items, indentation)),
    }
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
