//! Originals put back while an answer is made.
//!
//! What could still become a placeholder of this answer is held back, and nothing else: the longest end of the text that
//! is the beginning of a placeholder of the map, and not all of it. A placeholder ends with its bracket, so it is known as
//! soon as it is whole.

use tidegate_sdk::json::quote;
use tidegate_sdk::{LaneKind, Through};

use crate::map::{Map, Place};

/// What is kept for a lane.
#[derive(Debug)]
pub struct Restoring {
    /// None where nothing was redacted.
    map: Option<Map>,
    /// The beginning of a placeholder.
    held: String,
    text: Text,
}

impl Restoring {
    pub(crate) fn new(map: Option<Map>, kind: LaneKind) -> Restoring {
        Restoring {
            map,
            held: String::new(),
            text: match kind {
                LaneKind::Arguments(_) => Text::Strings,
                LaneKind::Content | LaneKind::Reasoning => Text::default(),
            },
        }
    }

    /// The next text, with originals in it.
    pub(crate) fn step(&mut self, text: &str, last: bool) -> Through {
        let Some(map) = &self.map else {
            return Through::text(text);
        };
        let joined;
        let text = match self.held.is_empty() {
            true => text,
            false => {
                joined = std::mem::take(&mut self.held) + text;
                &joined
            }
        };
        let mut through = String::with_capacity(text.len());
        let (mut copied, mut at) = (0, 0);
        while let Some(open) = text[at..].find('[').map(|found| at + found) {
            at = open + 1;
            match map.at(text, open) {
                Place::None => {}
                Place::Beginning if last => {}
                Place::Beginning => {
                    self.held.push_str(&text[open..]);
                    self.copy(&text[copied..open], &mut through);
                    return Through::text(through);
                }
                Place::Whole(end, original) => {
                    self.text.saw(&text[copied..open]);
                    through.push_str(&text[copied..open]);
                    let original = original.shown();
                    match self.text.is_in_a_string(&text[open..]) {
                        true => through.push_str(within_quotes(&quote(&original))),
                        false => through.push_str(&original),
                    }
                    (copied, at) = (end, end);
                }
            }
        }
        self.copy(&text[copied..], &mut through);
        Through::text(through)
    }

    fn copy(&mut self, text: &str, through: &mut String) {
        self.text.saw(text);
        through.push_str(text);
    }
}

/// What stands within the quotes of a JSON string.
pub(crate) fn within_quotes(quoted: &str) -> &str {
    quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(quoted)
}

/// What a lane's text is, as far as it was seen: an original within a string of JSON is escaped.
#[derive(Debug)]
pub(crate) enum Text {
    /// Only space so far, and perhaps a bracket, after which it is seen what it is.
    Unknown(Option<char>),
    Prose,
    /// A JSON object, or an array that begins with an object or a string.
    Json {
        in_string: bool,
        after_backslash: bool,
    },
    /// The arguments of a call: a placeholder stands in a string there, or the text is no JSON anyway.
    Strings,
}

impl Default for Text {
    /// Nothing was seen.
    fn default() -> Text {
        Text::Unknown(None)
    }
}

impl Text {
    /// Text that was let through as it came.
    pub(crate) fn saw(&mut self, text: &str) {
        for character in text.chars() {
            match self {
                Text::Prose | Text::Strings => return,
                Text::Unknown(before) => {
                    let json = |in_string| Text::Json {
                        in_string,
                        after_backslash: false,
                    };
                    match (*before, character) {
                        (_, ' ' | '\t' | '\n' | '\r') => {}
                        (None, '[') => *before = Some('['),
                        (_, '{') => *self = json(false),
                        (Some('['), '"') => *self = json(true),
                        _ => *self = Text::Prose,
                    }
                }
                Text::Json {
                    in_string,
                    after_backslash,
                } => match (*in_string, *after_backslash, character) {
                    (true, true, _) => *after_backslash = false,
                    (true, false, '\\') => *after_backslash = true,
                    (_, _, '"') => *in_string = !*in_string,
                    _ => {}
                },
            }
        }
    }

    /// Whether what follows, a placeholder, stands in a string.
    pub(crate) fn is_in_a_string(&mut self, follows: &str) -> bool {
        if let Text::Unknown(_) = self {
            self.saw(&follows[..1]);
            self.saw(&follows[1..2]);
        }
        match self {
            Text::Unknown(_) | Text::Prose => false,
            Text::Json { in_string, .. } => *in_string,
            Text::Strings => true,
        }
    }
}
