//! The strings of a JSON text, found and replaced where they stand.
//!
//! An operator that changes a few strings of a JSON value should not take the value apart and put it together again:
//! that costs an allocation a field and loses the order of fields, the form of numbers and the white space. Here the
//! text is walked once, and only changed strings are written anew.
//!
//! ```
//! use tidegate_sdk::json::{Edits, Paths, strings};
//!
//! let text = r#"{"id": 1.50, "note": "caf\u00e9", "inner": {"note": "tea"}}"#;
//! let paths = Paths::new(&["note"]);
//! let mut edits = Edits::default();
//! strings(text, |place, string| {
//!     if paths.cover(place) {
//!         edits.replace(&string, &string.decoded().to_uppercase());
//!     }
//! })?;
//! assert_eq!(edits.apply(text), r#"{"id": 1.50, "note": "CAFÉ", "inner": {"note": "tea"}}"#);
//! # Ok::<(), tidegate_sdk::json::JsonError>(())
//! ```
//!
//! A text that comes in pieces, as an answer does while a model makes it, is read by [`Nesting`].

mod edit;
mod nesting;
mod unescape;
mod walk;

pub use edit::{Edits, quote};
pub use nesting::{MAX_NESTED, Mark, Nesting, escape};
pub use walk::{
    JsonError, MAX_DEPTH, NumberValue, Scalar, StringValue, looks_like_json, members, scalars,
    scalars_and_names, strings,
};

use std::borrow::Cow;

/// Where a string stands: the names of the object members around it, outermost first. Arrays add none.
pub type MemberPath<'p, 'a> = &'p [Cow<'a, str>];

/// A choice of places in a JSON text.
///
/// A path is the member names from the outside in, with dots between; it covers the string that stands there and every
/// string beneath. Elements of an array have the path of the array. A member whose name has a dot cannot be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// None covers every place.
    paths: Option<Vec<Vec<String>>>,
}

impl Paths {
    /// These paths, and no other place.
    pub fn new<S: AsRef<str>>(paths: &[S]) -> Paths {
        let split = |path: &S| path.as_ref().split('.').map(str::to_owned).collect();
        Paths {
            paths: Some(paths.iter().map(split).collect()),
        }
    }

    /// Every place.
    pub fn all() -> Paths {
        Paths { paths: None }
    }

    /// As configured: these paths, or every place if there is no list. An error names the path that cannot be.
    pub fn configured(key: &str, paths: Option<&[String]>) -> Result<Paths, String> {
        let Some(paths) = paths else {
            return Ok(Paths::all());
        };
        if paths.is_empty() {
            return Err(format!(
                "config key `{key}` is an empty list; leave it out for every string, or name paths"
            ));
        }
        for path in paths {
            if path.is_empty() || path.split('.').any(str::is_empty) {
                return Err(format!(
                    "config key `{key}` has {path:?}; a path is member names with dots between, as \"customer.name\""
                ));
            }
        }
        Ok(Paths::new(paths))
    }

    /// The paths as they were written; none for every place.
    pub(crate) fn paths(&self) -> Option<impl Iterator<Item = String> + '_> {
        let paths = self.paths.as_ref()?;
        Some(paths.iter().map(|path| path.join(".")))
    }

    /// Whether it covers every place.
    pub fn is_all(&self) -> bool {
        self.paths.is_none()
    }

    /// Whether a place is covered.
    pub fn cover(&self, place: MemberPath<'_, '_>) -> bool {
        let Some(paths) = &self.paths else {
            return true;
        };
        paths.iter().any(|path| {
            path.len() <= place.len() && path.iter().zip(place).all(|(name, member)| name == member)
        })
    }
}

/// Calls `visit` for every text of a value: its covered strings if it is a JSON object, array or string, else the whole
/// of it, whatever the paths. A value that stops being JSON half-way shows its strings first and then the whole.
pub fn texts<'a>(value: &'a str, paths: &Paths, mut visit: impl FnMut(Cow<'a, str>)) {
    if looks_like_json(value) {
        let walked = strings(value, |place, string| {
            if paths.cover(place) {
                visit(string.decoded());
            }
        });
        if walked.is_ok() {
            return;
        }
    }
    visit(Cow::Borrowed(value));
}

#[cfg(test)]
mod tests;
