//! The map of placeholders to originals.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use serde::Deserialize;

/// An original: text, or a number of a JSON value.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Original {
    Text(String),
    Number(u64),
}

impl Original {
    /// As it stands in a text.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self {
            Original::Text(text) => Cow::Borrowed(text),
            Original::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

/// What begins at a bracket.
pub(crate) enum Place<'a> {
    /// No placeholder of the map.
    None,
    /// The text ends within what may be one.
    Beginning,
    /// One that ends here, and its original.
    Whole(usize, &'a Original),
}

/// Placeholders and what stood in their place.
#[derive(Debug)]
pub(crate) struct Map {
    originals: BTreeMap<String, Original>,
    longest: usize,
}

impl Map {
    /// Reads the attribute: a JSON object of placeholder to original.
    pub(crate) fn read(attribute: &[u8]) -> Result<Map, String> {
        let originals: BTreeMap<String, Original> =
            serde_json::from_slice(attribute).map_err(|error| error.to_string())?;
        let longest = originals.keys().map(String::len).max().unwrap_or_default();
        Ok(Map { originals, longest })
    }

    /// The number that a text stands for as a whole.
    pub(crate) fn number(&self, text: &str) -> Option<u64> {
        match self.originals.get(text)? {
            Original::Number(number) => Some(*number),
            Original::Text(_) => None,
        }
    }

    /// The text with originals in it; none if it has no placeholder of the map.
    pub(crate) fn restore(&self, text: &str) -> Option<String> {
        let mut restored = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(open) = text[at..].find('[').map(|found| at + found) {
            at = open + 1;
            let Place::Whole(end, original) = self.at(text, open) else {
                continue;
            };
            restored.push_str(&text[copied..open]);
            restored.push_str(&original.shown());
            (copied, at) = (end, end);
        }
        if copied == 0 {
            return None;
        }
        restored.push_str(&text[copied..]);
        Some(restored)
    }

    /// What begins at this bracket.
    pub(crate) fn at(&self, text: &str, open: usize) -> Place<'_> {
        let rest = &text[open..];
        let window = &rest.as_bytes()[..rest.len().min(self.longest)];
        if let Some(close) = window.iter().position(|&byte| byte == b']') {
            let original = self.originals.get(&rest[..=close]);
            return original.map_or(Place::None, |original| {
                Place::Whole(open + close + 1, original)
            });
        }
        // The first that is not before it, if any begins with it.
        let from = (Bound::Included(rest), Bound::Unbounded);
        let next = self.originals.range::<str, _>(from).next();
        match next {
            Some((placeholder, _)) if placeholder.starts_with(rest) => Place::Beginning,
            _ => Place::None,
        }
    }
}
