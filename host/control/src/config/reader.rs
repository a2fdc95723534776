//! A typed reader over a parsed TOML file. It knows nothing of what a pipeline is: it knows tables, the kinds of
//! values, their units, and how to say what is wrong. Mistakes gather in a [`Findings`]; reading always goes on.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::findings::{Findings, Typed};
use super::nearest::nearest;
use super::text::Span;

/// A table being read. Keys nobody asked for are unknown, which `finish` reports.
pub(crate) struct Table<'t> {
    pub(crate) found: &'t Findings,
    pub(crate) key: String,
    pub(crate) place: Span,
    entries: Vec<Entry<'t>>,
    asked: RefCell<Vec<&'static str>>,
}

struct Entry<'t> {
    name: Cow<'t, str>,
    name_place: Span,
    value: &'t Spanned<DeValue<'t>>,
    read: Cell<bool>,
}

/// A value of a table or an array, not yet looked at.
#[derive(Clone)]
pub(crate) struct Value<'t> {
    pub(crate) raw: &'t DeValue<'t>,
    pub(crate) place: Span,
    pub(crate) key: String,
}

impl<'t> Table<'t> {
    pub(crate) fn new(
        found: &'t Findings,
        key: String,
        place: Span,
        table: &'t DeTable<'t>,
    ) -> Self {
        let mut entries: Vec<Entry<'t>> = table
            .iter()
            .map(|(name, value)| Entry {
                name: Cow::Borrowed(name.get_ref()),
                name_place: Span(name.span()),
                value,
                read: Cell::new(false),
            })
            .collect();
        // The parser sorts by name; the order of the file is what was meant.
        entries.sort_by_key(|entry| entry.name_place.0.start);
        Self {
            found,
            key,
            place,
            entries,
            asked: RefCell::default(),
        }
    }

