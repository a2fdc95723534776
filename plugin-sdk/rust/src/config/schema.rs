//! JSON Schemas of tables and choices.

use serde_json::{Map, Value, json};

use super::{Bounds, Configuration};

/// The schema of a table, key by key.
#[derive(Debug)]
pub struct TableSchema {
    documentation: &'static str,
    keys: Map<String, Value>,
    required: Vec<&'static str>,
}

impl TableSchema {
    /// That of a table without keys.
    pub fn new(documentation: &'static str) -> TableSchema {
        TableSchema {
            documentation,
            keys: Map::new(),
            required: Vec::new(),
        }
    }

    /// Adds a key.
    pub fn key<T: Configuration>(
        &mut self,
        name: &'static str,
        documentation: &str,
        bounds: &Bounds,
        default: Option<fn() -> T>,
    ) {
        let required = default.is_none() && T::absent().is_none();
        if required {
            self.required.push(name);
        }
        let default = default.map(|default| default().show());
        self.insert(name, T::schema(), documentation, bounds, default);
    }

    fn insert(
        &mut self,
        name: &str,
        mut schema: Value,
        documentation: &str,
        bounds: &Bounds,
        default: Option<Value>,
    ) {
        if let Value::Object(members) = &mut schema {
            bounds.describe(members);
            describe(members, documentation);
            if let Some(default) = default {
                members.insert("default".to_owned(), default);
            }
        }
        self.keys.insert(name.to_owned(), schema);
    }

    /// The schema. A key that is not in it is refused.
    pub fn finish(self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        describe(&mut schema, self.documentation);
        schema.insert("properties".to_owned(), self.keys.into());
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema.insert("additionalProperties".to_owned(), false.into());
        schema.into()
    }
}

/// Puts documentation before what a schema says of itself.
fn describe(schema: &mut Map<String, Value>, documentation: &str) {
    if documentation.is_empty() {
        return;
    }
    let text = match schema.get("description").and_then(Value::as_str) {
        Some(own) => format!("{documentation}\n{own}"),
        None => documentation.to_owned(),
    };
    schema.insert("description".to_owned(), text.into());
}

/// The schema of a choice among names, each with its documentation.
pub fn choice_schema(documentation: &str, choices: &[(&str, &str)]) -> Value {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let mut lines: Vec<String> = Vec::new();
    if !documentation.is_empty() {
        lines.push(documentation.to_owned());
    }
    for (name, documentation) in choices {
        if !documentation.is_empty() {
            lines.push(format!("`{name}`: {documentation}"));
        }
    }
    let mut schema = json!({ "enum": names });
    if let Value::Object(members) = &mut schema {
        describe(members, &lines.join("\n"));
    }
    schema
}

/// A table of these keys, without those that are null.
pub fn show_table<const N: usize>(keys: [(&str, Value); N]) -> Value {
    let keys = keys.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(keys.map(|(name, value)| (name.to_owned(), value)).collect())
}
