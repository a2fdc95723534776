//! Reading tables and choices, with the place of what is wrong.

use std::fmt;

use serde_json::{Map, Value};

use super::{Bounds, Configuration};

/// Most bytes of a value that an error shows.
const SHOWN: usize = 200;

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Top,
    Key(&'a str),
    Entry(usize),
}

/// Where a value stands in a configuration: `rules[1].output`.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    within: Option<&'a Place<'a>>,
    step: Step<'a>,
}

impl<'a> Place<'a> {
    /// The configuration as a whole.
    pub const TOP: Place<'static> = Place {
        within: None,
        step: Step::Top,
    };

    /// A key of the table here.
    pub fn key(&'a self, key: &'a str) -> Place<'a> {
        Place {
            within: Some(self),
            step: Step::Key(key),
        }
    }

    /// An entry of the list here.
    pub fn entry(&'a self, index: usize) -> Place<'a> {
        Place {
            within: Some(self),
            step: Step::Entry(index),
        }
    }

    /// The error that the value here is another than was expected: "one of a, b".
    pub fn wrong(&self, json: &Value, expected: &str) -> String {
        let mut shown = json.to_string();
        if shown.len() > SHOWN {
            shown.truncate(shown.floor_char_boundary(SHOWN));
            shown.push_str(" ...");
        }
        self.refuse(&format!("is {shown}, expected {expected}"))
    }

    /// An error about what is here: "has 0 entries".
    pub fn refuse(&self, why: &str) -> String {
        match self.step {
            Step::Top => format!("config {why}"),
            _ => format!("config key `{self}` {why}"),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(within) = self.within {
            within.fmt(f)?;
        }
        let first = self
            .within
            .is_none_or(|within| matches!(within.step, Step::Top));
        match self.step {
            Step::Top => Ok(()),
            Step::Key(key) if first => write!(f, "{key}"),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Entry(index) => write!(f, "[{index}]"),
        }
    }
}

/// A table that is being read.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    entries: &'a Map<String, Value>,
    place: &'a Place<'a>,
}

impl<'a> Table<'a> {
    /// Takes the value here as a table that has none but these keys.
    pub fn read(json: &'a Value, place: &'a Place<'a>, keys: &[&str]) -> Result<Table<'a>, String> {
        let Value::Object(entries) = json else {
            return Err(place.wrong(json, "a table"));
        };
        for key in entries.keys() {
            if !keys.contains(&key.as_str()) {
                let known: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                let known = match known.is_empty() {
                    true => "no key at all".to_owned(),
                    false => known.join(", "),
                };
                let why = format!("is unknown, expected {known}");
                return Err(place.key(key).refuse(&why));
            }
        }
        Ok(Table { entries, place })
    }

    /// Reads a key: what is there, else its default. Both are held against the bounds.
    pub fn take<T: Configuration>(
        &self,
        key: &str,
        bounds: &Bounds,
        default: Option<fn() -> T>,
    ) -> Result<T, String> {
        let place = self.place.key(key);
        match self.entries.get(key) {
            Some(json) => {
                // What it is comes first: of a text where a number belongs, the length is not what is wrong.
                let value = T::read(json, &place)?;
                bounds.check(json, &place)?;
                Ok(value)
            }
            None => match default.map(|default| default()) {
                Some(value) => {
                    let checked = bounds.check(&value.show(), &place);
                    checked.map_err(|why| format!("{why} (this is its default)"))?;
                    Ok(value)
                }
                None => T::absent().ok_or_else(|| place.refuse("is missing")),
            },
        }
    }
}

/// The name that is chosen here, one of these.
pub fn choose<'a>(json: &'a Value, place: &Place<'_>, names: &[&str]) -> Result<&'a str, String> {
    match json.as_str() {
        Some(name) if names.contains(&name) => Ok(name),
        _ => {
            let known: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            Err(place.wrong(json, &format!("one of {}", known.join(", "))))
        }
    }
}
