//! Bounds of a value: written into the schema, and held against what is read.

use serde_json::{Map, Number, Value};

use super::Place;

/// The smallest or largest number that is right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A whole number.
    Whole(i128),
    /// Any number.
    Real(f64),
}

macro_rules! whole {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Limit {
            fn from(number: $integer) -> Limit {
                Limit::Whole(number as i128)
            }
        }
    )*};
}

whole!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl From<f64> for Limit {
    fn from(number: f64) -> Limit {
        Limit::Real(number)
    }
}

impl From<f32> for Limit {
    fn from(number: f32) -> Limit {
        Limit::Real(number.into())
    }
}

impl Limit {
    fn of(number: &Number) -> Limit {
        let whole = number.as_i64().map(i128::from);
        let whole = whole.or_else(|| number.as_u64().map(i128::from));
        whole.map_or_else(
            || Limit::Real(number.as_f64().unwrap_or(f64::NAN)),
            Limit::Whole,
        )
    }

    fn real(self) -> f64 {
        match self {
            Limit::Whole(number) => number as f64,
            Limit::Real(number) => number,
        }
    }

    fn is_at_most(self, other: Limit) -> bool {
        match (self, other) {
            (Limit::Whole(one), Limit::Whole(other)) => one <= other,
            (one, other) => one.real() <= other.real(),
        }
    }

    fn json(self) -> Value {
        match self {
            Limit::Whole(number) => match (u64::try_from(number), i64::try_from(number)) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => (number as f64).into(),
            },
            Limit::Real(number) => number.into(),
        }
    }
}

/// Bounds of numbers, of the lengths of texts (characters), lists and tables (entries), and of each of their entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    from: Option<Limit>,
    to: Option<Limit>,
    shortest: Option<usize>,
    longest: Option<usize>,
    each: Option<Box<Bounds>>,
}

impl Bounds {
    /// No bound.
    pub fn new() -> Bounds {
        Bounds::default()
    }

    /// The smallest number that is right.
    pub fn from(mut self, from: Limit) -> Bounds {
        self.from = Some(from);
        self
    }

    /// The largest number that is right.
    pub fn to(mut self, to: Limit) -> Bounds {
        self.to = Some(to);
        self
    }

    /// The smallest length that is right.
    pub fn shortest(mut self, shortest: usize) -> Bounds {
        self.shortest = Some(shortest);
        self
    }

    /// The largest length that is right.
    pub fn longest(mut self, longest: usize) -> Bounds {
        self.longest = Some(longest);
        self
    }

    /// Bounds of each entry of a list or table.
    pub fn each(mut self, each: Bounds) -> Bounds {
        self.each = Some(Box::new(each));
        self
    }

    /// Holds a value against the bounds; an error names its key, the value and the bound.
    pub fn check(&self, json: &Value, place: &Place<'_>) -> Result<(), String> {
        let length = match json {
            Value::Number(number) => return self.number(number, json, place),
            Value::String(text) => (text.chars().count(), "characters"),
            Value::Array(entries) => (entries.len(), "entries"),
            Value::Object(entries) => (entries.len(), "entries"),
            Value::Null | Value::Bool(_) => return Ok(()),
        };
        self.length(length, place)?;
        let Some(each) = &self.each else {
            return Ok(());
        };
        match json {
            Value::Array(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    each.check(entry, &place.entry(index))?;
                }
            }
            Value::Object(entries) => {
                for (name, entry) in entries {
                    each.check(entry, &place.key(name))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn number(&self, number: &Number, json: &Value, place: &Place<'_>) -> Result<(), String> {
        let number = Limit::of(number);
        let wrong = |what, limit: Limit| {
            let limit = limit.json();
            Err(place.wrong(json, &format!("at {what} {limit}")))
        };
        match (self.from, self.to) {
            (Some(from), _) if !from.is_at_most(number) => wrong("least", from),
            (_, Some(to)) if !number.is_at_most(to) => wrong("most", to),
            _ => Ok(()),
        }
    }

    fn length(&self, (length, unit): (usize, &str), place: &Place<'_>) -> Result<(), String> {
        let wrong = |what, limit: usize| {
            Err(place.refuse(&format!("has {length} {unit}, expected at {what} {limit}")))
        };
        match (self.shortest, self.longest) {
            (Some(shortest), _) if length < shortest => wrong("least", shortest),
            (_, Some(longest)) if length > longest => wrong("most", longest),
            _ => Ok(()),
        }
    }

    /// Writes the bounds into the schema of what they bound.
    pub(super) fn describe(&self, schema: &mut Map<String, Value>) {
        let [shortest, longest] = match schema.get("type").and_then(Value::as_str) {
            Some("array") => ["minItems", "maxItems"],
            Some("object") => ["minProperties", "maxProperties"],
            _ => ["minLength", "maxLength"],
        };
        let bounds = [
            ("minimum", self.from.map(Limit::json)),
            ("maximum", self.to.map(Limit::json)),
            (shortest, self.shortest.map(Value::from)),
            (longest, self.longest.map(Value::from)),
        ];
        for (name, bound) in bounds {
            if let Some(bound) = bound {
                schema.insert(name.to_owned(), bound);
            }
        }
        let Some(each) = &self.each else { return };
        for entries in ["items", "additionalProperties"] {
            if let Some(Value::Object(entry)) = schema.get_mut(entries) {
                each.describe(entry);
            }
        }
    }
}
