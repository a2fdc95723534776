//! What fields of a configuration can be.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Configuration, Place};
use crate::OutputName;
use crate::json::Paths;

macro_rules! integers {
    ($($integer:ty: $range:expr),* $(,)?) => {$(
        impl Configuration for $integer {
            fn schema() -> Value {
                let range: &[(&str, i64)] = &$range;
                let mut schema = Map::new();
                schema.insert("type".to_owned(), "integer".into());
                for (name, bound) in range {
                    schema.insert((*name).to_owned(), (*bound).into());
                }
                schema.into()
            }

            fn read(json: &Value, place: &Place<'_>) -> Result<$integer, String> {
                let whole = json.as_i64().map(i128::from);
                let whole = whole.or_else(|| json.as_u64().map(i128::from));
                let found = whole.and_then(|whole| <$integer>::try_from(whole).ok());
                found.ok_or_else(|| {
                    let (least, most) = (<$integer>::MIN, <$integer>::MAX);
                    place.wrong(json, &format!("a whole number from {least} to {most}"))
                })
            }

            fn show(&self) -> Value {
                Value::from(*self)
            }
        }
    )*};
}

integers! {
    u8: [("minimum", 0), ("maximum", u8::MAX.into())],
    u16: [("minimum", 0), ("maximum", u16::MAX.into())],
    u32: [("minimum", 0), ("maximum", u32::MAX.into())],
    u64: [("minimum", 0)],
    // As many as an operator can count, whose memory has 32-bit addresses.
    usize: [("minimum", 0), ("maximum", u32::MAX.into())],
    i8: [("minimum", i8::MIN.into()), ("maximum", i8::MAX.into())],
    i16: [("minimum", i16::MIN.into()), ("maximum", i16::MAX.into())],
    i32: [("minimum", i32::MIN.into()), ("maximum", i32::MAX.into())],
    i64: [],
}

impl Configuration for f64 {
    fn schema() -> Value {
        json!({"type": "number"})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<f64, String> {
        json.as_f64()
            .filter(|number| number.is_finite())
            .ok_or_else(|| place.wrong(json, "a number"))
    }

    fn show(&self) -> Value {
        Value::from(*self)
    }
}

impl Configuration for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<bool, String> {
        json.as_bool()
            .ok_or_else(|| place.wrong(json, "true or false"))
    }

    fn show(&self) -> Value {
        Value::from(*self)
    }
}

impl Configuration for String {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<String, String> {
        let text = json.as_str().ok_or_else(|| place.wrong(json, "text"))?;
        Ok(text.to_owned())
    }

    fn show(&self) -> Value {
        Value::from(self.as_str())
    }
}

/// Anything, as it stands there.
impl Configuration for Value {
    fn schema() -> Value {
        json!({})
    }

    fn read(json: &Value, _: &Place<'_>) -> Result<Value, String> {
        Ok(json.clone())
    }

    fn show(&self) -> Value {
        self.clone()
    }
}

/// A key that may be left out.
impl<T: Configuration> Configuration for Option<T> {
    fn schema() -> Value {
        T::schema()
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<Option<T>, String> {
        T::read(json, place).map(Some)
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::show)
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

/// A list.
impl<T: Configuration> Configuration for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<Vec<T>, String> {
        let entries = json.as_array().ok_or_else(|| place.wrong(json, "a list"))?;
        let read = |(index, entry)| T::read(entry, &place.entry(index));
        entries.iter().enumerate().map(read).collect()
    }

    fn show(&self) -> Value {
        self.iter().map(T::show).collect()
    }
}

/// A table whose keys are free.
impl<T: Configuration> Configuration for BTreeMap<String, T> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::schema()})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<BTreeMap<String, T>, String> {
        let entries = json
            .as_object()
            .ok_or_else(|| place.wrong(json, "a table"))?;
        let read =
            |(key, entry): (&String, &Value)| Ok((key.clone(), T::read(entry, &place.key(key))?));
        entries.iter().map(read).collect()
    }

    fn show(&self) -> Value {
        let entries = self.iter().map(|(key, entry)| (key.clone(), entry.show()));
        Value::Object(entries.collect())
    }
}

/// The name of an output.
impl Configuration for OutputName {
    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": OutputName::LONGEST})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<OutputName, String> {
        let name = String::read(json, place)?;
        OutputName::new(&name).map_err(|expected| place.wrong(json, &expected))
    }

    fn show(&self) -> Value {
        Value::from(crate::Output::name(self))
    }
}

/// Places in a JSON text: every string where the key is not there.
impl Configuration for Paths {
    fn schema() -> Value {
        let path = json!({"type": "string", "minLength": 1});
        json!({"type": "array", "minItems": 1, "items": path})
    }

    fn read(json: &Value, place: &Place<'_>) -> Result<Paths, String> {
        let paths = Vec::<String>::read(json, place)?;
        Paths::configured(&place.to_string(), Some(&paths))
    }

    fn show(&self) -> Value {
        self.paths().map_or(Value::Null, |paths| paths.collect())
    }

    fn absent() -> Option<Paths> {
        Some(Paths::all())
    }
}