    /// Key of an entry with its tables.
    pub(crate) fn key_of(&self, name: &str) -> String {
        if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.key)
        }
    }

    /// The entry of this name.
    pub(crate) fn get(&self, name: &'static str) -> Option<Value<'t>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&name) {
            asked.push(name);
        }
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        entry.read.set(true);
        Some(Value {
            raw: entry.value.get_ref(),
            place: Span(entry.value.span()),
            key: self.key_of(name),
        })
    }

    /// Every entry, whatever its name, with the place of the name.
    pub(crate) fn all(&self) -> Vec<(Typed<String>, Value<'t>)> {
        self.entries
            .iter()
            .map(|entry| {
                entry.read.set(true);
                let key = self.key_of(&entry.name);
                (
                    Typed {
                        value: entry.name.clone().into_owned(),
                        place: entry.name_place.clone(),
                        key: key.clone(),
                    },
                    Value {
                        raw: entry.value.get_ref(),
                        place: Span(entry.value.span()),
                        key,
                    },
                )
            })
            .collect()
    }

    /// Says that an entry must be there.
    pub(crate) fn missing(&self, name: &str, what: &str) {
        self.found.absence(
            &self.place,
            &self.key_of(name),
            format!("is missing; write {what}"),
        );
    }

    /// A known key that has no meaning here: said instead of "unknown".
    pub(crate) fn misplaced(&self, names: &[&'static str], why: &str) {
        for entry in &self.entries {
            if !entry.read.get() && names.iter().any(|name| entry.name == *name) {
                entry.read.set(true);
                self.found
                    .mistake(&entry.name_place, &self.key_of(&entry.name), why);
            }
        }
    }

    /// Reports the entries that nobody asked for.
    pub(crate) fn finish(self) {
        let asked = self.asked.borrow();
        for entry in self.entries.iter().filter(|entry| !entry.read.get()) {
            let guess = match nearest(&entry.name, asked.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("keys here: {}", asked.join(", ")),
            };
            self.found.mistake(
                &entry.name_place,
                &self.key_of(&entry.name),
                format!("is not a key of {}; {guess}", self.shown()),
            );
        }
    }

    fn shown(&self) -> String {
        if self.key.is_empty() {
            "a pipeline file".into()
        } else {
            format!("[{}]", self.key)
        }
    }

    pub(crate) fn string(&self, name: &'static str) -> Option<Typed<String>> {
        self.get(name)?.string(self.found)
    }

    pub(crate) fn strings(&self, name: &'static str) -> Option<Vec<Typed<String>>> {
        self.get(name)?.strings(self.found)
    }

    /// A whole number in a range.
    pub(crate) fn number(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Typed<u64>> {
        let value = self.get(name)?;
        let number = match value.raw {
            DeValue::Integer(integer) => {
                i128::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            other => {
                // What stands in quotes is what was meant.
                let quoted = other.as_str().and_then(|text| text.parse().ok());
                match quoted.filter(|number| range.contains(number)) {
                    Some(meant) => {
                        let what = format!("{value} is not a whole number; write {meant}");
                        self.found.mistake(&value.place, &value.key, what);
                    }
                    None => {
                        value.wrong(self.found, "a whole number", &range.start().to_string());
                    }
                }
                return None;
            }
        };
        match number.and_then(|number| u64::try_from(number).ok()) {
            Some(number) if range.contains(&number) => Some(value.typed(number)),
            _ => {
                let (least, most) = (range.start(), range.end());
                let bounds = if *most == u64::MAX {
                    format!("must be at least {least}")
                } else {
                    format!("must be {least} to {most}")
                };
                self.found
                    .mistake(&value.place, &value.key, format!("{value} {bounds}"));
                None
            }
        }
    }

    /// A whole number in a range, as a count of things.
    pub(crate) fn count(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Typed<usize>> {
        self.number(name, range)
            .map(|typed| typed.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// A real number in a range that a caller checks in words.
    pub(crate) fn real(
        &self,
        name: &'static str,
        fits: impl Fn(f64) -> bool,
        bounds: &str,
    ) -> Option<Typed<f64>> {
        let value = self.get(name)?;
        let number: Option<f64> = match value.raw {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .map(|number| number as f64),
            _ => {
                value.wrong(self.found, "a number", "0.7");
                return None;
            }
        };
        match number.filter(|number| number.is_finite() && fits(*number)) {
            Some(number) => Some(value.typed(number)),
            None => {
                self.found.mistake(
                    &value.place,
                    &value.key,
                    format!("{value} must be {bounds}"),
                );
                None
            }
        }
    }

    /// True or false.
    pub(crate) fn truth(&self, name: &'static str) -> Option<Typed<bool>> {
        let value = self.get(name)?;
        match value.raw {
            DeValue::Boolean(truth) => Some(value.typed(*truth)),
            _ => {
                value.wrong(self.found, "true or false", "true");
                None
            }
        }
    }

    /// One of a list of words.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<Typed<T>> {
        let typed = self.string(name)?;
        match words.iter().find(|(word, _)| typed.value == *word) {
            Some((_, meaning)) => Some(typed.map(|_| *meaning)),
            None => {
                let known = words.iter().map(|(word, _)| *word);
                self.found.about(&typed, not_one_of(&typed.value, known));
                None
            }
        }
    }

    /// A table inside this one.
    pub(crate) fn table(&self, name: &'static str) -> Option<Table<'t>> {
        self.get(name)?.table(self.found)
    }
}

/// `"jsn" is not known; did you mean "json"? (json, csv, raw)`.
pub(crate) fn not_one_of(typed: &str, known: impl Iterator<Item = &'static str> + Clone) -> String {
    let list: Vec<&str> = known.clone().collect();
    let list = list.join(", ");
    match nearest(typed, known.clone()) {
        Some(near) => format!("{typed:?} is not known; did you mean {near:?}? ({list})"),
        None if known.count() == 1 => format!("{typed:?} is not possible here; write {list:?}"),
        None => format!("{typed:?} is not known; write one of {list}"),
    }
}

impl<'t> Value<'t> {
    pub(crate) fn typed<T>(&self, value: T) -> Typed<T> {
        Typed {
            value,
            place: self.place.clone(),
            key: self.key.clone(),
        }
    }

    /// Says that the value is of another kind.
    pub(crate) fn wrong(&self, found: &Findings, wanted: &str, example: &str) {
        found.mistake(
            &self.place,
            &self.key,
            format!("{self} is not {wanted}; write for example {example}"),
        );
    }

    pub(crate) fn string(&self, found: &Findings) -> Option<Typed<String>> {
        match self.raw {
            DeValue::String(text) => Some(self.typed(text.clone().into_owned())),
            DeValue::Table(_) | DeValue::Array(_) => {
                self.wrong(found, "a string", "\"...\"");
                None
            }
            _ => {
                found.mistake(
                    &self.place,
                    &self.key,
                    format!("{self} is not a string; write \"{self}\""),
                );
                None
            }
        }
    }

    /// An array of strings; one string alone is said to need brackets.
    pub(crate) fn strings(&self, found: &Findings) -> Option<Vec<Typed<String>>> {
        match self.raw {
            DeValue::Array(values) => Some(
                values
                    .iter()
                    .filter_map(|value| {
                        Value {
                            raw: value.get_ref(),
                            place: Span(value.span()),
                            key: self.key.clone(),
                        }
                        .string(found)
                    })
                    .collect(),
            ),
            DeValue::String(_) => {
                found.mistake(
                    &self.place,
                    &self.key,
                    format!("{self} is not a list; write [{self}]"),
                );
                None
            }
            _ => {
                self.wrong(found, "a list of strings", "[\"...\"]");
                None
            }
        }
    }

    pub(crate) fn table(&self, found: &'t Findings) -> Option<Table<'t>> {
        match self.raw {
            DeValue::Table(table) => Some(Table::new(
                found,
                self.key.clone(),
                self.place.clone(),
                table,
            )),
            _ => {
                self.wrong(found, "a table", &format!("[{}]", self.key));
                None
            }
        }
    }
}

impl std::fmt::Display for Value<'_> {
    /// The value as it may stand in a message: short, on one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.raw {
            DeValue::String(text) if text.chars().count() > 40 => {
                let cut: String = text.chars().take(40).collect();
                write!(f, "{cut:?}...")
            }
            DeValue::String(text) => write!(f, "{text:?}"),
            DeValue::Integer(number) => write!(f, "{number}"),
            DeValue::Float(number) => write!(f, "{number}"),
            DeValue::Boolean(value) => write!(f, "{value}"),
            DeValue::Datetime(value) => write!(f, "{value}"),
            DeValue::Array(_) => f.write_str("a list"),
            DeValue::Table(_) => f.write_str("a table"),
        }
    }
}
