//! The pipeline file as text: bytes to lines and columns.

use std::ops::Range;
use std::path::PathBuf;

/// A range of bytes of the pipeline file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Range<usize>);

/// The pipeline file.
#[derive(Clone, Debug)]
pub(crate) struct SourceText {
    /// As it was given, for messages.
    pub(crate) shown: PathBuf,
    /// Its content.
    pub(crate) content: String,
}

/// A place as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// Characters that are meant on this line, at least one.
    pub length: usize,
    /// The whole line.
    pub text: String,
}

impl SourceText {
    /// Where a range of bytes begins. Any range will do: it is cut to the text and to whole characters.
    pub(crate) fn position(&self, place: &Span) -> Position {
        let start = floor(&self.content, place.0.start);
        let end = floor(&self.content, place.0.end).max(start);
        let line_start = self.content[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.content[start..]
            .find('\n')
            .map_or(self.content.len(), |at| start + at);
        let text = self.content[line_start..line_end].trim_end_matches('\r');
        let meant = &self.content[start..end.min(line_end).max(start)];
        Position {
            line: self.content[..line_start].matches('\n').count() + 1,
            column: self.content[line_start..start].chars().count() + 1,
            length: meant.trim_end().chars().count().max(1),
            text: text.to_owned(),
        }
    }
}

/// The nearest boundary of a character at or before a byte.
fn floor(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The byte of the file that made a byte of a decoded TOML string. `literal` is the string as it stands in the file,
/// with its quotes; a string that cannot be followed gives its beginning.
pub(crate) fn byte_in_literal(literal: &str, decoded: usize) -> usize {
    let (quotes, basic) = match literal {
        text if text.starts_with("\"\"\"") => (3, true),
        text if text.starts_with("'''") => (3, false),
        text if text.starts_with('"') => (1, true),
        text if text.starts_with('\'') => (1, false),
        _ => return 0,
    };
    let mut at = quotes;
    if quotes == 3 {
        let after = &literal[at..];
        at += if after.starts_with("\r\n") {
            2
        } else {
            usize::from(after.starts_with('\n'))
        };
    }
    let mut made = 0;
    while made < decoded {
        let Some(next) = literal[at..].chars().next() else {
            return quotes.min(literal.len());
        };
        if basic && next == '\\' {
            let (read, decoded_bytes) = escape(&literal[at..]);
            at += read;
            made += decoded_bytes;
        } else {
            at += next.len_utf8();
            made += next.len_utf8();
        }
    }
    at
}

/// Bytes an escape takes in the file, and bytes it stands for.
fn escape(text: &str) -> (usize, usize) {
    let digits = |count: usize| {
        let stands = text
            .get(2..2 + count)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32);
        match stands {
            Some(character) => (2 + count, character.len_utf8()),
            None => (1, 1),
        }
    };
    match text[1..].chars().next() {
        Some('x') => digits(2),
        Some('u') => digits(4),
        Some('U') => digits(8),
        Some(space) if space.is_whitespace() => {
            let rest = text[1..].trim_start_matches([' ', '\t', '\r', '\n']);
            (text.len() - rest.len(), 0)
        }
        Some(plain) => (1 + plain.len_utf8(), 1),
        None => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_survive_any_range() {
        let text = SourceText {
            shown: "p.toml".into(),
            content: "é = 1\r\nname = \"ü\"\n".into(),
        };
        let at = |start, end| {
            let found = text.position(&Span(start..end));
            (found.line, found.column, found.length, found.text)
        };
        assert_eq!(at(0, 2), (1, 1, 1, "é = 1".into()));
        assert_eq!(at(15, 19), (2, 8, 3, "name = \"ü\"".into()));
        assert_eq!(at(8, 90), (2, 1, 10, "name = \"ü\"".into()));
        assert_eq!(at(90, 7), (3, 1, 1, String::new()));
        assert_eq!(at(1, 1), (1, 1, 1, "é = 1".into()));
    }

    #[test]
    fn a_decoded_byte_is_found_behind_escapes() {
        for (literal, decoded, byte) in [
            ("\"abc\"", 1, 2),
            ("'a\\bc'", 2, 3),
            ("\"a\\nbc\"", 2, 4),
            ("\"\\u00e9x\"", 2, 7),
            ("\"\"\"\nab\"\"\"", 1, 5),
            ("\"\"\"a\\\n   b\"\"\"", 1, 4),
            ("\"\"\"a\\\n   b\"\"\"", 2, 10),
            ("'''\r\nab'''", 0, 5),
            ("bare", 2, 0),
            ("\"a\"", 90, 1),
        ] {
            assert_eq!(byte_in_literal(literal, decoded), byte, "{literal}");
        }
    }
}
