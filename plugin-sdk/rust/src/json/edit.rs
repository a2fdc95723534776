//! Writes changed strings back into a JSON text.

use super::{NumberValue, StringValue};

/// Changes to the strings of one JSON text, in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// Start and end in the text, and what stands there instead, escaped.
    changes: Vec<(usize, usize, String)>,
}

impl Edits {
    /// Replaces the content of a string by this text, which is escaped here. Strings come in their order.
    pub fn replace(&mut self, string: &StringValue<'_>, text: &str) {
        let mut escaped = String::with_capacity(text.len() + 8);
        escape(text, &mut escaped);
        self.changes.push((string.start, string.end(), escaped));
    }

    /// Replaces a string, quotes included, by a number.
    pub fn replace_by_number(&mut self, string: &StringValue<'_>, number: u64) {
        self.changes
            .push((string.start - 1, string.end() + 1, number.to_string()));
    }

    /// Replaces a number by a string.
    pub fn replace_number(&mut self, number: &NumberValue<'_>, text: &str) {
        self.changes.push((number.start, number.end(), quote(text)));
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The text with the changes made. It must be the text the strings came from.
    pub fn apply(&self, text: &str) -> String {
        let longer: usize = self.changes.iter().map(|(_, _, new)| new.len()).sum();
        let mut edited = String::with_capacity(text.len() + longer);
        let mut at = 0;
        for (start, end, new) in &self.changes {
            edited.push_str(text.get(at..*start).unwrap_or_default());
            edited.push_str(new);
            at = *end;
        }
        edited.push_str(text.get(at..).unwrap_or_default());
        edited
    }
}

/// A text as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    escape(text, &mut quoted);
    quoted.push('"');
    quoted
}

fn escape(text: &str, into: &mut String) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        into.push_str(&text[from..at]);
        if short.is_empty() {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            into.push_str("\\u00");
            into.push(DIGITS[usize::from(byte >> 4)] as char);
            into.push(DIGITS[usize::from(byte & 15)] as char);
        } else {
            into.push_str(short);
        }
        from = at + 1;
    }
    into.push_str(&text[from..]);
}
