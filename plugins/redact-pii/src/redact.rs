//! Redacts the texts of one value.

use std::borrow::Cow;

use tidegate_sdk::json::{
    Edits, JsonError, MAX_NESTED, MemberPath, NumberValue, Paths, Scalar, StringValue,
    looks_like_json, scalars, scalars_and_names,
};

use crate::find::{Found, Kinds, find};
use crate::names::Names;
use crate::placeholder::Placeholders;

/// A member whose value is personal data as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) path: Paths,
    pub(crate) label: String,
}

/// What is looked for, and where.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) kinds: Kinds,
    pub(crate) paths: Paths,
    pub(crate) fields: Vec<Field>,
}

/// A string or number of a JSON value, and what is done with it.
enum Part<'a> {
    /// All of it is personal data, under this label.
    Named(StringValue<'a>, Cow<'a, str>, usize),
    NamedNumber(NumberValue<'a>, usize),
    /// It is looked through.
    Searched(StringValue<'a>, Cow<'a, str>),
    SearchedNumber(NumberValue<'a>),
}

impl Rules {
    /// The value with placeholders in it, if it has anything to replace.
    pub(crate) fn redact(&self, value: &str, placeholders: &mut Placeholders) -> Option<String> {
        if value.contains('[') {
            placeholders.reserve(value);
        }
        if looks_like_json(value)
            && let Ok(parts) = self.parts(value)
        {
            return self.redact_json(value, &parts, placeholders);
        }
        self.redact_text(value, &Names::default(), placeholders)
    }

    fn parts<'a>(&self, value: &'a str) -> Result<Vec<Part<'a>>, JsonError> {
        let mut parts = Vec::new();
        let label = |place: MemberPath<'_, '_>| {
            self.fields.iter().position(|field| field.path.cover(place))
        };
        scalars(value, |place, scalar| match (scalar, label(place)) {
            (Scalar::String(string), Some(field)) => {
                parts.push(Part::Named(string, string.decoded(), field))
            }
            (Scalar::Number(number), Some(field)) => parts.push(Part::NamedNumber(number, field)),
            (Scalar::String(string), None) if self.paths.cover(place) => {
                parts.push(Part::Searched(string, string.decoded()));
            }
            (Scalar::Number(number), None)
                if self.paths.cover(place) && is_integer(number.raw()) =>
            {
                parts.push(Part::SearchedNumber(number));
            }
            _ => {}
        })?;
        Ok(parts)
    }

    fn redact_json(
        &self,
        value: &str,
        parts: &[Part<'_>],
        placeholders: &mut Placeholders,
    ) -> Option<String> {
        let mut names = Names::default();
        for part in parts {
            match part {
                Part::Named(_, text, field) => {
                    placeholders.reserve(text);
                    names.add(&self.fields[*field].label, text);
                }
                // Escaped, it was not seen in the value as it stands.
                Part::Searched(_, Cow::Owned(text)) => {
                    placeholders.reserve(text);
                    reserve_within(text, placeholders, 1);
                }
                _ => {}
            }
        }
        let mut edits = Edits::default();
        for part in parts {
            match part {
                Part::Named(string, text, field) if !text.is_empty() => {
                    edits.replace(string, placeholders.of(&self.fields[*field].label, text));
                }
                Part::Named(..) => {}
                Part::NamedNumber(number, field) if is_integer(number.raw()) => {
                    edits.replace_number(
                        number,
                        placeholders.of_number(&self.fields[*field].label, number.raw()),
                    );
                }
                Part::NamedNumber(number, field) => {
                    edits.replace_number(
                        number,
                        placeholders.of(&self.fields[*field].label, number.raw()),
                    );
                }
                Part::Searched(string, text) => {
                    if let Some(redacted) = self.redact_string(text, &names, placeholders, 1) {
                        edits.replace(string, &redacted);
                    }
                }
                Part::SearchedNumber(number) => {
                    self.redact_number(number, placeholders, &mut edits)
                }
            }
        }
        (!edits.is_empty()).then(|| edits.apply(value))
    }

    fn redact_number(
        &self,
        number: &NumberValue<'_>,
        placeholders: &mut Placeholders,
        edits: &mut Edits,
    ) {
        let mut found = Vec::new();
        find(number.raw(), self.kinds, &mut found);
        if let [one] = found[..]
            && one.end - one.start == number.raw().len()
        {
            edits.replace_number(
                number,
                placeholders.of_number(one.kind.label(), number.raw()),
            );
        }
    }

    /// A string of a JSON value with placeholders in it. One that is JSON itself, as the arguments of a call are, stays
    /// so, and what is escaped in it is found, in its strings that are JSON too: bodies of requests are written as strings
    /// of JSON in strings of JSON. `depth` is how many strings it stands in.
    fn redact_string(
        &self,
        text: &str,
        names: &Names,
        placeholders: &mut Placeholders,
        depth: usize,
    ) -> Option<String> {
        let mut edits = Edits::default();
        let within = depth < MAX_NESTED
            && looks_like_json(text)
            && scalars_and_names(text, |_, scalar| match scalar {
                Scalar::String(string) | Scalar::Name(string) => {
                    let decoded = string.decoded();
                    let redacted = self.redact_string(&decoded, names, placeholders, depth + 1);
                    if let Some(redacted) = redacted {
                        edits.replace(&string, &redacted);
                    }
                }
                Scalar::Number(number) if is_integer(number.raw()) => {
                    self.redact_number(&number, placeholders, &mut edits);
                }
                Scalar::Number(_) => {}
            })
            .is_ok();
        let within = (within && !edits.is_empty()).then(|| edits.apply(text));
        // What stands between its strings, or all of it.
        let shown = within.as_deref().unwrap_or(text);
        self.redact_text(shown, names, placeholders).or(within)
    }

    /// A text with placeholders in it, if it has anything to replace. Where a name stands in something found by its
    /// form, as in an e-mail address, that is replaced as a whole.
    fn redact_text(
        &self,
        text: &str,
        names: &Names,
        placeholders: &mut Placeholders,
    ) -> Option<String> {
        let mut found = Vec::new();
        find(text, self.kinds, &mut found);
        let mut parts: Vec<(usize, usize, &str)> = found
            .iter()
            .map(|one: &Found| (one.start, one.end, one.kind.label()))
            .collect();
        if !names.is_empty() {
            let meets = |start: usize, end: usize| {
                found.iter().any(|one| one.start < end && start < one.end)
            };
            for (range, label) in names.find(text) {
                if !meets(range.start, range.end) {
                    parts.push((range.start, range.end, label));
                }
            }
            parts.sort_unstable();
        }
        if parts.is_empty() {
            return None;
        }
        let mut redacted = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end, label) in parts {
            redacted.push_str(&text[at..start]);
            redacted.push_str(placeholders.of(label, &text[start..end]));
            at = end;
        }
        redacted.push_str(&text[at..]);
        Some(redacted)
    }
}

/// Whether a JSON number is digits only, and few enough to come back as they were.
fn is_integer(raw: &str) -> bool {
    raw.len() <= 19 && raw.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reserves what looks like a placeholder in the strings of a text that is JSON, where it is escaped. `depth` is how many
/// strings the text stands in.
fn reserve_within(text: &str, placeholders: &mut Placeholders, depth: usize) {
    if depth < MAX_NESTED && looks_like_json(text) && text.contains('\\') {
        // Of a text that turns out to be none, too much is reserved.
        let _ = scalars_and_names(text, |_, scalar| {
            if let Scalar::String(string) | Scalar::Name(string) = scalar
                && let Cow::Owned(text) = string.decoded()
            {
                placeholders.reserve(&text);
                reserve_within(&text, placeholders, depth + 1);
            }
        });
    }
}
