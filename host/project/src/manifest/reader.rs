//! Reads the keys of a manifest and gathers what is wrong with them. It knows values and places, and no operators.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::mistake::{Mistake, Mistakes};

/// A value with the key that it stands under and its place.
#[derive(Clone, Debug)]
pub(super) struct Found<T> {
    pub(super) value: T,
    key: String,
    place: Range<usize>,
}

/// A manifest that is being read.
pub(super) struct Reader<'t> {
    text: &'t str,
    file: &'t Path,
    table: DeTable<'t>,
    asked: RefCell<Vec<&'static str>>,
    mistakes: RefCell<Vec<(usize, Mistake)>>,
    broken: Cell<bool>,
}

impl<'t> Reader<'t> {
    /// A text that is not TOML has the mistakes of that alone.
    pub(super) fn new(text: &'t str, file: &'t Path) -> Result<Reader<'t>, Mistakes> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let reader = Reader {
            text,
            file,
            table: table.into_inner(),
            asked: RefCell::default(),
            mistakes: RefCell::default(),
            broken: Cell::new(!errors.is_empty()),
        };
        for error in &errors {
            let what = format!("is not TOML: {}", error.message());
            reader.say("", error.span().unwrap_or_default(), what);
        }
        match reader.broken.get() {
            true => Err(reader.incomplete()),
            false => Ok(reader),
        }
    }

    /// Whether there is such a key, of whatever value.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    fn get(&self, key: &'static str) -> Option<&Spanned<DeValue<'t>>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.table.get(key)
    }

    /// A text.
    pub(super) fn text(&self, key: &'static str) -> Option<Found<String>> {
        self.as_text(key, self.get(key)?)
    }

    fn as_text(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Found<String>> {
        match value.get_ref() {
            DeValue::String(text) => Some(Found {
                value: text.clone().into_owned(),
                key: key.to_owned(),
                place: value.span(),
            }),
            other => {
                let shown = shown(other);
                self.say(
                    key,
                    value.span(),
                    format!("{shown} is no text; write for example {key} = \"...\""),
                );
                None
            }
        }
    }

    /// A list of texts; where `one` says so also a text by itself.
    pub(super) fn texts(
        &self,
        key: &'static str,
        most: usize,
        one: bool,
    ) -> Option<Vec<Found<String>>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Array(values) if values.len() > most => {
                let what = format!("it has {} entries, limit {most}", values.len());
                self.say(key, value.span(), what);
                None
            }
            DeValue::Array(values) => Some(
                values
                    .iter()
                    .enumerate()
                    .filter_map(|(at, value)| self.as_text(&format!("{key}[{}]", at + 1), value))
                    .collect(),
            ),
            DeValue::String(_) if one => self.text(key).map(|found| vec![found]),
            other => {
                let what = format!(
                    "{} is no list; write for example {key} = [\"...\"]",
                    shown(other)
                );
                self.say(key, value.span(), what);
                None
            }
        }
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.text(key).and_then(|found| self.meaning(&found, words))
    }

    /// A list of some words, each once.
    pub(super) fn words<T: Copy + PartialEq>(
        &self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Vec<T> {
        let mut meanings = Vec::new();
        for found in self.texts(key, 64, false).unwrap_or_default() {
            match self.meaning(&found, words) {
                Some(meaning) if meanings.contains(&meaning) => {
                    self.wrong(&found, &format!("{:?} stands here twice", found.value));
                }
                meaning => meanings.extend(meaning),
            }
        }
        meanings
    }

    fn meaning<T: Copy>(&self, found: &Found<String>, words: &[(&str, T)]) -> Option<T> {
        let word = words.iter().find(|(word, _)| *word == found.value);
        if word.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let known = known.join(", ");
            self.wrong(
                found,
                &format!(
                    "{} is not known; write one of {known}",
                    quoted(&found.value)
                ),
            );
        }
        word.map(|(_, meaning)| *meaning)
    }

    /// Something is wrong with a value.
    pub(super) fn wrong<T>(&self, found: &Found<T>, what: &str) {
        self.say(&found.key, found.place.clone(), what.to_owned());
    }

    /// The line and column of a value, from 1.
    pub(super) fn place<T>(&self, found: &Found<T>) -> (usize, usize) {
        self.line_and_column(found.place.start)
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_begins = before.rfind('\n').map_or(0, |at| at + 1);
        (
            before.matches('\n').count() + 1,
            before[line_begins..].chars().count() + 1,
        )
    }

    /// A key must be there.
    pub(super) fn missing(&self, key: &str, what: &str) {
        self.say(key, 0..0, format!("is missing; write {what}"));
    }

    /// Says which keys nobody asked for; every mistake so far.
    pub(super) fn finish(&self) -> Result<(), Mistakes> {
        for (key, value) in &self.table {
            if !self.asked.borrow().contains(&&**key.get_ref()) {
                let known = self.asked.borrow().join(", ");
                self.say(
                    key.get_ref(),
                    key.span(),
                    format!(
                        "is no key of a manifest (its value is {}); there are {known}",
                        shown(value.get_ref())
                    ),
                );
            }
        }
        match self.mistakes.borrow().is_empty() {
            true => Ok(()),
            false => Err(self.incomplete()),
        }
    }

    /// What was found wrong, in the order of the file.
    pub(super) fn incomplete(&self) -> Mistakes {
        let mut mistakes = self.mistakes.borrow().clone();
        mistakes.sort_by_key(|(at, _)| *at);
        Mistakes {
            file: self.file.to_owned(),
            mistakes: mistakes.into_iter().map(|(_, mistake)| mistake).collect(),
        }
    }

    fn say(&self, key: &str, place: Range<usize>, what: String) {
        let (line, column) = self.line_and_column(place.start);
        let mistake = Mistake {
            line,
            column,
            key: key.to_owned(),
            what,
        };
        self.mistakes.borrow_mut().push((place.start, mistake));
    }
}

/// Most characters of a value in a mistake.
const SHOWN: usize = 60;

fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn shown(value: &DeValue<'_>) -> String {
    let mut text = String::new();
    let _ = match value {
        DeValue::String(content) => write!(text, "{}", quoted(content)),
        DeValue::Integer(number) => write!(text, "{number}"),
        DeValue::Float(number) => write!(text, "{number}"),
        DeValue::Boolean(truth) => write!(text, "{truth}"),
        DeValue::Datetime(time) => write!(text, "{time}"),
        DeValue::Array(values) => write!(text, "a list of {}", values.len()),
        DeValue::Table(_) => write!(text, "a table"),
    };
    text
}
