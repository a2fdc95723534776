//! An operator's configuration: one type, from which its JSON Schema, its defaults and its errors come.
//!
//! ```
//! use tidegate_sdk::prelude::*;
//!
//! /// Which values pass.
//! #[derive(Configuration)]
//! struct Limits {
//!     /// The longest value that passes, bytes.
//!     #[config(range = 1..=1_000_000)]
//!     longest: usize,
//!     /// What becomes of a longer one.
//!     #[config(default)]
//!     otherwise: Otherwise,
//!     /// Headers that must be there.
//!     #[config(default, each(length = 1..))]
//!     headers: Vec<String>,
//! }
//!
//! #[derive(Configuration, Default)]
//! enum Otherwise {
//!     /// It ends.
//!     #[default]
//!     Drop,
//!     /// It goes to the dead letters.
//!     DeadLetter,
//! }
//!
//! let limits: Limits = tidegate_sdk::read_config(r#"{"longest": 80, "otherwise": "dead-letter"}"#).unwrap();
//! assert!(limits.longest == 80 && limits.headers.is_empty());
//! let error = tidegate_sdk::read_config::<Limits>(r#"{"longest": 0}"#).err().unwrap();
//! assert_eq!(error, "config key `longest` is 0, expected at least 1");
//! ```
//!
//! Fields can be numbers, `bool`, `String`, other tables and choices, [`Paths`](crate::json::Paths),
//! [`OutputName`](crate::OutputName), `serde_json::Value`, and `Option`, `Vec` and `BTreeMap<String, _>` of these. What
//! has more rules of its own implements [`Configuration`] by hand.

mod bounds;
mod schema;
mod table;
mod values;

use serde_json::Value;

pub use bounds::{Bounds, Limit};
pub use schema::{TableSchema, choice_schema, show_table};
pub use table::{Place, Table, choose};
pub use tidegate_sdk_macros::Configuration;

/// What an operator, or a part of its configuration, is configured with. It is derived, for tables and choices.
pub trait Configuration: Sized {
    /// Its JSON Schema (2020-12).
    fn schema() -> Value;

    /// Reads it. An error names the key, its value and what would be right; [`Place::wrong`] and [`Place::refuse`] write
    /// one.
    fn read(json: &Value, place: &Place<'_>) -> Result<Self, String>;

    /// What is read as this: the defaults in the schema are written with it.
    fn show(&self) -> Value;

    /// What it is where its key is not there; none if the key must be.
    fn absent() -> Option<Self> {
        None
    }
}

/// The configuration of an operator that has none; any key is an error.
#[derive(Clone, Copy, Debug, Default, Configuration)]
pub struct NoConfig {}

/// Reads a configuration from JSON text; an empty text is an empty table. An error names the key it is about.
pub fn read_config<T: Configuration>(text: &str) -> Result<T, String> {
    let text = match text.trim() {
        "" | "null" => "{}",
        text => text,
    };
    let json: Value = serde_json::from_str(text).map_err(|error| format!("config: {error}"))?;
    T::read(&json, &Place::TOP)
}

/// The JSON Schema of a configuration, as the host is told it.
pub fn config_schema<T: Configuration>() -> String {
    let mut schema = T::schema();
    if let Value::Object(members) = &mut schema {
        let dialect = "https://json-schema.org/draft/2020-12/schema";
        members.insert("$schema".to_owned(), dialect.into());
    }
    schema.to_string()
}
