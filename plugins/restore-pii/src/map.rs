//! The map of placeholders to originals.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An original: text, or a number of a JSON value.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Original {
    Text(String),
    Number(u64),
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
            let Some((end, original)) = self.at(text, open) else {
                continue;
            };
            restored.push_str(&text[copied..open]);
            match original {
                Original::Text(original) => restored.push_str(original),
                Original::Number(number) => restored.push_str(&number.to_string()),
            }
            (copied, at) = (end, end);
        }
        if copied == 0 {
            return None;
        }
        restored.push_str(&text[copied..]);
        Some(restored)
    }

    /// The placeholder that begins at this bracket: where it ends, and its original.
    fn at(&self, text: &str, open: usize) -> Option<(usize, &Original)> {
        let bytes = text.as_bytes();
        let window = &bytes[open..bytes.len().min(open + self.longest)];
        let end = open + window.iter().position(|&byte| byte == b']')? + 1;
        Some((end, self.originals.get(&text[open..end])?))
    }
}
