//! Placeholders: choosing them, and the map back to what they stand for.

use std::collections::HashSet;

use tidegate_sdk::json::quote;

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Original {
    Text(String),
    /// A JSON number, as it stood.
    Number(String),
}

#[derive(Clone, Debug)]
struct Entry {
    label: String,
    original: Original,
    placeholder: String,
}

/// The placeholders of one record: the same value of a kind has the same one, and none is used that already stands in
/// the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placeholders {
    entries: Vec<Entry>,
    /// Placeholders that cannot be given out: they stand in the text, or in the map of an earlier stage.
    taken: HashSet<String>,
    /// The members of the earlier map, as they stand there, without braces.
    earlier: String,
}

impl Placeholders {
    /// Reserves what looks like a placeholder in a text.
    pub(crate) fn reserve(&mut self, text: &str) {
        let mut rest = text;
        while let Some(open) = rest.find('[') {
            rest = &rest[open..];
            match looks_like(rest) {
                Some(length) => {
                    self.taken.insert(rest[..length].to_owned());
                    rest = &rest[length..];
                }
                None => rest = &rest[1..],
            }
        }
    }

    /// Takes over the map that an earlier stage left: its placeholders stay restorable and are not given out again.
    pub(crate) fn take_over(&mut self, map: &str) -> Result<(), String> {
        let mut earlier = String::new();
        tidegate_sdk::json::members(map, |placeholder, original| {
            if !earlier.is_empty() {
                earlier.push(',');
            }
            earlier.push_str(&quote(&placeholder));
            earlier.push(':');
            earlier.push_str(original);
            self.taken.insert(placeholder.into_owned());
        })
        .map_err(|error| error.to_string())?;
        self.earlier = earlier;
        Ok(())
    }

    /// The placeholder of a text.
    pub(crate) fn of(&mut self, label: &str, original: &str) -> &str {
        let known = self.entries.iter().position(|entry| {
            entry.label == label
                && matches!(&entry.original, Original::Text(text) if text == original)
        });
        let at = known.unwrap_or_else(|| self.add(label, Original::Text(original.to_owned())));
        &self.entries[at].placeholder
    }

    /// The placeholder of a JSON number.
    pub(crate) fn of_number(&mut self, label: &str, original: &str) -> &str {
        let known = self.entries.iter().position(|entry| {
            entry.label == label
                && matches!(&entry.original, Original::Number(number) if number == original)
        });
        let at = known.unwrap_or_else(|| self.add(label, Original::Number(original.to_owned())));
        &self.entries[at].placeholder
    }

    fn add(&mut self, label: &str, original: Original) -> usize {
        let mut number = self
            .entries
            .iter()
            .filter(|entry| entry.label == label)
            .count()
            + 1;
        let placeholder = loop {
            let placeholder = format!("[{label}_{number}]");
            if self.taken.insert(placeholder.clone()) {
                break placeholder;
            }
            number += 1;
        };
        self.entries.push(Entry {
            label: label.to_owned(),
            original,
            placeholder,
        });
        self.entries.len() - 1
    }

    /// Whether none was given out.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The map as JSON, in the order of first appearance.
    pub(crate) fn map(&self) -> String {
        let mut map = format!("{{{}", self.earlier);
        for entry in &self.entries {
            if map.len() > 1 {
                map.push(',');
            }
            map.push_str(&quote(&entry.placeholder));
            map.push(':');
            match &entry.original {
                Original::Text(text) => map.push_str(&quote(text)),
                Original::Number(number) => map.push_str(number),
            }
        }
        map.push('}');
        map
    }
}

/// The length of `[LABEL_1]` at the beginning of a text.
fn looks_like(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let end = bytes.iter().take(64).position(|&byte| byte == b']')?;
    let (label, number) = text[1..end].rsplit_once('_')?;
    let label = !label.is_empty()
        && label
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (label && number).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_has_the_same_placeholder() {
        let mut placeholders = Placeholders::default();
        assert_eq!(placeholders.of("EMAIL", "a@b.c"), "[EMAIL_1]");
        assert_eq!(placeholders.of("EMAIL", "d@e.f"), "[EMAIL_2]");
        assert_eq!(placeholders.of("EMAIL", "a@b.c"), "[EMAIL_1]");
        assert_eq!(placeholders.of("PHONE", "a@b.c"), "[PHONE_1]");
        assert_eq!(placeholders.of_number("PHONE", "1"), "[PHONE_2]");
        assert_eq!(
            placeholders.map(),
            r#"{"[EMAIL_1]":"a@b.c","[EMAIL_2]":"d@e.f","[PHONE_1]":"a@b.c","[PHONE_2]":1}"#
        );
    }

    #[test]
    fn what_stands_in_the_text_or_an_earlier_map_is_not_given_out() {
        let mut placeholders = Placeholders::default();
        placeholders.reserve("x [EMAIL_1] [[EMAIL_2] [EMAIL_] [email_3] [A B_1]");
        placeholders
            .take_over(r#"{"[EMAIL_3]": "old@b.c"}"#)
            .unwrap();
        assert_eq!(placeholders.of("EMAIL", "a@b.c"), "[EMAIL_4]");
        assert_eq!(
            placeholders.of("URL_CREDENTIALS", "u:p"),
            "[URL_CREDENTIALS_1]"
        );
        assert_eq!(
            placeholders.map(),
            r#"{"[EMAIL_3]":"old@b.c","[EMAIL_4]":"a@b.c","[URL_CREDENTIALS_1]":"u:p"}"#
        );
    }
}
